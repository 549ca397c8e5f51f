"""The map of the code names what is there."""

import re

from tree import Finding, code_of

MAP = "docs/ARCHITECTURE.md"
ENDS = (".c", ".h", ".hpp", ".lua", ".py", ".tsv")
SPAN = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?<![\w*…])((?:\w[\w.-]*/)*\w[\w-]*\.(?:hpp|c|h|lua|py|tsv)"
                  r")(?!\w)(?::(\w+))?")
NAME = re.compile(r"(?<![\w./:$-])(?!_)\w*[a-z]_\w+(?![\w/]|\.\w)")


def _code(tree, path):
    """Its text; without comments, where they are C's."""
    text = tree.read(path)
    return code_of(text) if path.endswith((".c", ".h", ".hpp")) else text


def _by_end(tree):
    """Each end of a path ("c.c", "core/c.c", …), and the files that have it."""
    found = {}
    for path in tree.files(".", ENDS):
        parts = path.split("/")
        for i in range(len(parts)):
            found.setdefault("/".join(parts[i:]), []).append(path)
    return found


def _names(tree):
    """Whatever stands in the code, and the files without their endings."""
    found = set()
    for path in tree.files(".", ENDS[:-1]):
        found.add(path.split("/")[-1].split(".")[0])
        found.update(re.findall(r"\w+", _code(tree, path)))
    return found


def _begins_in(tree, path, name):
    """Does a line of that file begin a function of this name?"""
    return re.search(rf"^(?=\S).*\b{name}\(", _code(tree, path), re.M)


def architecture(tree):
    """docs/ARCHITECTURE.md names files, functions and words that are there."""
    try:
        lines = tree.read(MAP).split("\n")
    except FileNotFoundError:
        return
    files, names = _by_end(tree), _names(tree)
    for number, line in enumerate(lines, 1):
        for span in SPAN.findall(line):
            where = f"{MAP}:{number}"
            for path, name in FILE.findall(span):
                if path not in files:
                    yield Finding(f"{where}: there is no {path}")
                elif name and not any(_begins_in(tree, one, name)
                                      for one in files[path]):
                    yield Finding(f"{where}: {path} has no {name}")
            for name in NAME.findall(span):
                if name not in names:
                    yield Finding(f"{where}: nothing is called {name}")
