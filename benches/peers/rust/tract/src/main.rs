//! tract: the model optimised with its input's shape known, as its examples do.

use peers::{Input, Result, Task};
use tract_linalg::multithread::{Executor, set_default_executor};
use tract_onnx::prelude::*;

fn main() -> Result<()> {
    Task::from_args()?.measure(|task| {
        if task.threads > 1 {
            set_default_executor(Executor::multithread(task.threads));
        }
        let (fact, input): (_, TValue) = match &task.input {
            Input::Floats(values) => {
                (f32::fact(&task.shape), Tensor::from_shape(&task.shape, values)?.into())
            }
            Input::Tokens(values) => {
                (i64::fact(&task.shape), Tensor::from_shape(&task.shape, values)?.into())
            }
        };
        let model = tract_onnx::onnx()
            .model_for_path(&task.model)?
            .with_input_fact(0, fact.into())?
            .into_optimized()?
            .into_runnable()?;
        Ok(move |output: &mut dyn FnMut(&[f32])| {
            let outputs = model.run(tvec!(input.clone()))?;
            output(outputs[0].to_plain_array_view::<f32>()?.as_slice().ok_or("output has gaps")?);
            Ok(())
        })
    })
}
