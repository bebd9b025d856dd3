#!/usr/bin/env python3
"""Proves that no dependency points upward: each room uses only what ARCHITECTURE.md lets it use.

    tools/floors.py [--edges]

ARCHITECTURE.md lists the rooms in a table, lowest first, with what each may use: modules of the library (`runtime/NAME`),
`kernels/`, and crates of the planner, whose normal dependencies count. It also says in which order some folders have their
modules. Modules of the library that the table does not name may not be there.

Prints each dependency that is not allowed, with a place where it is used, and fails where there is one.
"""
import argparse
import json
import re
import subprocess
import sys

import cycles

# The crate whose modules are rooms.
LIBRARY = "eyelet"
# Modules at the library's root that are not rooms: constants of the board for which it is built.
APART = {"board"}


def rooms(page):
    """[(names, allowed)] of the table's rows, in order; what may be used is a set of names, of None for all above."""
    table = page.split("| room |", 1)[1].split("\n\n", 1)[0]
    for row in table.splitlines()[2:]:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        names = [name.rstrip("/") for name in re.findall(r"`([^`]+)`", cells[0])]
        allowed = None if cells[2].startswith("all ") else set(re.findall(r"`([^`]+)`", cells[2]))
        yield names, allowed


def orders(page):
    """[(folder, modules)] of the folders whose modules have an order, lowest first."""
    for folder, listed in re.findall(r"\(`([\w/-]+)`\) has rooms in this order[^:]*:\s+([^.]*)\.", page):
        yield folder, re.findall(r"`(\w+)`", listed)


def module(name):
    """The library's module that a room is, or None."""
    match = re.fullmatch(r"(?:runtime/)?(\w+)(?:\.rs)?", name)
    return match.group(1) if match and (name.startswith("runtime/") or name == "kernels") else None


def library(page, edges):
    """Dependencies among the library's modules that no row allows."""
    allowed, above = {}, set()
    for names, may_use in rooms(page):
        for name in filter(None, map(module, names)):
            named = may_use or set()
            allowed[name] = set(above) if may_use is None else {module(f"runtime/{other}") if "/" not in other
                                                                 else module(other) for other in named}
            above.add(name)
    for (start, end), where in sorted(edges.items()):
        if "::" in start or {start, end} & APART:
            continue
        if start not in allowed:
            yield f"{start} is no room of ARCHITECTURE.md ({where[0]})"
        elif end not in allowed[start]:
            yield f"runtime: {start} may not use {end}, as in {where[0]}"


def folders(page, edges_of):
    """Dependencies against the order of a folder's modules."""
    for folder, order in orders(page):
        crate, _, inside = folder.partition("/src/")
        prefix = inside.replace("/", "::") + "::"
        for (start, end), where in sorted(edges_of(crate).items()):
            if not start.startswith(prefix) or "::" in start[len(prefix):]:
                continue
            start, end = start[len(prefix):], end[len(prefix):]
            missing = [name for name in (start, end) if name not in order]
            if missing:
                yield f"{folder}: ARCHITECTURE.md does not say where {missing[0]} stands ({where[0]})"
            elif order.index(end) > order.index(start):
                yield f"{folder}: {start} may not use {end}, as in {where[0]}"


def crates(page, packages):
    """Normal dependencies among crates that no row allows. `packages`: {folder: folders of what it depends on}."""
    allowed = {name: may_use for names, may_use in rooms(page) for name in names}
    for folder, needs in sorted(packages.items()):
        if folder == "" or folder not in allowed or allowed[folder] is None:
            continue
        named = {"" if name == LIBRARY else name for name in allowed[folder]}
        # A module of the library is the library.
        named |= {"" for name in named if name.startswith("runtime/")}
        for need in sorted(needs - named):
            yield f"{folder} may not depend on {need or LIBRARY}"


def workspace():
    """{folder: folders of the crates of the workspace that it depends on}, and {folder: name}."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    metadata = subprocess.run(command, cwd=cycles.ROOT, check=True, capture_output=True, text=True).stdout

    def folder(path):
        inside = str(path).removeprefix(str(cycles.ROOT)).strip("/")
        return inside.removesuffix("/Cargo.toml").removesuffix("Cargo.toml")
    packages, names = {}, {}
    for package in json.loads(metadata)["packages"]:
        here = folder(package["manifest_path"])
        names[here] = package["name"]
        packages[here] = {folder(need["path"]) for need in package["dependencies"]
                          if need["kind"] is None and need.get("path")}
    return packages, names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", action="store_true", help="prints the dependencies of crates")
    options = parser.parse_args()
    page = (cycles.ROOT / "ARCHITECTURE.md").read_text()
    packages, names = workspace()
    if options.edges:
        for folder, needs in sorted(packages.items()):
            print(f"{folder or LIBRARY}: {', '.join(sorted(need or LIBRARY for need in needs)) or 'nothing'}")
    roots = cycles.crates()
    edges = {}

    def edges_of(folder):
        name = names[folder]
        if name not in edges:
            edges[name] = cycles.Crate(roots[name]).edges()
        return edges[name]
    wrong = [*library(page, edges_of("")), *folders(page, edges_of), *crates(page, packages)]
    for line in wrong:
        print(f"floors.py: {line}", file=sys.stderr)
    print(f"{len(list(rooms(page)))} rooms, {len(list(orders(page)))} ordered folders, {len(wrong)} arrows upward")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
