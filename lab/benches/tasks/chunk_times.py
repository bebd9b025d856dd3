#!/usr/bin/env python3
"""What takes the time of a chunk: its read past the page cache, its checksum, or its place in memory.

    lab/benches/tasks/chunk_times.py FILE.pack               # 1500 chunks of 256 KiB
    lab/benches/tasks/chunk_times.py FILE.pack --priority 20 # before other programs

Prints a table of times in milliseconds. The checksum is zlib's CRC-32, as Python has no CRC-32C: it takes longer.
"""

import argparse
import mmap
import os
import random
import sys
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benches"))
from common import table

PAGE = 4096
# Time between two chunks, in seconds.
PAUSE = 0.005


def timed(times, call):
    start = time.perf_counter_ns()
    result = call()
    times.append((time.perf_counter_ns() - start) / 1e6)
    return result


def measure(path, size, count):
    """Times of each part, in milliseconds."""
    pack = os.open(path, os.O_RDONLY | os.O_DIRECT)
    pages = (os.fstat(pack).st_size - size) // PAGE
    buffer = mmap.mmap(-1, size)
    # All pages are there before, as in a set's arena.
    buffer[:] = b"\0" * size
    arena = os.memfd_create("chunks")
    os.posix_fallocate(arena, 0, size)
    reads, sums, maps = [], [], []
    draw = random.Random(1)
    for _ in range(count):
        offset = draw.randrange(pages) * PAGE
        timed(reads, lambda: os.preadv(pack, [buffer], offset))
        timed(sums, lambda: zlib.crc32(buffer))
        flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
        timed(maps, lambda: mmap.mmap(arena, size, flags=flags)).close()
        time.sleep(PAUSE)
    return {"read": reads, "checksum": sums, "map": maps}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack", type=Path)
    parser.add_argument("--kib", type=int, default=256, help="KiB of a chunk")
    parser.add_argument("--count", type=int, default=1500, help="chunks")
    parser.add_argument("--priority", type=int, help="real-time priority")
    arguments = parser.parse_args()
    if arguments.priority:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(arguments.priority))
    rows = []
    for name, times in measure(arguments.pack, arguments.kib * 1024, arguments.count).items():
        times.sort()
        at = [times[min(len(times) - 1, int(len(times) * part))] for part in (0.5, 0.99, 0.999, 1)]
        rows.append([name, *(f"{value:.2f}" for value in at)])
    print(table(["part", "median (ms)", "p99", "p99.9", "max"], rows))


if __name__ == "__main__":
    main()
