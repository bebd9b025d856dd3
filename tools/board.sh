#!/usr/bin/env bash
# Builds the firmware image of a board, starts it in QEMU, and compares its outputs with this machine's, bit for bit.
#
#   tools/board.sh qemu-virt-a57          all that the image does
#   tools/board.sh qemu-virt-a57 disk     one of these
#   tools/board.sh --list                 the boards, and what their images do
#   tools/board.sh --lint                 clippy of all images
#   tools/board.sh --write                all boards, and lab/results/boards.md from what they have printed
#
# What an image prints on its serial port is printed here. The memory that it has found in use must be what `eyelet sizes` counts,
# and its code within the limit of CODE_LIMITS. EYELET_HOST names the `eyelet` command that makes the packs; without it the command
# is built. EYELET_BOARD_SECONDS is how long an image may run, 300 if it is not set.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    echo "usage: tools/board.sh NAME [WHAT]... | --list | --lint | --write" >&2
    exit 2
}
BOARDS=(
    "qemu-virt-a57 flash cores starved disk set faults"
    "qemu-virt-a15 flash"
    "mps3-an547 digits ds_cnn damaged"
)
# What tools/cross.sh calls their targets.
declare -A TARGETS=(
    [qemu-virt-a57]=bare
    [qemu-virt-a15]=bare32
    [mps3-an547]=thumb
)
# The most bytes of code that an image may have: some percent more than it has. Of one that does more, by what it does.
declare -A CODE_LIMITS=(
    [qemu-virt-a57]=512KiB
    [qemu-virt-a57 set]=568KiB
    [qemu-virt-a15]=508KiB
    [mps3-an547]=280KiB
)
# Written by this script, read by tools/board_results.py.
results=target/board/results
[ $# -ge 1 ] || usage
if [ "$1" = --list ]; then
    printf '%s\n' "${BOARDS[@]}"
    exit
fi
if [ "$1" = --lint ]; then
    [ $# = 1 ] || usage
    for each in "${BOARDS[@]}"; do
        board=${each%% *}
        cp Cargo.lock "boards/$board/Cargo.lock"
        EYELET_BOARD=$board tools/cross.sh "${TARGETS[$board]}" clippy --quiet \
            --manifest-path "boards/$board/Cargo.toml" -- -D warnings
    done
    exit
fi
if [ "$1" = --write ]; then
    [ $# = 1 ] || usage
    rm -rf "$results"
    for each in "${BOARDS[@]}"; do EYELET_BOARD_COUNT_ALL=1 "$0" "${each%% *}"; done
    exec tools/board_results.py write "$results" lab/results/boards.md
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
mkdir -p "$results"
work=$(mktemp -d "target/board/$board.XXXXXX")
trap 'rm -rf "$work"' EXIT
seconds=${EYELET_BOARD_SECONDS:-300}

# The pack for the board in $work/board.pack, and the digest of the host's outputs.
plan() { # model budget [threads] [board.toml]
    "$host" plan "$1" --exact --budget "$2" --threads "${3:-1}" --board "${4:-boards/$board/board.toml}" \
        -o "$work/board.pack" --json >"$work/plan.json"
    # Results are the same in every budget.
    "$host" plan "$1" --exact --budget 64MiB -o "$work/host.pack" --json >/dev/null
    "$host" run "$work/host.pack" --io buffered --json | sed -n 's/.*"output_digest": *"\([0-9a-f]*\)".*/\1/p'
}

zoo() {
    local model=target/board/$1.onnx
    [ -e "$model" ] || { "$host" zoo "$1" -o "$work/model.onnx" --json >/dev/null && mv "$work/model.onnx" "$model"; }
    echo "$model"
}

# Builds the image of a board, in $work/image.
image() { # [pack]
    cp Cargo.lock "boards/$board/Cargo.lock"
    EYELET_BOARD=$board EYELET_PACK=${1:+$(realpath "$1")} \
        tools/cross.sh "${TARGETS[$board]}" build --quiet --release --manifest-path "boards/$board/Cargo.toml" >&2
    # The newest, if there are several.
    cp "$(ls -t target/cross*/*/release/"$board" | head -n 1)" "$work/image"
}

# Has the emulator count instructions, one a nanosecond: ticks are then the same on every host.
COUNTED="-icount shift=0,sleep=off"

# Starts the image: returns its status, or 124 when it takes too long.
start() { # emulator, words of the command line, -- arguments
    local emulator=$1 words=arg=image
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        words+=,arg=$1
        shift
    done
    [ $# = 0 ] || shift
    # $emulator is a command with arguments.
    timeout "$seconds" $emulator -nographic -semihosting-config "enable=on,target=native,$words" "$@" \
        -kernel "$work/image" </dev/null | tr -d '\r'
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

# Runs the image with the host's digest, and compares the memory in use and the code with what is allowed.
run() { # what title emulator, words of the command line, -- arguments
    local what=$1 title=$2 status=0
    shift 2
    start "$@" >"$work/serial" || status=$?
    cat "$work/serial"
    result "$title" $status 0
    [ $status = 0 ] || return 0
    status=0
    local limit=${CODE_LIMITS[$board $what]:-${CODE_LIMITS[$board]}}
    "$host" sizes "$work/image" --board "boards/$board/board.toml" --limit "code=$limit" \
        --json >"$work/sizes.json" || status=$?
    result "$title: code within $limit" $status 0
    local how=()
    # Without counted instructions ticks mean nothing.
    if [[ $1 = *"$COUNTED"* ]]; then
        how+=(--counted "$work/serial")
    elif [ -n "${EYELET_BOARD_COUNT_ALL:-}" ] && [ "$what" != cores ]; then
        # Reads take no instructions, so that this need not show an overlap.
        start "$1 $COUNTED" "${@:2}" >"$work/counted" || true
        how+=(--counted "$work/counted")
    fi
    # Which of several cores needs its scratch is up to chance.
    [ "$what" != cores ] || how+=(--at-most)
    status=0
    tools/board_results.py check "$work" --board "$board" --what "$what" --title "$title" "${how[@]}" \
        --save "$results/$board-$what.json" || status=$?
    result "$title: memory as eyelet sizes counts it" $status 0
}

disk() { # more options of the drive
    echo -global virtio-mmio.force-legacy=false -device virtio-blk-device,drive=pack \
        -drive "if=none,id=pack,format=raw,readonly=on,file=$work/board.pack$1"
}

# The image prints this error, and ends with status 1.
fault() { # title error emulator, words of the command line, -- arguments
    local what=$1 error=$2 status=0 found
    shift 2
    start "$@" >"$work/serial" || status=$?
    cat "$work/serial"
    found=$(grep -c "error: .*$error" "$work/serial" || true)
    result "$what" "$status with $found such errors" "1 with 1 such errors"
}

virt_a57() { # what
    local status=0 emulator="qemu-system-aarch64 -M virt -cpu cortex-a57 -m 256 -nic none" digest of_flash
    # Its disk is the board's storage. Where the pack is in flash, the plan is for the board with that flash mapped.
    local mapped=$work/mapped.toml
    { cat "boards/$board/board.toml" && printf '[profile.mapped]\ngbs = 2.5\n'; } >"$mapped"
    case $1 in
        flash | starved)
            digest=$(plan tests/data/digits/digits.onnx 12KiB 1 "$mapped")
            image "$work/board.pack"
            ;;
        cores)
            digest=$(plan tests/data/digits/digits.onnx 20KiB 4 "$mapped")
            image "$work/board.pack"
            ;;
        disk | faults) image ;;
        set)
            of_flash=$(plan tests/data/digits/digits.onnx 12KiB 1 "$mapped")
            mv "$work/board.pack" "$work/flash.pack"
            # What the board gives networks, less that one's.
            digest=$(plan "$(zoo squeezenet1_1)" 2036KiB)
            EYELET_SHARED=$(sed -n 's/.*"arena_bytes": *\([0-9]*\).*/\1/p' "$work/plan.json" | head -n 1) image "$work/flash.pack"
            ;;
    esac
    case $1 in
        flash) run flash "digits from flash" "$emulator $COUNTED" flash "$digest" ;;
        cores) run cores "digits from flash, on four cores" "$emulator -smp 4" cores "$digest" ;;
        starved)
            start "$emulator" starved "$digest" >"$work/serial" || status=$?
            grep watchdog "$work/serial" || true
            result "a watchdog that nobody kicks, while steps compute" $status 5
            ;;
        disk)
            digest=$(plan "$(zoo squeezenet1_1)" 2MiB)
            run disk "squeezenet1_1 from a disk" "$emulator" disk "$digest" -- $(disk "")
            ;;
        set)
            run set "digits from flash and squeezenet1_1 from a disk, with deadlines" "$emulator $COUNTED" set "$digest" "$of_flash" -- $(disk "")
            ;;
        faults)
            digest=$(plan tests/data/digits/digits.onnx 96KiB)
            fault "a disk that stalls" "has not answered in 100 ms" "$emulator" disk "$digest" 100 -- $(disk ,throttling.bps-read=4096)
            fault "a disk whose reads fail" "reading the storage at byte [0-9]*: system error 5" "$emulator" disk "$digest" -- \
                -global virtio-mmio.force-legacy=false -device virtio-blk-device,drive=pack -drive \
                "if=none,id=pack,readonly=on,driver=raw,file.driver=blkdebug,file.image.driver=file,file.image.filename=$work/board.pack,file.inject-error.0.event=read_aio,file.inject-error.0.errno=5,file.inject-error.0.sector=100"
            truncate -s -16K "$work/board.pack"
            fault "a pack cut short" "it is truncated or damaged" "$emulator" disk "$digest" -- $(disk "")
            ;;
    esac
}

virt_a15() { # what
    local digest
    digest=$(plan tests/data/digits/digits.onnx 12KiB)
    image "$work/board.pack"
    run flash "digits from flash, on 32 bits" "qemu-system-arm -M virt -cpu cortex-a15 -m 256 -nic none $COUNTED" \
        flash "$digest"
}

mps3() { # what
    local digest emulator="qemu-system-arm -M mps3-an547 $COUNTED"
    case $1 in
        digits)
            digest=$(plan tests/data/digits/digits.onnx 12KiB)
            image "$work/board.pack"
            run digits "digits from flash" "$emulator" flash "$digest" $((24 << 10))
            ;;
        ds_cnn)
            digest=$(plan "$(zoo ds_cnn)" 40KiB)
            image "$work/board.pack"
            run ds_cnn "ds_cnn from flash" "$emulator" flash "$digest" $((56 << 10))
            ;;
        damaged)
            digest=$(plan tests/data/digits/digits.onnx 12KiB)
            # One byte of the weights, which are last.
            printf x | dd of="$work/board.pack" bs=1 seek=$(($(stat -c %s "$work/board.pack") - 5000)) conv=notrunc status=none
            image "$work/board.pack"
            fault "flash that reads a wrong byte" "the checksum of the pack's weights is" "$emulator" flash "$digest" $((64 << 10))
            ;;
    esac
}

command -v qemu-system-aarch64 >/dev/null || tools/apt.sh qemu-system-arm
for what in "$@"; do
    case $board in
        qemu-virt-a57) virt_a57 "$what" ;;
        qemu-virt-a15) virt_a15 "$what" ;;
        mps3-an547) mps3 "$what" ;;
    esac
done
exit $failed
