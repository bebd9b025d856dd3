"""What `build.rs` has compiled for GPUs: for `cuda_check.py` and `sass.py`."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "target/cuda"
PTXAS = TOOLS / "nvidia/cuda_nvcc/bin/ptxas"
NVDISASM = TOOLS / "triton/backends/nvidia/bin/nvdisasm"


class Unanswerable(Exception):
    """Something is missing."""


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **options)


def ask(tool, *arguments, setup="tools/cuda.sh", **options):
    """What a tool says."""
    if not tool.exists():
        raise Unanswerable(f"{tool} is missing; run {setup}")
    answer = run([tool, *arguments], **options)
    if answer.returncode != 0:
        raise Unanswerable(f"{tool.name} {' '.join(map(str, arguments))}:\n{answer.stdout}{answer.stderr}")
    return answer.stdout + answer.stderr


def build(archs=None):
    """Has the kernels compiled, if they are not, and tells the folder of the results and the architectures."""
    environment = {**os.environ, **({"EYELET_CUDA_ARCHS": archs} if archs else {})}
    command = ["cargo", "check", "--quiet", "-p", "eyelet", "--features", "cuda", "--message-format=json"]
    answer = run(command, env=environment)
    folder = None
    for line in answer.stdout.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") == "build-script-executed" and re.search("[/#]eyelet[#@]", message["package_id"]):
            folder = Path(message["out_dir"]) / "cuda"
    if folder is None:
        raise Unanswerable(f"{' '.join(command)}:\n{answer.stderr}")
    table = (folder / "images.rs").read_text()
    found = [int(path.stem[3:]) for path in folder.glob("sm_*.cubin") if f"{path.name}\"" in table]
    if not found:
        raise Unanswerable("no kernels for GPUs were compiled; run tools/cuda.sh")
    return folder, sorted(found)


def main(function):
    try:
        sys.exit(function())
    except Unanswerable as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")
