"""Never run: mypy reads it, as a program that uses the module."""

import eyelet
import numpy as np


def classify(image: "np.typing.NDArray[np.float32]") -> int:
    pack = eyelet.plan("model.onnx", ["12MiB", 24 << 20], exact=True, dims={"batch": 1})
    with eyelet.Session(pack, "24MiB", threads=2) as session:
        change: eyelet.Change = session.set_budget(pack.plans[0].budget_bytes)
        assert change.ms >= 0.0
        (scores,) = session.run(image)
        return int(scores.argmax())
