//! The functions of the GPU's kernels, by the names that they have in a compiled module.
//!
//! A kernel takes one record by value; the record is declared twice, in its source in `kernels/cuda/` and beside
//! the operator that fills it in `runtime/ops/cuda/`.

/// Declares the functions.
macro_rules! functions {
    ($($name:ident = $symbol:literal,)*) => {
        /// A kernel on the GPU.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        #[allow(missing_docs)]
        pub enum Function {
            $($name,)*
        }

        impl Function {
            /// All functions, in the order of their codes.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name in a module, with a final zero byte.
            pub const fn symbol(self) -> &'static core::ffi::CStr {
                match self {
                    $(Self::$name => $symbol,)*
                }
            }
        }
    };
}

functions! {
    Binary = c"eyelet_binary",
    Copy = c"eyelet_copy",
    Depthwise = c"eyelet_depthwise",
    Depthwise3s1 = c"eyelet_depthwise_3s1",
    Depthwise3s2 = c"eyelet_depthwise_3s2",
    Depthwise5s1 = c"eyelet_depthwise_5s1",
    Depthwise5s2 = c"eyelet_depthwise_5s2",
    Fill = c"eyelet_fill",
    Gather = c"eyelet_gather",
    LayerNorm = c"eyelet_layernorm",
    Lrn = c"eyelet_lrn",
    Map = c"eyelet_map",
    Mean = c"eyelet_mean",
    Pool = c"eyelet_pool",
    Softmax = c"eyelet_softmax",
    Transpose = c"eyelet_transpose",
}
