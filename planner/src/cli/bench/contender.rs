//! A program that runs inferences when it is asked: `eyelet run` with a pack, or a Python script with another engine. It is
//! a process of its own, so that its memory is its own.

use super::super::error::BenchError;
use super::super::run::turns::READY;
use crate::cli::Error;
use crate::cli::run::process::status_bytes_of;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program under test.
pub struct Contender {
    /// What reports call it.
    pub name: String,
    child: Child,
    /// None when it has been told that this is all.
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// Inferences one after the other.
#[derive(Debug, PartialEq)]
pub struct Turn {
    /// All of them, with what the host does between them.
    pub ns: u64,
    pub latencies_ns: Vec<u64>,
}

impl Contender {
    /// Starts a program, and waits until it can be asked.
    pub fn start(name: String, mut command: Command) -> Result<Self, Error> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: std::io::Error| BenchError::Contender {
            name: name.clone(),
            message: format!("it cannot be started: {error}"),
        };
        let mut child = command.spawn().map_err(failed)?;
        let (Some(ask), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::Internal("a program without pipes".to_owned()));
        };
        let mut contender =
            Self { name: name.clone(), child, ask: Some(ask), answers: BufReader::new(answers) };
        match contender.answer()?.trim() {
            READY => Ok(contender),
            other => Err(contender.failed(format!("it answered `{other}`"))),
        }
    }

    /// Has it run so many inferences.
    pub fn turn(&mut self, runs: u32) -> Result<Turn, Error> {
        let asked = self.ask.as_mut().map(|ask| writeln!(ask, "{runs}").and_then(|()| ask.flush()));
        if !matches!(asked, Some(Ok(()))) {
            return Err(self.failed("it ended early".to_owned()));
        }
        let line = self.answer()?;
        match parse(&line).filter(|turn| turn.latencies_ns.len() == runs as usize) {
            Some(turn) => Ok(turn),
            None => Err(self.failed(format!("it answered `{}`", line.trim()))),
        }
    }

    /// The most memory that it has had, as the kernel counts it.
    pub fn peak_bytes(&self) -> Option<u64> {
        status_bytes_of(self.child.id(), "VmHWM")
    }

    /// Tells it that this is all: what it says at the end.
    pub fn finish(mut self) -> Result<String, Error> {
        self.ask = None;
        let mut report = String::new();
        let read = self.answers.read_to_string(&mut report);
        let status = self.child.wait();
        match (read, status) {
            (Ok(_), Ok(status)) if status.success() => Ok(report),
            _ => Err(self.failed("it ended with an error".to_owned())),
        }
    }

    /// A line that it prints.
    fn answer(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(1..) => Ok(line),
            _ => Err(self.failed("it ended early".to_owned())),
        }
    }

    /// What it says of its failure, or else this.
    fn failed(&mut self, otherwise: String) -> Error {
        self.ask = None;
        // It may wait for nothing any more, or for ever.
        let _ = self.child.kill();
        let mut text = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            let _ = stderr.read_to_string(&mut text);
        }
        let text = text.trim().trim_start_matches("eyelet: error: ");
        let text = text.strip_prefix(&format!("{}: ", self.name)).unwrap_or(text);
        let message = if text.is_empty() { otherwise } else { text.to_owned() };
        BenchError::Contender { name: self.name.clone(), message }.into()
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        // What has ended cannot be ended, and leaves nothing to wait for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The nanoseconds of all, then those of each.
fn parse(line: &str) -> Option<Turn> {
    let mut numbers = line.split_whitespace().map(str::parse);
    let ns = numbers.next()?.ok()?;
    let latencies_ns = numbers.collect::<Result<_, _>>().ok()?;
    Some(Turn { ns, latencies_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Contender, Error> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Contender::start("a script".to_owned(), command)
    }

    #[test]
    fn a_program_takes_turns_and_reports() {
        let mut script =
            shell("echo ready; while read n; do echo 30 10 11; done; echo done").unwrap();
        let turn = Turn { ns: 30, latencies_ns: vec![10, 11] };
        assert_eq!(script.turn(2).unwrap(), turn);
        assert!(script.peak_bytes().unwrap() > 0);
        assert_eq!(script.finish().unwrap().trim(), "done");
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let text = |result: Result<_, Error>| match result {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it did not fail"),
        };
        let error = text(shell("echo 'eyelet: error: no such pack' >&2; exit 1").map(|_| ()));
        assert!(error.contains("a script") && error.contains("no such pack"), "{error}");
        assert!(!error.contains("eyelet: error"), "{error}");
        let named =
            text(shell("echo 'eyelet: error: a script: not a pack' >&2; exit 1").map(|_| ()));
        assert_eq!(named, "a script: not a pack");
        let mut short = shell("echo ready; read n; echo 30 10").unwrap();
        let error = text(short.turn(2).map(|_| ()));
        assert!(error.contains("`30 10`"), "{error}");
        let mut gone = shell("echo ready; read n").unwrap();
        assert!(text(gone.turn(1).map(|_| ())).contains("ended early"));
    }
}
