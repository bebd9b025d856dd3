#!/usr/bin/env python3
"""Warns of generated pages in lab/ that are older than many changes of what they measure.

    tools/stale.py               the pages, the commit of their figures, and commits since then in what they measure
    tools/stale.py --most 100    warns from more than 100 commits on [default: 200]

The commit of a page is the one that lab/README.md names, or else the last one that changed the page. Warnings end with
exit code 0: to measure again takes a quiet machine, or a board. A page that is not listed here is an error.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = "lab/results"
# Where changes may make a page's figures others. Folders at the top: those inside have moved.
PLANNING, RUNNING = ["planner", "boards"], ["runtime", "kernels"]
MEASURES = {
    "arm": [*RUNNING, "benches"],
    "boards": [*RUNNING, "boards"],
    "boards-predicted": PLANNING,
    "gpu": [*RUNNING, "benches"],
    "memory": [*RUNNING, "planner"],
    "networks": [*PLANNING, *RUNNING],
    "operators": ["planner"],
    "peers": [*PLANNING, *RUNNING, "benches"],
    "plans": [*PLANNING, *RUNNING],
    "predictions": [*PLANNING, *RUNNING],
    "tasks": [*PLANNING, *RUNNING, "lab"],
}


def git(*words):
    """What git prints, or nothing where it fails: a clone may lack old commits."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def named():
    """The commits that lab/README.md names, by page."""
    rows = re.findall(r"^\|.*?\(results/([\w-]+)\.md\).*\|([^|]*)\|$", (ROOT / "lab/README.md").read_text(), re.MULTILINE)
    found = {page: re.search(r"`([0-9a-f]{7,})`", last) for page, last in rows}
    return {page: commit[1] for page, commit in found.items() if commit}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=200, metavar="COMMITS")
    most = parser.parse_args().most
    pages = sorted(path.stem for path in (ROOT / RESULTS).glob("*.md"))
    unlisted = set(pages) ^ set(MEASURES)
    if unlisted:
        sys.exit(f"tools/stale.py: {', '.join(sorted(unlisted))}: MEASURES and the pages of {RESULTS} differ")
    commits = named()
    for page in pages:
        commit = commits.get(page) or git("log", "-1", "--format=%h", "--", f"{RESULTS}/{page}.md")
        since = git("rev-list", "--count", f"{commit}..HEAD", "--", *MEASURES[page])
        if not since:
            print(f"{RESULTS}/{page}.md  {commit} is not in this clone")
            continue
        warning = f"  warning: more than {most}; measure again" if int(since) > most else ""
        print(f"{RESULTS}/{page}.md  {commit}  {since} commits in {', '.join(MEASURES[page])}{warning}")


if __name__ == "__main__":
    main()
