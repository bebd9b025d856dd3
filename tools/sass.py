#!/usr/bin/env python3
"""The loops of GPU kernels in machine code: what a multiprocessor issues for its multiplications.

    tools/cuda.sh sass                          once: installs the disassembler
    tools/sass.py                               the loop that multiplies most, of each kernel and board
    tools/sass.py --arch 53,87 eyelet_conv      of kernels whose names contain a text (compiles for these only)
    tools/sass.py --passage eyelet_conv         the shortest passage through the loop that loads and stores: what it does
                                                most of the time, where jumps lead around what is rare
    tools/sass.py --all eyelet_gemv             every loop, those for remainders as well
    tools/sass.py --listing --arch 87 NAME      with its instructions
    tools/sass.py --cubin FILE NAME             of a module that was compiled otherwise

Compiles the kernels as everybody does (`cargo check -p eyelet --features cuda`; only what has changed). For a loop,
without the loops inside it, it prints what one thread does in one passage:

  FFMA      multiplications and additions, and their share of the instructions
  issue     their share of the issue slots: on Maxwell (sm_53) two instructions may go out together
  LDS, LDG  loads from shared and global memory: instructions
  B/FFMA    bytes loaded from each, for one multiplication. A multiprocessor reads 128 bytes of shared memory a cycle and
            multiplies 128 times (64 on sm_72), so that more than 1 (2 on sm_72) keeps the multipliers waiting, unless
            lanes read the same words
  others    the rest, most frequent first

A passage counts the instructions on one way through the loop, without those that jumps lead around.

What it does not see: latencies, bank conflicts, how many warps are there to hide them.
"""
import argparse
import re
from collections import Counter, deque
from pathlib import Path

import cuda_images

INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(\{)?\s*(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)(.*)")
LABEL = re.compile(r"^(\.L\w*):")
SECTION = re.compile(r"^\.section\s+\.text\.(\S+?),")
MULTIPLIES = ("FFMA", "FFMA32I")


class Instruction:
    def __init__(self, text, paired, predicate, name, operands):
        self.text, self.paired, self.conditional, self.name = text.strip(), paired, predicate is not None, name
        self.opcode = name.split(".")[0]
        self.target = None
        if self.opcode in ("BRA", "SSY") and (target := re.search(r"`\((\.L\w*)\)", operands)):
            self.target = target.group(1)

    def bytes(self):
        """Of a load, for one thread."""
        for part in self.name.split(".")[1:]:
            if part in ("64", "128"):
                return int(part) // 8
            if part in ("U8", "S8", "U16", "S16"):
                return int(part[1:]) // 8
        return 4


def kernels(listing):
    """name: (instructions, labels: index of the instruction that follows)."""
    found, current = {}, None
    for line in listing.splitlines():
        text = line.strip()
        if section := SECTION.match(text):
            current = found.setdefault(section.group(1), ([], {}))
        elif text.startswith(".section\t"):
            current = None
        elif current is not None:
            code, labels = current
            if label := LABEL.match(text):
                labels[label.group(1)] = len(code)
            elif instruction := INSTRUCTION.match(text):
                code.append(Instruction(text, instruction.group(2) is not None, *instruction.groups()[2:]))
    return found


def loops_of(code, labels):
    """The instructions of each loop without those of the loops inside it. A loop ends in the last jump to its first
    instruction."""
    ends = {}
    for end, instruction in enumerate(code):
        start = labels.get(instruction.target) if instruction.opcode == "BRA" else None
        # A jump to itself is how a kernel's code ends.
        if start is not None and start < end:
            ends[start] = end + 1
    loops = []
    for start, end in sorted(ends.items()):
        inner = [range(*other) for other in ends.items() if start < other[0] and other[1] <= end]
        own = [code[i] for i in range(start, end) if not any(i in other for other in inner)]
        loops.append((own, len(inner)))
    return loops


def passage_of(code, labels):
    """The instructions of the shortest way through the loop that multiplies most, which loads from global memory and
    stores to shared memory on it. On Maxwell, SYNC leads to where the last SSY says. None where there is no such way."""
    def target(instruction):
        return labels.get(instruction.target)

    def jumps(i):
        return code[i].opcode == "BRA" and target(code[i]) is not None

    loops = [(target(code[i]), i) for i in range(len(code)) if jumps(i) and target(code[i]) < i]
    loops = [(multiplications(code[start : end + 1]), start - end, start, end) for start, end in loops]
    if not loops:
        return None
    # The innermost of those around most multiplications.
    most = max(loops)[0]
    _, _, start, end = max(loop for loop in loops if loop[0] == most)
    first = (start, False, False, ())
    before, waiting = {first: None}, deque([first])
    while waiting:
        here = waiting.popleft()
        i, loads, stores, stack = here
        if not start <= i <= end:
            continue
        instruction = code[i]
        loads = loads or instruction.opcode == "LDG"
        stores = stores or instruction.opcode == "STS"
        after = []
        if instruction.opcode == "BRA":
            if target(instruction) == start and loads and stores:
                way = []
                while here:
                    way.append(code[here[0]])
                    here = before[here]
                return way[::-1]
            if target(instruction) is not None and target(instruction) > i:
                after.append((target(instruction), stack))
        elif instruction.opcode == "SSY":
            stack = (*stack, target(instruction))
        elif instruction.opcode == "SYNC" and stack:
            after.append((stack[-1], stack[:-1]))
        if instruction.opcode not in ("BRA", "SYNC", "EXIT") or instruction.conditional:
            after.append((i + 1, stack))
        for place, stack in after:
            state = (place, loads, stores, stack)
            if state not in before:
                before[state] = here
                waiting.append(state)
    return None


def multiplications(loop):
    return sum(instruction.opcode in MULTIPLIES for instruction in loop)


def describe(loop):
    count = Counter(instruction.opcode for instruction in loop)
    ffma = multiplications(loop)
    slots = len(loop) - sum(instruction.paired for instruction in loop)
    loads = {"LDS": ("LDS",), "LDG": ("LDG", "LD")}
    line = f"{len(loop):5} instructions  FFMA {ffma:4} {100 * ffma / len(loop):5.1f} %  issue {100 * ffma / slots:5.1f} %"
    for name, opcodes in loads.items():
        number = sum(count[opcode] for opcode in opcodes)
        total = sum(instruction.bytes() for instruction in loop if instruction.opcode in opcodes)
        line += f"  {name} {number:3} {total / ffma if ffma else float('nan'):5.2f} B/FFMA"
    known = {*MULTIPLIES, *(opcode for opcodes in loads.values() for opcode in opcodes)}
    others = [f"{opcode} {number}" for opcode, number in count.most_common() if opcode not in known]
    return line + "  others: " + ", ".join(others)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of kernels' names")
    parser.add_argument("--arch", help="architectures, such as 53,87")
    parser.add_argument("--cubin", type=Path, action="append", help="a module, instead of those that the build makes")
    parser.add_argument("--passage", action="store_true", help="the shortest way through the loop that multiplies most")
    parser.add_argument("--all", action="store_true", help="all loops")
    parser.add_argument("--listing", action="store_true", help="the loops' instructions, too")
    options = parser.parse_args()
    if options.cubin:
        modules = [(path.name, path.resolve()) for path in options.cubin]
    else:
        folder, archs = cuda_images.build(options.arch)
        modules = [(f"sm_{arch}", folder / f"sm_{arch}.cubin") for arch in archs]
    found = 0
    for module, path in modules:
        listing = cuda_images.ask(cuda_images.NVDISASM, "-c", path, setup="tools/cuda.sh sass")
        for name, (code, labels) in sorted(kernels(listing).items()):
            if options.names and not any(part in name for part in options.names):
                continue
            found += 1
            if options.passage:
                way = passage_of(code, labels)
                loops = [(way, 0)] if way else []
            else:
                loops = sorted(loops_of(code, labels), key=lambda loop: multiplications(loop[0]), reverse=True)
            if not loops:
                print(f"{module:6} {name:32} no loop")
            for loop, inner in loops if options.all else loops[:1]:
                print(f"{module:6} {name:32} {describe(loop)}" + (f"  ({inner} loops inside)" if inner else ""))
                for instruction in loop if options.listing else []:
                    print(f"    {instruction.text}")
    if found == 0:
        raise cuda_images.Unanswerable(f"no kernel's name contains {' or '.join(options.names)}")


cuda_images.main(main)
