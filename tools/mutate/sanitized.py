"""The same mutants in the gate's build with AddressSanitizer and UBSan, for
those that no test has found in the plain one: what reads beyond an array or
uses what is freed may well get the right answer there.

A program is built when the first survivor asks for it. Only programs are run:
cases of pytest and worlds of the simulator take too long like this."""
import copy
import os
import subprocess
import threading

from built import SANITIZED
from suites import Suites

SLOWER = 4      # than the plain build, at most
BUDGET = 20.0   # seconds of programs a mutant, as the plain build takes them


class Sanitizers:
    def __init__(self, plain, say):
        self.plain, self.say = plain, say
        self.build, self.lock = plain.sanitized(), threading.Lock()
        self.targets, self.units, self.built = None, {}, set()

    def configure(self):
        self.build.configure()
        told = subprocess.run(
            ["ninja", "-C", self.build.bin, "-t", "targets", "all"],
            capture_output=True, text=True, check=True).stdout
        self.targets = {line.partition(":")[0] for line in told.splitlines()}

    def target_of(self, unit):
        """The program of a plain unit as ninja names it, in either build."""
        return os.path.relpath(unit.argv[0], self.plain.bin)

    def of(self, units):
        """(these units of the plain build in this one, how many are left
        out); the fast ones first, built where they were not yet."""
        if not self.build:
            return [], 0
        with self.lock:
            if self.targets is None:
                self.configure()
            units = sorted((u for u in units if u.is_program
                            and self.target_of(u) in self.targets),
                           key=lambda u: u.seconds)
            chosen, spent = [], 0.0
            for unit in units:
                spent += unit.seconds
                if spent <= BUDGET:
                    chosen.append(unit)
            self.make({self.target_of(u) for u in chosen})
            # What the gate does not run so is built, but no unit.
            return [self.like(u) for u in chosen if u.name in self.units], \
                len(units) - len(chosen)

    def make(self, targets):
        if targets <= self.built:
            return
        self.build.build(sorted(targets - self.built))
        self.built |= targets
        self.units = {u.name: u for u in Suites(self.build).programs}
        self.say(f"built with sanitizers: {len(self.built)} programs")

    def like(self, plain):
        unit = copy.copy(self.units[plain.name])
        unit.name = "asan:" + plain.name
        unit.env = dict(unit.env)
        for name, value in SANITIZED.items():  # names take seconds to find
            unit.env[name] = value + ":symbolize=0"
        unit.seconds = SLOWER * plain.seconds
        unit.sanitized = True
        return unit


def summary_of(log):
    """What a sanitizer has said, in one line; or nothing."""
    with open(log, encoding="utf-8", errors="replace") as file:
        said = [line.strip() for line in file
                if line.startswith("SUMMARY: ") or ": runtime error: " in line]
    return said[0] if said else ""
