"""Runs neural networks larger than the memory they are given.

    pack = eyelet.plan("resnet50.onnx", "24MiB")
    session = eyelet.Session(pack)
    (scores,) = session.run(image)

`plan` runs the `eyelet` command, which is installed with this module. `Session` runs packs in this process.
"""

from ._native import Error
from ._plan import Pack, Plan, command, plan
from ._session import Change, Port, Session
from ._size import size

__all__ = ["Change", "Error", "Pack", "Plan", "Port", "Session", "command", "plan", "size"]
