"""A copy of onnxruntime that takes a processor with AVX-512 for one that has AVX2 only.

Its kernels are chosen by CPUID and by the state that the system keeps (`xgetbv`), and no option changes that. In the
copy every `xgetbv` becomes a `mov` that answers: no state of AVX-512. eyelet needs no such thing: a pack for the board
`host-avx2` runs on AVX2's kernels.
"""

import importlib.util
import re
import shutil
from pathlib import Path

from common import Failed

# Where the instruction is one: ecx was cleared just before, or both halves of the result are joined just after. The
# same bytes occur elsewhere, within longer instructions.
XGETBV = re.compile(rb"(?<=\x31\xc9)\x0f\x01\xd0|\x0f\x01\xd0(?=\x89\xc0\x48\xc1\xe2\x20)")
# In each of the two libraries of the pinned version, as its disassembly shows.
PLACES = 6
# mov $7, %al; nop: x87, SSE and AVX. Neither bytes nor stack move.
ANSWER = b"\xb0\x07\x90"


def copy(work):
    """The folder to import the copy from."""
    folder = work / "avx2"
    package = importlib.util.find_spec("onnxruntime")
    if package is None:
        raise Failed("onnxruntime is not installed")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(package.submodule_search_locations[0], folder / "onnxruntime")
    libraries = [path for path in (folder / "onnxruntime" / "capi").glob("*.so*") if "providers_shared" not in path.name]
    for library in libraries:
        patch(library)
    if not libraries:
        raise Failed(f"{folder} holds no library of onnxruntime")
    return folder


def patch(library: Path):
    """Replaces the instructions of one library, if there are as many as were seen to be right."""
    changed, places = XGETBV.subn(ANSWER, library.read_bytes())
    if places != PLACES:
        raise Failed(f"{library.name} reads the state of AVX-512 in {places} places, not in {PLACES}: look at its disassembly, and set PLACES")
    library.write_bytes(changed)
