//! Transformers, as PyTorch's exporter writes them.
//!
//! ViT stands for operator set 17 and torch's own attention: `LayerNormalization`, one product for queries, keys
//! and values (taken apart by a transposition and three gathers), scaled twice by the root of the scale. GPT-2
//! stands for older exports: layer norms in nine nodes, its approximation of GELU in eight, a mask by `Where`.

use super::fill::Fill;
use super::model::{Conv, Model, Value, float, int, integers, ints};
use super::parts::{CLASSES, UNIT};
use crate::import::onnx::AttributeProto;

const WIDTH: usize = 768;
const HEADS: usize = 12;
const DEPTH: usize = 12;
/// Channels of a head.
const HEAD: usize = WIDTH / HEADS;
/// Tokens that GPT-2 reads.
const TOKENS: usize = 64;
const VOCABULARY: usize = 50_257;
/// Positions that GPT-2 knows.
const POSITIONS: usize = 1024;

/// Nodes of one module; every method returns the name of what it makes.
struct Module<'a> {
    model: &'a mut Model,
    path: String,
}

impl Module<'_> {
    fn of<'a>(model: &'a mut Model, path: &str) -> Module<'a> {
        Module { model, path: path.to_string() }
    }

    fn node(
        &mut self,
        op: &str,
        part: &str,
        inputs: &[&str],
        attributes: Vec<AttributeProto>,
    ) -> String {
        let name = format!("{}.{part}", self.path);
        let inputs = inputs.iter().map(|input| (*input).to_string()).collect();
        self.model.node(op, &name, inputs, attributes);
        name
    }

    fn integers(&mut self, part: &str, values: &[i64]) -> String {
        self.node("Constant", part, &[], vec![integers("value", &[values.len() as i64], values)])
    }

    /// One integer, without a dimension.
    fn index(&mut self, part: &str, value: usize) -> String {
        self.node("Constant", part, &[], vec![integers("value", &[], &[value as i64])])
    }

    fn number(&mut self, part: &str, value: f32) -> String {
        self.node("Constant", part, &[], vec![float("value_float", value)])
    }

    fn reshape(&mut self, part: &str, x: &str, shape: &[i64]) -> String {
        let shape = self.integers(&format!("{part}.shape"), shape);
        self.node("Reshape", part, &[x, &shape], vec![])
    }

    fn transpose(&mut self, part: &str, x: &str, perm: &[usize]) -> String {
        self.node("Transpose", part, &[x], vec![ints("perm", perm)])
    }

    fn parameter(&mut self, part: &str, dims: &[usize], fill: Fill) -> String {
        self.model.count(dims.iter().product(), 0);
        self.model.initializer(&format!("{}.{part}", self.path), dims.to_vec(), fill)
    }

    /// A matrix that makes values of that variance from such of variance 1, and its bias.
    fn weights(&mut self, dims: [usize; 2], inputs: usize, variance: f32) -> [String; 2] {
        let outputs = dims[0] * dims[1] / inputs;
        let std = (variance / inputs as f32).sqrt();
        let weight = self.parameter("weight", &dims, Fill::Normal { std });
        let bias = Fill::Normal { std: 0.1 * variance.sqrt() };
        [weight, self.parameter("bias", &[outputs], bias)]
    }

    /// Scale and shift of a layer norm.
    fn affine(&mut self) -> [String; 2] {
        let scale = self.parameter("weight", &[WIDTH], Fill::Constant(1.0));
        [scale, self.parameter("bias", &[WIDTH], Fill::Normal { std: 0.1 })]
    }
}

/// `x · Wᵀ + b` of rows, as a Gemm; `W` as PyTorch's linear layers have it.
fn linear(
    model: &mut Model,
    path: &str,
    x: &str,
    rows: usize,
    [from, to]: [usize; 2],
    variance: f32,
) -> String {
    let mut module = Module::of(model, path);
    let [weight, bias] = module.weights([to, from], from, variance);
    module.model.count(0, (rows * from * to) as u64);
    let attributes = vec![float("alpha", 1.0), float("beta", 1.0), int("transB", 1)];
    module.node("Gemm", "Gemm", &[x, &weight, &bias], attributes)
}

/// `x · W + b` over the last axis, in two nodes.
fn dense(
    model: &mut Model,
    path: &str,
    x: &str,
    rows: usize,
    [from, to]: [usize; 2],
    variance: f32,
) -> String {
    let mut module = Module::of(model, path);
    let [weight, bias] = module.weights([from, to], from, variance);
    module.model.count(0, (rows * from * to) as u64);
    let product = module.node("MatMul", "MatMul", &[x, &weight], vec![]);
    module.node("Add", "Add", &[&bias, &product], vec![])
}

/// The vision transformer with patches of 16x16 (Dosovitskiy et al. 2020), for square images.
pub fn vit_b_16(name: &str, side: usize) -> Model {
    let patches = (side / 16).pow(2);
    let n = patches + 1;
    let (mut model, image) = Model::new(name, [3, side, side]);
    model.needs_opset(17);
    let patch = Conv::of(WIDTH, [16, 16]).stride(16).pad(0);
    let projected = model.conv("conv_proj", &image, patch, UNIT);
    let mut module = Module::of(&mut model, "encoder");
    let x = module.reshape("patches", &projected.name, &[1, WIDTH as i64, patches as i64]);
    let x = module.transpose("tokens", &x, &[0, 2, 1]);
    let class = module.parameter("class_token", &[1, 1, WIDTH], Fill::Normal { std: 1.0 });
    let x = module.node("Concat", "Concat", &[&class, &x], vec![int("axis", 1)]);
    let positions = Fill::Normal { std: 0.3 };
    let positions = module.parameter("pos_embedding", &[1, n, WIDTH], positions);
    let mut x = module.node("Add", "Add", &[&x, &positions], vec![]);
    for layer in 0..DEPTH {
        let path = format!("encoder.layers.encoder_layer_{layer}");
        let y = norm(&mut model, &format!("{path}.ln_1"), &x);
        let y = self_attention(&mut model, &format!("{path}.self_attention"), &y, n);
        x = Module::of(&mut model, &path).node("Add", "Add", &[&y, &x], vec![]);
        let y = norm(&mut model, &format!("{path}.ln_2"), &x);
        let y = dense(&mut model, &format!("{path}.mlp.0"), &y, n, [WIDTH, 4 * WIDTH], UNIT);
        let y = gelu(&mut model, &format!("{path}.mlp.1"), &y);
        let y = dense(&mut model, &format!("{path}.mlp.3"), &y, n, [4 * WIDTH, WIDTH], 0.25);
        x = Module::of(&mut model, &path).node("Add", "Add_1", &[&x, &y], vec![]);
    }
    let x = norm(&mut model, "encoder.ln", &x);
    let mut module = Module::of(&mut model, "heads");
    let first = module.index("first", 0);
    let class = module.node("Gather", "class", &[&x, &first], vec![int("axis", 1)]);
    let last = linear(&mut model, "heads.head", &class, 1, [WIDTH, CLASSES], UNIT);
    model.finish(Value { name: last, shape: vec![CLASSES], mean: 0.0, variance: UNIT })
}

fn norm(model: &mut Model, path: &str, x: &str) -> String {
    let mut module = Module::of(model, path);
    let [scale, shift] = module.affine();
    let mut axis = int("axis", 0);
    axis.i = -1;
    let attributes = vec![axis, float("epsilon", 1e-6)];
    module.node("LayerNormalization", "LayerNormalization", &[x, &scale, &shift], attributes)
}

/// `nn.MultiheadAttention` over `[1, n, WIDTH]`, batch first.
fn self_attention(model: &mut Model, path: &str, x: &str, n: usize) -> String {
    let (tokens, width, heads, head) = (n as i64, WIDTH as i64, HEADS as i64, HEAD as i64);
    let x = Module::of(model, path).transpose("sequence", x, &[1, 0, 2]);
    let x = dense(model, &format!("{path}.in_proj"), &x, n, [WIDTH, 3 * WIDTH], UNIT);
    let mut module = Module::of(model, path);
    module.model.count(0, 2 * (n * n * WIDTH) as u64);
    let x = module.reshape("unflatten", &x, &[tokens, 1, 3, width]);
    let axes = module.integers("unsqueeze.axes", &[0]);
    let x = module.node("Unsqueeze", "unsqueeze", &[&x, &axes], vec![]);
    let x = module.transpose("parts", &x, &[3, 1, 2, 0, 4]);
    let axes = module.integers("squeeze.axes", &[3]);
    let x = module.node("Squeeze", "squeeze", &[&x, &axes], vec![]);
    let [q, k, v] = ["q", "k", "v"].map(|part| {
        let index = ["q", "k", "v"].iter().position(|other| *other == part).unwrap_or(0);
        let index = module.index(&format!("{part}.index"), index);
        let x = module.node("Gather", part, &[&x, &index], vec![int("axis", 0)]);
        let x = module.reshape(&format!("{part}.rows"), &x, &[tokens, heads, head]);
        let x = module.transpose(&format!("{part}.heads"), &x, &[1, 0, 2]);
        module.reshape(&format!("{part}.batch"), &x, &[1, heads, tokens, head])
    });
    let k = module.transpose("k.columns", &k, &[0, 1, 3, 2]);
    let root = module.number("scale", (HEAD as f32).powf(-0.25));
    let q = module.node("Mul", "q.scaled", &[&q, &root], vec![]);
    let k = module.node("Mul", "k.scaled", &[&k, &root], vec![]);
    let scores = module.node("MatMul", "scores", &[&q, &k], vec![]);
    let mut axis = int("axis", 0);
    axis.i = -1;
    let weights = module.node("Softmax", "Softmax", &[&scores], vec![axis]);
    let y = module.node("MatMul", "values", &[&weights, &v], vec![]);
    let y = module.transpose("rows", &y, &[2, 0, 1, 3]);
    let y = module.reshape("joined", &y, &[tokens, width]);
    let y = linear(model, &format!("{path}.out_proj"), &y, n, [WIDTH, WIDTH], 0.25);
    let mut module = Module::of(model, path);
    let y = module.reshape("sequence_out", &y, &[tokens, 1, width]);
    module.transpose("batch", &y, &[1, 0, 2])
}

fn gelu(model: &mut Model, path: &str, x: &str) -> String {
    let mut module = Module::of(model, path);
    let root = module.number("root", std::f32::consts::SQRT_2);
    let inner = module.node("Div", "Div", &[x, &root], vec![]);
    let inner = module.node("Erf", "Erf", &[&inner], vec![]);
    let one = module.number("one", 1.0);
    let gate = module.node("Add", "Add", &[&inner, &one], vec![]);
    let y = module.node("Mul", "Mul", &[x, &gate], vec![]);
    let half = module.number("half", 0.5);
    module.node("Mul", "Mul_1", &[&y, &half], vec![])
}

/// GPT-2 (Radford et al. 2019), the small one, on token ids.
pub fn gpt2(name: &str) -> Model {
    let (mut model, _) = Model::new(name, [1, 1, 1]);
    model.needs_opset(14);
    model.takes_integers("input_ids", &[1, TOKENS]);
    let mut module = Module::of(&mut model, "transformer");
    let ids = module.reshape("ids", "input_ids", &[-1, TOKENS as i64]);
    let table = Fill::Normal { std: (1.0 / WIDTH as f32).sqrt() };
    let table = module.parameter("wte.weight", &[VOCABULARY, WIDTH], table);
    let words = module.node("Gather", "wte", &[&table, &ids], vec![]);
    let positions = Fill::Normal { std: 0.3 * (1.0 / WIDTH as f32).sqrt() };
    let positions = module.parameter("wpe.weight", &[POSITIONS, WIDTH], positions);
    let counted: Vec<i64> = (0..TOKENS as i64).collect();
    let counted = module.integers("positions", &counted);
    let counted = module.reshape("position_ids", &counted, &[1, TOKENS as i64]);
    let positions = module.node("Gather", "wpe", &[&positions, &counted], vec![]);
    let mut x = module.node("Add", "Add", &[&words, &positions], vec![]);
    let triangle =
        module.model.initializer("transformer.bias", vec![TOKENS, TOKENS], Fill::LowerTriangle);
    let mask = module.node("Cast", "mask", &[&triangle], vec![int("to", 9)]);
    let mask = module.reshape("mask.batch", &mask, &[1, 1, TOKENS as i64, TOKENS as i64]);
    for layer in 0..DEPTH {
        let path = format!("transformer.h.{layer}");
        let y = decomposed_norm(&mut model, &format!("{path}.ln_1"), &x);
        let y = causal_attention(&mut model, &format!("{path}.attn"), &y, &mask);
        x = Module::of(&mut model, &path).node("Add", "Add", &[&y, &x], vec![]);
        let y = decomposed_norm(&mut model, &format!("{path}.ln_2"), &x);
        let wide = [WIDTH, 4 * WIDTH];
        let y = flat_linear(&mut model, &format!("{path}.mlp.c_fc"), &y, wide, UNIT);
        let y = new_gelu(&mut model, &format!("{path}.mlp.act"), &y);
        let narrow = [4 * WIDTH, WIDTH];
        let y = flat_linear(&mut model, &format!("{path}.mlp.c_proj"), &y, narrow, 0.001);
        x = Module::of(&mut model, &path).node("Add", "Add_1", &[&x, &y], vec![]);
    }
    let x = decomposed_norm(&mut model, "transformer.ln_f", &x);
    let mut module = Module::of(&mut model, "lm_head");
    module.model.count(0, (TOKENS * WIDTH * VOCABULARY) as u64);
    let matrix = module.transpose("weight", &table, &[1, 0]);
    let last = module.node("MatMul", "MatMul", &[&x, &matrix], vec![]);
    let shape = vec![TOKENS, VOCABULARY];
    model.finish(Value { name: last, shape, mean: 0.0, variance: UNIT })
}

fn decomposed_norm(model: &mut Model, path: &str, x: &str) -> String {
    let mut module = Module::of(model, path);
    let last = || {
        let mut axes = ints("axes", &[0]);
        axes.ints = vec![-1];
        vec![axes]
    };
    let mean = module.node("ReduceMean", "ReduceMean", &[x], last());
    let difference = module.node("Sub", "Sub", &[x, &mean], vec![]);
    let two = module.number("two", 2.0);
    let square = module.node("Pow", "Pow", &[&difference, &two], vec![]);
    let variance = module.node("ReduceMean", "ReduceMean_1", &[&square], last());
    let epsilon = module.number("epsilon", 1e-5);
    let sum = module.node("Add", "Add", &[&variance, &epsilon], vec![]);
    let root = module.node("Sqrt", "Sqrt", &[&sum], vec![]);
    let normal = module.node("Div", "Div", &[&difference, &root], vec![]);
    let [scale, shift] = module.affine();
    let scaled = module.node("Mul", "Mul", &[&normal, &scale], vec![]);
    module.node("Add", "Add_1", &[&scaled, &shift], vec![])
}

/// A `Conv1D` of GPT-2: a Gemm over all tokens, its weights not transposed.
fn flat_linear(
    model: &mut Model,
    path: &str,
    x: &str,
    [from, to]: [usize; 2],
    variance: f32,
) -> String {
    let mut module = Module::of(model, path);
    module.model.count(0, (TOKENS * from * to) as u64);
    let rows = module.reshape("rows", x, &[-1, from as i64]);
    let [weight, bias] = module.weights([from, to], from, variance);
    let attributes = vec![float("alpha", 1.0), float("beta", 1.0)];
    let y = module.node("Gemm", "Gemm", &[&rows, &weight, &bias], attributes);
    module.reshape("tokens", &y, &[1, TOKENS as i64, to as i64])
}

fn causal_attention(model: &mut Model, path: &str, x: &str, mask: &str) -> String {
    let split = [1, TOKENS as i64, HEADS as i64, HEAD as i64];
    let x = flat_linear(model, &format!("{path}.c_attn"), x, [WIDTH, 3 * WIDTH], UNIT);
    let mut module = Module::of(model, path);
    module.model.count(0, 2 * (TOKENS * TOKENS * WIDTH) as u64);
    let sizes = module.integers("sizes", &[WIDTH as i64; 3]);
    let [q, k, v] = ["q", "k", "v"].map(|part| format!("{path}.{part}"));
    module.model.split(&format!("{path}.Split"), &[&x, &sizes], &[&q, &k, &v], 2);
    let mut heads = |part: &str, x: &str, perm: &[usize]| {
        let x = module.reshape(&format!("{part}.split"), x, &split);
        module.transpose(&format!("{part}.heads"), &x, perm)
    };
    let q = heads("q", &q, &[0, 2, 1, 3]);
    let k = heads("k", &k, &[0, 2, 3, 1]);
    let v = heads("v", &v, &[0, 2, 1, 3]);
    let scores = module.node("MatMul", "scores", &[&q, &k], vec![]);
    let root = module.number("root", (HEAD as f32).sqrt());
    let scores = module.node("Div", "Div", &[&scores, &root], vec![]);
    let lowest = module.number("lowest", f32::MIN);
    let scores = module.node("Where", "Where", &[mask, &scores, &lowest], vec![]);
    let mut axis = int("axis", 0);
    axis.i = -1;
    let weights = module.node("Softmax", "Softmax", &[&scores], vec![axis]);
    let y = module.node("MatMul", "values", &[&weights, &v], vec![]);
    let y = module.transpose("rows", &y, &[0, 2, 1, 3]);
    let y = module.reshape("joined", &y, &[1, TOKENS as i64, WIDTH as i64]);
    flat_linear(model, &format!("{path}.c_proj"), &y, [WIDTH, WIDTH], 0.001)
}

/// The approximation by tanh, as `transformers` has it.
fn new_gelu(model: &mut Model, path: &str, x: &str) -> String {
    let mut module = Module::of(model, path);
    let half = module.number("half", 0.5);
    let halved = module.node("Mul", "Mul", &[x, &half], vec![]);
    let three = module.number("three", 3.0);
    let cube = module.node("Pow", "Pow", &[x, &three], vec![]);
    let factor = module.number("factor", 0.044_715);
    let cube = module.node("Mul", "Mul_1", &[&cube, &factor], vec![]);
    let sum = module.node("Add", "Add", &[x, &cube], vec![]);
    let root = module.number("root", 0.797_884_6);
    let inner = module.node("Mul", "Mul_2", &[&sum, &root], vec![]);
    let inner = module.node("Tanh", "Tanh", &[&inner], vec![]);
    let one = module.number("one", 1.0);
    let gate = module.node("Add", "Add_1", &[&inner, &one], vec![]);
    module.node("Mul", "Mul_3", &[&halved, &gate], vec![])
}
