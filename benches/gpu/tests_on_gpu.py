"""The tests of what runs on a GPU, on the GPU, and under compute-sanitizer where there is one."""

import re
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

# Of the library's own tests only these run anything on a GPU.
FILTERS = {"kernels": ["cuda"]}
SANITIZERS = ("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer")
# Tests that are slow enough without it.
SANITIZED = ("kernels", "chunks")
SECONDS = 240


@contextmanager
def root_of_build(folder):
    """Tests look for their files where they were built: that place leads here meanwhile, if it is not here."""
    root = Path((folder / "root").read_text().strip())
    here = Path(__file__).resolve().parents[2]
    if root.exists():
        yield
        return
    root.parent.mkdir(parents=True, exist_ok=True)
    root.symlink_to(here)
    try:
        yield
    finally:
        root.unlink()


def count(output):
    """Tests that passed and failed, of what Rust's harness prints."""
    results = re.findall(r"test result: \w+\. (\d+) passed; (\d+) failed", output)
    return sum(int(passed) for passed, _ in results), sum(int(failed) for _, failed in results)


def run_one(command, seconds):
    """A test program's outcome."""
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=seconds)
        status, output = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        status, output = None, (error.stdout or b"").decode(errors="replace")
    passed, failed = count(output)
    return {
        "passed": passed,
        "failed": failed,
        "status": status,
        "seconds": round(time.monotonic() - start, 1),
        "end": output.strip().splitlines()[-20:] if status != 0 else [],
    }


def run(folder, log):
    """All test programs of the folder."""
    tools = [tool for tool in SANITIZERS if shutil.which(tool)]
    rows = []
    with root_of_build(folder):
        for program in sorted((folder / "tests").iterdir()):
            command = [str(program), *FILTERS.get(program.name, [])]
            rows.append({"tests": program.name, "tool": ""} | run_one(command, 2 * SECONDS))
            log(f"{program.name}: {rows[-1]['passed']} passed, status {rows[-1]['status']}")
            if tools and program.name in SANITIZED:
                checked = [tools[0], "--error-exitcode", "9", *command, "--test-threads", "1"]
                rows.append({"tests": program.name, "tool": "compute-sanitizer"} | run_one(checked, SECONDS))
                log(f"{program.name}, compute-sanitizer: status {rows[-1]['status']}")
    # A program that ran no test has tested nothing. compute-sanitizer may run out of time: the page says so.
    failed = any(row["status"] not in ((0, None) if row["tool"] else (0,)) or not row["tool"] and not row["passed"] for row in rows)
    return {"rows": rows, "sanitizer": tools[0] if tools else None, "failed": failed}
