#!/usr/bin/env python3
"""Add up test results.

usage: tally.py [--skips LIST] FILE…

FILE is a JUnit file written by `ctest --output-junit` (*.xml), or a text
whose last line says `N passed, N failed, N skipped`, with lines `FAILED name`
and `SKIPPED name: reason` before it. A ctest entry counts as the cases inside
it, when its output tells them: cmocka's summary, or such a last line.

With --skips, a skip that LIST (tests/skips.tsv) does not name is a failure.

Prints failures, then skips with their reasons, then the sum as the last line.
Exit status 1 when anything failed or nothing passed.
"""

import os
import re
import sys
import xml.etree.ElementTree as ElementTree

SUM = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
CMOCKA = re.compile(r"^\[  (PASSED |FAILED |SKIPPED)\s*\] (\d+) test\(s\)",
                    re.M)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Tally:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, 0, 0
        self.failures, self.skips = [], []

    def text(self, where, text, good=True):
        """Cases told by an output; False when it tells none."""
        sums = SUM.findall(text)
        if sums:
            passed, failed, skipped = map(int, sums[-1])
        else:
            counts = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}
            found = CMOCKA.findall(text)
            if not found:
                return False
            for word, number in found:
                counts[word.strip()] += int(number)
            passed, failed, skipped = counts.values()
        names = re.findall(r"^(?:FAILED|\[  FAILED  \]) (?!\d+ test)(\S.*)$",
                           text, re.M)
        if not good and not failed:
            failed, names = 1, ["(outside its cases)"]
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        if failed:
            self.failures += [f"{where}: {n}" for n in dict.fromkeys(names)]
        reasons = re.findall(r"^SKIPPED (.*)$", text, re.M)
        reasons += cmocka_skips(text)
        if len(reasons) < skipped:
            reasons.append("no reason given")
        self.skips += [f"{where}: {r}" for r in reasons] if skipped else []
        return True

    def junit(self, path):
        part = os.path.basename(path).removesuffix(".xml")
        for case in ElementTree.parse(path).getroot().iter("testcase"):
            out = COLOUR.sub("", case.findtext("system-out") or "")
            where = f"{part}: {case.get('name')}"
            skip = case.find("skipped")
            ran = case.get("status") == "run"
            left_out = (skip is not None and
                        "SKIP" in (skip.get("message") or ""))
            if self.text(where, out, ran or left_out):
                continue
            if ran:
                self.passed += 1
            elif left_out:
                self.skipped += 1
                said = [s for s in out.splitlines() if s.strip()]
                self.skips.append(f"{where}: {said[-1] if said else '?'}")
            else:
                self.failed += 1
                why = skip.get("message") if skip is not None else ""
                self.failures.append(f"{where}{': ' if why else ''}{why}")


def read_skips(path):
    """Patterns of the skips that are allowed, to be matched with
    "PROGRAM: CASE: REASON"."""
    allowed = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                program, case, reason, _ = line.rstrip("\n").split("\t")
                program, case, reason = (
                    re.escape(word).replace(r"\*", ".*")
                    for word in (program, case, reason))
                allowed.append(re.compile(
                    rf"{program}: (\S+::)?{case}: {reason}", re.S))
    return allowed


def not_allowed(skips, allowed):
    """Those of the skips that no entry names."""
    return [skip for skip in skips if not any(
        entry.match(skip.split(": ", 1)[1]) for entry in allowed)]


def short(line):
    """Test ids can be as long as their parameters."""
    return re.sub(r"(\S{100})\S+", r"\1…", line)


def cmocka_skips(text):
    """cmocka has no field for a reason: what a case printed before skip()."""
    reasons, said = [], ""
    for line in text.splitlines():
        if line.startswith("[ RUN"):
            said = ""
        elif re.match(r"^\[  SKIPPED \] (?!\d+ test)", line):
            name = line.split("] ", 1)[1]
            if not any(r.startswith(name) for r in reasons):
                reasons.append(f"{name}: {said or 'no reason given'}")
        elif not line.startswith("["):
            said = line.strip() or said
    return reasons


def main():
    tally, paths, allowed = Tally(), sys.argv[1:], None
    if paths[:1] == ["--skips"]:
        allowed, paths = read_skips(paths[1]), paths[2:]
    for path in paths:
        if path.endswith(".xml"):
            tally.junit(path)
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            where = os.path.splitext(os.path.basename(path))[0]
            if not tally.text(where, COLOUR.sub("", file.read())):
                tally.failed += 1
                tally.failures.append(f"{where}: ended without a result")
    if allowed is not None:
        for skip in not_allowed(tally.skips, allowed):
            tally.failed += 1
            tally.failures.append(
                f"{short(skip)} (a skip that tests/skips.tsv does not allow)")
    for line in tally.failures:
        print(f"FAILED  {line}")
    for line in tally.skips:
        print(f"skipped {short(line)}")
    print(f"{tally.passed} passed, {tally.failed} failed,"
          f" {tally.skipped} skipped")
    sys.exit(1 if tally.failed or not tally.passed else 0)


if __name__ == "__main__":
    main()
