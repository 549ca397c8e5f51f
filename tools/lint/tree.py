"""The files that rules look at, and C text without comments and strings."""

import os
import re

C_FOLDERS = ("include", "src", "sim", "tests", "bench", "demo", "examples")
SKIPPED = {".git", "build", "__pycache__", ".pytest_cache", "node_modules"}


class Finding(str):
    """`path:line: what is wrong`."""


class Skip(Exception):
    """A rule that cannot run here says why."""


class Tree:
    """A source tree; rules get one, self-tests make small ones."""

    def __init__(self, root):
        self.root = os.path.abspath(root)

    def path(self, name):
        return os.path.join(self.root, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def files(self, folder=".", ends=("",)):
        """Relative paths below folder, sorted."""
        found = []
        for top, folders, names in os.walk(self.path(folder)):
            folders[:] = [f for f in folders if f not in SKIPPED]
            for name in names:
                path = os.path.relpath(os.path.join(top, name), self.root)
                if name.endswith(tuple(ends)):
                    found.append(path)
        return sorted(found)

    def c_files(self, *folders, ends=(".c", ".h")):
        return [path for folder in folders or C_FOLDERS
                for path in self.files(folder, ends)]


_NOT_CODE = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


def code_of(text):
    """C text in which comments and literals are blank, lines as they were."""
    return _NOT_CODE.sub(
        lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def lines_with(pattern, text):
    """(line number, match) of every match."""
    for match in re.finditer(pattern, text):
        yield text.count("\n", 0, match.start()) + 1, match
