#!/usr/bin/env python3
"""Check the rules that hold in the whole tree.

usage: lint.py [RULE…]        without one: all; --list: names and meanings

Findings are `path:line: what`. The last line says
`N passed, N failed, N skipped`, counted in rules. Each rule has a self-test in
tests/lint that shows that it can fail.
"""

import os
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import arrows  # noqa: E402
import calls  # noqa: E402
import pages  # noqa: E402
import programs  # noqa: E402
import records  # noqa: E402
import words  # noqa: E402
from tree import Skip, Tree  # noqa: E402

RULES = {
    "arrows": arrows.arrows,
    "cycles": arrows.cycles,
    "calls": calls.calls,
    "banned": words.banned,
    "allocation": words.allocation,
    "guest": words.guest,
    "unfinished": words.unfinished,
    "machine": words.machine,
    "replaced": words.replaced,
    "architecture": pages.architecture,
    "findings": records.findings,
    "told": records.told,
    "blocks": records.blocks,
    "skips": records.skips,
    "cases": records.cases,
    "headers": programs.headers,
    "formatting": programs.formatting,
    "cppcheck": programs.cppcheck,
    "tidy": programs.tidy,
    "manual": programs.manual,
    "shell": programs.shell,
}


def check(name, tree):
    """Run one rule: "passed", "failed" or "skipped"."""
    began = time.monotonic()
    try:
        findings = list(RULES[name](tree))
    except Skip as why:
        print(f"SKIPPED {name}: {why}", flush=True)
        return "skipped"
    for finding in findings:
        print(finding)
    took = f"{time.monotonic() - began:.1f} s"
    if findings:
        print(f"FAILED {name}: {len(findings)} findings ({took})", flush=True)
        return "failed"
    print(f"ok {name}: {RULES[name].__doc__} ({took})", flush=True)
    return "passed"


def main():
    names = sys.argv[1:] or list(RULES)
    if names == ["--list"]:
        for name, rule in RULES.items():
            print(f"{name:12} {rule.__doc__}")
        return
    unknown = [name for name in names if name not in RULES]
    if unknown:
        sys.exit(f"no such rule: {' '.join(unknown)} (--list shows them)")
    tree = Tree(os.path.dirname(os.path.dirname(HERE)))
    results = [check(name, tree) for name in names]
    count = {word: results.count(word)
             for word in ("passed", "failed", "skipped")}
    print(", ".join(f"{n} {word}" for word, n in count.items()))
    sys.exit(1 if count["failed"] else 0)


if __name__ == "__main__":
    main()
