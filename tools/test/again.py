#!/usr/bin/env python3
"""Run the tests that talk to real processes and servers again and again.

usage: again.py N [--seed SEED [--from ROUND]] [SUITE…]

N rounds of every suite with one of these labels, or of the SUITEs named (a
label, or a test such as live.quorum): cli, live, rows, campaign, examples,
docs, conformance, package, harness. Each round in an order of its own, drawn
from the seed; the first half of the rounds alone, the second half beside two
processes that keep the cores busy. Nothing is run a second time because it
failed. A test starts as soon as there is room, also when the round before has
not ended, but never beside itself.

Prints each failure with its round, order and load, and when a round has ended;
what a failed test said is in build/results/again. A run of hours may be made in
parts: --from begins at that round of the seed. The last line says `N passed, N failed, N skipped`, in
programs. Exit status 1 when one failed, 64 usage.

Environment: SNIB_BUILD_DIR (default: build/dev), SNIB_AGAIN_JOBS (how many at
once; default: three times the cores, as they wait most of the time, and
beside load the cores plus one).
"""

import collections
import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BUILD = os.environ.get("SNIB_BUILD_DIR", os.path.join(ROOT, "build", "dev"))
PLACE = os.path.join(ROOT, "build", "results", "again")
SUITES = ("cli", "live", "rows", "campaign", "examples", "docs",
          "conformance", "package", "harness")


def property_of(test, name, default):
    for one in test.get("properties", ()):
        if one["name"] == name:
            return one["value"]
    return default


def tests_of(suites):
    shown = subprocess.run(
        ["ctest", "--test-dir", BUILD, "--show-only=json-v1"], text=True,
        stdout=subprocess.PIPE, check=True).stdout
    for test in json.loads(shown)["tests"]:
        labels = property_of(test, "LABELS", [])
        if test["name"] in suites or set(suites) & set(labels):
            yield test


class Run:
    """A test of a round."""

    def __init__(self, test, number, loaded):
        self.test, self.number, self.loaded = test, number, loaded
        self.code, self.out, self.seconds = None, "", 0.0

    @property
    def name(self):
        return self.test["name"]

    def do(self):
        env = dict(os.environ)
        env.update(pair.split("=", 1) for pair in
                   property_of(self.test, "ENVIRONMENT", []))
        began = time.monotonic()
        child = subprocess.Popen(
            self.test["command"], env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True,
            cwd=property_of(self.test, "WORKING_DIRECTORY", BUILD))
        limit = float(property_of(self.test, "TIMEOUT", 600))
        try:
            self.out, _ = child.communicate(timeout=limit)
            self.code = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            self.out, _ = child.communicate()
            self.out += f"\nFAILED {self.name}: no end within {limit:.0f} s\n"
        self.seconds = time.monotonic() - began

    def failures(self):
        """What failed in it, a line each."""
        if self.code in (0, property_of(self.test, "SKIP_RETURN_CODE", None)):
            return []
        lines = re.findall(r"^(?:FAILED|\[  FAILED  \]) (?!\d+ test)(\S.*)$",
                           self.out, re.M)
        where = "beside load" if self.loaded else "alone"
        return [f"FAILED round {self.number} ({where}): {self.name}: {line}"
                for line in dict.fromkeys(lines or [f"exit {self.code}"])]


class Queue:
    """The runs in their order; none beside another of the same test."""

    def __init__(self, runs):
        self.runs, self.busy = list(runs), set()
        self.change = threading.Condition()

    def take(self):
        with self.change:
            while self.runs:
                for run in self.runs:
                    if run.name not in self.busy:
                        self.runs.remove(run)
                        self.busy.add(run.name)
                        return run
                self.change.wait()
            return None

    def gave(self, run):
        with self.change:
            self.busy.discard(run.name)
            self.change.notify_all()


def work(queue, tell):
    while (run := queue.take()) is not None:
        try:
            run.do()
        finally:
            queue.gave(run)
        tell(run)


def rounds_of(tests, numbers, seed, loaded):
    for number in numbers:
        order = list(tests)
        random.Random(f"{seed}/{number}").shuffle(order)
        for test in order:
            yield Run(test, number, loaded)


class Sum:
    def __init__(self, programs):
        self.passed, self.skipped, self.failed = 0, 0, []
        self.lock = threading.Lock()
        self.began = time.monotonic()
        self.programs, self.ended = programs, collections.Counter()

    def tell(self, run):
        lines = run.failures()
        with self.lock:
            self.ended[run.number] += 1
            if self.ended[run.number] == self.programs:
                print(f"round {run.number} has ended, after"
                      f" {time.monotonic() - self.began:.0f} s", flush=True)
            if not lines:
                self.passed += run.code == 0
                self.skipped += run.code != 0
                return
            self.failed += lines
            log = os.path.join(PLACE, f"{run.number}-{run.name}.log")
            with open(log, "w", encoding="utf-8") as file:
                file.write(run.out)
            for line in lines:
                print(line, flush=True)


def phase(tests, numbers, seed, loaded, total):
    """Some rounds, alone or beside load."""
    cores = os.cpu_count() or 2
    jobs = int(os.environ.get("SNIB_AGAIN_JOBS",
                              cores + 1 if loaded else 3 * cores))
    began = time.monotonic()
    load = [subprocess.Popen(["sh", "-c", "while :; do :; done"])
            for _ in range(2 if loaded else 0)]
    try:
        queue = Queue(rounds_of(tests, numbers, seed, loaded))
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for worker in [pool.submit(work, queue, total.tell)
                           for _ in range(jobs)]:
                worker.result()
    finally:
        for child in load:
            child.kill()
            child.wait()
    print(f"rounds {numbers[0]} to {numbers[-1]},"
          f" {'beside load' if loaded else 'alone'}, {jobs} at once:"
          f" {time.monotonic() - began:.0f} s", flush=True)


def option(words, name):
    """Its value, taken out of the words; None: it is not among them."""
    if name not in words[:-1]:
        return None
    at = words.index(name)
    value = words[at + 1]
    del words[at:at + 2]
    return value


def arguments(words):
    """Rounds, seed, the first round, suites."""
    seed, first = option(words, "--seed"), option(words, "--from")
    numbers = words[:1] + ([first] if first else [])
    if (not words or not all(re.fullmatch(r"[1-9]\d*", n) for n in numbers) or
            (first and (not seed or int(first) > int(words[0])))):
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        sys.exit(64)
    return (int(words[0]), seed or str(int(time.time())), int(first or 1),
            words[1:] or SUITES)


def halves(count, first):
    """The rounds that are run alone, and those beside load."""
    alone = (count + 1) // 2
    return range(first, alone + 1), range(max(first, alone + 1), count + 1)


def main():
    count, seed, first, suites = arguments(sys.argv[1:])
    tests = list(tests_of(suites))
    if not tests:
        print(f"no such suite: {' '.join(suites)}", file=sys.stderr)
        sys.exit(64)
    shutil.rmtree(PLACE, ignore_errors=True)
    os.makedirs(PLACE)
    print(f"{len(tests)} test programs, {count} rounds, --seed {seed}",
          flush=True)
    # A shell that puts us into the background ignores these for all below us;
    # ctest does not leave that to its tests either.
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    total = Sum(len(tests))
    for numbers, loaded in zip(halves(count, first), (False, True)):
        if numbers:
            phase(tests, numbers, seed, loaded, total)
    if total.failed:
        print("\nfailed, by how often:")
        names = [line.split(": ", 1)[1] for line in total.failed]
        for name in sorted(set(names), key=lambda n: (-names.count(n), n)):
            print(f"  {names.count(name)} of {count}: {name[:160]}")
    print(f"{total.passed} passed, {len(total.failed)} failed,"
          f" {total.skipped} skipped")
    sys.exit(1 if total.failed else 0)


if __name__ == "__main__":
    main()
