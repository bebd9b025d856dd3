//! RT-Swap's Table II: what chunks of 2 MB for each memory object waste.

/// A network's memory objects, at resolution 416.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objects {
    pub name: &'static str,
    /// Objects below and from 2 MB.
    pub small: u32,
    pub large: u32,
    pub total_gb: f64,
    /// Published: memory with a chunk for each object, and with one range for all.
    pub object_level_gb: f64,
    pub range_gb: f64,
}

pub const OBJECTS: [Objects; 4] = [
    Objects {
        name: "ResNet",
        small: 1009,
        large: 312,
        total_gb: 1.4,
        object_level_gb: 3.5,
        range_gb: 1.4,
    },
    Objects {
        name: "YOLOv3",
        small: 372,
        large: 282,
        total_gb: 2.6,
        object_level_gb: 3.5,
        range_gb: 2.601,
    },
    Objects {
        name: "DenseNet",
        small: 1689,
        large: 129,
        total_gb: 0.9,
        object_level_gb: 4.0,
        range_gb: 0.901,
    },
    Objects {
        name: "ResNext",
        small: 962,
        large: 359,
        total_gb: 2.2,
        object_level_gb: 4.2,
        range_gb: 2.2,
    },
];

/// Memory at object level, bounds: each small object takes one chunk, each large one wastes less than one; what the small
/// ones hold is between nothing and their chunks.
pub fn object_level_gb(objects: &Objects) -> (f64, f64) {
    let chunk_gb = 0.002;
    let small = f64::from(objects.small) * chunk_gb;
    let least = (objects.total_gb).max(small + f64::from(objects.large) * chunk_gb);
    let most = small + objects.total_gb + f64::from(objects.large) * chunk_gb;
    (least, most)
}

/// Waste with one range of uniform chunks: below one chunk.
pub fn range_waste_gb(total_gb: f64, chunk_gb: f64) -> f64 {
    (total_gb / chunk_gb).ceil() * chunk_gb - total_gb
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_memory_lies_within_the_bounds() {
        for objects in &OBJECTS {
            let (least, most) = object_level_gb(objects);
            let published = objects.object_level_gb;
            assert!(
                (least..=most).contains(&published),
                "{}: {least} {published} {most}",
                objects.name
            );
            assert!(range_waste_gb(objects.total_gb, 0.002) < 0.002);
        }
    }
}
