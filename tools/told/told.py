#!/usr/bin/env python3
"""Which test shows which answer: the public headers and manual pages on one
side, tests/told.tsv on the other.

usage: told.py            say what is wrong between them
       told.py --write    and bring the table in docs/PROOF.md up to date
       told.py --pairs    the pairs, one a line

A *pair* is a function and a result it may end in, by its header:

    Errors: BUSY (a try), and those of snib_acquire, never LOST (why).

`Errors:` begins the list, '.', ';' or ':' ends it; what is in parentheses is
for people. "those of NAME" adds the pairs of NAME, "those
common to all" those of the header's first comment, "never" takes away, with
its reason. `Errors of NAME:` is the list of NAME, which is no function of the
comment (an event). Each function that returns snib_err has OK, too. Other
pairs: each enumerator of the enums in ENUMS; each exit status of a manual page
of section 1.

A line of tests/told.tsv: function, result, ctest name, case, tabs between.
"""

import pathlib
import re
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "man"))

import headers  # noqa: E402

LIST, PROOF = "tests/told.tsv", "docs/PROOF.md"
BEGIN, END = "<!-- told: begin -->", "<!-- told: end -->"
ENUMS = ("snib_event_kind", "snib_state", "snib_cause", "snib_elect_state",
         "snib_level", "snib_on_busy")
PAGES = "docs/man"
# Pairs that have no test yet: may only become fewer.
OPEN = "open"
OPEN_MOST = 0


def without_parentheses(text):
    """What is in parentheses, nested ones too, is for people."""
    out, depth = [], 0
    for sign in text:
        depth += sign == "("
        if not depth:
            out.append(sign)
        depth -= sign == ")" and depth > 0
    return "".join(out)


class Said:
    """The results of one function as its header lists them."""

    def __init__(self, text, codes):
        said = re.split(r"[.;:]", without_parentheses(text))[0]
        self.always, _, never = said.partition(" never ")
        self.codes = self._codes(self.always, codes)
        self.never = self._codes(never, codes)
        self.others = re.findall(r"\bsnib_\w+|\bSNIB_EVENT_\w+", self.always)
        self.common = "common to all" in self.always

    @staticmethod
    def _codes(text, codes):
        return {word for word in re.findall(r"\b[A-Z_]+\b", text)
                if word in codes}


def flat(text):
    return " ".join((text or "").split())


def lists_of(text, codes):
    """(name or None, Said) of each "Errors …:" in a comment."""
    for match in re.finditer(r"\bErrors(?: of (\w+))?: ", flat(text)):
        yield match[1], Said(flat(text)[match.end():], codes)


class Headers:
    """All that the public headers say of results."""

    def __init__(self, texts):
        self.codes = {name for text in texts.values()
                      for name, *_ in headers.ERROR.findall(text)}
        self.said, self.wrong, self.enums = {}, [], []
        self.returning, self.functions = set(), {}
        for path, text in texts.items():
            self._read(path, text)

    def _read(self, path, text):
        common, waiting = set(), []
        for comment, code in headers.blocks(text):
            found = headers.functions(code)
            self.functions.update(dict.fromkeys(found, path))
            returning = re.findall(
                r"^SNIB_API (?:SNIB_CHECK )?snib_err\s+(\w+)\(", code, re.M)
            self.returning |= set(returning)
            named = dict(lists_of(comment, self.codes))
            if not code:
                head = re.search(r"Errors common to all: ", flat(comment))
                if head:
                    common = Said(flat(comment)[head.end():],
                                  self.codes).codes
            for name in named:
                if name and name != "common":
                    waiting.append((name, named[name]))
            for function in found:
                if function in named or function not in returning:
                    continue
                if None in named:
                    waiting.append((function, named[None]))
                else:
                    self._unsaid(path, function)
            for kind in re.findall(r"enum (\w+) \{", code):
                if kind in ENUMS:
                    body = headers_body(code, kind)
                    self.enums += [(kind, one) for one in
                                   re.findall(r"^\s+(SNIB_\w+)", body, re.M)]
        for name, said in waiting:
            if said.common:
                said.codes |= common
            self.said[name] = said

    def _unsaid(self, path, function):
        if function.startswith("snib_err_"):
            self.returning.discard(function)
        else:
            self.wrong.append(f"{path}: {function} does not list its errors")

    def results(self, name, seen=()):
        said = self.said.get(name)
        if not said or name in seen:
            self.wrong.append(f"include/: whose errors are those of {name}?")
            return set()
        found = set(said.codes)
        for other in said.others:
            if other != name:
                found |= self.results(other, (*seen, name))
        return found - said.never

    def pairs(self):
        found = []
        for name in sorted(self.said):
            results = sorted(self.results(name))
            ok = ["OK"] if name in self.returning else []
            found += [(name, result) for result in ok + results]
        return found + self.enums


def headers_body(code, kind):
    text = re.sub(r"/\*.*?\*/", "", code, flags=re.S)
    return re.search(r"enum %s \{(.*?)\}" % kind, text, re.S)[1]


def statuses(text):
    """The exit statuses that a manual page of section 1 lists."""
    part = re.search(r"^\.Sh EXIT STATUS\n(.*?)(?=^\.Sh |\Z)", text,
                     re.S | re.M)
    for item in re.findall(r"^\.It (.+)$", part[1] if part else "", re.M):
        yield from item.split(", ")


def pairs_of_pages(tree):
    for path in tree.files(PAGES, (".1",)):
        name = pathlib.Path(path).stem.replace("-", " ", 1)
        if name != "snib":  # shows those of all
            yield from ((name, status) for status in statuses(tree.read(path)))


def read(tree):
    """The pairs, and what the headers leave unsaid."""
    found = headers_of(tree)
    return found.pairs() + list(pairs_of_pages(tree)), found.wrong


def headers_of(tree):
    return Headers({path: tree.read(path)
                    for path in tree.files("include", (".h",))})


def rows_of(text):
    return [line.split("\t") for line in text.split("\n")
            if line and not line.startswith("#")]


# -- the table ------------------------------------------------------------------


def short(result):
    return re.sub(r"^SNIB_(EV_|WHY_|LEVEL_|BUSY_)?", "", result)


def table(pairs, rows):
    """Each name with its results, each result with the number of its tests."""
    tests = sorted({(name, case) for _, _, name, case in rows
                    if name != OPEN})
    number = {test: i for i, test in enumerate(tests, 1)}
    shown = {}
    for function, result, name, case in rows:
        shown.setdefault((function, result), []).append(
            "–" if name == OPEN else str(number[name, case]))
    left = sum(name == OPEN for _, _, name, _ in rows)
    out = [f"{len(pairs)} pairs, {len(pairs) - left} of them with a test.", "",
           "| of | ends in (tests) |", "|---|---|"]
    for function in dict.fromkeys(name for name, _ in pairs):
        cells = [f"{short(result)}&nbsp;({', '.join(shown[name, result])})"
                 for name, result in pairs
                 if name == function and (name, result) in shown]
        out.append(f"| `{function}` | {' · '.join(cells)} |")
    out += ["", "| | test |", "|---|---|"]
    out += [f"| {i} | `{case}` (`{name}`) |"
            for i, (name, case) in enumerate(tests, 1)]
    return "\n".join(out)


def replaced(page, made):
    """The page with the table in it; None: it has no place for one."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        return None
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}"


# -- what is wrong ----------------------------------------------------------------


def called(tree):
    """Every word of the tests."""
    return {word for path in tree.files("tests", (".c", ".h", ".py"))
            for word in re.findall(r"\bsnib_\w+", tree.read(path))}


def wrong(tree):
    """What does not fit, a sentence each."""
    pairs, unsaid = read(tree)
    yield from unsaid
    rows = rows_of(text_of(tree, LIST))
    told = {(row[0], row[1]) for row in rows}
    yield from (f"{LIST}: no test of {function} ending in {result}"
                for function, result in pairs
                if (function, result) not in told)
    yield from (f"{LIST}: nothing says that {function} may end in {result}"
                for function, result in sorted(told - set(pairs)))
    left = sum(row[2] == OPEN for row in rows)
    if left > OPEN_MOST:
        yield f"{LIST}: {left} pairs without a test; at most {OPEN_MOST}"
    page = text_of(tree, PROOF)
    if (pairs or BEGIN in page) and not is_current(page, pairs, rows):
        yield f"{PROOF}: the table is not current (tools/told/told.py --write)"
    words = called(tree)
    yield from (f"{path}: {function} is not called by any test"
                for function, path in headers_of(tree).functions.items()
                if function not in words)


def is_current(page, pairs, rows):
    return replaced(page, table(pairs, rows)) == page


def text_of(tree, path):
    return tree.read(path) if pathlib.Path(tree.path(path)).exists() else ""


def main():
    sys.path.insert(0, str(ROOT / "tools" / "lint"))
    from tree import Tree
    tree = Tree(str(ROOT))
    if sys.argv[1:] == ["--pairs"]:
        for pair in read(tree)[0]:
            print("\t".join(pair))
        return
    if sys.argv[1:] == ["--write"]:
        page = tree.read(PROOF)
        made = replaced(page, table(read(tree)[0], rows_of(tree.read(LIST))))
        if made is None:
            sys.exit(f"{PROOF} has no {BEGIN} and {END}")
        (ROOT / PROOF).write_text(made)
    elif sys.argv[1:]:
        sys.exit(__doc__)
    found = list(wrong(tree))
    print("\n".join(found) or "all pairs have a test")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
