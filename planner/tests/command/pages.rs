//! Commands of pages, as they stand there.

use crate::common::command::{eyelet_in, folder};

/// Lines of a page: its blocks of code that begin with one.
fn block(page: &'static str, start: &str) -> &'static str {
    let blocks = page.split("```").skip(1).step_by(2);
    let body = |block: &'static str| block.split_once('\n').expect("it has lines").1;
    blocks.map(body).find(|block| block.starts_with(start)).expect("the page has it")
}

/// What can be typed in the first block of the page, and a set as the page has it, which the program below agrees with.
#[test]
fn the_page_on_task_sets_judges() {
    const PAGE: &str = include_str!("../../../docs/real-time.md");
    let folder = folder();
    let words = |line: &'static str| -> Vec<&'static str> {
        let typed = line.split('#').next().unwrap_or_default();
        typed.split_whitespace().skip(1).collect()
    };
    let first = block(PAGE, "eyelet taskgen");
    for line in first.lines().filter(|line| line.contains(" set.toml")) {
        eyelet_in(folder.path(), &words(line)).text();
    }
    let set = block(PAGE, "memory = ");
    std::fs::write(folder.path().join("page.toml"), set).unwrap();
    let report = eyelet_in(folder.path(), &["schedule", "page.toml", "--json"]).out;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert!(report["error"].is_null(), "{report}");
    let declared = eyelet_tasks::set::file::parse("page.toml".as_ref(), set, &mut |_, _| {
        Err("no task has a file".to_owned())
    });
    let declared = declared.unwrap();
    assert!(declared.chunk_sizes.iter().all(|bytes| bytes.is_multiple_of(4096)));
    let program = format!(
        "SharedArena::new({} << 20, {} << 20)",
        declared.set.memory_bytes >> 20,
        declared.chunk_sizes[0] >> 20
    );
    assert!(
        PAGE.contains(&program) && declared.set.memory_bytes.is_multiple_of(1 << 20),
        "{program}"
    );
}

/// Keys that stand in backticks in an error: those that a table may have.
fn keys(text: &str) -> Vec<String> {
    let error = eyelet_tasks::set::file::parse("page.toml".as_ref(), text, &mut |_, _| {
        Err("no task has a file".to_owned())
    });
    let error = error.unwrap_err().to_string();
    let (_, expected) = error.split_once("expected one of ").unwrap_or_else(|| panic!("{error}"));
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Every key that a set may have stands on the page, with its default where that is more than one value.
#[test]
fn the_page_on_task_sets_has_every_key() {
    const PAGE: &str = include_str!("../../../docs/real-time.md");
    let section = PAGE.split("\n## ").find(|section| section.starts_with("A set\n")).unwrap();
    let head = "memory = \"1MB\"\n[storage]\nread = \"1MB/s\"\n";
    let of_file = keys("zzz = 1\n");
    let of_storage = keys("memory = \"1MB\"\n[storage]\nzzz = 1\n");
    let of_task = keys(&format!("{head}[[task]]\nzzz = 1\n"));
    for (table, keys) in [("", of_file), ("[storage]", of_storage), ("[[task]]", of_task)] {
        assert!(keys.len() > 3 && section.contains(table), "{keys:?}");
        for key in keys {
            let named = [format!("\n{key} = "), format!("\n# {key} = "), format!("`{key}")];
            let named = named.iter().any(|text| section.contains(text));
            let of_table = section.contains(&format!("\n[{key}]"))
                || section.contains(&format!("\n[[{key}]]"));
            assert!(named || of_table, "the key {key} of {table:?} is not on the page");
        }
    }
    let task = "[[task]]\nname = \"a\"\nperiod = \"1s\"\ncompute = \"1ms\"\nbytes = \"1kB\"\n";
    let declared = eyelet_tasks::set::file::parse(
        "page.toml".as_ref(),
        &format!("{head}{task}"),
        &mut |_, _| Err("no task has a file".to_owned()),
    );
    let words = |bytes: u64| match bytes >> 20 {
        0 => format!("{}KiB", bytes >> 10),
        mib => format!("{mib}MiB"),
    };
    let sizes: Vec<String> = declared.unwrap().chunk_sizes.into_iter().map(words).collect();
    let sizes = sizes.join(", ");
    assert!(section.contains(&sizes), "the page lacks the chunk sizes of the default: {sizes}");
}

/// The command of a page that begins so, without what runs it.
fn of_page(page: &'static str, start: &str) -> Vec<&'static str> {
    let line = page.lines().find(|line| line.starts_with(start)).expect("the page has it");
    line.split_whitespace().skip(1).collect()
}

/// `tests/pytorch.sh` runs all three, where there is an emulator.
#[test]
fn the_page_on_pytorch_plans_and_runs() {
    const PAGE: &str = include_str!("../../../docs/pytorch.md");
    let folder = folder();
    eyelet_in(folder.path(), &["zoo", "squeezenet1_1", "-o", "squeezenet1_1.onnx"]).text();
    let plan = of_page(PAGE, "eyelet plan ");
    let text = eyelet_in(folder.path(), &plan).text();
    assert!(text.contains("for neon"), "{text}");
    let run = of_page(PAGE, "tools/emulate.sh ");
    if !cfg!(target_arch = "aarch64") {
        eyelet_in(folder.path(), &run).fails(&["squeezenet1_1.pack", "instruction set neon"]);
    }
    // For this machine, which can run it.
    let board = plan.iter().position(|word| *word == "--board").expect("it is for a board");
    let here = [&plan[..board], &plan[board + 2..], &["--effort", "fast"]].concat();
    eyelet_in(folder.path(), &here).text();
    let text = eyelet_in(folder.path(), &run).text();
    assert!(text.contains("digest"), "{text}");
}
