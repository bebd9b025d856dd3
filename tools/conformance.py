#!/usr/bin/env python3
"""Runs the ONNX project's own tests: a model, inputs and expected outputs each, as PyPI's `onnx` has them.

    tools/conformance.py                       all tests, compared with the counts of tools/conformance.json
    tools/conformance.py --only Resize --list  the tests of one operator, a line each
    tools/conformance.py --quick               the tests of every eighth operator
    tools/conformance.py --write               all tests; writes the counts, docs/operators.md and
                                               lab/results/operators.md

A test is planned, run through the page cache, and compared: integers exactly, floats by the test's own tolerances.
A test passes, is refused (an error says why), is wrong, or crashes. An input that must be constant is fixed when the
model is planned; such tests are counted apart. Exit code 1 if fewer tests of an operator pass than is recorded, or if
any is wrong or crashes; 0 (with a line that says so) where onnx is missing.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import warnings

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
    from onnx.backend.test import loader, runner
except ImportError:
    print("onnx is not installed: its tests are not run")
    sys.exit(0)

ROOT = pathlib.Path(__file__).resolve().parent.parent
COUNTS = ROOT / "tools" / "conformance.json"
# What users read, and the results of all tests.
LIST = ROOT / "docs" / "operators.md"
PAGE = ROOT / "lab" / "results" / "operators.md"
OUTCOMES = ["passed", "fixed", "refused", "wrong", "crashed"]
SUITES = ["node", "simple", "pytorch-operator", "pytorch-converted", "light"]
# Of these every eighth is in a quick run.
EVERY = 8
SECONDS = 600
# How often inputs are fixed before a test counts as refused.
ATTEMPTS = 8
# Tests whose expected numbers are rounded by more than their own tolerances, and the absolute tolerance that they need.
INEXACT = {
    # A Fourier transform in single precision: up to 4e-7 where the exact result is 0.
    "test_dft_inverse": 1e-5, "test_dft_inverse_opset19": 1e-5,
}
# Reasons of one operator that the page has, and characters of each.
REASONS, LONGEST = 2, 160

Case = collections.namedtuple("Case", "suite operator name model data rtol atol floats")
Result = collections.namedtuple("Result", "case outcome reason")


def arrays(values):
    """Tensors as arrays; None for what is none: a sequence, an absent optional, strings."""
    found = []
    for value in values:
        if isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        if isinstance(value, (list, tuple, dict)) or value is None:
            found.append(None)
            continue
        value = np.asarray(value)
        found.append(None if value.dtype.kind in "OUSc" else value)
    return found


def are_floats(values):
    return all(value is not None and value.dtype.kind == "f" for value in values)


def case_of(suite, operator, test, model, sets):
    data = [(arrays(inputs), arrays(outputs)) for inputs, outputs in sets]
    floats = all(are_floats(inputs) and are_floats(outputs) for inputs, outputs in data)
    return Case(suite, operator, test.name, model, data, test.rtol, test.atol, floats)


def node_cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tests = loader.load_node_model_tests()
    operators = {test.name: test.model.graph.node[0].op_type for test in tests}
    for test in tests:
        # What a function expands to belongs to the function.
        whole = re.sub(r"_expanded(_ver\d+)?$", "", test.name)
        operator = operators.get(whole, operators[test.name])
        yield case_of("node", operator, test, test.model, test.data_sets)


def tensor_of(path, kind):
    if not kind.HasField("tensor_type"):
        return None
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return tensor


def stored_cases(suite):
    """Tests that are files: a model and folders of inputs and outputs."""
    for test in sorted(loader.load_model_tests(kind=suite), key=lambda test: test.name):
        model = onnx.load(pathlib.Path(test.model_dir) / "model.onnx")
        sets = []
        for folder in sorted(pathlib.Path(test.model_dir).glob("test_data_set_*")):
            sets.append([[tensor_of(folder / f"{port}_{index}.pb", value.type)
                          for index, value in enumerate(values) if (folder / f"{port}_{index}.pb").exists()]
                         for port, values in (("input", fed(model)), ("output", model.graph.output))])
        yield case_of(suite, suite, test, model, sets)


def light_cases():
    """Networks whose weights are all alike, on one input."""
    for test in sorted(loader.load_model_tests(kind="real"), key=lambda test: test.name):
        path = pathlib.Path(loader.DATA_DIR) / "light" / pathlib.Path(test.url).name
        model = onnx.load(path)
        inputs = [runner.Runner.generate_dummy_data(value) for value in fed(model)]
        expected = onnx.TensorProto()
        expected.ParseFromString(path.with_name(f"{path.stem}_output_0.pb").read_bytes())
        yield case_of("light", "light", test, model, [(inputs, [expected])])


def fed(model):
    """The inputs that are no initializers."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def stored(value):
    """An array as a file that eyelet reads; floats that NumPy has no type of are widened."""
    narrow = value.dtype.kind not in "fiub"
    return value.astype(np.float32) if narrow else value


def too_wide(value):
    """Whether doubles have numbers that become infinite in single precision."""
    if value.dtype != np.float64:
        return False
    with np.errstate(all="ignore"):
        return bool((np.isinf(value.astype(np.float32)) & np.isfinite(value)).any())


def dynamic(value):
    return not all(dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim)


class Runs:
    """Runs of one test in a folder of its own."""

    def __init__(self, arguments, case, folder):
        self.command, self.board, self.case = arguments.eyelet, arguments.board, case
        self.folder = pathlib.Path(folder)
        self.model = self.folder / "model.onnx"
        self.pack = self.folder / "net.pack"
        onnx.save(case.model, self.model)

    def call(self, *words):
        """What the command printed as JSON, or how it failed."""
        words = [str(word) for word in (self.command, *words, "--json")]
        try:
            done = subprocess.run(words, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return None, Result(self.case, "crashed", f"`{words[1]}` takes more than {SECONDS} s")
        if done.returncode == 0:
            return json.loads(done.stdout), None
        # The model's folder has another name in each run.
        error = done.stderr.decode(errors="replace").strip().replace(f"{self.model}: ", "")
        if done.returncode == 1 and error.startswith("eyelet: error:") and "internal:" not in error:
            return None, Result(self.case, "refused", reasons(done.stdout, error))
        return None, Result(self.case, "crashed", f"`{words[1]}`, exit code {done.returncode}: {error}")

    def compare(self):
        for index, (inputs, expected) in enumerate(self.case.data):
            result = self.one(index, inputs, expected)
            if result.outcome not in ("passed", "fixed"):
                return result
        return result if self.case.data else Result(self.case, "refused", "the test has no data")

    def one(self, index, inputs, expected):
        ports = fed(self.case.model)
        files, shapes = {}, []
        for port, value in zip(ports, inputs):
            if value is None:
                continue
            files[port.name] = self.folder / f"in{index}-{len(files)}.npy"
            if too_wide(value):
                return Result(self.case, "refused", "a number of the test does not fit single precision, in which eyelet computes")
            np.save(files[port.name], stored(value))
            # Inputs without elements are none of the pack's.
            if dynamic(port) or 0 in value.shape:
                shapes.append(f"--shape={port.name}={','.join(map(str, value.shape))}")
        fixed = {}
        for _ in range(ATTEMPTS):
            constants = [f"--constant={name}={files[name]}" for name in fixed]
            report, failed = self.call("plan", self.model, "--budget", "2GiB", "--effort", "fast", "--board", self.board,
                                       "-o", self.pack, "--import-memory", "2GiB", *shapes, *constants)
            more = wanted_constant(failed, files, fixed, ports) if failed else []
            if not more:
                break
            fixed.update(dict.fromkeys(more))
            shapes = [shape for shape in shapes if shape.split("=")[1] not in fixed]
        if failed:
            return failed
        given = [files.get(port["name"]) for port in report["inputs"]]
        if None in given:
            return Result(self.case, "refused", "an input of the test is no tensor of numbers")
        report, failed = self.call("run", self.pack, "--io", "buffered", "--output", self.folder / "out",
                                   *[f"--input={path}" for path in given])
        if failed:
            return failed
        found = [np.load(port["file"]) for port in report["outputs"]]
        reason = difference(self.case, found, expected)
        return Result(self.case, "wrong" if reason else "fixed" if fixed else "passed", reason)


def wanted_constant(failed, files, fixed, ports):
    """Inputs that a refusal wants to be constant."""
    if "--constant" not in failed.reason:
        return []
    named = re.findall(r"must be constant, but `([^`]*)`", failed.reason)
    direct = [name for name in named if name in files and name not in fixed]
    if direct:
        return direct
    # What is computed follows from them.
    kinds = {port.name: port.type.tensor_type.elem_type for port in ports}
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE, onnx.TensorProto.BFLOAT16)
    return [name for name in files if kinds[name] not in floats and name not in fixed]


def reasons(stdout, error):
    """Why a model was refused, as programs read it."""
    try:
        blockers = json.loads(stdout).get("blockers", [])
    except (ValueError, AttributeError):
        blockers = []
    texts = [f"{found['operator']}: {found['reason']}" if found["operator"] else found["reason"] for found in blockers]
    return "; ".join(dict.fromkeys(texts)) or error.removeprefix("eyelet: error: ")


def selected(rows, count):
    """Rows of a selection without those of -1 after the first `count`: plans are made for as many as there could be."""
    return rows[:count] if (rows[count:] == -1).all() else rows


def difference(case, found, expected):
    """What differs, or nothing. Outputs without elements are none of the pack's."""
    full = [(port, wanted) for port, wanted in zip(case.model.graph.output, expected)
            if wanted is None or wanted.size]
    if len(found) != len(full):
        return f"{len(found)} outputs, expected {len(full)}"
    for (port, wanted), value in zip(full, found):
        if wanted is None:
            return f"`{port.name}` is no tensor of numbers"
        if case.operator == "NonMaxSuppression":
            value = selected(value, len(wanted))
        if value.shape != wanted.shape:
            return f"`{port.name}` has shape {list(value.shape)}, expected {list(wanted.shape)}"
        if wanted.dtype.kind in "iub":
            if not np.array_equal(value.astype(object), wanted.astype(object)):
                return f"`{port.name}`: integers differ"
            continue
        # Narrow floats are computed in single precision, and so given.
        with np.errstate(all="ignore"):
            value = value.astype(wanted.dtype).astype(np.float64)
        rtol = case.rtol
        if wanted.dtype.kind not in "f":  # bfloat16 and float8
            rtol = max(rtol, 2**-6)
        wanted = wanted.astype(np.float64)
        atol = max(case.atol, INEXACT.get(case.name, 0))
        if not np.allclose(value, wanted, rtol=rtol, atol=atol, equal_nan=True):
            with np.errstate(all="ignore"):
                worst = np.nanmax(np.abs(value - wanted))
            return f"`{port.name}`: differs by up to {worst:.3e}"
    return ""


def run(arguments, case):
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        return Runs(arguments, case, folder).compare()


def counts(results):
    rows = collections.defaultdict(lambda: dict.fromkeys(OUTCOMES, 0))
    for result in results:
        rows[result.case.operator][result.outcome] += 1
    return {operator: [row[outcome] for outcome in OUTCOMES] for operator, row in sorted(rows.items())}


def complaints(found, recorded):
    """Where fewer pass than is recorded, or any is wrong or crashes."""
    for operator, row in found.items():
        before = recorded["operators"].get(operator, [0] * len(OUTCOMES))
        if row[0] < before[0] or row[0] + row[1] < before[0] + before[1]:
            yield f"{operator}: {row[0]} tests pass, and {row[1]} with fixed inputs; recorded are {before[0]} and {before[1]}"
        for index, outcome in enumerate(OUTCOMES[3:], 3):
            if row[index] > before[index]:
                yield f"{operator}: {row[index]} tests are {outcome}; recorded are {before[index]}"


def versions():
    found = collections.defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            found[schema.name].add(schema.since_version)
    return {name: ", ".join(map(str, sorted(of))) for name, of in found.items()}


def cell(text):
    text = re.sub(r"\s+", " ", text).replace("|", "\\|")
    return text if len(text) <= LONGEST else text[:LONGEST - 1] + "…"


def list_of(results, rows):
    """The page for users: which operators are supported, and what is refused of the others."""
    def reason(operator):
        why = collections.Counter(short(result.reason) for result in results
                                  if (result.case.operator, result.outcome) == (operator, "refused"))
        return why.most_common(1)[0][0]

    operators = [operator for operator in rows if operator[0].isupper()]
    whole = [operator for operator in operators if rows[operator][2] == 0]
    lines = [f"| {operator} | {rows[operator][2]} of {sum(rows[operator])} | {reason(operator)} |"
             for operator in operators if rows[operator][2]]
    names = textwrap.fill(", ".join(whole) + ".", 120)
    return LIST_HEAD.format(onnx=onnx.__version__, names=names, lines="\n".join(lines))


def short(reason):
    """The part of a reason that tells most, without its advice and its numbers."""
    clauses = re.sub(r"\d+", "N", re.sub(r"\s+", " ", reason)).replace("|", "\\|").split("; ")
    if clauses[0].endswith(": not supported") and len(clauses) > 1 and not clauses[1].startswith("replace"):
        clauses = clauses[1:]
    return re.split(r"[,`]? (?:\(`|and none|and inputs)|, but|, output |, which", clauses[0])[0][:LONGEST]


LIST_HEAD = """# Operators

Which operators of ONNX `eyelet plan` reads. `tools/conformance.py --write` writes this page from the ONNX project's own
tests (onnx {onnx}). [All results](../lab/results/operators.md) have the versions of each operator, and every reason.

## Supported

eyelet passes all of the tests of these operators. Some need an input to be constant
([`--constant`](import.md#fix-what-the-model-leaves-open)):

{names}

## Refused in some or all tests

One error names each node that is in the way ([models](import.md#what-is-in-the-way)). The reason here is the most
frequent one.

| operator | tests that are refused | why |
|---|---|---|
{lines}
"""


def page(results, rows):
    """The results of all tests, by operator."""
    def line(name, of, tail=""):
        numbers = [sum(result.outcome == outcome for result in of) for outcome in OUTCOMES]
        return f"| {name} | {len(of)} | " + " | ".join(map(str, numbers)) + f" |{tail}"

    head = "tests | passed | fixed | refused | wrong | crashed |"
    text = ["# Results: operators", "",
            "The ONNX project's own tests, run by eyelet. `tools/conformance.py --write` writes this page.", "",
            f"Tests of onnx {onnx.__version__}. *Fixed*: passed after inputs that must be constant were fixed when the model was "
            "planned (`--constant`). *Refused*: an error said why.", "",
            f"Of {len(INEXACT)} tests the expected numbers are rounded by more than the tests' own tolerances. They are compared to "
            "within that rounding (`INEXACT` in the tool). Outputs of `NonMaxSuppression` have rows of -1 after those of a test, "
            "which are left out.", "",
            f"| suite | {head}", "|---|--:|--:|--:|--:|--:|--:|"]
    for suite in SUITES:
        of = [result for result in results if result.case.suite == suite]
        text.append(line(suite, of))
        if suite == "node":
            text.append(line("node, floats only", [result for result in of if result.case.floats]))
    text += ["", "## By operator", "", f"| operator | versions | {head} why refused |",
             "|---|---|--:|--:|--:|--:|--:|--:|---|"]
    of_operator = versions()
    for operator in rows:
        of = [result for result in results if result.case.operator == operator]
        why = collections.Counter(re.sub(r"\d+", "N", cell(result.reason)) for result in of if result.outcome == "refused")
        shown = "; ".join(f"{reason} ({count})" for reason, count in why.most_common(REASONS))
        text.append(line(f"{operator} | {of_operator.get(operator, '')}", of, f" {shown} |"))
    return "\n".join(text) + "\n"


def cases(arguments):
    found = list(node_cases())
    for suite in SUITES[1:-1]:
        found += stored_cases(suite)
    found += light_cases()
    operators = sorted({case.operator for case in found})
    chosen = set(operators[::EVERY] if arguments.quick else operators)
    if arguments.only:
        unknown = set(arguments.only) - chosen
        if unknown:
            sys.exit(f"tools/conformance.py: no tests of {', '.join(sorted(unknown))}")
        chosen = set(arguments.only)
    return [case for case in found if case.operator in chosen and arguments.test in case.name]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eyelet", default="target/debug/eyelet")
    parser.add_argument("--board", default="portable", help="what packs are planned for")
    parser.add_argument("--only", action="append", metavar="OPERATOR", help="an operator, or the name of a suite")
    parser.add_argument("--test", default="", metavar="TEXT", help="only tests whose names have this")
    parser.add_argument("--quick", action="store_true", help=f"every {EVERY}th operator")
    parser.add_argument("--list", action="store_true", help="prints each test that did not pass")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    partial = arguments.only or arguments.quick or arguments.test
    if arguments.write and partial:
        parser.error("--write needs all tests")
    chosen = cases(arguments)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda case: run(arguments, case), chosen))
    rows = counts(results)
    for result in results:
        bad = result.outcome in ("wrong", "crashed")
        if bad or arguments.list and result.outcome == "refused":
            print(f"{result.outcome:8} {result.case.operator} {result.case.name}: {result.reason}")
    for suite in [*SUITES, "node, floats only"]:
        of = [result for result in results if result.case.suite == suite
              or suite not in SUITES and result.case.suite == "node" and result.case.floats]
        if of:
            numbers = [f"{sum(result.outcome == outcome for result in of)} {outcome}" for outcome in OUTCOMES]
            print(f"{suite}: {len(of)} tests, {', '.join(numbers)}")
    if arguments.write:
        COUNTS.write_text(json.dumps({"onnx": onnx.__version__, "outcomes": OUTCOMES, "operators": rows}, indent=0,
                                     separators=(",", ":")).replace(",\n", ",").replace("],", "],\n").replace("[\n", "[")
                          .replace("\n]", "]") + "\n")
        PAGE.write_text(page(results, rows))
        LIST.write_text(list_of(results, rows))
        return 0
    if arguments.test or not COUNTS.exists():
        return 0
    recorded = json.loads(COUNTS.read_text())
    if recorded["onnx"] != onnx.__version__:
        print(f"the counts are of onnx {recorded['onnx']}, and this is {onnx.__version__}: not compared")
        return 0
    found = list(complaints(rows, recorded))
    for complaint in found:
        print(f"FAIL {complaint}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
