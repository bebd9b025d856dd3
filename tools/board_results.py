#!/usr/bin/env python3
"""What the images of boards take, from what they print and what `eyelet sizes` counts. Called by tools/board.sh.

    tools/board_results.py check WORK --board NAME --what WHAT --title TITLE --save FILE [--counted SERIAL] [--at-most]
    tools/board_results.py write FOLDER PAGE

`check` compares the memory that an image found in use (WORK/serial) with the sizes of its file (WORK/sizes.json), and saves
both with what the plan says (WORK/plan.json). SERIAL is of a run in which the emulator's clock counted instructions. With
--at-most less memory may be in use. `write` makes the page of all that was saved.
"""

import argparse
import json
import re
import sys
from pathlib import Path

# How far the memory in use may be from the sizes of the image.
TOLERANCE = 1024


def number(serial, pattern):
    """The largest number in lines of the serial port."""
    found = re.findall(pattern, serial, re.MULTILINE)
    if not found:
        raise ValueError(f"the image did not print {pattern!r}")
    return max(int(value) for value in found)


def measured(serial, sizes, plan, counted):
    """One image's row."""
    memories = sizes["memories"]
    row = {part: sum(memory[f"{part}_bytes"] for memory in memories) for part in ("code", "arena", "fast", "stack")}
    # What else is in flash is the pack.
    row["rodata"] = sum(memory["rodata_bytes"] for memory in memories if memory["code_bytes"])
    row["pack"] = sum(memory["rodata_bytes"] for memory in memories if not memory["code_bytes"])
    # Stored values of data count in flash, too.
    ram = [memory for memory in memories if memory["stack_bytes"] or memory["arena_bytes"]]
    row["statics"] = sum(memory["data_bytes"] + memory["bss_bytes"] for memory in ram)
    row["stack_used"] = number(serial, r"^stack +(\d+) bytes")
    row["ram_used"] = number(serial, r"^memory +(\d+) bytes")
    row["touched"] = number(serial, r"^touched +(\d+) bytes")
    row["fast_touched"] = number(serial, r"^fast +(\d+) bytes") if row["fast"] else 0
    by_region = [number(serial, rf"of {what}, (\d+) in whole pages") for what in regions(row)]
    row["by_region"] = dict(zip(regions(row), by_region))
    # Plans need not take all of the arena that an image gives them.
    planned = sum(map(int, re.findall(r"^plan +(\d+) bytes of arena", serial, re.MULTILINE)))
    row["spare"] = max(0, row["arena"] - planned)
    row["digest"] = re.search(r"^digest +([0-9a-f]{16})$", serial, re.MULTILINE)[1]
    row["in_place"] = plan["plans"][0].get("in_place_bytes") or 0
    row["loads"] = plan["plans"][0]["loads"]
    row["longest_layer"] = plan["plans"][0]["longest_step_layer"]
    row["instructions"] = None
    if counted:
        ticks, hz = number(counted, r"^longest +(\d+) ticks"), number(counted, r" ticks of (\d+) Hz")
        # A nanosecond is an instruction.
        row["instructions"] = ticks * 1_000_000_000 // hz
    return row


def regions(row):
    """The names of regions that an image prints."""
    return ["arena", "fast memory"] if row["fast"] else ["arena"]


def complaints(row, at_most):
    """What is wrong with a row, in sentences."""
    said = []
    for what, counted in zip(regions(row), (row["arena"] - row["spare"], row["fast"])):
        unused = counted - row["by_region"][what]
        if unused < -TOLERANCE or unused > TOLERANCE and not at_most:
            said.append(f"{row['by_region'][what]} bytes of {what} were in use, and eyelet sizes counts {counted}")
    by_sizes = row["arena"] - row["spare"] + row["fast"] + row["statics"] + row["stack_used"]
    unused = by_sizes - row["ram_used"]
    if unused < -TOLERANCE or unused > TOLERANCE and not at_most:
        said.append(
            f"{row['ram_used']} bytes of memory were in use, and eyelet sizes counts {by_sizes} (arena {row['arena']}, "
            f"fast memory {row['fast']}, other statics {row['statics']}, and the {row['stack_used']} bytes of stack that were in use)"
        )
    if row["stack_used"] >= row["stack"]:
        said.append(
            f"the stack has used all of its {row['stack']} bytes: give `stack` more in the board.toml"
        )
    return said


HEAD = """# Results of boards

What the firmware images in `boards/` take, as they were measured in QEMU. Written by `tools/board.sh --write`: do not edit.

RAM is what was in use: memory is painted before, and compared after. `tools/board.sh` compares it with what `eyelet sizes`
counts in the image: arena, fast memory and other statics, with the depth of the stack. They may differ by 1 KiB, and
so may each of the first two.

"""

TAIL = """
| column | meaning |
|---|---|
| code, constants, pack | of the image; the pack is in flash, or on a disk |
| arena | whole pages, as the plan has it; in brackets how many bytes were written to |
| fast | whole pages of tightly coupled memory, likewise |
| other | all other statics |
| stack | how deep it went, of what the board sets aside |
| RAM | arena, fast memory, other statics and stack together |
| in place | weights that steps read in flash, without a copy |
| longest step | instructions of the longest step, all included, and the layer that is predicted to have it |

Instructions are QEMU's count (`-icount`). No time is stated: an emulator's clock says nothing about hardware. Where the step
is missing, several cores share the work.

Digests are those that `eyelet run` prints for the same network on any other machine.
"""


def page(rows):
    """The page, in Markdown."""
    def table(names, cells):
        out = "| image | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names) + "\n"
        for row in rows:
            title = f"`{row['board']}`: {row['title']}"
            out += f"| {title} | " + " | ".join(cells(row)) + " |\n"
        return out

    def step(row):
        if row["instructions"] is None:
            return ""
        # Three digits: the counter has a coarser tick than one instruction.
        value = row["instructions"]
        digits = max(len(str(value)) - 3, 0)
        return f"{round(value, -digits):,} (`{row['longest_layer']}`)"

    memory = table(
        ["code", "constants", "pack", "arena", "fast", "other", "stack", "RAM"],
        lambda row: [
            f"{row['code']:,}",
            f"{row['rodata']:,}",
            f"{row['pack']:,}" if row["pack"] else "",
            f"{row['arena']:,} ({row['touched']:,})",
            f"{row['fast']:,} ({row['fast_touched']:,})" if row["fast"] else "",
            f"{row['statics']:,}",
            f"{row['stack_used']:,} of {row['stack']:,}",
            f"{row['ram_used']:,}",
        ],
    )
    runs = table(
        ["in place", "loads", "longest step", "digest"],
        lambda row: [f"{row['in_place']:,}", str(row["loads"]), step(row), f"`{row['digest']}`"],
    )
    return f"{HEAD}## Memory, in bytes\n\n{memory}\n## Inferences\n\n{runs}{TAIL}"


def check(arguments):
    work = Path(arguments.work)
    read = lambda name: (work / name).read_text()
    sizes, plan = json.loads(read("sizes.json")), json.loads(read("plan.json"))
    counted = arguments.counted and arguments.counted.read_text()
    row = measured(read("serial"), sizes, plan, counted)
    said = complaints(row, arguments.at_most)
    for line in said:
        print(f"error: {line}")
    row |= {"board": arguments.board, "what": arguments.what, "title": arguments.title}
    Path(arguments.save).write_text(json.dumps(row))
    return 1 if said else 0


def write(arguments):
    rows = [json.loads(path.read_text()) for path in sorted(Path(arguments.folder).glob("*.json"))]
    if not rows:
        print(f"tools/board_results.py: {arguments.folder} has no results", file=sys.stderr)
        return 1
    Path(arguments.page).write_text(page(rows))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    checks = verbs.add_parser("check")
    checks.add_argument("work")
    for name in ("--board", "--what", "--title", "--save"):
        checks.add_argument(name, required=True)
    checks.add_argument("--counted", type=Path)
    checks.add_argument("--at-most", action="store_true")
    checks.set_defaults(run=check)
    writes = verbs.add_parser("write")
    writes.add_argument("folder")
    writes.add_argument("page")
    writes.set_defaults(run=write)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
