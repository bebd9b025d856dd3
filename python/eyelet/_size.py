"""Sizes as people write them: binary units."""

from __future__ import annotations

from typing import Union

from ._native import Error

Size = Union[int, str]

_SHIFTS = {"": 0, "b": 0, "k": 10, "ki": 10, "kib": 10, "m": 20, "mi": 20, "mib": 20, "g": 30, "gi": 30, "gib": 30}


def size(value: Size) -> int:
    """Bytes of a size: a number of bytes, or a text such as 24MiB."""
    if not isinstance(value, str):
        bytes_ = int(value)
    else:
        number = value.rstrip("BbiIkKmMgG ")
        shift = _SHIFTS.get(value[len(number) :].strip().lower())
        try:
            if shift is None or not set(number) <= set("0123456789."):
                raise ValueError
            bytes_ = int(float(number) * (1 << shift))
        except ValueError:
            text = f"`{value}` is not a size: write bytes or a number with KiB, MiB or GiB, as in 24MiB"
            raise Error(text) from None
    if bytes_ < 1:
        raise Error(f"`{value}` is too small: a size is at least 1 byte")
    return bytes_
