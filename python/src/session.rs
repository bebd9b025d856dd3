//! Python's side of a session: sends requests, and waits for answers without the interpreter's lock.

use crate::worker::{Answer, Asked, Changed, Io, Opened, Reply, Request, Tensor, Values, serve};
use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

pyo3::create_exception!(eyelet, Error, PyException, "What the command prints as an error.");

/// How often a wait looks for signals, such as Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);

/// Takes in one dimension, C-contiguous, of float32 or int32.
#[derive(FromPyObject)]
enum Input<'py> {
    Floats(PyReadonlyArray1<'py, f32>),
    Words(PyReadonlyArray1<'py, i32>),
}

/// An open pack. Every call may come from any thread; one waits for the other.
#[pyclass(frozen, module = "eyelet._native")]
pub struct Session {
    opened: Opened,
    link: Mutex<Option<Link>>,
}

/// The way to the thread of a session.
struct Link {
    requests: Sender<Request>,
    answers: Receiver<Answer>,
    /// Answers that nobody waited for, as a signal had come.
    unheard: usize,
    thread: JoinHandle<()>,
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (path, budget, threads, io, verify))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        budget: Option<u64>,
        threads: Option<u32>,
        io: &str,
        verify: bool,
    ) -> PyResult<Self> {
        let io = match io {
            "direct" => Io::Direct,
            "buffered" => Io::Buffered,
            "memory" => Io::Memory,
            _ => {
                let text = format!("`{io}` is no way to read: it is direct, buffered or memory");
                return Err(Error::new_err(text));
            }
        };
        let asked = Asked { path, budget, threads, io, verify };
        let (requests, asked_for) = channel();
        let (answering, answers) = channel();
        let body = move || serve(&asked, &asked_for, &answering);
        let thread = Builder::new().name("eyelet".to_owned()).spawn(body)?;
        let mut link = Link { requests, answers, unheard: 0, thread };
        match py.detach(|| link.wait())? {
            Reply::Opened(opened) => Ok(Self { opened, link: Mutex::new(Some(link)) }),
            _ => Err(unexpected()),
        }
    }

    /// Outputs in one dimension each: float32, or int32 for integers and truth values.
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: Vec<Input<'py>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let values = inputs.iter().map(|input| match input {
            Input::Floats(array) => array.as_slice().map(|floats| Values::Floats(floats.to_vec())),
            Input::Words(array) => array.as_slice().map(|words| Values::Words(words.to_vec())),
        });
        let request = Request::Infer(values.collect::<Result<_, _>>()?);
        let Reply::Outputs(outputs) = self.ask(py, request)? else { return Err(unexpected()) };
        let array = |values| match values {
            Values::Floats(floats) => floats.into_pyarray(py).into_any(),
            Values::Words(words) => words.into_pyarray(py).into_any(),
        };
        Ok(outputs.into_iter().map(array).collect())
    }

    /// Budget and arena of the new plan, bytes kept and read, nanoseconds.
    fn set_budget(&self, py: Python<'_>, bytes: u64) -> PyResult<(u64, u64, u64, u64, u64)> {
        let Reply::Changed(changed) = self.ask(py, Request::Budget(bytes))? else {
            return Err(unexpected());
        };
        let Changed { budget, arena_bytes, kept_bytes, read_bytes, total_ns } = changed;
        Ok((budget, arena_bytes, kept_bytes, read_bytes, total_ns))
    }

    /// Ends the thread and gives its arena back.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let link = self.link.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(Link { requests, answers, thread, .. }) = link {
                drop((requests, answers));
                // A thread that panicked has printed why.
                let _ = thread.join();
            }
        });
    }

    #[getter]
    fn network(&self) -> &str {
        &self.opened.network
    }

    #[getter]
    fn inputs(&self) -> Vec<Tensor> {
        self.opened.inputs.clone()
    }

    #[getter]
    fn outputs(&self) -> Vec<Tensor> {
        self.opened.outputs.clone()
    }

    /// Those that it can change to.
    #[getter]
    fn budgets(&self) -> Vec<u64> {
        self.opened.budgets.clone()
    }

    /// When it was opened.
    #[getter]
    fn budget(&self) -> u64 {
        self.opened.budget
    }

    /// When it was opened.
    #[getter]
    fn arena_bytes(&self) -> u64 {
        self.opened.arena_bytes
    }

    #[getter]
    fn threads(&self) -> u32 {
        self.opened.threads
    }
}

impl Session {
    /// Asks the thread, and waits for its answer. Other Python threads run meanwhile.
    fn ask(&self, py: Python<'_>, request: Request) -> PyResult<Reply> {
        py.detach(|| {
            let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
            let link = link.as_mut().ok_or_else(|| Error::new_err("the session is closed"))?;
            while link.unheard > 0 {
                let _ = link.receive()?;
                link.unheard -= 1;
            }
            // Of a thread that has ended, its last words are the answer: why it did.
            let _ = link.requests.send(request);
            link.wait()
        })
    }
}

impl Link {
    /// Waits for the answer to the request that was sent. A signal's handler that raises ends the wait, not the
    /// request.
    fn wait(&mut self) -> PyResult<Reply> {
        match self.receive() {
            Ok(answer) => answer.map_err(Error::new_err),
            Err(error) => {
                self.unheard += 1;
                Err(error)
            }
        }
    }

    fn receive(&self) -> PyResult<Answer> {
        loop {
            match self.answers.recv_timeout(SIGNALS) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())?,
                Err(RecvTimeoutError::Disconnected) => return Err(ended()),
            }
        }
    }
}

fn ended() -> PyErr {
    Error::new_err("the session's thread has ended: that is a fault of eyelet; open the pack again")
}

fn unexpected() -> PyErr {
    Error::new_err(
        "the session's thread gave another answer than was asked for: that is a fault of eyelet",
    )
}
