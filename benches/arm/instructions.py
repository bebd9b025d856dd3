#!/usr/bin/env python3
"""Instructions that a 64-bit ARM processor executes for one inference, eyelet's beside ncnn's.

    benches/arm/instructions.py [--networks a,b,c] [--functions N]

Runs both under QEMU's user emulation with a plugin that counts (`count.c`), one thread, 32-bit floats, all weights
in memory. An inference is a quarter of the difference of runs with one and with five. Writes `lab/results/arm.md`.

Needs Debian or what is like it, for the emulator, its plugins and a Python for 64-bit ARM: apt installs the
emulator; all else goes to target/arm. What is executed does not depend on the machine; how long it takes on real
hardware is another question, which `tools/arm_gate.py` answers for the inner loops.
"""
import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HERE = Path(__file__).resolve().parent
WORK = ROOT / "target/arm"
DOCUMENT = ROOT / "lab/results/arm.md"
NETWORKS = {name: "1,3,224,224" for name in ("squeezenet1_1", "mobilenet_v2", "resnet18")}
# A core that executes out of order: kernels/table chooses by it.
CPU = "cortex-a72"
# Inferences that are counted: enough that what varies from start to start does not matter.
MORE = 4


def run(command, **options):
    """Its output; its errors end this."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout[-2000:]}")
    return done.stdout


# ---- what is needed ---------------------------------------------------------------------------------------------


def guest_system():
    """A folder with an ARM system's libraries and Python, from the distribution's packages, unpacked there."""
    root = WORK / "system"
    if (root / "usr/bin/python3").is_symlink():
        return root
    state = WORK / "apt"
    for folder in ("lists/partial", "archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    # A state of its own: the machine's packages are neither consulted nor changed.
    options = [f"-oDir::State={state}", "-oDir::State::status=/dev/null", f"-oDir::Cache={state}",
               "-oAPT::Architecture=arm64", "-oAPT::Architectures::=arm64", "-oAPT::Sandbox::User="]
    run(["apt-get", *options, "update", "-qq"])
    run(["apt-get", *options, "install", "--download-only", "--no-install-recommends", "-qq", "-y",
         "python3", "libc6", "libgomp1", "libstdc++6"])
    for package in (state / "archives").glob("*.deb"):
        run(["dpkg", "-x", package, root])
    return root


def pinned(package):
    """A requirement as the other comparison has it."""
    lines = (ROOT / "benches/peers/requirements.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith(package + "=="))


def guest_packages(system):
    """ncnn for ARM and what it imports."""
    site = WORK / "site"
    if not (site / "ncnn").is_dir():
        version = re.fullmatch(r"python(3\.\d+)", os.readlink(system / "usr/bin/python3")).group(1)
        platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (28, 27, 17)]
        run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--only-binary=:all:", "--python-version", version, *platforms, "--target", site,
             pinned("ncnn"), pinned("numpy")])
    return site


def converter():
    """pnnx for this machine."""
    folder = WORK / "pnnx"
    if not (folder / "pnnx").is_dir():
        run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--only-binary=:all:", "--target", folder, pinned("pnnx")])
    return folder / "pnnx/pnnx"


def plugin():
    built = WORK / "count.so"
    run(["gcc", "-O2", "-shared", "-fPIC", "-o", built, HERE / "count.c"])
    return built


def convert(pnnx, model, name, shape):
    """The network for ncnn: the path without suffixes."""
    result = WORK / f"{name}.ncnn"
    if not result.with_name(result.name + ".bin").exists():
        folder = WORK / f"{name}.pnnx"
        folder.mkdir(exist_ok=True)
        link = folder / "model.onnx"
        link.unlink(missing_ok=True)
        link.symlink_to(model)
        run([pnnx, "model.onnx", f"inputshape=[{shape}]f32", "fp16=0"], cwd=folder, stderr=subprocess.DEVNULL)
        for suffix in (".param", ".bin"):
            (folder / f"model.ncnn{suffix}").replace(f"{result}{suffix}")
    return result


# ---- counting ---------------------------------------------------------------------------------------------------


def count(emulator, command, inferences):
    """{function: (instructions, multiplications of vectors)} of one process."""
    out = WORK / "counts.txt"
    run([*emulator, "-plugin", f"{WORK / 'count.so'},out={out}", *command(inferences)], timeout=1200,
        env={**os.environ, "QEMU_CPU": CPU})
    counts = {}
    for line in out.read_text().splitlines():
        instructions, multiplications, name = line.split(" ", 2)
        counts[name] = (int(instructions), int(multiplications))
    return counts


def one_inference(emulator, command):
    fewer, more = (count(emulator, command, inferences) for inferences in (1, 1 + MORE))
    nothing = (0, 0)
    return {name: tuple((b - a) // MORE for a, b in zip(fewer.get(name, nothing), found))
            for name, found in more.items()}


def total(counts):
    return tuple(sum(found[i] for found in counts.values()) for i in (0, 1))


def readable(symbol):
    """A function's name without crate, hash and what the compiler appends."""
    match = re.match(r"_ZN", symbol)
    if not match:
        return symbol
    at, parts = match.end(), []
    while length := re.match(r"\d+", symbol[at:]):
        start = at + length.end()
        at = start + int(length.group())
        parts.append(symbol[start:at])
    path = "::".join(part for part in parts if not re.fullmatch(r"h[0-9a-f]{16}", part))
    for escape, text in (("$LT$", "<"), ("$GT$", ">"), ("$u20$", " "), ("$u7b$", "{"), ("$u7d$", "}"), ("$RF$", "&"),
                         ("$C$", ","), ("..", "::")):
        path = path.replace(escape, text)
    return re.sub(r"_?<impl [^>]*>::", "", path).removeprefix("eyelet::")


# ---- the page ---------------------------------------------------------------------------------------------------


def page(results, version, functions):
    lines = [
        "# Instructions on 64-bit ARM",
        "",
        "Written by `benches/arm/instructions.py`, which says how it counts: one thread, 32-bit floats, all weights in",
        f"memory, under {version} as a {CPU}. ncnn is {pinned('ncnn').split('==')[1]} from PyPI, with its interpreter",
        "and no second thread, which would wait busily; eyelet is its command, without making the input. Millions an",
        "inference; multiplications are instructions of four.",
        "",
        "| network | eyelet | multiplications | others for each | ncnn | multiplications | others for each | eyelet / ncnn |",
        "|---|---|---|---|---|---|---|---|",
    ]
    millions = lambda n: f"{n / 1e6:.1f}"
    for name, (own, peer) in results.items():
        cells = [name]
        for instructions, multiplications in (total(own), total(peer)):
            cells += [millions(instructions), millions(multiplications),
                      f"{instructions / multiplications - 1:.2f}"]
        lines.append("| " + " | ".join([*cells, f"{total(own)[0] / total(peer)[0]:.2f}"]) + " |")
    lines += ["", "## Where eyelet executes them", "", "| network | function | instructions | share | multiplications |",
              "|---|---|---|---|---|"]
    for name, (own, _) in results.items():
        merged = {}
        for symbol, found in own.items():
            known = merged.get(readable(symbol), (0, 0))
            merged[readable(symbol)] = tuple(a + b for a, b in zip(known, found))
        for function, (instructions, multiplications) in sorted(merged.items(), key=lambda x: -x[1][0])[:functions]:
            share = f"{100 * instructions / total(own)[0]:.1f} %"
            lines.append(f"| {name} | `{function}` | {millions(instructions)} | {share} | {millions(multiplications)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--functions", type=int, default=8, help="how many of eyelet's are listed")
    arguments = parser.parse_args()

    WORK.mkdir(parents=True, exist_ok=True)
    run([ROOT / "tools/apt.sh", "qemu-user", "gcc"])
    plugin()
    system = guest_system()
    site, pnnx = guest_packages(system), converter()
    run(["cargo", "build", "--release", "-p", "eyelet-planner", "--bin", "eyelet"], cwd=ROOT)
    run(["tools/cross.sh", "linux", "build", "--release", "-p", "eyelet-planner", "--bin", "eyelet"], cwd=ROOT)
    host = ROOT / "target/release/eyelet"
    guest = max(ROOT.glob("target/cross*/aarch64-unknown-linux-gnu/release/eyelet"), key=lambda p: p.stat().st_mtime)

    libraries = ":".join(f"{system}/{folder}/aarch64-linux-gnu" for folder in ("usr/lib", "lib"))
    emulator = ["qemu-aarch64", "-L", system, "-E", f"LD_LIBRARY_PATH={libraries}"]
    # The other threads of ncnn's OpenMP, which have nothing to do, would wait busily, as long as a clock says.
    python = ["-E", f"PYTHONHOME={system}/usr", "-E", f"PYTHONPATH={site}", "-E", "PYTHONHASHSEED=0",
              "-E", "OMP_NUM_THREADS=1"]
    results = {}
    for name in arguments.networks.split(","):
        shape = NETWORKS.get(name, "1,3,224,224")
        model, pack = WORK / f"{name}.onnx", WORK / f"{name}.pack"
        if not model.exists():
            run([host, "zoo", name, "-o", model, "--json"])
        network = convert(pnnx, model, name, shape)
        run([host, "plan", model, "--board", "raspberry-pi-4", "--threads", "1", "--budget", "1GiB", "-o", pack, "--json"])
        own = one_inference(emulator, lambda n: [guest, "run", pack, "--runs", n, "--threads", "1", "--io", "memory",
                                                 "--no-verify", "--json"])
        own = {symbol: found for symbol, found in own.items() if not symbol.startswith("_ZN6eyelet3cli")}
        peer = one_inference([*emulator, *python], lambda n: [system / "usr/bin/python3", "-S", HERE / "ncnn_guest.py",
                                                              network, shape, n])
        results[name] = (own, peer)
        (ours, _), (theirs, _) = total(own), total(peer)
        print(f"{name}: eyelet {ours / 1e6:.1f}, ncnn {theirs / 1e6:.1f} million instructions, {ours / theirs:.2f}",
              flush=True)
    version = run(["qemu-aarch64", "--version"]).splitlines()[0].split(" (")[0].replace(" version", "")
    DOCUMENT.write_text(page(results, version, arguments.functions))
    print(f"written: {DOCUMENT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
