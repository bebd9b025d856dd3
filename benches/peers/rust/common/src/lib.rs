//! What the peers written in Rust share: their command line, the input, the timing, and the line of JSON
//! that `../measure.py` reads. As `../peer.py` does for the engines with Python packages.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

/// The command line: `MODEL INPUT.npy OUTPUT.f32 THREADS WARMUP RUNS`.
pub struct Task {
    pub model: String,
    pub shape: Vec<usize>,
    pub input: Input,
    pub threads: usize,
    output: String,
    warmup: usize,
    runs: usize,
}

/// Values of the input.
pub enum Input {
    Floats(Vec<f32>),
    Tokens(Vec<i64>),
}

impl Input {
    fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Tokens(values) => values.len(),
        }
    }
}

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;

impl Task {
    pub fn from_args() -> Result<Self> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let [model, input, output, threads, warmup, runs] = args.as_slice() else {
            return Err("expected MODEL INPUT.npy OUTPUT.f32 THREADS WARMUP RUNS".into());
        };
        let (shape, values) = read_npy(&std::fs::read(input)?)?;
        Ok(Self {
            model: model.clone(),
            shape,
            input: values,
            threads: threads.parse()?,
            output: output.clone(),
            warmup: warmup.parse()?,
            runs: runs.parse()?,
        })
    }

    /// Opens the engine and measures it. `open` returns a function that runs one inference and hands the
    /// output to its argument.
    pub fn measure<F>(self, open: impl FnOnce(&Self) -> Result<F>) -> Result<()>
    where
        F: FnMut(&mut dyn FnMut(&[f32])) -> Result<()>,
    {
        let before = status_bytes("VmRSS")?;
        let start = Instant::now();
        let mut infer = open(&self)?;
        let open_ms = start.elapsed().as_secs_f64() * 1e3;
        let mut samples = Vec::with_capacity(self.runs);
        for turn in 0..self.warmup + self.runs {
            let start = Instant::now();
            infer(&mut |_| {})?;
            if turn >= self.warmup {
                samples.push(format!("{:.4}", start.elapsed().as_secs_f64() * 1e3));
            }
        }
        // The peak is that of the inferences, and not of what follows for the comparison.
        let peak = status_bytes("VmHWM")?;
        let mut file = std::fs::File::create(&self.output)?;
        let mut written = Ok(());
        infer(&mut |values| {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            written = file.write_all(&bytes);
        })?;
        written?;
        println!(
            "{{\"samples_ms\":[{}],\"open_ms\":{open_ms:.3},\"peak_rss_bytes\":{peak},\"rss_before_bytes\":{before}}}",
            samples.join(",")
        );
        Ok(())
    }
}

/// Shape and values of a .npy file of little-endian 32-bit floats or 64-bit integers in C order.
fn read_npy(bytes: &[u8]) -> Result<(Vec<usize>, Input)> {
    let length = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, low, high, ..] => {
            usize::from(u16::from_le_bytes([*low, *high]))
        }
        _ => return Err("the input is no .npy file of version 1".into()),
    };
    let (header, values) =
        bytes[10..].split_at_checked(length).ok_or("the header of the .npy file is cut off")?;
    let header = std::str::from_utf8(header)?;
    let in_order = header.contains("'fortran_order': False");
    let input = if in_order && header.contains("'<f4'") {
        let (floats, _) = values.as_chunks::<4>();
        Input::Floats(floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    } else if in_order && header.contains("'<i8'") {
        let (tokens, _) = values.as_chunks::<8>();
        Input::Tokens(tokens.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect())
    } else {
        return Err(
            format!("the input is of neither floats nor tokens in C order: {header}").into()
        );
    };
    let shape = header.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let (shape, _) = shape.ok_or("the header of the .npy file has no shape")?;
    let shape = shape.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    let shape = shape.map(str::parse).collect::<std::result::Result<Vec<usize>, _>>()?;
    match shape.iter().product::<usize>() {
        expected if expected == input.len() => Ok((shape, input)),
        expected => Err(format!("{} values in a shape of {expected}", input.len()).into()),
    }
}

/// A size that the kernel tells of this process.
fn status_bytes(field: &str) -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")).ok_or("no such line")?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}
