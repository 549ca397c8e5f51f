"""Marks of equivalent mutants: tests/mutants-equivalent.txt.

A block is one mark, blocks are parted by an empty line:

    src/core/claim.c snib__turn_fits
    rule: constant
    line: if (left < 3) {
    change: 3 -> 4
    why: left is even: the caller rounds it down
    read: agreed

`read` is written by a second reader, who looked for a case that tells the two
apart and found none.
It speaks of content, not of line numbers; where a line has the same change
twice, the second ends with #2. A mark that fits no mutant is an
error: the code has changed, and so may the reason have."""
import os
import re

PATH = "tests/mutants-equivalent.txt"
FIELDS = ["rule", "line", "change", "why", "read"]


class BadMark(Exception):
    pass


def read(root):
    """{mark: reason}"""
    try:
        with open(os.path.join(root, PATH), encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    text = re.sub(r"^#.*\n", "", text, flags=re.M)
    marks = {}
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.splitlines() if line.strip()]
        if not lines:
            continue
        where = lines[0].split()
        told, field = {}, ""
        for line in lines[1:]:
            found = re.match(r"^(rule|line|change|why|read): (.*)$", line)
            if found:
                field = found[1]
                told[field] = found[2].strip()
            elif field == "why":
                told[field] += " " + line.strip()
        if len(where) != 2 or set(told) != set(FIELDS) or not told["why"]:
            raise BadMark(f"{PATH}: a mark is FILE FUNCTION, then the lines "
                          f"{', '.join(FIELDS)}; this is none:\n{block}")
        if told["read"] != "agreed":
            raise BadMark(f"{PATH}: {' '.join(where)}: {told['change']}: no "
                          "second reader has agreed (read: agreed)")
        mark = (*where, told["rule"], told["line"], told["change"])
        if mark in marks:
            raise BadMark(f"{PATH}: marked twice: {' '.join(where)}: "
                          f"{told['change']}")
        marks[mark] = told["why"]
    return marks


def stale(marks, mutants):
    known = {m.mark for m in mutants}
    return [mark for mark in marks if mark not in known]


def block_of(mutant):
    """What to write into the file, but for the reason."""
    path, function, rule, line, change = mutant.mark
    return (f"{path} {function}\nrule: {rule}\nline: {line}\n"
            f"change: {change}\nwhy: \nread: ")
