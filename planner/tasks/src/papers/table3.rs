//! RT-Swap's Table III: memory footprints and computing times.

/// A network at three resolutions: 256, 416, 608.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    pub name: &'static str,
    pub memory_gb: [f64; 3],
    pub swappable_gb: [f64; 3],
    pub compute_ms: [f64; 3],
}

/// The GPU's memory.
pub const GPU_GB: f64 = 24.0;

pub const RESOLUTIONS: [u32; 3] = [256, 416, 608];

pub const NETWORKS: [Network; 4] = [
    Network {
        name: "ResNet",
        memory_gb: [1.4, 2.4, 3.8],
        swappable_gb: [0.7, 1.4, 2.7],
        compute_ms: [29.0, 36.0, 48.0],
    },
    Network {
        name: "YOLOv3",
        memory_gb: [2.3, 3.6, 6.2],
        swappable_gb: [1.1, 2.6, 5.2],
        compute_ms: [48.0, 51.0, 63.0],
    },
    Network {
        name: "DenseNet",
        memory_gb: [1.0, 1.6, 2.7],
        swappable_gb: [0.4, 0.9, 1.8],
        compute_ms: [31.0, 34.0, 42.0],
    },
    Network {
        name: "ResNext",
        memory_gb: [1.6, 3.2, 5.7],
        swappable_gb: [1.0, 2.2, 4.5],
        compute_ms: [41.0, 45.0, 63.0],
    },
];
