"""Planning: what `eyelet plan` does, by that command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

from ._native import Error
from ._size import Size, size

_DISTRIBUTION = "eyelet-planner"

StrPath = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Plan:
    """A plan of a pack."""

    budget_bytes: int
    arena_bytes: int
    bytes_read_per_inference: int
    predicted_ms: float


@dataclass(frozen=True)
class Pack:
    """A pack that was written. It is a path, too: `Session(pack)` and `open(pack, "rb")` take it."""

    path: Path
    plans: tuple[Plan, ...]
    report: dict[str, Any]
    """Everything that `eyelet plan --json` prints."""

    def __fspath__(self) -> str:
        return str(self.path)


def command() -> Path:
    """The `eyelet` command that was installed with this module; otherwise the one on the PATH."""
    try:
        files = metadata.files(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "eyelet" and file.parent.name in ("bin", "scripts"):
            return Path(os.fspath(file.locate())).resolve()
    found = shutil.which("eyelet")
    if found is None:
        raise Error("the command `eyelet` is neither installed with this module nor on the PATH: install the wheel again")
    return Path(found)


def plan(
    model: StrPath,
    budget: Union[Size, Sequence[Size], None] = None,
    *,
    out: Optional[StrPath] = None,
    board: Optional[str] = None,
    weights: Optional[str] = None,
    exact: bool = False,
    threads: Optional[int] = None,
    dims: Optional[Mapping[str, Union[int, Sequence[int]]]] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    options: Sequence[str] = (),
) -> Pack:
    """Plans a model into a pack, for one or several budgets of memory; without one, for what `board` gives a network.

    The pack is written next to the model unless `out` names it. `options` are further ones of `eyelet plan`. A model
    that cannot be planned raises `Error` with the command's text.
    """
    arguments = ["plan", os.fspath(model), "--json"]
    budgets = [budget] if isinstance(budget, (int, str)) else list(budget or ())
    for each in budgets:
        arguments += ["--budget", str(size(each))]
    path = Path(os.fspath(out)) if out is not None else Path(os.fspath(model)).with_suffix(".pack")
    arguments += ["-o", str(path)]
    for option, value in (("--board", board), ("--weights", weights), ("--threads", threads)):
        if value is not None:
            arguments += [option, str(value)]
    if exact:
        arguments.append("--exact")
    for name, extents in (dims or {}).items():
        arguments += ["--dim", f"{name}={_list([extents] if isinstance(extents, int) else extents)}"]
    for name, extents in (shapes or {}).items():
        arguments += ["--shape", f"{name}={_list(extents)}"]
    report = _run([*arguments, *options])
    plans = tuple(
        Plan(
            budget_bytes=each["budget_bytes"],
            arena_bytes=each["arena_bytes"],
            bytes_read_per_inference=each["bytes_read_per_inference"],
            predicted_ms=each["predicted_ms"],
        )
        for each in report["plans"]
    )
    return Pack(path=path, plans=plans, report=report)


def _list(extents: Sequence[int]) -> str:
    return ",".join(str(extent) for extent in extents)


def _run(arguments: Sequence[str]) -> dict[str, Any]:
    """The report of the command; its error as an exception."""
    done = subprocess.run([str(command()), *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == 0:
        report: dict[str, Any] = json.loads(done.stdout)
        return report
    text = done.stderr.decode(errors="replace").strip()
    for start in ("eyelet: error: ", "error: "):
        text = text[len(start) :] if text.startswith(start) else text
    raise Error(text or f"`eyelet {' '.join(arguments)}` ended with {done.returncode}")
