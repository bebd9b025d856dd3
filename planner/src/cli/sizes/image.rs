//! What a linked image has in memory, from its ELF file.

use object::elf::{PT_LOAD, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_NOBITS};
use object::read::elf::{ElfFile, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, FileKind, Object, ObjectSection, ObjectSymbol};

/// The parts of an image that take memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Image {
    pub sections: Vec<Section>,
    /// The variable that serves as arena, where the image has symbols and one of that name.
    pub arena: Option<Bytes>,
    /// The one that is fast memory, likewise.
    pub fast: Option<Bytes>,
}

/// Bytes at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    pub address: u64,
    pub bytes: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Section {
    pub name: String,
    pub kind: Kind,
    /// Where it is while the program runs.
    pub at: Bytes,
    /// Where its first values are stored, if that is elsewhere.
    pub stored: Option<u64>,
}

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Code,
    Rodata,
    Data,
    Bss,
}

impl Image {
    /// Reads an ELF file; the names are those of the variables that are arena and fast memory.
    pub fn parse(bytes: &[u8], names: [&str; 2]) -> Result<Self, String> {
        let read = match FileKind::parse(bytes) {
            Ok(FileKind::Elf32) => {
                Self::read::<object::elf::FileHeader32<Endianness>>(bytes, names)
            }
            Ok(FileKind::Elf64) => {
                Self::read::<object::elf::FileHeader64<Endianness>>(bytes, names)
            }
            _ => return Err("it is no ELF file: give the image as the linker wrote it".to_owned()),
        };
        let image = read.map_err(|error| format!("it is no complete ELF file: {error}"))?;
        match image.sections.is_empty() {
            true => Err("it has no sections that take memory: give a linked image that was not stripped of its \
                         section headers"
                .to_owned()),
            false => Ok(image),
        }
    }

    fn read<E: FileHeader<Endian = Endianness>>(
        bytes: &[u8],
        names: [&str; 2],
    ) -> object::Result<Self> {
        let file = ElfFile::<E>::parse(bytes)?;
        let endian = file.endian();
        let mut image = Self::default();
        for section in file.sections() {
            let header = section.elf_section_header();
            let flags: u64 = header.sh_flags(endian).into();
            let has = |flag: u32| flags & u64::from(flag) != 0;
            if !has(SHF_ALLOC) || section.size() == 0 {
                continue;
            }
            let zeroed = header.sh_type(endian) == SHT_NOBITS;
            let kind = match (has(SHF_EXECINSTR), has(SHF_WRITE), zeroed) {
                (_, _, true) => Kind::Bss,
                (true, ..) => Kind::Code,
                (_, true, _) => Kind::Data,
                _ => Kind::Rodata,
            };
            let at = Bytes { address: section.address(), bytes: section.size() };
            let mut stored = None;
            for segment in file.elf_program_headers().iter().filter(|_| !zeroed) {
                let (from, physical): (u64, u64) =
                    (segment.p_vaddr(endian).into(), segment.p_paddr(endian).into());
                let inside = at.address.checked_sub(from);
                let bytes: u64 = segment.p_filesz(endian).into();
                if let Some(inside) = inside.filter(|inside| *inside < bytes)
                    && segment.p_type(endian) == PT_LOAD
                    && physical != from
                {
                    stored = physical.checked_add(inside);
                }
            }
            image.sections.push(Section { name: section.name()?.to_owned(), kind, at, stored });
        }
        [image.arena, image.fast] = names.map(|name| {
            let symbols = file.symbols().filter(|symbol| symbol.size() > 0);
            let mut found =
                symbols.filter(|symbol| symbol.name().is_ok_and(|named| is(named, name)));
            found.next().map(|found| Bytes { address: found.address(), bytes: found.size() })
        });
        Ok(image)
    }
}

/// Whether a symbol is the variable of a name: in C by itself, in Rust as the last part of a path, before its hash.
fn is(symbol: &str, name: &str) -> bool {
    let part = format!("{}{name}", name.len());
    let legacy = || symbol.rsplit_once("17h").is_some_and(|(path, _)| path.ends_with(&part));
    symbol == name
        || symbol.starts_with("_ZN") && legacy()
        || symbol.starts_with("_R") && symbol.ends_with(&part)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use object::build::elf::{Builder, SectionData};
    use object::elf;

    /// A section: its name, flags, address, bytes, whether it is zeroed, and where its values are stored.
    pub type Part = (&'static str, u32, u64, u64, bool, u64);

    pub const CODE: Part = (".text", SHF_ALLOC | SHF_EXECINSTR, 0x100, 5000, false, 0x100);
    pub const RODATA: Part = (".rodata", SHF_ALLOC, 0x2000, 3000, false, 0x2000);
    pub const DATA: Part = (".data", SHF_ALLOC | SHF_WRITE, 0x2000_0000, 200, false, 0x3000);
    pub const BSS: Part = (".bss", SHF_ALLOC | SHF_WRITE, 0x2000_1000, 9192, true, 0x2000_1000);

    /// An image with these sections, and an arena of 8192 bytes in the last.
    pub fn elf(is_64: bool, parts: &[Part], arena: &str) -> Vec<u8> {
        let mut builder = Builder::new(Endianness::Little, is_64);
        builder.header.e_type = elf::ET_EXEC;
        builder.header.e_machine = if is_64 { elf::EM_AARCH64 } else { elf::EM_ARM };
        builder.header.e_phoff = if is_64 { 64 } else { 52 };
        let mut offset = 0x1000;
        for &(name, flags, address, bytes, zeroed, stored) in parts {
            let section = builder.sections.add();
            section.name = name.as_bytes().to_vec().into();
            section.sh_type = if zeroed { elf::SHT_NOBITS } else { elf::SHT_PROGBITS };
            section.sh_flags = u64::from(flags);
            (section.sh_addr, section.sh_addralign, section.sh_size) = (address, 4, bytes);
            section.sh_offset = offset;
            section.data = match zeroed {
                true => SectionData::UninitializedData(bytes),
                false => SectionData::Data(vec![1; bytes as usize].into()),
            };
            let id = section.id();
            let segment = builder.segments.add();
            (segment.p_type, segment.p_flags, segment.p_align) = (PT_LOAD, elf::PF_R, 4);
            (segment.p_offset, segment.p_vaddr, segment.p_paddr) = (offset, address, stored);
            segment.p_filesz = if zeroed { 0 } else { bytes };
            segment.p_memsz = bytes;
            segment.sections.push(id);
            offset += if zeroed { 0 } else { bytes.next_multiple_of(16) };
        }
        let last = builder.sections.iter().last().map(|section| (section.id(), section.sh_addr));
        let (section, address) = last.expect("a section");
        let symbol = builder.symbols.add();
        symbol.name = arena.as_bytes().to_vec().into();
        symbol.section = Some(section);
        symbol.set_st_info(elf::STB_GLOBAL, elf::STT_OBJECT);
        (symbol.st_value, symbol.st_size) = (address, 8192);
        for (name, kind) in [
            (".symtab", elf::SHT_SYMTAB),
            (".strtab", elf::SHT_STRTAB),
            (".shstrtab", elf::SHT_STRTAB),
        ] {
            let section = builder.sections.add();
            section.name = name.as_bytes().to_vec().into();
            section.sh_type = kind;
            section.sh_addralign = 8;
            section.data = match name {
                ".symtab" => SectionData::Symbol,
                ".strtab" => SectionData::String,
                _ => SectionData::SectionString,
            };
        }
        let mut bytes = Vec::new();
        builder.write(&mut bytes).expect("an ELF file");
        bytes
    }

    #[test]
    fn sections_are_told_apart() {
        for (is_64, symbol) in [
            (true, "ARENA"),
            (false, "ARENA"),
            (true, "_ZN8firmware5ARENA17h0123456789abcdefE"),
            (false, "_RNvCs1234_8firmware5ARENA"),
        ] {
            let image =
                Image::parse(&elf(is_64, &[CODE, RODATA, DATA, BSS], symbol), ["ARENA", "FAST"])
                    .unwrap();
            let found: Vec<_> =
                image.sections.iter().map(|found| (&found.name[..], found.kind)).collect();
            let expected = [
                (".text", Kind::Code),
                (".rodata", Kind::Rodata),
                (".data", Kind::Data),
                (".bss", Kind::Bss),
            ];
            assert_eq!(found, expected);
            let stored: Vec<_> = image.sections.iter().map(|found| found.stored).collect();
            assert_eq!(stored, [None, None, Some(0x3000), None]);
            assert_eq!(image.arena, Some(Bytes { address: 0x2000_1000, bytes: 8192 }), "{symbol}");
            assert_eq!(image.fast, None);
        }
        let other = elf(true, &[BSS], "_ZN8firmware6BARENA17h0123456789abcdefE");
        assert_eq!(Image::parse(&other, ["ARENA", "FAST"]).unwrap().arena, None);
        let fast = elf(true, &[BSS], "_ZN8firmware4FAST17h0123456789abcdefE");
        let image = Image::parse(&fast, ["ARENA", "FAST"]).unwrap();
        assert_eq!((image.arena, image.fast.map(|fast| fast.bytes)), (None, Some(8192)));
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let image = elf(true, &[CODE, BSS], "ARENA");
        assert!(Image::parse(b"#!/bin/sh", ["ARENA", "FAST"]).unwrap_err().contains("no ELF file"));
        for bytes in [20, 70, image.len() - 1] {
            assert!(Image::parse(&image[..bytes], ["ARENA", "FAST"]).is_err(), "{bytes}");
        }
    }
}
