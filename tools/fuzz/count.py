#!/usr/bin/env python3
"""How often each fuzz target was run, and found nothing: the table in
docs/PROOF.md.

usage: count.py                 say what is known
       count.py --add [FILE…]   add what was run (default: build/fuzz/runs.tsv)
                                to tests/fuzz/runs.tsv, and write the table
       count.py --check         is the table that of tests/fuzz/runs.tsv?

Each run of a target by `./dev test` and `./dev soak` that ends without a find
appends a line to build/fuzz/runs.tsv: target, revision (one with a "+" had
changes that are not committed), runs, seconds of a processor; tabs between.
What was added is renamed to FILE.added, so that nothing is counted twice.
tests/fuzz/runs.tsv has a line for each target and revision.
"""

import pathlib
import re
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
KEPT, PROOF = "tests/fuzz/runs.tsv", "docs/PROOF.md"
BEGIN, END = "<!-- fuzz: begin -->", "<!-- fuzz: end -->"
HEAD = ("# target, revision, runs, seconds of a processor: "
        "tools/fuzz/count.py\n")


def read(path):
    """{(target, revision): [runs, seconds]}"""
    found = {}
    text = path.read_text() if path.exists() else ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) != 4 or not re.fullmatch(r"\d+ \d+(\.\d+)?",
                                                " ".join(fields[2:])):
            sys.exit(f"{path}:{number}: not target, revision, runs, seconds")
        add(found, tuple(fields[:2]), int(fields[2]), float(fields[3]))
    return found


def add(to, key, runs, seconds):
    old = to.setdefault(key, [0, 0])
    old[0] += runs
    old[1] += seconds


def per_target(rows):
    """{target: [runs, seconds, revisions]}"""
    found = {}
    for (target, _), (runs, seconds) in rows.items():
        old = found.setdefault(target, [0, 0, 0])
        for i, more in enumerate((runs, seconds, 1)):
            old[i] += more
    return found


def long(seconds):
    """Of a time: "12 s", "14 h", "3 days"."""
    for size, word in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {word}"
    return f"{seconds:.0f} s"


def table(rows):
    """One line a target."""
    out = ["| target | runs | processor time | runs a second of it |"
           " 10⁸ runs take |",
           "|---|---|---|---|---|"]
    total = [0, 0]
    for target, (runs, seconds, _) in sorted(per_target(rows).items()):
        rate = runs / max(seconds, 0.01)
        out.append(f"| `{target}` | {runs:,} | {long(seconds)} | {rate:,.0f} |"
                   f" {long(1e8 / rate) if rate else '–'} |")
        total[0] += runs
        total[1] += seconds
    revisions = len({revision for _, revision in rows})
    out.append(f"| all | {total[0]:,} | {long(total[1])} | | |")
    out += ["", f"Of {revisions} revision{'s' * (revisions != 1)}; "
            "`tests/fuzz/runs.tsv` has each."]
    return "\n".join(out)


def replaced(page, made):
    """The page with the table in it."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        sys.exit(f"{PROOF} has no {BEGIN} and {END}")
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}"


def take(root, files):
    kept = read(root / KEPT)
    for path in files:
        for key, (runs, seconds) in read(path).items():
            add(kept, key, runs, seconds)
    (root / KEPT).write_text(HEAD + "".join(
        f"{target}\t{revision}\t{runs}\t{seconds:.2f}\n"
        for (target, revision), (runs, seconds) in sorted(kept.items())))
    page = root / PROOF
    page.write_text(replaced(page.read_text(), table(kept)))
    for path in files:
        path.rename(f"{path}.added")


def main(root=ROOT):
    what, files = sys.argv[1:2], sys.argv[2:]
    if what == ["--add"]:
        files = [pathlib.Path(f) for f in files] or [root /
                                                     "build/fuzz/runs.tsv"]
        missing = [str(path) for path in files if not path.exists()]
        if missing:
            sys.exit(f"nothing was run: no {' '.join(missing)}")
        take(root, files)
    elif what not in ([], ["--check"]) or files:
        sys.exit(__doc__)
    made = table(read(root / KEPT))
    if what == ["--check"]:
        page = (root / PROOF).read_text()
        sys.exit(replaced(page, made) != page and
                 f"{PROOF}: the table of the fuzz targets is not current")
    print(made)


if __name__ == "__main__":
    main()
