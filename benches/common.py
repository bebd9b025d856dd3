"""What the benches share: running commands, facts about the machine, tables."""

import datetime
import math
import os
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20


class Failed(Exception):
    """A command that did not do its work, with the last line that says why."""


def quiet_environment():
    """The environment of every process: as it is, but no engine's package may install anything or reach
    beyond its own virtual environment, and no library's own idea of a number of threads is used."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OMP_", "KMP_", "MKL_", "RAYON_", "RTEN_")) and name not in ("THREADS", "ISA")
    }
    return kept | {"PIP_NO_INDEX": "1", "PIP_REQUIRE_VIRTUALENV": "1"}


def call(command, seconds=600, **options):
    """Standard output of a command."""
    command = [str(part) for part in command]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            env=quiet_environment(),
            **options,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(str(error).splitlines()[0]) from error
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()
        failed = Failed(f"status {done.returncode}: {lines[-1][:300]}")
        failed.out = done.stdout
        raise failed
    return done.stdout


def eyelet():
    """The command."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "eyelet"


def git(*args):
    done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


def facts(script):
    """When, where, with what, by which command."""

    def field(path, name):
        with open(path, encoding="ascii", errors="replace") as file:
            lines = (line.split(":", 1) for line in file if ":" in line)
            return next((value.strip() for key, value in lines if key.strip() == name), "unknown")

    memory = int(field("/proc/meminfo", "MemTotal").split()[0]) * 1024
    # Not of what a run itself writes.
    changed = " and changes" if git("status", "--porcelain", "--untracked-files=no", "--", ":!docs") else ""
    system = f"{platform.system()} {platform.release()}"
    return {
        "Date": datetime.date.today().isoformat(),
        "Machine": f"{field('/proc/cpuinfo', 'model name')}, {os.cpu_count()} cores, {memory / MIB / 1024:.0f} GiB, {system}",
        "eyelet": f"{git('rev-parse', '--short', 'HEAD')}{changed}",
        "Command": f"`{' '.join([script, *sys.argv[1:]])}`",
    }


def table(head, rows):
    """The first column to the left, the others to the right."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def ms(value):
    """Three digits."""
    if value is None:
        return "–"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value > 0 else "0"
