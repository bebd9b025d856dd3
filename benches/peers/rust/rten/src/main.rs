//! RTen: the file mapped and weights not packed ahead, as it does by default (its leanest way), or packed
//! ahead with `RTEN_PREPACK=1`.

use peers::{Input, Result, Task};
use rten::{ModelOptions, RunOptions, ThreadPool, Value};
use rten_tensor::Tensor;
use rten_tensor::prelude::*;
use std::sync::Arc;

fn main() -> Result<()> {
    Task::from_args()?.measure(|task| {
        let model = ModelOptions::with_all_ops()
            .prepack_weights(std::env::var("RTEN_PREPACK").is_ok_and(|value| value == "1"))
            .load_file(&task.model)?;
        let pool = Arc::new(ThreadPool::with_num_threads(task.threads));
        let options = RunOptions::default().with_thread_pool(Some(pool));
        let input: Value = match &task.input {
            Input::Floats(values) => Tensor::from_data(&task.shape, values.clone()).into(),
            // It has no integers of 64 bits.
            Input::Tokens(values) => {
                let values: Vec<i32> = values.iter().map(|value| *value as i32).collect();
                Tensor::from_data(&task.shape, values).into()
            }
        };
        Ok(move |output: &mut dyn FnMut(&[f32])| {
            let found = model.run_one((&input).into(), Some(options.clone()))?;
            let found: Tensor<f32> = found.try_into()?;
            output(&found.to_vec());
            Ok(())
        })
    })
}
