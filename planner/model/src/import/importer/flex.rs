//! `FlexAttention`: attention of which the model's own graphs change the scores and the probabilities.

use super::super::attributes::Attributes;
use super::super::body::Body;
use super::super::builder::Operand;
use super::super::context::Given;
use super::super::error::NodeProblem;
use super::super::onnx::{DataType, NodeProto};
use super::super::{array::Array, ops, types};
use super::Importer;
use super::scope::Scope;

/// Whether a node is of this operator.
pub(super) fn is_flex_attention(proto: &NodeProto) -> bool {
    proto.domain == "ai.onnx.preview" && proto.op_type == "FlexAttention"
}

impl<'a> Importer<'a> {
    /// `softmax(scale · Q Kᵀ) V`, each head of keys for as many of the queries as there are.
    pub(super) fn flex_attention(
        &mut self,
        proto: &'a NodeProto,
        name: &str,
    ) -> Result<Vec<Given>, NodeProblem> {
        let given = self.inputs(proto, name);
        let [q, k, v] =
            [(0, "Q"), (1, "K"), (2, "V")].map(|(index, role)| match given.get(index) {
                Some(Given::Known(operand @ Operand::Float(..))) => Ok(operand.clone()),
                Some(Given::Unknown) => Err(NodeProblem::Unknown),
                _ => Err(NodeProblem::Missing { index, role }),
            });
        let (q, k, v) = (q?, k?, v?);
        let [of_q, of_k, of_v] = [&q, &k, &v].map(|operand| self.builder.shape_of(operand));
        let misfit = || {
            NodeProblem::shape(format!(
                "queries {of_q:?}, keys {of_k:?} and values {of_v:?} do not fit"
            ))
        };
        let (&[batch, heads, queries, width], &[_, shared, keys, _], &[_, _, _, wide]) =
            (&of_q[..], &of_k[..], &of_v[..])
        else {
            return Err(misfit());
        };
        let fits = of_k == [batch, shared, keys, width]
            && of_v == [batch, shared, keys, wide]
            && shared > 0
            && heads.is_multiple_of(shared);
        if !fits {
            return Err(misfit());
        }
        let attributes = Attributes::of(proto);
        let scale = attributes.float("scale")?.map(f64::from);
        let scale = scale.unwrap_or_else(|| 1.0 / (width as f64).sqrt());
        let of_softmax = match attributes.int("softmax_precision")? {
            None if q.kind() == DataType::Double => DataType::Double,
            None => DataType::Float,
            Some(given) => {
                let kind = i32::try_from(given).ok().and_then(|kind| DataType::try_from(kind).ok());
                let reason = || format!("is {given}, which is no float type");
                kind.filter(|&kind| types::is_float(kind))
                    .ok_or_else(|| NodeProblem::attribute("softmax_precision", reason()))?
            }
        };
        let mut steps = Part { importer: self, name };
        let rows = heads / shared * queries;
        let scores = steps.products(&q, &k, scale, [batch, shared, rows, width])?;
        let scores = steps.shaped("scores", scores, &[batch, heads, queries, keys])?;
        let scores = steps.cast("precise", scores, of_softmax)?;
        let scores = steps.modified(proto, "score_mod", scores)?;
        let axis = vec![ops::compose::int("axis", -1)];
        let parts = steps.node("softmax", "Softmax", vec![scores], axis)?;
        let parts = steps.modified(proto, "prob_mod", parts)?;
        let parts = steps.cast("parts", parts, q.kind())?;
        let parts = steps.shaped("rows", parts, &[batch, shared, rows, keys])?;
        let y = steps.node("sums", "MatMul", vec![parts, v], vec![])?;
        let y = steps.shaped("y", y, &[batch, heads, queries, wide])?;
        Ok(vec![Given::Known(y)])
    }
}

/// Nodes that serve one node.
struct Part<'i, 'a, 'n> {
    importer: &'i mut Importer<'a>,
    name: &'n str,
}

impl<'a> Part<'_, 'a, '_> {
    fn node(
        &mut self,
        suffix: &str,
        operator: &str,
        inputs: Vec<Operand>,
        attributes: Vec<super::super::onnx::AttributeProto>,
    ) -> Result<Operand, NodeProblem> {
        let name = format!("{}/{suffix}", self.name);
        let inputs = inputs.into_iter().map(Given::Known).collect();
        let parts = (&mut self.importer.builder, &mut self.importer.external);
        ops::apply(parts, (operator, &name), inputs, attributes)
    }

    fn shaped(
        &mut self,
        suffix: &str,
        x: Operand,
        shape: &[usize],
    ) -> Result<Operand, NodeProblem> {
        self.node(suffix, "Reshape", vec![x, ops::compose::list(shape)], vec![])
    }

    fn cast(&mut self, suffix: &str, x: Operand, to: DataType) -> Result<Operand, NodeProblem> {
        self.node(suffix, "Cast", vec![x], vec![ops::compose::int("to", to as i64)])
    }

    /// Scaled queries, in rows for each head of keys, times keys.
    fn products(
        &mut self,
        q: &Operand,
        k: &Operand,
        scale: f64,
        rows: [usize; 4],
    ) -> Result<Operand, NodeProblem> {
        let (name, kind) = (format!("{}/scale", self.name), q.kind());
        let scale = self.importer.builder.constant(name, kind, Array::scalar(scale));
        let q = self.shaped("queries", q.clone(), &rows)?;
        let q = self.node("scaled", "Mul", vec![q, Operand::Float(kind, scale)], vec![])?;
        let perm = vec![ops::compose::ints("perm", &[0, 1, 3, 2])];
        let turned = self.node("turned", "Transpose", vec![k.clone()], perm)?;
        self.node("products", "MatMul", vec![q, turned], vec![])
    }

    /// What the graph that is an attribute makes of a tensor; the tensor where there is none.
    fn modified(
        &mut self,
        proto: &'a NodeProto,
        attribute: &'static str,
        x: Operand,
    ) -> Result<Operand, NodeProblem> {
        if !proto.attribute.iter().any(|given| given.name == attribute) {
            return Ok(x);
        }
        let body = Body::of_graph(Attributes::of(proto).graph(attribute)?);
        let (&[input], 1) = (&body.inputs[..], body.outputs.len()) else {
            let reason = format!(
                "has {} inputs and {} outputs, expected one of each",
                body.inputs.len(),
                body.outputs.len()
            );
            return Err(NodeProblem::attribute(attribute, reason));
        };
        let shape = self.importer.builder.shape_of(&x);
        let order = self.importer.order(&body)?;
        let prefix = format!("{}{attribute}/", self.importer.prefix(self.name));
        let opset = self.importer.scope().opset;
        let mut scope = Scope::new(&body, prefix, opset);
        scope.names.insert(input, Given::Known(x));
        let made = self.importer.body(&body, &order, scope, self.name)?;
        match made.into_iter().next() {
            Some(Given::Known(made)) if self.importer.builder.shape_of(&made) == shape => Ok(made),
            Some(Given::Known(made)) => {
                let found = self.importer.builder.shape_of(&made);
                let reason = format!("makes the shape {found:?} of {shape:?}");
                Err(NodeProblem::attribute(attribute, reason))
            }
            _ => Err(NodeProblem::Unknown),
        }
    }
}
