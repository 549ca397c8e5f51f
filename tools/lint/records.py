"""Rules about the lists that the tests keep: tests/*.tsv, arrays of cases."""

import os
import re

from tree import Finding, code_of, lines_with


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
    a run tells."""
    suite, _, stem = name.partition(".")
    for path, pattern in ((f"tests/{suite}/test_{stem}.py", r"^def {}\("),
                          (f"tests/{suite}/test_{stem}.c", r"\b{}\(void"),
                          (f"tests/{suite}/{stem}.sh", None)):
        if os.path.exists(tree.path(path)):
            function = re.escape(case.split("[")[0])
            return case == "-" or pattern and re.search(
                pattern.format(function), tree.read(path), re.M)
    return case == "-" and suite in ("live", "sim", "unit")


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
