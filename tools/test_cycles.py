"""Tests of cycles.py, on crates that are written here."""
import tempfile
import unittest
from pathlib import Path

import cycles


def found(files):
    """The cycles of a crate with these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return cycles.circles(cycles.Crate(Path(folder) / "lib.rs").edges())


class Cycles(unittest.TestCase):
    def test_one_way_is_no_cycle(self):
        self.assertEqual(found({"lib.rs": "mod a; mod b;", "a.rs": "use crate::b::B;", "b.rs": "pub struct B;"}), [])

    def test_paths_of_every_kind(self):
        for path in "use crate::a::A;", "use super::a::{A, C};", "fn f() { crate::a::g() }", "use crate::{a::A as X};":
            files = {"lib.rs": "mod a; mod b;", "a.rs": "use crate::b::B;", "b.rs": path}
            self.assertEqual(found(files), [["a", "b"]], path)

    def test_what_a_parent_exports_again(self):
        files = {"lib.rs": "mod a; mod b; use a::A;", "a.rs": "use crate::b::B;", "b.rs": "use crate::A;"}
        self.assertEqual(found(files), [["a", "b"]])

    def test_further_inside(self):
        files = {"lib.rs": "mod a;", "a/mod.rs": "mod x; mod y;", "a/x.rs": "use super::y::Y;", "a/y.rs": "use super::x::X;"}
        self.assertEqual(found(files), [["a::x", "a::y"]])

    def test_tests_comments_and_texts_do_not_count(self):
        uses = ('// use crate::a::A;\nconst T: &str = "crate::a::A";\n#[cfg(test)]\nmod tests { use crate::a::A; }\n'
                "#[cfg(test)]\nuse crate::a::A;\n")
        self.assertEqual(found({"lib.rs": "mod a; mod b;", "a.rs": "use crate::b::B;", "b.rs": uses}), [])


if __name__ == "__main__":
    unittest.main()
