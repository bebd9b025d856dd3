//! The outermost frame of the protobuf.
//!
//! Protobuf has neither magic number nor length, so whether a file is an ONNX model, and whether all
//! of it is there, is told from its top-level fields: each must be one that `ModelProto` has, and each
//! must end within the file.

use super::ImportError;

/// Name and wire type of a field of `ModelProto`.
fn model_field(number: u64) -> Option<(&'static str, u64)> {
    Some(match number {
        1 => ("IR version", 0),
        2 => ("producer name", 2),
        3 => ("producer version", 2),
        4 => ("domain", 2),
        5 => ("model version", 0),
        6 => ("documentation", 2),
        7 => ("graph", 2),
        8 => ("operator set", 2),
        14 => ("metadata", 2),
        20 => ("training information", 2),
        25 => ("functions", 2),
        26 => ("device configuration", 2),
        _ => return None,
    })
}

/// Reads a variable-length integer at `at`; `None` where the bytes end within it.
fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(value)
}

/// Checks that the bytes are a complete run of `ModelProto` fields, a graph and an operator set among
/// them.
pub(super) fn check_frame(bytes: &[u8]) -> Result<(), ImportError> {
    let not_onnx = |reason: String| Err(ImportError::NotOnnx { reason });
    if bytes.is_empty() {
        return not_onnx("it is empty".into());
    }
    let (mut graph, mut opset) = (false, false);
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let truncated = |field, needs| {
            Err(ImportError::Truncated { field, at: start, needs, has: bytes.len() - start })
        };
        let Some(tag) = varint(bytes, &mut at) else { return truncated("next field", 10) };
        let Some((field, wire)) = model_field(tag >> 3) else {
            return not_onnx(format!("at byte {start} there is none of a model's fields"));
        };
        if tag & 7 != wire {
            return not_onnx(format!("at byte {start} its {field} has the wrong type"));
        }
        graph |= tag >> 3 == 7;
        opset |= tag >> 3 == 8;
        let Some(value) = varint(bytes, &mut at) else { return truncated(field, 10) };
        if wire == 2 {
            let left = bytes.len() - at;
            if value > left as u64 {
                return Err(ImportError::Truncated { field, at: start, needs: value, has: left });
            }
            at += value as usize;
        }
    }
    match (graph, opset) {
        (true, true) => Ok(()),
        (false, _) => Err(ImportError::Incomplete { missing: "a graph", bytes: bytes.len() }),
        _ => Err(ImportError::Incomplete { missing: "an operator set", bytes: bytes.len() }),
    }
}
