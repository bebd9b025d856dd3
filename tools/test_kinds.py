"""Tests of kinds.py."""
import unittest

import kinds


class Kinds(unittest.TestCase):
    def test_kinds_of_the_format(self):
        self.assertEqual(kinds.kinds("pub enum OpKind {\n    /// Two.\n    Conv = 1,\n    Pool = 2,\n}\n"), ["Conv", "Pool"])

    def test_what_names_a_kind(self):
        for text in "f(OpKind::Pool)", "use super::OpKind::{Conv, Pool}; f(Pool)", "use OpKind::*; [Pool]":
            self.assertEqual(kinds.naming("Pool", {"a.rs": text}), ["a.rs"], text)
        for text in "f(OpKind::Pooled)", "f(Class::Pool)", "use OpKind::*; f(Class::Pool)", "use OpKind::Conv; f(Conv)":
            self.assertEqual(kinds.naming("Pool", {"a.rs": text}), [], text)

    def test_neither_comments_nor_tests(self):
        text = "// OpKind::Pool\nfn f() {}\n#[cfg(test)]\nmod tests {\n    OpKind::Pool\n}\n"
        self.assertEqual(kinds.naming("Pool", {"a.rs": kinds.code(text)}), [])
        for path in "runtime/ops/tests.rs", "planner/tests/common/mod.rs", "a/testing/mod.rs", "runtime/ops/extremes.rs":
            self.assertTrue(kinds.TEST.search(path), path)
        for path in "runtime/ops/conv.rs", "planner/plan/src/profile/cost/class.rs":
            self.assertFalse(kinds.TEST.search(path), path)

    def test_the_definition_has_every_kind(self):
        self.assertEqual(kinds.naming("Pool", {kinds.DEFINITION: ""}), [kinds.DEFINITION])


if __name__ == "__main__":
    unittest.main()
