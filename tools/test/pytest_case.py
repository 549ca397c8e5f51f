#!/usr/bin/env python3
"""Run one pytest file for ctest.

usage: pytest_case.py FILE [PYTEST OPTION…]

Writes nothing into the source tree. The last line says
`N passed, N failed, N skipped`; above it stand the skips with their reasons.
Exit status 0: none failed; 77: all were skipped; else 1.
"""

import os
import sys

sys.dont_write_bytecode = True

import pytest  # noqa: E402


def last_line(report):
    """The error in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr).strip()
    return (text.splitlines() or ["?"])[0][:200]


class Count:
    """Counts test items, not their phases."""

    def __init__(self):
        self.failed, self.skipped, self.passed = {}, {}, set()

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed.setdefault(report.nodeid, last_line(report))
        elif report.skipped:
            reason = report.longrepr
            if isinstance(reason, tuple):
                reason = reason[2]
            if hasattr(report, "wasxfail"):
                reason = "expected to fail: " + report.wasxfail
            text = str(reason).strip().removeprefix("Skipped: ")
            self.skipped[report.nodeid] = text.splitlines()[0] if text else "?"
        elif report.when == "call":
            self.passed.add(report.nodeid)

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed.setdefault(report.nodeid or "collection",
                                   last_line(report))
        elif report.skipped:
            reason = report.longrepr
            if isinstance(reason, tuple):
                reason = reason[2]
            self.skipped[report.nodeid] = str(reason).removeprefix("Skipped: ")


def main():
    path, count = sys.argv[1], Count()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    code = pytest.main(
        ["-q", "-p", "no:cacheprovider", "--tb=short", "--no-header", "-rN",
         "--rootdir", os.path.dirname(os.path.abspath(path)),
         *sys.argv[2:], path], plugins=[count])
    if code not in (0, 1, 5) and not count.failed:
        count.failed["pytest itself"] = f"exit status {code}"
    for test in count.failed:
        count.skipped.pop(test, None)
    passed = count.passed - set(count.failed) - set(count.skipped)
    print()
    for test, reason in count.skipped.items():
        print(f"SKIPPED {test}: {reason}")
    for test, why in count.failed.items():
        print(f"FAILED {test}: {why}")
    print(f"{len(passed)} passed, {len(count.failed)} failed,"
          f" {len(count.skipped)} skipped", flush=True)
    if count.failed:
        sys.exit(1)
    sys.exit(77 if count.skipped and not passed else 0)


if __name__ == "__main__":
    main()
