//! Pictures as inputs: the same values as from a file, classes by name, folders, mistakes.

use crate::common::command::{eyelet_in, folder};
use eyelet_planner::npy;
use image::{Rgb, RgbImage};
use std::fs;
use std::path::Path;

/// squeezenet1_1 for portable kernels in 4 MiB, two pictures, and labels.
fn made(folder: &Path) {
    eyelet_in(folder, &["zoo", "squeezenet1_1"]).text();
    let plan = ["plan", "squeezenet1_1.onnx", "--budget", "4MiB", "--effort", "fast"];
    eyelet_in(folder, &plan).text();
    fs::create_dir(folder.join("photos")).unwrap();
    // Of the input's size, so that nothing is resized.
    let mottled = RgbImage::from_fn(224, 224, |x, y| {
        Rgb([(x * 7 + y) as u8, (x ^ y) as u8, (y * 3).wrapping_sub(x) as u8])
    });
    mottled.save(folder.join("photos/mottled.png")).unwrap();
    RgbImage::from_pixel(300, 400, Rgb([200, 30, 30])).save(folder.join("photos/red.jpg")).unwrap();
    let labels: String = (0..1000).map(|class| format!("label {class}\n")).collect();
    fs::write(folder.join("labels.txt"), labels).unwrap();
    let planes = (0..3).flat_map(|c| mottled.pixels().map(move |pixel| f32::from(pixel.0[c])));
    npy::write(folder.join("mottled.npy"), &[1, 3, 224, 224], &planes.collect::<Vec<_>>()).unwrap();
}

#[test]
fn pictures_are_inputs() {
    let folder = folder();
    let folder = folder.path();
    made(folder);
    let run = |args: &[&str]| eyelet_in(folder, &[&["run", "squeezenet1_1.pack"], args].concat());
    let from_file = run(&["--input", "mottled.npy", "--json"]).json();
    let picture = ["--image", "photos/mottled.png", "--preprocess", "raw"];
    let labelled = [&picture[..], &["--labels", "labels.txt", "--top", "3", "--json"]].concat();
    let seen = run(&labelled).json();
    assert_eq!(seen["output_digest"], from_file["output_digest"]);
    let classes = seen["pictures"][0]["classes"].as_array().unwrap();
    assert_eq!(classes.len(), 3);
    for class in classes {
        let label = format!("label {}", class["class"]);
        assert_eq!(class["label"], label);
    }
    let text = run(&picture).text();
    assert!(text.contains("photos/mottled.png\n") && text.contains(" %  class "), "{text}");

    let all = run(&["--dir", "photos", "--csv", "all.csv", "--top", "2", "--json"]).json();
    assert_eq!((&all["runs"], all["pictures"].as_array().unwrap().len()), (&2.into(), 2));
    let table = fs::read_to_string(folder.join("all.csv")).unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!((lines[0], lines.len()), ("file,rank,class,label,probability", 5));
    assert!(lines[3].starts_with("photos/red.jpg,1,"), "{table}");

    // One that cannot be read does not keep the others from their table.
    fs::write(folder.join("photos/broken.png"), "no picture").unwrap();
    let bad = ["1 of 3 pictures could not be read, the first", "broken.png"];
    let done = run(&["--dir", "photos", "--csv", "rest.csv", "--top", "2"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(bad.iter().all(|text| done.err.contains(text)), "{}", done.err);
    assert!(done.out.contains("photos/red.jpg") && done.out.contains("not read: "), "{}", done.out);
    assert_eq!(fs::read_to_string(folder.join("rest.csv")).unwrap(), table);
    fs::create_dir(folder.join("bad")).unwrap();
    fs::rename(folder.join("photos/broken.png"), folder.join("bad/broken.png")).unwrap();
    run(&["--dir", "bad"]).fails(&["1 of 1 pictures could not be read", "broken.png"]);

    fs::write(folder.join("few.txt"), "cat\ndog\n").unwrap();
    run(&["--image", "photos/red.jpg", "--labels", "few.txt"])
        .fails(&["few.txt has 2 labels, the network's output 1000 classes"]);
    run(&["--image", "labels.txt"]).fails(&["cannot decode labels.txt"]);
    RgbImage::new(20_000, 1).save(folder.join("long.png")).unwrap();
    run(&["--image", "long.png"]).fails(&[
        "long.png has 20000 x 1 pixels",
        "224 x 224",
        "5120000 x 256",
        "cut it",
    ]);
    fs::remove_file(folder.join("long.png")).unwrap();
    run(&["--dir", "."]).fails(&["has no PNG or JPEG file"]);
    run(&["--image", "photos/red.jpg", "--input", "mottled.npy"]).misused(&["cannot be used with"]);
    run(&["--dir", "photos", "--csv", "labels.txt", "--labels", "labels.txt"])
        .fails(&["--csv", "labels.txt"]);
}
