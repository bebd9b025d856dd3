#!/usr/bin/env python3
"""Whether what was compiled for GPUs is what the boards can load and run well, judged without one.

    tools/cuda_check.py [--arch 53,87] [--quiet]

Compiles the kernels as everybody does, has ptxas assemble every PTX for its board, and prints for each kernel and
architecture: registers of a thread, bytes of static shared memory of a block, and how many warps of it a multiprocessor
holds at most (of those that it has room for; dynamic shared memory is not counted).

Fails where

  - a kernel of `kernels/table/cuda.rs` is missing in an image, or an image has one that is not there,
  - PTX is newer than the driver of its board, or ptxas refuses it,
  - a kernel keeps anything in local memory (registers that spill, arrays with computed indices), other than ALLOWED.

That products and sums are not contracted is checked where kernels are compiled (`build/cuda/images.rs`).
"""
import argparse
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import cuda_images
from cuda_images import Unanswerable

# Newest PTX of the oldest driver that the board is used with (JetPack 4.6, 4.6, 5.1), and of CUDA 11.8 for testing.
NEWEST = {53: (6, 5), 72: (6, 5), 87: (7, 4), 90: (7, 8)}

# A multiprocessor: warps, blocks, bytes of shared memory, of which a block takes so many for itself.
MULTIPROCESSORS = {
    53: (64, 32, 64 << 10, 0),
    72: (64, 32, 96 << 10, 0),
    87: (48, 16, 164 << 10, 1 << 10),
    90: (64, 32, 228 << 10, 1 << 10),
}
# It has four parts, each with so many registers.
PARTS, REGISTERS = 4, 16384

# kernel: why it may use local memory.
ALLOWED = {}


class Usage:
    """What a function takes, as ptxas -v says."""

    def __init__(self):
        self.stack = self.spills = self.registers = self.shared = 0


def usages(text):
    found, current = {}, None
    for line in text.splitlines():
        if match := re.search(r"Function properties for (\S+)", line):
            current = found.setdefault(match.group(1), Usage())
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, stores, loads = map(int, match.groups())
            current.stack, current.spills = stack, stores + loads
        elif match := re.search(r"Used (\d+) registers", line):
            current.registers = int(match.group(1))
            if match := re.search(r"(\d+) bytes smem", line):
                current.shared = int(match.group(1))
    return found


class Image:
    """The module of an architecture."""

    def __init__(self, folder, arch):
        self.arch = arch
        path = folder / f"sm_{arch}.ptx"
        ptx = path.read_text()
        self.version = tuple(map(int, re.search(r"^\.version (\d+)\.(\d+)", ptx, re.M).groups()))
        entries = re.split(r"^\.visible \.entry (\w+)", ptx, flags=re.M)[1:]
        self.threads = {name: threads(body) for name, body in zip(entries[::2], entries[1::2])}
        code = (folder / f"sm_{arch}.cubin").read_bytes()
        self.in_cubin = {name.decode() for name in re.findall(rb"\0\.text\.(eyelet_\w+)(?=\0)", code)}
        self.usage = usages(cuda_images.ask(cuda_images.PTXAS, "-v", f"-arch=sm_{arch}", "-o", "/dev/null", path))

    def warps(self, name):
        """The most that a multiprocessor holds, and has room for."""
        if self.arch not in MULTIPROCESSORS or not self.threads[name]:
            return None
        most, blocks, shared, reserved = MULTIPROCESSORS[self.arch]
        usage, warps = self.usage[name], -(-self.threads[name] // 32)
        # Registers are given to warps, for a thread in eights; a warp stays in its part.
        held = PARTS * (REGISTERS // (-(-usage.registers // 8) * 8 * 32))
        blocks = min(blocks, min(most, held) // warps)
        if usage.shared:
            blocks = min(blocks, shared // (usage.shared + reserved))
        return blocks * warps, most

    def problems(self, wanted):
        """`wanted`: the kernels that the library launches."""
        if self.version > NEWEST.get(self.arch, self.version):
            newest = NEWEST[self.arch]
            yield f"PTX is version {dotted(self.version)}, and the board's driver loads {dotted(newest)} at most"
        for kind, found in ("PTX", set(self.threads)), ("cubin", self.in_cubin):
            for name in sorted(wanted - found):
                yield f"{name} of kernels/table/cuda.rs is not in the {kind}"
            for name in sorted(found - wanted):
                yield f"{name} is in the {kind}, and not in kernels/table/cuda.rs"
        for name, usage in sorted(self.usage.items()):
            if (usage.stack or usage.spills) and name not in ALLOWED:
                yield f"{name} keeps {usage.stack} bytes in local memory, and spills {usage.spills}"


def threads(body):
    """The most threads of a block, if it is said."""
    match = re.search(r"^\.(?:max|req)ntid (\d+)(?:, (\d+))?(?:, (\d+))?", body.split("{")[0], re.M)
    if match is None:
        return None
    product = 1
    for number in match.groups():
        product *= int(number or 1)
    return product


def dotted(version):
    return ".".join(map(str, version))


def table(images):
    names = sorted({name for image in images for name in image.threads})
    width = max(map(len, names))
    yield "".ljust(width + 9) + "".join(f"sm_{image.arch}".rjust(26) for image in images)
    yield "".ljust(width) + "  threads" + "  registers shared   warps" * len(images)
    for name in names:
        line = name.ljust(width) + f"{images[0].threads.get(name) or '?':>9}"
        for image in images:
            usage, warps = image.usage.get(name), name in image.threads and image.warps(name)
            if usage is None:
                line += "-".rjust(26)
                continue
            line += f"{usage.registers:>11}{usage.shared:>7}" + ("%d/%d" % warps if warps else "?").rjust(8)
        yield line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", help="architectures, such as 53,87")
    parser.add_argument("--quiet", action="store_true", help="only what is wrong")
    options = parser.parse_args()
    source = (cuda_images.ROOT / "kernels/table/cuda.rs").read_text()
    wanted = set(re.findall(r'c"(eyelet_\w+)"', source))
    if not wanted:
        raise Unanswerable("kernels/table/cuda.rs names no kernel")
    folder, archs = cuda_images.build(options.arch)
    with ThreadPoolExecutor(2) as pool:
        images = list(pool.map(lambda arch: Image(folder, arch), archs))
    if not options.quiet:
        print("\n".join(table(images)))
    problems = [f"sm_{image.arch}: {problem}" for image in images for problem in image.problems(wanted)]
    unused = [f"ALLOWED: {name} needs no local memory" for name in ALLOWED
              if not any(name in image.usage and image.usage[name].stack for image in images)]
    for problem in problems + unused:
        print(f"cuda_check.py: {problem}", file=sys.stderr)
    sizes = ", ".join(f"sm_{arch} {(folder / f'sm_{arch}.cubin').stat().st_size >> 10} KiB" for arch in archs)
    print(f"{len(wanted)} kernels for {sizes}: {'wrong' if problems or unused else 'in order'}")
    return 1 if problems or unused else 0


cuda_images.main(main)
