"""Cycles of a loop on a Cortex-A53 or Cortex-A55, which execute in order: at most two instructions a cycle, in
program order, an instruction waiting for its operands and for a partner that its kind may issue beside.

llvm's models of these two do not know which loads may issue beside an `fmla`, on which everything depends here.
What may was measured by others (ncnn's developer guide, "arm a53 a55 dual issue"):

  both  a load of a 128-bit vector issues alone and takes two cycles; a load into an integer register and integer
        arithmetic are free beside an `fmla`
  A53   the load of a 64-bit vector issues beside a 64-bit `ins`, not beside an `fmla`; no load of a vector issues
        in the fourth cycle after an `fmla`
  A55   the load of a 64-bit vector and `ins` issue beside an `fmla`

Throughputs and latencies of the A55 are Arm's (software optimization guide): an `fmla` and a memory access a
cycle, four cycles to the result. Those of the A53 are set so that kernels published for it come out ahead of
generic ones. Everything is in the first-level cache, branches are predicted. Read a share as give or take ten
points, as a comparison of loops much closer.
"""
import re

CORES = ("a53", "a55")

# kind: (cycles to the result, cycles for which nothing else may issue)
KINDS = {
    "fma": (4, 0),
    "vector": (4, 0),
    "insert": (2, 0),
    "load 64": (3, 0),
    "load integer": (2, 0),
    "store": (1, 0),
    "integer": (1, 0),
    "branch": (1, 0),
}
# An accumulation may follow the one before at once; a product that is multiplied again is later on an A53.
MULTIPLICAND_AFTER_FMA = {"a53": 8, "a55": 4}
HOLE = 4


def registers(text):
    """Registers in an operand list, one name for all views: v3 for s3, d3, q3 and v3.4s, x3 for w3."""
    return ["v" + n if view in "vqdsh" else "x" + n for view, n in re.findall(r"\b([vqdshxw])(\d+)\b", text)]


def expand(operands):
    """`{v0.4s-v3.4s}` with its registers written out."""
    def listed(match):
        first, last = int(match.group(1)), int(match.group(2))
        return "{" + ", ".join(f"v{n}" for n in range(first, last + 1))
    return re.sub(r"\{v(\d+)\.\w+\s*-\s*v(\d+)(?:\.\w+)?", listed, operands)


class Instruction:
    """Its kind, what it reads and writes, and for how long a wide load keeps all else from issuing."""

    def __init__(self, text):
        op, _, operands = text.partition("\t")
        operands = expand(operands)
        before, bracket, inside = operands.partition("[x") if op[:2] in ("ld", "st", "pr") else (operands, "", "")
        self.op, self.alone = op, 0
        self.kind = self.find_kind(op, operands, registers(before))
        named, address = registers(before), registers("[x" + inside) if bracket else []
        moved = address[:1] if re.search(r"\](!|,)", bracket + inside) else []
        if op.startswith("ld"):
            self.writes, self.reads = named, address
        elif op.startswith(("st", "prf", "cmp", "cmn", "tst")) or self.kind == "branch":
            self.writes, self.reads = [], named + address
        elif self.kind in ("fma", "insert"):
            self.writes, self.reads = named[:1], named
        else:
            self.writes, self.reads = named[:1], named[1:]
        self.moves = moved
        if op in ("cmp", "cmn", "tst", "subs", "adds", "ands"):
            self.writes = self.writes + ["flags"]
        if op.startswith("b."):
            self.reads = self.reads + ["flags"]

    def find_kind(self, op, operands, named):
        if op.startswith("prf"):
            return "load integer"
        if op.startswith("ld"):
            return self.find_load(op, operands, named)
        if op.startswith("st"):
            return "store"
        if op in ("fmla", "fmls"):
            return "fma"
        if op in ("ins", "mov") and re.match(r"v\d+\.d\[\d\],\s*x", operands):
            return "insert"
        if any(r[0] == "v" for r in named):
            return "vector"
        return "branch" if op in ("b", "bl", "br", "ret") or re.match(r"b\.|cbn?z|tbn?z", op) else "integer"

    def find_load(self, op, operands, named):
        if named[0][0] != "v":
            return "load integer"
        one_lane = op == "ld1r" or re.search(r"\.[sd]\}?\[", operands)
        # A pair of d registers moves as much as one q register.
        halves = {"s": 0 if op != "ldp" else 1, "d": 1}.get(operands[0], 2) * len(named)
        if one_lane or halves < 2:
            return "load 64"
        self.alone = halves
        return "load wide"

    def latency(self, core, register, accumulates):
        """Cycles from issue until a later instruction can use `register`."""
        if register in self.moves:
            return 1
        if self.alone:
            return 4 + self.alone - 1
        if self.kind == "fma" and not accumulates:
            return MULTIPLICAND_AFTER_FMA[core]
        return KINDS[self.kind][0]


MEMORY = ("load 64", "load integer", "load wide", "store")
ARITHMETIC = ("fma", "vector")


def beside(kind, other, core):
    """Whether an instruction of this kind may issue in a cycle after another of kind `other`."""
    pair = {kind, other}
    if other == "branch" or "load wide" in pair or all(k in MEMORY for k in (kind, other)):
        return False
    if kind in ARITHMETIC and other in ARITHMETIC:
        return False
    if core == "a53":
        if "insert" in pair and (kind == other or pair & set(ARITHMETIC)):
            return False
        if "load 64" in pair and pair & set(ARITHMETIC):
            return False
    return True


def cycles(instructions, core, repetitions=40):
    """Cycles of one repetition of the loop, once it runs steadily."""
    program = [Instruction(text) for text in instructions]
    usable = {}  # register: (the instruction that wrote it, when it issued)
    multiplied = set()  # cycles in which an fmla issued
    now, slot, free = 0, [], 0
    marks = []
    for _ in range(repetitions):
        for instruction in program:
            at = max(now, free)
            for register in instruction.reads:
                if register in usable:
                    writer, issued = usable[register]
                    accumulates = instruction.kind == "fma" and register == instruction.writes[0]
                    at = max(at, issued + writer.latency(core, register, accumulates))
            vector_load = instruction.kind in ("load 64", "load wide")
            while True:
                if at > now:
                    now, slot = at, []
                full = len(slot) == 2 or any(not beside(instruction.kind, k, core) for k in slot)
                hole = core == "a53" and vector_load and now - HOLE in multiplied
                if not full and not hole:
                    break
                at = now + 1
            slot.append(instruction.kind)
            if instruction.kind == "fma":
                multiplied.add(now)
            if instruction.alone:
                free = now + instruction.alone
            for register in instruction.writes + instruction.moves:
                usable[register] = (instruction, now)
        marks.append(now)
    half = repetitions // 2
    return (marks[-1] - marks[half]) / (repetitions - 1 - half)
