#!/usr/bin/env python3
"""Proves that the modules of each crate depend on one another without a cycle.

    tools/cycles.py [--inner] [--edges]

A module depends on its neighbour where a file of it, or below it, names a path into the other, such as
`use crate::b::Thing` or `super::b::thing()`. A name that the common parent re-exports counts as its origin. A parent and
its children may use each other. Tests are left out.

Prints every cycle of the modules at a crate's root, and fails where there is one. Of the modules further inside it counts
those that are in a cycle, and fails where they are more than INNER; --inner prints their cycles, too, --edges all
dependencies.
"""
import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Modules further inside that are in a cycle. The number only becomes smaller.
INNER = 2


def crates():
    """{name: root file} of the libraries and programs of the workspaces."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    packages = []
    for folder in [ROOT, ROOT / "lab"]:
        metadata = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
        packages += json.loads(metadata)["packages"]
    found = {}
    for package in packages:
        for target in package["targets"]:
            if "lib" in target["kind"]:
                found[package["name"]] = Path(target["src_path"])
            elif "bin" in target["kind"]:
                found[f"{package['name']}/{target['name']}"] = Path(target["src_path"])
    return found


def without_comments(text, strings):
    """The text with comments blanked, and strings, too, unless they are wanted. Lines stay where they are."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.[^\']*|[^\\\'])\'', re.S)

    def blank(match):
        found = match.group(0)
        if found.startswith("/") or not strings:
            return re.sub(r"[^\n]", " ", found)
        return found
    return pattern.sub(blank, text)


TEST = re.compile(r"#\[cfg\((?:all\(\s*)?(?:test|doctest)\b[^\]]*\]")


def without_tests(text):
    """The text without items that only tests have."""
    while match := TEST.search(text):
        end = match.end()
        # Further attributes, then an item that ends in a semicolon or a block.
        while more := re.match(r"\s*#\[[^\]]*\]", text[end:]):
            end += more.end()
        stop = re.search(r"[;{]", text[end:])
        end = len(text) if stop is None else end + stop.start()
        depth = 0
        while end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
            if depth == 0:
                break
        text = text[:match.start()] + re.sub(r"[^\n]", " ", text[match.start():end]) + text[end:]
    return text


MODULE = re.compile(r"((?:#\[[^\]]*\]\s*)*)(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;")


class Crate:
    """The modules of a crate: {path: (file, text without comments, strings and tests)}."""

    def __init__(self, root):
        self.modules = {}
        self.read((), root, root.parent)
        self.imports = {path: dict(self.names(path)) for path in self.modules}

    def read(self, path, file, folder):
        """`folder` is where the files of the module's children lie."""
        source = file.read_text()
        declared = without_tests(without_comments(source, True))
        self.modules[path] = (file, without_tests(without_comments(source, False)))
        for attributes, name in MODULE.findall(declared):
            if given := re.search(r'#\[path\s*=\s*"([^"]*)"\]', attributes):
                child = (file.parent / given.group(1)).resolve()
                # As rustc: beside a file that a path names.
                self.read((*path, name), child, child.parent)
                continue
            child = folder / f"{name}.rs"
            if not child.exists():
                child = folder / name / "mod.rs"
            self.read((*path, name), child, folder / name)

    def uses(self, path):
        """What `use` brings into a module: (name here, its path there as it is written, the line)."""
        text = self.modules[path][1]
        for match in re.finditer(r"\buse\s+([^;]+);", text):
            line = text.count("\n", 0, match.start()) + 1
            for there in expand(re.sub(r"\s+", " ", match.group(1)).strip()):
                target, _, alias = there.partition(" as ")
                parts = [part.strip() for part in target.split("::")]
                if parts[-1] == "self":
                    parts.pop()
                yield alias.strip() or parts[-1], parts, line

    def names(self, path):
        """{name: absolute path} of what the module uses of this crate."""
        for name, parts, _ in self.uses(path):
            absolute = self.absolute(path, parts)
            if absolute is not None and name != "*":
                yield name, absolute

    def absolute(self, path, parts):
        """The absolute path of one that is written in a module; None for another crate's."""
        if parts[0] == "crate":
            return tuple(parts[1:])
        if parts[0] == "self":
            return (*path, *parts[1:])
        if parts[0] == "super":
            while parts and parts[0] == "super":
                path, parts = path[:-1], parts[1:]
            return (*path, *parts)
        if (*path, parts[0]) in self.modules:
            return (*path, *parts)
        return None

    def module(self, absolute):
        """The module that a path leads into, through re-exports."""
        for _ in range(8):
            depth = 0
            while depth < len(absolute) and absolute[:depth + 1] in self.modules:
                depth += 1
            module, rest = absolute[:depth], absolute[depth:]
            origin = self.imports[module].get(rest[0]) if rest else None
            if origin is None or origin == absolute[:depth + 1]:
                break
            absolute = (*origin, *rest[1:])
        return module

    def references(self):
        """(from, to, file, line) for every path into another module."""
        for path, (file, text) in self.modules.items():
            found = [(parts, line) for _, parts, line in self.uses(path)]
            body = re.sub(r"\buse\s+[^;]+;", lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)
            for match in re.finditer(r"\b(?:crate|super|self)(?:::\w+)+|\b[a-z_]\w*(?:::\w+)+", body):
                found.append((match.group(0).split("::"), body.count("\n", 0, match.start()) + 1))
            for parts, line in found:
                absolute = self.absolute(path, parts)
                if absolute is None and parts[0] in self.imports[path]:
                    absolute = (*self.imports[path][parts[0]], *parts[1:])
                if absolute is not None:
                    yield path, self.module(absolute), file, line

    def edges(self):
        """{(from, to): [where]} of neighbours."""
        edges = defaultdict(list)
        for path, to, file, line in self.references():
            common = 0
            while common < min(len(path), len(to)) and path[common] == to[common]:
                common += 1
            # Neither is the other's parent.
            if common < len(path) and common < len(to):
                edge = ("::".join(path[:common + 1]), "::".join(to[:common + 1]))
                edges[edge].append(f"{os.path.relpath(file, ROOT)}:{line}")
        return edges


def expand(tree):
    """The paths of a `use`: `a::{b, c::{d, e}}` is a::b, a::c::d, a::c::e."""
    match = re.match(r"(.*?)\{(.*)\}$", tree.strip())
    if not match:
        return [tree.strip()]
    prefix, depth, part, parts = match.group(1), 0, "", []
    for letter in match.group(2) + ",":
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    return [prefix + path for part in parts if part.strip() for path in expand(part)]


def circles(edges):
    """The sets of modules of which each reaches each other."""
    following = defaultdict(set)
    for start, end in edges:
        following[start].add(end)

    def reached(start):
        seen, left = set(), [start]
        while left:
            for end in following[left.pop()] - seen:
                seen.add(end)
                left.append(end)
        return seen
    reach = {module: reached(module) for module in list(following)}
    found = {frozenset(m for m in reach[module] if module in reach.get(m, ()))
             for module in reach if module in reach[module]}
    return sorted(map(sorted, found))


def show(name, circle, edges):
    """Prints a cycle, and where its dependencies are."""
    print(f"{name}: a cycle of {', '.join(circle)}")
    for edge in sorted(edge for edge in edges if set(edge) <= set(circle)):
        where = edges[edge]
        print(f"    {edge[0]} -> {edge[1]}: {len(where)} uses, as in {', '.join(where[:3])}")


def check(name, crate, options):
    """Prints the cycles of a crate. Returns the modules further inside that are in one, and what is wrong."""
    edges = crate.edges()
    if options.edges:
        for (start, end), where in sorted(edges.items()):
            print(f"{name}: {start} -> {end}  ({len(where)}, as {where[0]})")
    every = circles(edges)
    outer = [circle for circle in every if "::" not in circle[0]]
    inner = [circle for circle in every if "::" in circle[0]]
    for circle in outer + (inner if options.inner else []):
        show(name, circle, edges)
    count = sum(map(len, inner))
    print(f"{name}: {len(crate.modules)} modules, {sum(map(len, outer))} in cycles at the root, {count} further inside")
    return count, [f"{name}: there is a cycle: {', '.join(circle)}" for circle in outer]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inner", action="store_true", help="prints the cycles further inside, too")
    parser.add_argument("--edges", action="store_true", help="prints every dependency of neighbours")
    options = parser.parse_args()
    inner, wrong = 0, []
    for name, root in crates().items():
        its_inner, its_wrong = check(name, Crate(root), options)
        inner += its_inner
        wrong += its_wrong
    if inner < INNER:
        print(f"{inner} modules further inside are in cycles: let INNER be that")
    if inner > INNER:
        wrong.append(f"{inner} modules further inside are in cycles, {INNER} were: --inner prints them")
    for line in wrong:
        print(f"cycles.py: {line}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
