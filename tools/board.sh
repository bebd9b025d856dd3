#!/usr/bin/env bash
# Builds the firmware image of a board, starts it in QEMU, and compares its outputs with this machine's, bit for bit.
#
#   tools/board.sh qemu-virt-a57          all that the image does
#   tools/board.sh qemu-virt-a57 disk     one of these
#   tools/board.sh --list                 the boards, and what their images do
#
# What an image prints on its serial port is printed here. EYELET_HOST names the `eyelet` command that makes the packs; without it
# the command is built. EYELET_BOARD_SECONDS is how long an image may run, 300 if it is not set.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    echo "usage: tools/board.sh NAME [WHAT]... | --list" >&2
    exit 2
}
BOARDS=(
    "qemu-virt-a57 flash cores starved disk faults"
    "qemu-virt-a15 flash"
    "mps3-an547 digits ds_cnn"
)
[ $# -ge 1 ] || usage
if [ "$1" = --list ]; then
    printf '%s\n' "${BOARDS[@]}"
    exit
fi
board=$1
shift
known=
for each in "${BOARDS[@]}"; do
    if [ "${each%% *}" = "$board" ]; then known=${each#* }; fi
done
if [ -z "$known" ]; then
    echo "tools/board.sh: no image for $board; tools/board.sh --list prints those that there are" >&2
    exit 2
fi
for what in "$@"; do
    if [[ " $known " != *" $what "* ]]; then
        echo "tools/board.sh: the image for $board does: $known" >&2
        exit 2
    fi
done
[ $# -gt 0 ] || set -- $known

host=${EYELET_HOST:-}
if [ -z "$host" ]; then
    cargo build --quiet -p eyelet-planner --bin eyelet
    host=target/debug/eyelet
fi
mkdir -p target/board
work=$(mktemp -d "target/board/$board.XXXXXX")
trap 'rm -rf "$work"' EXIT
seconds=${EYELET_BOARD_SECONDS:-300}

# The pack for the board, and the digest of the host's outputs.
plan() { # model budget [threads]
    "$host" plan "$1" --exact --budget "$2" --threads "${3:-1}" --board "boards/$board/board.toml" -o "$work/board.pack" --json >/dev/null
    # Results are the same in every budget.
    "$host" plan "$1" --exact --budget 64MiB -o "$work/host.pack" --json >/dev/null
    "$host" run "$work/host.pack" --io buffered --json | sed -n 's/.*"output_digest": *"\([0-9a-f]*\)".*/\1/p'
}

zoo() {
    local model=target/board/$1.onnx
    [ -e "$model" ] || { "$host" zoo "$1" -o "$work/model.onnx" --json >/dev/null && mv "$work/model.onnx" "$model"; }
    echo "$model"
}

# Builds the image of a board for a target of tools/cross.sh: its path.
image() { # target
    cp Cargo.lock "boards/$board/Cargo.lock"
    tools/cross.sh "$1" build --quiet --release --manifest-path "boards/$board/Cargo.toml" >&2
    # The newest, if there are several.
    ls -t target/cross*/*/release/"$board" | head -n 1
}

# Starts an image: returns its status, or 124 when it takes too long.
start() { # emulator image, words of its command line, -- arguments
    local emulator=$1 image=$2 words=arg=image
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        words+=,arg=$1
        shift
    done
    [ $# = 0 ] || shift
    # $emulator is a command with arguments.
    timeout "$seconds" $emulator -nographic -semihosting-config "enable=on,target=native,$words" "$@" \
        -kernel "$image" </dev/null | tr -d '\r'
    return "${PIPESTATUS[0]}"
}

failed=0
result() { # what status expected
    if [ "$2" = "$3" ]; then
        echo "ok   $board: $1"
    else
        echo "FAIL $board: $1: status $2, not $3"
        failed=1
    fi
}

memory_at() { echo "loader,file=$work/board.pack,addr=$1,force-raw=on"; }
disk() { # more options of the drive
    echo -global virtio-mmio.force-legacy=false -device virtio-blk-device,drive=pack \
        -drive "if=none,id=pack,format=raw,readonly=on,file=$work/board.pack$1"
}

# The image on such a disk prints this error, and ends with status 1.
fault() { # what error milliseconds, arguments
    local what=$1 error=$2 limit=$3 status=0 found
    shift 3
    start "$emulator" "$image" disk "$digest" "$limit" -- "$@" >"$work/serial" || status=$?
    cat "$work/serial"
    found=$(grep -c "error: .*$error" "$work/serial" || true)
    result "$what" "$status with $found such errors" "1 with 1 such errors"
}

virt_a57() { # what
    local status=0 emulator="qemu-system-aarch64 -M virt -cpu cortex-a57 -m 256 -nic none" digest
    case $1 in
        flash)
            digest=$(plan tests/data/digits/digits.onnx 96KiB)
            start "$emulator" "$image" flash "$digest" -- -device "$(memory_at 0x48000000)" || status=$?
            result "digits from memory" $status 0
            ;;
        starved)
            digest=$(plan tests/data/digits/digits.onnx 96KiB)
            start "$emulator" "$image" starved "$digest" -- -device "$(memory_at 0x48000000)" >"$work/serial" || status=$?
            grep watchdog "$work/serial" || true
            result "a watchdog that nobody kicks, while steps compute" $status 5
            ;;
        cores)
            digest=$(plan tests/data/digits/digits.onnx 128KiB 4)
            start "$emulator -smp 4" "$image" cores "$digest" -- -device "$(memory_at 0x48000000)" || status=$?
            result "digits on four cores" $status 0
            ;;
        disk)
            digest=$(plan "$(zoo squeezenet1_1)" 2MiB)
            start "$emulator" "$image" disk "$digest" -- $(disk "") || status=$?
            result "squeezenet1_1 from a disk, in 2 MiB" $status 0
            ;;
        faults)
            digest=$(plan tests/data/digits/digits.onnx 96KiB)
            fault "a disk that stalls" "has not answered in 100 ms" 100 $(disk ,throttling.bps-read=4096)
            fault "a disk whose reads fail" "reading the storage at byte [0-9]*: system error 5" 10000 \
                -global virtio-mmio.force-legacy=false -device virtio-blk-device,drive=pack -drive \
                "if=none,id=pack,readonly=on,driver=raw,file.driver=blkdebug,file.image.driver=file,file.image.filename=$work/board.pack,file.inject-error.0.event=read_aio,file.inject-error.0.errno=5,file.inject-error.0.sector=100"
            truncate -s -16K "$work/board.pack"
            fault "a pack cut short" "it is truncated or damaged" 10000 $(disk "")
            ;;
    esac
}

virt_a15() { # what
    local status=0 digest
    digest=$(plan tests/data/digits/digits.onnx 96KiB)
    start "qemu-system-arm -M virt -cpu cortex-a15 -m 256 -nic none" "$image" flash "$digest" -- \
        -device "$(memory_at 0x48000000)" || status=$?
    result "digits from memory, on 32 bits" $status 0
}

mps3() { # what
    local status=0 digest limit
    case $1 in
        digits) digest=$(plan tests/data/digits/digits.onnx 36KiB) limit=64 ;;
        ds_cnn) digest=$(plan "$(zoo ds_cnn)" 96KiB) limit=128 ;;
    esac
    start "qemu-system-arm -M mps3-an547" "$image" flash "$digest" $((limit << 10)) -- \
        -device "$(memory_at 0x01000000)" || status=$?
    result "$1 from memory, in $limit KiB" $status 0
}

command -v qemu-system-aarch64 >/dev/null || tools/apt.sh qemu-system-arm
case $board in
    qemu-virt-a57)
        image=$(image bare)
        for what in "$@"; do virt_a57 "$what"; done
        ;;
    qemu-virt-a15)
        image=$(image bare32)
        for what in "$@"; do virt_a15 "$what"; done
        ;;
    mps3-an547)
        image=$(image thumb)
        for what in "$@"; do mps3 "$what"; done
        ;;
esac
exit $failed
