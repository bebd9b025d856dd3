#!/usr/bin/env python3
"""Whether the main loops of the NEON kernels keep the multipliers of ARM cores busy, judged without hardware.

    tools/arm_gate.py [--all] [--json]

Builds the library for 64-bit ARM as everybody does, takes the loops out of the kernels that `build.rs` compiled,
and asks a model of each core for their cycles: llvm-mca for cores that execute out of order (llvm 19 or newer,
installed by apt), `in_order.py` for the others. Prints the share of the core's peak of 128-bit `fmla`s for the
kernels that `kernels/table` chooses on it, and fails where one is below what is asked of it. With --all, every
loop with an `fmla` (smaller tiles, remainders) of every kernel on every core.

What a model cannot see: everything hits the first-level cache, branches are predicted.

  Cortex-A57, A72   llvm's Cortex-A57, the only one; any sane loop reaches the peak, so this finds broken ones
  Cortex-A76, A78   llvm's Neoverse-N1, which passes on eight micro-operations a cycle; by Arm's guide these are of
                    at most four macro-operations, each of one or two. The A78 takes six
  Cortex-A53, A55   in_order.py, give or take ten points
"""
import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import in_order

ROOT = Path(__file__).resolve().parent.parent
LEAST_LLVM = 19
PACKAGE = "llvm-19"

# core: (its model, 128-bit fmla a cycle, executes in order)
CORES = {
    "A57, A72": ("cortex-a57", 1, False),
    "A76, A78": ("neoverse-n1", 2, False),
    "A53": ("a53", 1, True),
    "A55": ("a55", 1, True),
}

# kernel, its loop, what that is, and the share of the peak that the cores which use the kernel must reach. A loop is
# given by its number (the one that multiplies most first) or by its `fmla`s and its number among those that have as many
# (the one with the fewest instructions first). The Winograd algorithms' products are the implicit GEMM's. The loops of
# f32_dwconv3x3 are all there is to an output, its bias, clamp and store included: lab/notes/kernels.md has their bounds.
GATES = [
    ("f32_igemm_8x8__neon", 0, "8 rows", {"A57, A72": 98, "A76, A78": 98}),
    ("f32_igemm_8x8__neon_inorder", 0, "8 rows", {"A53": 70, "A55": 90}),
    ("f32_dwconv3x3_4x4__neon_inorder", (108, 0), "3x3, lines", {"A53": 74, "A55": 90}),
    ("f32_dwconv3x3_4x4__neon_inorder", (108, 2), "3x3, ReLU6", {"A53": 64, "A55": 79}),
    ("f32_dwconv3x3_4x4__neon_inorder", (72, 0), "3x3, /2, lines", {"A53": 62, "A55": 61}),
    ("f32_dwconv3x3_4x4__neon_inorder", (72, 2), "/2, ReLU6", {"A53": 54, "A55": 54}),
    ("f32_dwconv_8x8__neon", (48, 0), "3x3", {"A57, A72": 98, "A76, A78": 98}),
    ("f32_dwconv_8x8__neon", (48, 1), "3x3, /2", {"A57, A72": 92, "A76, A78": 96}),
    ("f32_dwconv_8x8__neon", (80, 0), "5x5", {"A57, A72": 98, "A76, A78": 98}),
    ("f32_dwconv_8x8__neon", (80, 1), "5x5, /2", {"A57, A72": 98, "A76, A78": 93}),
    ("f32_dwconv_8x8__neon_inorder", (48, 0), "3x3, a line", {"A53": 40, "A55": 42}),
    ("f32_dwconv_8x8__neon_inorder", (48, 1), "3x3, /2", {"A53": 30, "A55": 32}),
    ("f32_dwconv_8x8__neon_inorder", (80, 0), "5x5", {"A53": 40, "A55": 44}),
    ("f32_dwconv_8x8__neon_inorder", (80, 1), "5x5, /2", {"A53": 30, "A55": 35}),
]


class Unanswerable(Exception):
    """A tool, a kernel or a loop is missing."""


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **options)


def llvm_mca():
    """The command, installed if need be; None where it cannot be had."""
    def usable(name):
        if not shutil.which(name):
            return False
        found = re.search(r"version (\d+)", run([name, "--version"]).stdout)
        return found is not None and int(found.group(1)) >= LEAST_LLVM
    names = [f"llvm-mca-{version}" for version in range(30, LEAST_LLVM - 1, -1)] + ["llvm-mca"]
    found = next(filter(usable, names), None)
    if not found:
        subprocess.run([ROOT / "tools/apt.sh", PACKAGE], stdout=subprocess.DEVNULL, check=False)
        found = next(filter(usable, names), None)
    return found


def archive():
    """The kernels as build.rs has compiled them for 64-bit ARM."""
    built = run(["tools/cross.sh", "linux", "build", "-p", "eyelet", "--message-format=json"])
    if built.returncode != 0:
        raise Unanswerable(f"the library does not build for 64-bit ARM:\n{built.stderr}")
    for line in built.stdout.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") == "build-script-executed" and re.search(r"[/#]eyelet[#@]", message["package_id"]):
            found = Path(message["out_dir"]) / "libeyelet_kernels.a"
            if found.exists():
                return found
    raise Unanswerable("build.rs has compiled no kernels: is there a C compiler for 64-bit ARM?")


def disassemble(library):
    """{kernel: [(address, "op\\toperands")]}"""
    text = run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", str(library)]).stdout
    kernels, code = {}, None
    for line in text.splitlines():
        if head := re.match(r"[0-9a-f]+ <(\w+)>:$", line):
            code = kernels.setdefault(head.group(1).removeprefix("eyelet_"), [])
        elif (found := re.match(r"\s*([0-9a-f]+):\s+(\S.*)$", line)) and code is not None:
            code.append((int(found.group(1), 16), re.sub(r"\s*//.*", "", found.group(2)).strip()))
    return kernels


def fmas(body):
    return sum(bool(re.match(r"fml[as]\tv\d+\.4s", text)) for text in body)


def loops(code):
    """The innermost loops that multiply, as lists of instructions, the one with the most first."""
    position = {address: i for i, (address, _) in enumerate(code)}
    spans = []
    for last, (_, text) in enumerate(code):
        branch = re.match(r"(?:b\.\w+|cbn?z|tbn?z)\t(?:.*, )?([0-9a-f]+) <", text)
        if branch and position.get(int(branch.group(1), 16), last + 1) <= last:
            spans.append((position[int(branch.group(1), 16)], last))
    inner = [s for s in spans if not any(t != s and s[0] <= t[0] and t[1] <= s[1] for t in spans)]
    bodies = [[re.sub(r"\b[0-9a-f]+ <[^>]*>", "loop", text) for _, text in code[a:b + 1]] for a, b in inner]
    return sorted(filter(fmas, bodies), key=fmas, reverse=True)


def mca_cycles(mca, model, body):
    """Cycles of one repetition, from what further repetitions add."""
    source = "loop:\n" + "\n".join(body) + "\n"
    totals = []
    for repetitions in (200, 400):
        done = run([mca, "-mtriple=aarch64", "-mcpu=" + model, f"-iterations={repetitions}",
                    "-resource-pressure=0"], input=source)
        total = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
        if not total:
            raise Unanswerable(f"{mca} for {model}: {done.stderr.strip()[:400]}")
        totals.append(int(total.group(1)))
    cycles = (totals[1] - totals[0]) / 200
    if model != "neoverse-n1":
        return cycles
    micro = [int(count) for count in re.findall(r"^ (\d+) +\d+ +\d+\.\d+ ", done.stdout, re.MULTILINE)]
    if len(micro) != len(body):
        raise Unanswerable(f"{mca} tells of {len(micro)} instructions, not {len(body)}")
    return max(cycles, sum((count + 1) // 2 for count in micro) / 4)


def judge(mca, core, body):
    """(cycles of one repetition, per cent of the core's peak), or None without a model."""
    model, peak, ordered = CORES[core]
    if ordered:
        cycles = in_order.cycles(body, model)
    elif mca:
        cycles = mca_cycles(mca, model, body)
    else:
        return None
    return cycles, min(100.0, 100.0 * fmas(body) / peak / cycles)


def rows(mca, kernels, everything):
    """What there is to say, a record for each loop and core."""
    wanted = GATES
    if everything:
        wanted = [(name, index, "", dict.fromkeys(CORES)) for name, code in sorted(kernels.items())
                  for index in range(len(loops(code)))]
    for name, index, what, least in wanted:
        found = loops(kernels.get(name, []))
        number = index
        if isinstance(index, tuple):
            multiplications, number = index
            found = sorted((body for body in found if fmas(body) == multiplications), key=len)
        if len(found) <= number:
            raise Unanswerable(f"{name} has no loop {index} that multiplies")
        body = found[number]
        for core, minimum in least.items():
            judged = judge(mca, core, body)
            cycles, share = judged if judged else (None, None)
            yield {"kernel": name, "loop": what or f"{fmas(body)} fmla", "instructions": len(body),
                   "fmla": fmas(body), "core": core, "cycles": cycles, "percent_of_peak": share,
                   "minimum_percent": minimum,
                   "ok": None if share is None or minimum is None else share >= minimum}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="every loop that multiplies, on every core")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    try:
        mca = llvm_mca()
        if not mca:
            print(f"tools/arm_gate.py: no llvm-mca {LEAST_LLVM} or newer, and apt cannot install {PACKAGE}: "
                  "cores that execute out of order are not judged", file=sys.stderr)
        found = list(rows(mca, disassemble(archive()), arguments.all))
    except Unanswerable as error:
        print(f"tools/arm_gate.py: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(found, indent=1))
    else:
        print(f"{'kernel':34} {'loop':14} {'instructions':>12} {'fmla':>5}  {'core':9} {'cycles':>7} {'of peak':>8} "
              f"{'wanted':>7}")
        for r in found:
            cycles = "-" if r["cycles"] is None else f"{r['cycles']:.1f}"
            share = "-" if r["percent_of_peak"] is None else f"{r['percent_of_peak']:.1f} %"
            least = "" if r["minimum_percent"] is None else f"{r['minimum_percent']} %"
            print(f"{r['kernel']:34} {r['loop']:14} {r['instructions']:12} {r['fmla']:5}  {r['core']:9} {cycles:>7} "
                  f"{share:>8} {least:>7}{'  BELOW' if r['ok'] is False else ''}")
    return 1 if any(r["ok"] is False for r in found) else 0


if __name__ == "__main__":
    sys.exit(main())
