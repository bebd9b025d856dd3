//! Pages agree with the code and with each other.

use eyelet::kernels::{Isa, Kernels};
use eyelet::pack::stored::*;
use eyelet::pack::*;

const PAGE_OF_FORMAT: &str = include_str!("../docs/pack-format.md");

/// The sizes in the table of records, by the record's name.
fn stated_sizes() -> Vec<(&'static str, usize)> {
    PAGE_OF_FORMAT
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|');
            let name = cells.next()?.trim().trim_end_matches('`');
            Some((name, cells.next()?.trim().parse().ok()?))
        })
        .collect()
}

/// `1 Conv, 2 Depthwise, …` of the sentence that begins with `start`.
fn stated_codes(start: &str) -> Vec<(u32, &'static str)> {
    let from = PAGE_OF_FORMAT.find(start).unwrap_or_else(|| panic!("no sentence {start:?}"));
    let sentence = &PAGE_OF_FORMAT[from + start.len()..];
    let end = sentence.find([';', '.']).unwrap_or(sentence.len());
    sentence[..end]
        .split(',')
        .filter_map(|item| {
            let (code, name) = item.trim().split_once(char::is_whitespace)?;
            Some((code.parse().ok()?, name.trim()))
        })
        .collect()
}

#[test]
fn sizes_of_records() {
    let actual = [
        ("Header", size_of::<Header>()),
        ("ShapeEntry", size_of::<ShapeEntry>()),
        ("PlanEntry", size_of::<PlanEntry>()),
        ("SkeletonHeader", size_of::<SkeletonHeader>()),
        ("BufferRecord", size_of::<BufferRecord>()),
        ("Tensor", size_of::<Tensor>()),
        ("LayerRecord", size_of::<LayerRecord>()),
        ("Port", size_of::<Port>()),
        ("PlanHeader", size_of::<PlanHeader>()),
        ("PlaceRecord", size_of::<PlaceRecord>()),
        ("LoadRecord", size_of::<LoadRecord>()),
        ("WorkRecord", size_of::<WorkRecord>()),
        ("StepRecord", size_of::<StepRecord>()),
        ("StageRecord", size_of::<StageRecord>()),
    ];
    assert_eq!(stated_sizes(), actual);
}

#[test]
fn codes_of_operators() {
    let stated = stated_codes("Operators (`LayerRecord.kind`):");
    for (code, name) in &stated {
        let kind = OpKind::from_code(*code).unwrap_or_else(|| panic!("no operator {code}"));
        assert_eq!(format!("{kind:?}"), *name);
    }
    let actual: Vec<u32> = (0..1000).filter(|code| OpKind::from_code(*code).is_some()).collect();
    assert_eq!(stated.iter().map(|(code, _)| *code).collect::<Vec<_>>(), actual);
}

#[test]
fn codes_of_functions_and_arithmetic() {
    let listed = |starts: &[&str], names: Vec<String>| {
        let stated: Vec<(u32, &str)> =
            starts.iter().flat_map(|start| stated_codes(start)).collect();
        let actual = names.iter().enumerate().map(|(code, name)| (code as u32, &name[..]));
        assert_eq!(stated, actual.collect::<Vec<_>>());
    };
    let starts = [
        "Functions (the activation of a layer):",
        "Unary layers have more:",
        "on processors:",
        "All layers again:",
    ];
    listed(&starts, ActivationKind::ALL.map(|kind| format!("{kind:?}")).to_vec());
    let starts = ["Arithmetic (`BinaryParams.op`):", "Arithmetic on processors:"];
    listed(&starts, BinaryOp::ALL.map(|op| format!("{op:?}")).to_vec());
    let starts = ["Reductions (`ReduceParams.op`):", "Reductions on processors:"];
    listed(&starts, ReduceOp::ALL.map(|op| format!("{op:?}")).to_vec());
}

#[test]
fn codes_of_encodings() {
    let stated = stated_codes("Encodings of panels' weights (`LayerRecord.encoding`):");
    let actual: Vec<(u32, &str)> = (0..1000)
        .filter_map(Encoding::from_code)
        .map(|encoding| (encoding as u32, encoding.name()))
        .collect();
    assert_eq!(stated, actual);
}

#[test]
fn codes_and_panels_of_instruction_sets() {
    let stated = stated_codes("Instruction sets (`Header.isa`), with their panels:");
    let actual: Vec<(u32, String)> = (0..1000)
        .filter_map(Isa::from_code)
        .map(|isa| (isa as u32, format!("{} {}", isa.name(), isa.panel())))
        .collect();
    let stated: Vec<(u32, String)> =
        stated.into_iter().map(|(code, text)| (code, text.to_owned())).collect();
    assert_eq!(stated, actual);
    // The kernels of this processor use the panels of their instruction set.
    for isa in (0..1000).filter_map(Isa::from_code) {
        if let Some(kernels) = Kernels::for_isa(isa) {
            assert_eq!(kernels.nr(), isa.panel(), "{}", isa.name());
        }
    }
}

#[test]
fn constants() {
    let stated = [
        format!("# The pack format, version {VERSION}"),
        format!("up to {MAX_SHAPES} ShapeEntry records"),
        format!("up to {MAX_PLANS} PlanEntry records"),
        format!("page ({PAGE} bytes)"),
        format!("{SKELETON:<11}the skeleton"),
    ];
    for text in stated {
        assert!(PAGE_OF_FORMAT.contains(&text), "the page does not say {text:?}");
    }
    let signature = std::str::from_utf8(&MAGIC).unwrap().escape_default().to_string();
    assert!(PAGE_OF_FORMAT.contains(&signature), "the page does not say {signature:?}");
}

/// What C's header says in numbers, too.
#[test]
fn numbers_of_the_c_interface() {
    use eyelet::ffi::{Kind, Status, eyelet_version};
    const HEADER: &str = include_str!("../include/eyelet.h");
    let said = |name: &str| -> Option<i32> {
        let line =
            HEADER.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(" = "));
        line?.split([',', ' ']).next()?.parse().ok()
    };
    for (name, number) in [
        ("EYELET_OK", Status::Ok as i32),
        ("EYELET_RUNNING", Status::Running as i32),
        ("EYELET_ARGUMENT", Status::Argument as i32),
        ("EYELET_STORAGE", Status::Storage as i32),
        ("EYELET_PACK", Status::Pack as i32),
        ("EYELET_PROCESSOR", Status::Processor as i32),
        ("EYELET_ARENA", Status::Arena as i32),
        ("EYELET_THREADS", Status::Threads as i32),
        ("EYELET_STATE", Status::State as i32),
        ("EYELET_DEVICE", Status::Device as i32),
        ("EYELET_EARLY", Status::Early as i32),
        ("EYELET_UNFINISHED", Status::Unfinished as i32),
        ("EYELET_DIRECT", Kind::Direct as i32),
        ("EYELET_BUFFERED", Kind::Buffered as i32),
        ("EYELET_MAPPED", Kind::Mapped as i32),
        ("EYELET_MEMORY", Kind::Memory as i32),
        ("EYELET_CALLBACK", Kind::Callback as i32),
    ] {
        assert_eq!(said(name), Some(number), "{name}");
    }
    assert!(HEADER.contains(&format!("#define EYELET_VERSION {}u\n", eyelet_version())));
    assert!(HEADER.contains(&format!("#define EYELET_READS {}u\n", eyelet::storage::MAX_DEPTH)));
    assert!(HEADER.contains(&format!("#define EYELET_PAGE {}u\n", eyelet::pack::PAGE)));
    #[cfg(all(feature = "linux", target_os = "linux"))]
    {
        let stack = eyelet::device::threads::STACK_BYTES >> 10;
        assert!(HEADER.contains(&format!("a stack of {stack} KiB")));
    }
}

/// Pages are read on forges, too, which print what rustdoc hides.
#[test]
fn programs_on_pages_hide_no_lines() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut programs = 0;
    for page in docs.chain([root.join("README.md")]) {
        if page.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&page).unwrap();
        for program in text.split("```rust").skip(1) {
            let program = program.split("```").next().unwrap_or_default();
            let hidden = program.lines().find(|line| line.trim() == "#" || line.starts_with("# "));
            assert_eq!(hidden, None, "{}", page.display());
            programs += 1;
        }
    }
    assert!(programs > 3, "{programs} programs");
}

/// All pages of the repository, by their paths from its root.
fn pages() -> Vec<std::path::PathBuf> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.to_path_buf()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Folders of builds are not the repository's.
            if path.is_symlink() || name.starts_with('.') || name == "target" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".md") {
                found.push(path.strip_prefix(root).unwrap().to_path_buf());
            }
        }
    }
    found.sort();
    found
}

/// Lines outside of blocks of code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The anchors that forges give the headings of a page.
fn anchors(page: &str) -> Vec<String> {
    let heading =
        |line: &str| line.starts_with('#').then(|| line.trim_start_matches('#').trim().to_owned());
    let anchor = |heading: String| -> String {
        let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
        heading
            .to_lowercase()
            .chars()
            .filter(kept)
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    prose(page).filter_map(heading).map(anchor).collect()
}

/// A relative link leads to a file of the repository, and its anchor to a heading of that page.
#[test]
fn links_of_pages_lead_to_files_and_headings() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut links = 0;
    for page in pages() {
        let text = std::fs::read_to_string(root.join(&page)).unwrap();
        // A link may go over the end of a line.
        let text_of_links = prose(&text).collect::<Vec<_>>().join("\n");
        for link in text_of_links.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.contains(char::is_whitespace) {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let of = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            assert!(root.join(&of).exists(), "{}: no file {link}", page.display());
            if !anchor.is_empty() {
                let target = std::fs::read_to_string(root.join(&of)).unwrap();
                let found = anchors(&target).iter().any(|found| found == anchor);
                assert!(found, "{}: {} has no heading #{anchor}", page.display(), of.display());
            }
            links += 1;
        }
    }
    assert!(links > 200, "{links} links");
}

/// The pages for users and developers stay few and short; everything else belongs into `lab/`.
#[test]
fn pages_stay_few_and_short() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = |page: &std::path::PathBuf| page.parent().unwrap().to_string_lossy().into_owned();
    let all = pages();
    let docs = all.iter().filter(|page| folder(page) == "docs").count();
    assert!(docs <= 25, "{docs} pages in docs/, of 25: merge two, or move one to lab/");
    let counted = all.iter().filter(|page| {
        let top = page.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        (folder(page).is_empty() && top != "CHANGELOG.md")
            || ["docs", "python", "benches"].contains(&&*top)
    });
    let words: usize = counted
        .map(|page| std::fs::read_to_string(root.join(page)).unwrap().split_whitespace().count())
        .sum();
    assert!(
        words <= 45_000,
        "{words} words, of 45000: shorten pages, or move figures and proofs to lab/"
    );
}
