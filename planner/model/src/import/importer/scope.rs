//! Names: what they stand for in a body and in those around it.

use super::super::body::Body;
use super::super::builder::Operand;
use super::super::context::Given;
use super::super::data::{self, Data};
use super::super::error::ImportError;
use super::super::node_name;
use super::super::onnx::{AttributeProto, NodeProto, TensorProto};
use super::Importer;
use std::collections::HashMap;

/// A body while its nodes are translated.
pub(super) struct Scope<'a> {
    pub nodes: &'a [NodeProto],
    /// What names stand for: inputs, initializers read so far, outputs of translated nodes.
    pub names: HashMap<&'a str, Given>,
    /// Outputs of translated nodes that are not computed: node and position.
    pub not_computed: HashMap<&'a str, (usize, usize)>,
    initializers: HashMap<&'a str, &'a TensorProto>,
    /// What names of its nodes and values begin with.
    pub prefix: String,
    pub opset: i64,
    /// The attributes of the node that calls a function. A function sees no names from outside.
    pub attributes: Option<Vec<AttributeProto>>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(body: &Body<'a>, prefix: String, opset: i64) -> Self {
        // Of several with one name the last counts, as for onnxruntime.
        let named = |tensor: &'a TensorProto| (tensor.name.as_str(), tensor);
        Self {
            nodes: body.nodes,
            names: HashMap::new(),
            not_computed: HashMap::new(),
            initializers: body.initializers.iter().map(named).collect(),
            prefix,
            opset,
            attributes: None,
        }
    }

    pub(super) fn is_initializer(&self, name: &str) -> bool {
        self.initializers.contains_key(name)
    }
}

impl<'a> Importer<'a> {
    /// What a name stands for; an initializer is read when it is first asked for.
    pub(super) fn lookup(&mut self, name: &'a str, reader: impl Fn() -> String) -> Given {
        let mut place = self.scopes.len() - 1;
        loop {
            let scope = &self.scopes[place];
            if let Some(given) = scope.names.get(name) {
                return given.clone();
            }
            if let Some(&tensor) = scope.initializers.get(name) {
                return self.learn(place, name, |importer| importer.read(tensor));
            }
            if let Some(&(node, index)) = scope.not_computed.get(name) {
                let proto = &scope.nodes[node];
                let error = ImportError::NotComputed {
                    value: name.into(),
                    reader: reader(),
                    node: node_name(proto, node),
                    operator: proto.op_type.clone(),
                    index,
                };
                return self.learn(place, name, |_| Err(error));
            }
            if place == 0 || scope.attributes.is_some() {
                let error = ImportError::Undefined { value: name.into(), reader: reader() };
                return self.learn(place, name, |_| Err(error));
            }
            place -= 1;
        }
    }

    /// Remembers what a name stands for; a problem is reported once, and nothing known of the name.
    fn learn(
        &mut self,
        place: usize,
        name: &'a str,
        find: impl FnOnce(&mut Self) -> Result<Operand, ImportError>,
    ) -> Given {
        let given = match find(self) {
            Ok(operand) => Given::Known(operand),
            Err(problem) => {
                self.problems.push(problem);
                Given::Unknown
            }
        };
        self.scopes[place].names.insert(name, given.clone());
        given
    }

    /// Reads an initializer, once however often its body is translated.
    fn read(&mut self, tensor: &'a TensorProto) -> Result<Operand, ImportError> {
        let key = std::ptr::from_ref(tensor) as usize;
        if let Some(operand) = self.read.get(&key) {
            return Ok(operand.clone());
        }
        let name = tensor.name.clone();
        let data = data::read(tensor, &mut self.external, &self.builder.allowance)
            .map_err(|problem| ImportError::Tensor { tensor: name.clone(), problem })?;
        let operand = match data {
            Data::Float(kind, floats) => {
                self.builder.allowance.more_work(floats.constant.len() * 4);
                Operand::Float(kind, self.builder.floats(name, floats))
            }
            Data::Integer(kind, array) => self.builder.integers(kind, array),
        };
        self.read.insert(key, operand.clone());
        Ok(operand)
    }
}
