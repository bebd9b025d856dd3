//! Typed access to a node's attributes.

use super::error::NodeProblem;
use super::onnx::{AttributeProto, AttributeType, GraphProto, NodeProto, TensorProto};

/// The largest number taken for a kernel, stride, dilation, padding or count: products of a few of
/// them and of tensor extents stay far from overflow.
const LARGEST: i64 = i32::MAX as i64;

/// A node's attributes.
#[derive(Clone, Copy)]
pub(super) struct Attributes<'a>(&'a [AttributeProto]);

impl<'a> Attributes<'a> {
    pub fn of(node: &'a NodeProto) -> Self {
        Self(&node.attribute)
    }

    /// The attribute of a function's call that one in the function refers to.
    pub fn reference(attribute: &AttributeProto) -> Option<&str> {
        Some(attribute.ref_attr_name.as_str()).filter(|name| !name.is_empty())
    }

    /// The attribute, if it is there; it must have the type (files older than types may omit it).
    fn find(
        self,
        name: &str,
        wanted: AttributeType,
    ) -> Result<Option<&'a AttributeProto>, NodeProblem> {
        let Some(found) = self.0.iter().find(|attribute| attribute.name == name) else {
            return Ok(None);
        };
        if found.r#type != wanted as i32 && found.r#type != AttributeType::Undefined as i32 {
            let given = match AttributeType::try_from(found.r#type) {
                Ok(given) => format!("{given:?}"),
                Err(_) => format!("unknown type {}", found.r#type),
            };
            return Err(NodeProblem::attribute(name, format!("is {given}, not {wanted:?}")));
        }
        Ok(Some(found))
    }

    pub fn int(self, name: &str) -> Result<Option<i64>, NodeProblem> {
        Ok(self.find(name, AttributeType::Int)?.map(|attribute| attribute.i))
    }

    pub fn int_or(self, name: &str, default: i64) -> Result<i64, NodeProblem> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// An integer that is a truth value.
    pub fn flag(self, name: &str, default: bool) -> Result<bool, NodeProblem> {
        Ok(self.int(name)?.map_or(default, |value| value != 0))
    }

    pub fn float(self, name: &str) -> Result<Option<f32>, NodeProblem> {
        Ok(self.find(name, AttributeType::Float)?.map(|attribute| attribute.f))
    }

    pub fn float_or(self, name: &str, default: f32) -> Result<f32, NodeProblem> {
        Ok(self.float(name)?.unwrap_or(default))
    }

    pub fn floats(self, name: &str) -> Result<Option<&'a [f32]>, NodeProblem> {
        Ok(self.find(name, AttributeType::Floats)?.map(|attribute| &attribute.floats[..]))
    }

    pub fn ints(self, name: &str) -> Result<Option<&'a [i64]>, NodeProblem> {
        Ok(self.find(name, AttributeType::Ints)?.map(|attribute| &attribute.ints[..]))
    }

    pub fn tensor(self, name: &str) -> Result<Option<&'a TensorProto>, NodeProblem> {
        Ok(self.find(name, AttributeType::Tensor)?.and_then(|attribute| attribute.t.as_ref()))
    }

    pub fn graph(self, name: &str) -> Result<&'a GraphProto, NodeProblem> {
        let found = self.find(name, AttributeType::Graph)?;
        let graph = found.and_then(|attribute| attribute.g.as_deref());
        graph.ok_or_else(|| NodeProblem::attribute(name, "is missing"))
    }

    pub fn string(self, name: &str) -> Result<Option<&'a str>, NodeProblem> {
        match self.find(name, AttributeType::String)? {
            None => Ok(None),
            Some(attribute) => match std::str::from_utf8(&attribute.s) {
                Ok(text) => Ok(Some(text)),
                Err(_) => Err(NodeProblem::attribute(name, "is not UTF-8")),
            },
        }
    }

    pub fn strings(self, name: &str) -> Result<Option<Vec<&'a str>>, NodeProblem> {
        let Some(attribute) = self.find(name, AttributeType::Strings)? else { return Ok(None) };
        let text = |bytes: &'a bytes::Bytes| std::str::from_utf8(bytes).ok();
        let found = attribute.strings.iter().map(text).collect::<Option<_>>();
        found.ok_or_else(|| NodeProblem::attribute(name, "is not UTF-8")).map(Some)
    }

    /// A list of `N` sizes in `lowest..=2^31 - 1`.
    pub fn sizes(
        self,
        name: &str,
        count: usize,
        lowest: i64,
    ) -> Result<Option<Vec<usize>>, NodeProblem> {
        let Some(given) = self.ints(name)? else { return Ok(None) };
        if given.len() != count {
            return Err(NodeProblem::attribute(
                name,
                format!("has {} numbers, expected {count}", given.len()),
            ));
        }
        given.iter().map(|&value| size(name, value, lowest)).collect::<Result<_, _>>().map(Some)
    }
}

/// A number from an attribute as a size in `lowest..=2^31 - 1`.
pub(super) fn size(name: &str, value: i64, lowest: i64) -> Result<usize, NodeProblem> {
    if (lowest..=LARGEST).contains(&value) {
        Ok(value as usize)
    } else {
        Err(NodeProblem::attribute(name, format!("has {value}, outside {lowest} to {LARGEST}")))
    }
}
