//! The functions of the GPU's kernels, by the names that they have in a compiled module.
//!
//! A kernel takes one record by value; the record is declared twice, in its source in
//! `kernels/cuda/` and next to the operator that fills it in `runtime/ops/cuda/`.

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
    Conv128x128Bf16 = c"eyelet_conv_128x128_bf16",
    Conv128x128F16 = c"eyelet_conv_128x128_f16",
    Conv128x128F32 = c"eyelet_conv_128x128_f32",
    Conv128x64Bf16 = c"eyelet_conv_128x64_bf16",
    Conv128x64F16 = c"eyelet_conv_128x64_f16",
    Conv128x64F32 = c"eyelet_conv_128x64_f32",
    Conv32x32Bf16 = c"eyelet_conv_32x32_bf16",
    Conv32x32F16 = c"eyelet_conv_32x32_f16",
    Conv32x32F32 = c"eyelet_conv_32x32_f32",
    Conv32x32OnesBf16 = c"eyelet_conv_32x32_ones_bf16",
    Conv32x32OnesF16 = c"eyelet_conv_32x32_ones_f16",
    Conv32x32OnesF32 = c"eyelet_conv_32x32_ones_f32",
    Conv64x32Bf16 = c"eyelet_conv_64x32_bf16",
    Conv64x32F16 = c"eyelet_conv_64x32_f16",
    Conv64x32F32 = c"eyelet_conv_64x32_f32",
    Conv64x32OnesBf16 = c"eyelet_conv_64x32_ones_bf16",
    Conv64x32OnesF16 = c"eyelet_conv_64x32_ones_f16",
    Conv64x32OnesF32 = c"eyelet_conv_64x32_ones_f32",
    Conv64x64Bf16 = c"eyelet_conv_64x64_bf16",
    Conv64x64F16 = c"eyelet_conv_64x64_f16",
    Conv64x64F32 = c"eyelet_conv_64x64_f32",
    Conv64x64OnesBf16 = c"eyelet_conv_64x64_ones_bf16",
    Conv64x64OnesF16 = c"eyelet_conv_64x64_ones_f16",
    Conv64x64OnesF32 = c"eyelet_conv_64x64_ones_f32",
    ConvSum = c"eyelet_conv_sum",
    Copy = c"eyelet_copy",
    Depthwise = c"eyelet_depthwise",
    Depthwise3s1 = c"eyelet_depthwise_3s1",
    Depthwise3s2 = c"eyelet_depthwise_3s2",
    Depthwise5s1 = c"eyelet_depthwise_5s1",
    Depthwise5s2 = c"eyelet_depthwise_5s2",
    Fill = c"eyelet_fill",
    Gather = c"eyelet_gather",
    Gemv1Bf16 = c"eyelet_gemv_1_bf16",
    Gemv1F16 = c"eyelet_gemv_1_f16",
    Gemv1F32 = c"eyelet_gemv_1_f32",
    Gemv4Bf16 = c"eyelet_gemv_4_bf16",
    Gemv4F16 = c"eyelet_gemv_4_f16",
    Gemv4F32 = c"eyelet_gemv_4_f32",
    Gemv8Bf16 = c"eyelet_gemv_8_bf16",
    Gemv8F16 = c"eyelet_gemv_8_f16",
    Gemv8F32 = c"eyelet_gemv_8_f32",
    LayerNorm = c"eyelet_layernorm",
    Lrn = c"eyelet_lrn",
    Map = c"eyelet_map",
    Matmul32x32Columns = c"eyelet_matmul_32x32_columns",
    Matmul32x32Ones = c"eyelet_matmul_32x32_ones",
    Matmul32x32Rows = c"eyelet_matmul_32x32_rows",
    Matmul64x64Columns = c"eyelet_matmul_64x64_columns",
    Matmul64x64Ones = c"eyelet_matmul_64x64_ones",
    Matmul64x64Rows = c"eyelet_matmul_64x64_rows",
    Mean = c"eyelet_mean",
    Pool = c"eyelet_pool",
    Softmax = c"eyelet_softmax",
    Transpose = c"eyelet_transpose",
    WinogradInput2 = c"eyelet_winograd_input_2",
    WinogradInput4 = c"eyelet_winograd_input_4",
    WinogradOutput2 = c"eyelet_winograd_output_2",
    WinogradOutput4 = c"eyelet_winograd_output_4",
}
