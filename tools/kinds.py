#!/usr/bin/env python3
"""Counts the Rust files that name each operator of the pack format, and fails where they are too many.

    tools/kinds.py [--files]

An operator belongs into a few files: those of its own, and a table's here and there. A file names a kind of `OpKind` where its code
has `OpKind::Conv`, or imports kinds by `use OpKind::…` and has `Conv`. Comments do not count, nor tests. Prints for each kind
the files of the runtime and the others; with --files also which.
"""
import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Where the kinds are defined. It has each of them.
DEFINITION = "runtime/pack/layers.rs"

# Files that may name a kind.
MOST = 8

# Files of tests, and of what tests share.
TEST = re.compile(r"(^|/)(tests?|testing|extremes|odd)(/|\.rs$)|_tests?\.rs$")


def sources():
    """{path: code} of the Rust files that git knows or could, without comments and tests."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs"]
    paths = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    found = {}
    for path in paths:
        if not TEST.search(path) and (ROOT / path).exists():
            found[path] = code((ROOT / path).read_text())
    return found


def code(text):
    """What is left without comments, and without the module of tests at the end."""
    return re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", re.sub(r"//[^\n]*", "", text))[0]


def kinds(definition):
    """The kinds of the format."""
    body = re.search(r"pub enum OpKind \{(.*?)\n\}", definition, re.S).group(1)
    return re.findall(r"^\s*(\w+) = \d+", body, re.M)


def naming(kind, texts):
    """The files that name a kind."""
    def names(path, text):
        bare = re.search(r"\buse (\w+::)*OpKind::", text)
        return (path == DEFINITION or re.search(rf"\bOpKind::{kind}\b", text)
                or bare and re.search(rf"(?<![:\w]){kind}\b", text))
    return [path for path, text in sorted(texts.items()) if names(path, text)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", action="store_true", help="prints the files, too")
    options = parser.parse_args()
    texts, wrong = sources(), []
    for kind in kinds(texts[DEFINITION]):
        files = naming(kind, texts)
        inside = sum(path.startswith("runtime/") for path in files)
        print(f"{kind:10} runtime {inside:2}, elsewhere {len(files) - inside:2}")
        if options.files:
            print("".join(f"    {path}\n" for path in files), end="")
        if len(files) > MOST:
            wrong.append(f"{len(files)} files name {kind}, at most {MOST} may: --files prints them")
    for line in wrong:
        print(f"kinds.py: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
