"""Running: a pack that is open in this process."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _native
from ._native import Error
from ._size import Size, size

StrPath = Union[str, "os.PathLike[str]"]


class Port(NamedTuple):
    """An input or output of the network."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Change(NamedTuple):
    """What a change of budget took."""

    budget_bytes: int
    arena_bytes: int
    kept_bytes: int
    read_bytes: int
    ms: float


class Session:
    """A pack that is open: one arena, within a budget.

    The pack's largest plan within `budget` runs; without a budget, its largest plan. `io` says how weights are read:
    `direct` (past the page cache), `buffered`, or `memory`. Other threads of Python run during an inference.
    """

    def __init__(
        self,
        pack: StrPath,
        budget: Optional[Size] = None,
        *,
        threads: Optional[int] = None,
        io: str = "direct",
        verify: bool = True,
    ) -> None:
        bytes_ = None if budget is None else size(budget)
        self._native = _native.Session(os.fspath(pack), bytes_, threads, io, verify)
        self._limits = [limits for *_, limits in self._native.inputs]
        self.network: str = self._native.network
        self.inputs: tuple[Port, ...] = _ports(self._native.inputs)
        self.outputs: tuple[Port, ...] = _ports(self._native.outputs)
        self.budgets: tuple[int, ...] = tuple(self._native.budgets)
        self.budget: int = self._native.budget
        self.arena_bytes: int = self._native.arena_bytes
        self.threads: int = self._native.threads

    def run(self, *inputs: npt.ArrayLike) -> list[npt.NDArray[Any]]:
        """Computes the outputs of inputs, both in the model's order."""
        if len(inputs) != len(self.inputs):
            names = ", ".join(port.name for port in self.inputs)
            raise Error(f"{len(inputs)} inputs given, the network has {len(self.inputs)}: {names}")
        given = [_flat(array, port, limits) for array, port, limits in zip(inputs, self.inputs, self._limits)]
        found = self._native.run(given)
        return [_shaped(array, port) for array, port in zip(found, self.outputs)]

    def set_budget(self, budget: Size) -> Change:
        """Changes to the largest plan within another budget, no larger than the one that the session has."""
        budget_bytes, arena, kept, read, ns = self._native.set_budget(size(budget))
        self.budget, self.arena_bytes = budget_bytes, arena
        return Change(budget_bytes, arena, kept, read, ns / 1e6)

    def close(self) -> None:
        """Gives the arena back. A session that is closed runs nothing any more."""
        self._native.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


def _ports(tensors: list[_native.Tensor]) -> tuple[Port, ...]:
    return tuple(Port(name, tuple(shape), _dtype(kind)) for name, shape, kind, _ in tensors)


def _dtype(kind: str) -> np.dtype[Any]:
    # NumPy has no bfloat16: values come as what the runtime computes with.
    return np.dtype("float32" if kind == "bfloat16" else kind)


def _flat(given: npt.ArrayLike, port: Port, limits: tuple[int, int]) -> npt.NDArray[Any]:
    """An input as the runtime takes it: float32, or int32 for integers and truth values."""
    array = np.asarray(given)
    if array.shape != port.shape:
        raise Error(f"input {port.name} has shape {list(array.shape)}, the network takes {list(port.shape)}")
    floats = port.dtype.kind == "f"
    if array.dtype.kind not in ("f" if floats else "biu"):
        hint = f"convert it with .astype(numpy.{port.dtype})"
        raise Error(f"input {port.name} is of {array.dtype}, the network takes {port.dtype}: {hint}")
    if floats:
        return np.ascontiguousarray(array, dtype=np.float32).reshape(-1)
    least, most = limits
    for value in (array.min(), array.max()) if array.size else ():
        if not least <= value <= most:
            raise Error(f"input {port.name} has {value}, the network takes {least} to {most}")
    return np.ascontiguousarray(array, dtype=np.int32).reshape(-1)


def _shaped(array: npt.NDArray[Any], port: Port) -> npt.NDArray[Any]:
    return array.astype(port.dtype, copy=False).reshape(port.shape)
