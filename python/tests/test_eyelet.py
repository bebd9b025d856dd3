"""The module as it is installed: `tests/wheel.sh` runs this in a fresh environment."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import eyelet
import numpy as np

DIGITS = pathlib.Path(__file__).parents[2] / "tests/data/digits"


class Planned(unittest.TestCase):
    """Plans the digits' network once, for two budgets."""

    @classmethod
    def setUpClass(cls) -> None:
        # On a disk: direct reads must leave nothing in memory.
        cls.folder = tempfile.mkdtemp(dir=os.environ.get("EYELET_TEST_DIR", "."))
        cls.model = pathlib.Path(cls.folder) / "digits.onnx"
        shutil.copy(DIGITS / "digits.onnx", cls.model)
        cls.pack = eyelet.plan(cls.model, ["64KiB", 256 << 10], exact=True)
        cls.images = np.load(DIGITS / "images.npy")
        cls.labels = np.load(DIGITS / "labels.npy")
        cls.logits = np.load(DIGITS / "logits.npy")

    @classmethod
    def tearDownClass(cls) -> None:
        shutil.rmtree(cls.folder)

    def image(self, number: int) -> np.ndarray:
        with eyelet.Session(self.pack) as session:
            return self.images[number].astype(np.float32).reshape(session.inputs[0].shape)


class Runs(Planned):
    def test_the_module_is_the_installed_one(self) -> None:
        spec = importlib.util.find_spec("eyelet")
        self.assertIn(sys.prefix, spec.origin)
        self.assertEqual(eyelet.command(), (pathlib.Path(sys.prefix) / "bin/eyelet").resolve())

    def test_a_pack_says_what_was_planned(self) -> None:
        self.assertEqual(self.pack.path, self.model.with_suffix(".pack"))
        self.assertEqual([plan.budget_bytes for plan in self.pack.plans], [64 << 10, 256 << 10])
        self.assertLessEqual(self.pack.plans[0].arena_bytes, 64 << 10)
        self.assertEqual(self.pack.report["strategy"], "joint")

    def test_digits_are_read(self) -> None:
        for io in ("direct", "buffered", "memory"):
            with eyelet.Session(self.pack, "64KiB", io=io) as session:
                self.assertLessEqual(session.arena_bytes, 64 << 10)
                for number in range(20):
                    (scores,) = session.run(self.images[number].reshape(session.inputs[0].shape))
                    self.assertEqual(scores.shape, session.outputs[0].shape)
                    self.assertEqual(scores.dtype, np.float32)
                    np.testing.assert_allclose(scores.ravel(), self.logits[number].ravel(), rtol=1e-3, atol=1e-3)
                    self.assertEqual(scores.argmax(), self.labels[number])

    def test_bits_do_not_depend_on_budget_or_process(self) -> None:
        image = self.image(3)
        with eyelet.Session(self.pack, "256KiB") as session:
            (wide,) = session.run(image)
            change = session.set_budget("64KiB")
            self.assertEqual(change.budget_bytes, 64 << 10)
            self.assertEqual(session.budget, 64 << 10)
            (narrow,) = session.run(image)
        self.assertEqual(wide.tobytes(), narrow.tobytes())
        out = pathlib.Path(self.folder) / "out"
        file = pathlib.Path(self.folder) / "image.npy"
        np.save(file, image)
        arguments = [self.pack.path, "--budget", "64KiB", "--input", file, "--output", out]
        subprocess.run([eyelet.command(), "run", *arguments], check=True, stdout=subprocess.DEVNULL)
        (written,) = out.glob("*.npy")
        self.assertEqual(np.load(written).tobytes(), wide.tobytes())

    def test_other_threads_run_meanwhile_and_sessions_are_shared(self) -> None:
        image = self.image(5)
        found: list[bytes] = []
        with eyelet.Session(self.pack) as session:

            def work() -> None:
                for _ in range(20):
                    found.append(session.run(image)[0].tobytes())

            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(len(found), 80)
        self.assertEqual(len(set(found)), 1)


class Errors(Planned):
    def fails(self, *texts: str):
        test = self

        class Context:
            def __enter__(self):
                return self

            def __exit__(self, kind, error, trace) -> bool:
                test.assertIs(kind, eyelet.Error, f"{kind} {error}")
                for text in texts:
                    test.assertIn(text, str(error))
                return True

        return Context()

    def printed(self, *arguments: object) -> str:
        """The error of the command."""
        words = [str(argument) for argument in arguments]
        done = subprocess.run([eyelet.command(), *words], capture_output=True, text=True, check=False)
        start = "eyelet: error: "
        self.assertTrue(done.stderr.startswith(start), done.stderr)
        return done.stderr[len(start) :].strip()

    def test_planning_fails_as_the_command_does(self) -> None:
        out = pathlib.Path(self.folder) / "x.pack"
        with self.fails(self.printed("plan", self.model, "--budget", "1KiB", "-o", out)):
            eyelet.plan(self.model, "1KiB", out=out)
        self.assertFalse(out.exists())
        with self.fails("missing.onnx", "No such file"):
            eyelet.plan("missing.onnx", "1MiB")
        with self.fails("`24 parsecs` is not a size: write bytes or a number with KiB, MiB or GiB, as in 24MiB"):
            eyelet.plan(self.model, "24 parsecs")

    def test_packs_are_refused_with_their_names(self) -> None:
        old = pathlib.Path(self.folder) / "old.pack"
        data = bytearray(self.pack.path.read_bytes())
        data[8] = 1
        old.write_bytes(data)
        for bad in ("missing.pack", old):
            with self.fails(self.printed("run", bad, "--budget", "64KiB")):
                eyelet.Session(bad, "64KiB")
        with self.fails("digits.onnx", "not a pack"):
            eyelet.Session(self.model, io="buffered")
        with self.fails("digits.pack: no plan fits a budget of 1024 bytes", "65536, 262144: give one of these"):
            eyelet.Session(self.pack, "1KiB")
        with self.fails("`fast` is no way to read"):
            eyelet.Session(self.pack, io="fast")
        with self.fails("64 threads asked for"):
            eyelet.Session(self.pack, threads=64)
        with self.fails("old.pack: the pack has format version 1, this build reads version", "plan the model again"):
            eyelet.Session(old)

    def test_damaged_weights_end_an_inference(self) -> None:
        damaged = pathlib.Path(self.folder) / "damaged.pack"
        data = bytearray(self.pack.path.read_bytes())
        for at in range(len(data) - 8192, len(data), 64):
            data[at] ^= 1
        damaged.write_bytes(data)
        image = self.image(0)
        with self.fails("damaged.pack: ", "checksum"):
            with eyelet.Session(damaged) as session:
                session.run(image)

    def test_inputs_are_checked(self) -> None:
        image = self.image(0)
        with eyelet.Session(self.pack) as session:
            with self.fails("0 inputs given, the network has 1"):
                session.run()
            with self.fails(f"input {session.inputs[0].name} has shape [3, 3], the network takes"):
                session.run(np.zeros((3, 3), np.float32))
            with self.fails("is of uint8, the network takes float32: convert it with .astype(numpy.float32)"):
                session.run(image.astype(np.uint8))
            with self.fails("digits.pack: ", "budget"):
                session.set_budget("1KiB")
            # Lists, other floats and arrays that are not contiguous are converted.
            (expected,) = session.run(image)
            for other in (image.tolist(), image.astype(np.float64), np.asfortranarray(image)):
                self.assertEqual(session.run(other)[0].tobytes(), expected.tobytes())
        with self.fails("the session is closed"):
            session.run(image)
        session.close()


if __name__ == "__main__":
    unittest.main()
