"""Rules about the lists that the tests keep: tests/*.tsv, arrays of cases."""

import os
import re
import sys

from tree import Finding, code_of, lines_with

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "told"))

import told as told_pairs  # noqa: E402


def _rows(tree, path, fields):
    """(line number, fields) of each row; findings for what is no row."""
    rows, wrong = [], []
    if not os.path.exists(tree.path(path)):
        return rows, wrong
    for number, line in enumerate(tree.read(path).split("\n"), 1):
        if not line or line.startswith("#"):
            continue
        row = line.split("\t")
        if len(row) != fields or not all(row):
            wrong.append(Finding(f"{path}:{number}: not {fields} fields with"
                                 " a tab between them"))
        else:
            rows.append((number, row))
    return rows, wrong


def _case_exists(tree, name, case):
    """Is there such a test? Parameters and whole programs are not looked at:
    a run tells. A case of C may stand in a header that programs share: then the
    program lists it. One of Python may stand in a module beside, of which the test
    takes all over."""
    suite, _, stem = name.partition(".")
    in_c = r"\b{0}\(void|\b(?:CASE|cmocka_unit_test\w*)\({0}[,)]"
    for path, pattern in ((f"tests/{suite}/test_{stem}.py", r"^def {}\("),
                          (f"tests/{suite}/test_{stem}.c", in_c),
                          (f"tests/{suite}/{stem}.sh", None)):
        if os.path.exists(tree.path(path)):
            function = re.escape(case.split("[")[0])
            text = tree.read(path)
            for beside in re.findall(r"^from (\w+) import \*", text, re.M):
                text += tree.read(f"tests/{suite}/{beside}.py")
            return case == "-" or pattern and re.search(
                pattern.format(function), text, re.M)
    return case == "-" and suite in ("cpp", "live", "sim", "unit")


def findings(tree):
    """Each line of tests/findings.tsv names a test that exists, once."""
    path, seen = "tests/findings.tsv", set()
    rows, wrong = _rows(tree, path, 3)
    yield from wrong
    for number, (name, case, _) in rows:
        if not _case_exists(tree, name, case):
            yield Finding(f"{path}:{number}: no test {name} {case}")
        if (name, case) in seen:
            yield Finding(f"{path}:{number}: {name} {case} a second time")
        seen.add((name, case))


def _shows(tree, name, function, result):
    """Does the file of that test name what it is said to show?"""
    suite, _, stem = name.partition(".")
    path = f"tests/{suite}/test_{stem}.c"
    if not os.path.exists(tree.path(path)):
        path = f"tests/{suite}/{stem}.c"
    if stem.startswith("told_") or not os.path.exists(tree.path(path)):
        return True  # its rows are read by the test itself; or no C
    text = tree.read(path)
    return re.search(rf"\b(SNIB_ERR_)?{result}\b", text) and (
        re.search(rf"\b{function}\b", text) or result.startswith("SNIB_"))


def told(tree):
    """Each answer that the headers and manual pages promise has a test."""
    rows, wrong = _rows(tree, told_pairs.LIST, 4)
    yield from wrong
    for number, (function, result, name, case) in rows:
        if name == told_pairs.OPEN:
            continue
        if not _case_exists(tree, name, case):
            yield Finding(f"{told_pairs.LIST}:{number}: no test {name} {case}")
        elif not _shows(tree, name, function, result):
            yield Finding(f"{told_pairs.LIST}:{number}: {name} does not name"
                          f" {function} and {result}")
    yield from map(Finding, told_pairs.wrong(tree))


WAITS_FOR = ("never", "store", "program")


def _said_to_block(tree):
    """Each public function, and whether its comment says that it blocks."""
    found = {}
    for path in sorted(tree.files("include", ".h")):
        for comment, code in told_pairs.headers.blocks(tree.read(path)):
            says = re.search(r"\b[Bb]locks\b(?! with)", comment or "")
            for function in told_pairs.headers.functions(code):
                found[function] = (bool(says)
                                   and not function.endswith("_free"))
    return found


def blocks(tree):
    """What a public function may wait for, and its started form, is in
    tests/blocks.tsv."""
    path, seen = "tests/blocks.tsv", set()
    says = _said_to_block(tree)
    rows, wrong = _rows(tree, path, 3)
    yield from wrong
    for number, (function, waits, start) in rows:
        at = f"{path}:{number}: {function}"
        if function in seen or function not in says:
            yield Finding(f"{at}: a second time, or no public function")
        elif waits not in WAITS_FOR:
            yield Finding(f"{at}: waits for {waits}; expected one of "
                          + ", ".join(WAITS_FOR))
        elif waits == "never" and (says[function] or start != "-"):
            yield Finding(f"{at}: its comment says that it blocks, or a form "
                          "is named for what never waits")
        elif (f"{function}_start" in says) != (start == f"{function}_start"):
            yield Finding(f"{at}: its started form is not the one that is "
                          "named")
        elif waits != "never" and " " not in start and start not in says:
            yield Finding(f"{at}: {start} is no started form, and no reason")
        seen.add(function)
    for function in sorted(set(says) - seen):
        yield Finding(f"{path}: may {function} wait, and what is its started "
                      "form?")


def skips(tree):
    """Each line of tests/skips.tsv names a test that exists."""
    path = "tests/skips.tsv"
    rows, wrong = _rows(tree, path, 4)
    yield from wrong
    for number, (name, case, _, when) in rows:
        if not _case_exists(tree, name, "-" if "*" in case else case):
            yield Finding(f"{path}:{number}: no test {name} {case}")
        if "*" in name or ("*" in case and when == "always"):
            yield Finding(f"{path}:{number}: says too little")


def cases(tree):
    """Each test function of cmocka's is in an array of cases."""
    texts = {path: code_of(tree.read(path)) for path in tree.c_files("tests")}
    used = set(re.findall(r"\b(\w+)\b(?!\(\s*void \*\*)", "\n".join(
        texts.values())))
    for path, text in texts.items():
        for number, match in lines_with(
                r"(?m)^(?:static void\s+)?(\w+)\(\s*void \*\*\w+\)\s*\{", text):
            if match[1] not in used:
                yield Finding(f"{path}:{number}: {match[1]} is never run")
