"""Tests of floors.py, on a page that is written here."""
import unittest

import floors

PAGE = """
| room | contents | may use |
|---|---|---|
| `runtime/sys` | the system | nothing |
| `runtime/pack` | records | `sys` |
| `kernels/` | sources | `pack` |
| `runtime/set` | sets | all above |
| `planner/model` | the model | the crate `eyelet` |
| `planner/sets` | sets | `runtime/set` |

The search (`planner/model/src/search`) has rooms in this order, and each uses only those before it:
`place`, `improve`.
"""


def edges(*pairs):
    return {pair: ["lib.rs:1"] for pair in pairs}


class Floors(unittest.TestCase):
    def test_modules_of_the_library(self):
        fine = edges(("pack", "sys"), ("kernels", "pack"), ("set", "sys"), ("set", "kernels"), ("set::a", "set::b"))
        self.assertEqual(list(floors.library(PAGE, fine)), [])
        for pair in ("sys", "pack"), ("kernels", "sys"), ("kernels", "set"), ("other", "sys"):
            self.assertEqual(len(list(floors.library(PAGE, edges(pair)))), 1, pair)

    def test_modules_of_a_folder(self):
        def found(*pairs):
            return list(floors.folders(PAGE, lambda crate: {"planner/model": edges(*pairs)}[crate]))
        self.assertEqual(found(("search::improve", "search::place"), ("search", "graph")), [])
        for pair in ("search::place", "search::improve"), ("search::place", "search::other"):
            self.assertEqual(len(found(pair)), 1, pair)

    def test_crates(self):
        fine = {"": set(), "planner/model": {""}, "planner/sets": {""}}
        self.assertEqual(list(floors.crates(PAGE, fine)), [])
        for folder, need in ("planner/model", "planner/sets"), ("planner/sets", "planner/model"):
            self.assertEqual(len(list(floors.crates(PAGE, {folder: {need}}))), 1, folder)


if __name__ == "__main__":
    unittest.main()
