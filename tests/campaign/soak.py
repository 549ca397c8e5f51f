#!/usr/bin/env python3
"""The campaign, for as long as one likes.

usage: soak.py --minutes N [--seed S] [--store STORE] [--kind KIND]
               [--seconds ROUND]

STORE: sqlite, redis: one lock; sqlite-shared, redis-shared, memory-shared:
readers, writers and permits (kinds.py). Rounds go in turn through the stores
and the kinds of faults ("mixed" draws each fault anew); round i of seed S has the seed S + i. Prints a line for each
failure as it happens and the sums at the end. Exit status: 0; 1: a history
broke a promise (it is kept, and its path printed); 77: nothing could run.
"""

import argparse
import collections
import itertools
import os
import random
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import campaign  # noqa: E402
import kinds  # noqa: E402
import nemesis  # noqa: E402
from campaign import Skip, missing  # noqa: E402

SHARED = "-shared"
STORES = {store: sorted(nemesis.KINDS[store]) + ["mixed"]
          for store in ("redis", "sqlite")}
STORES |= {"redis" + SHARED: kinds.REDIS_KINDS,
           "sqlite" + SHARED: sorted(nemesis.KINDS["sqlite"]),
           "memory" + SHARED: sorted(nemesis.KINDS["memory"])}


def run_round(store, kind, seed, seconds):
    if store.endswith(SHARED):
        return kinds.run_round(store.removesuffix(SHARED), kind, seed, seconds)
    return campaign.run_round(store, kind, seed, seconds)


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--store", choices=sorted(STORES))
    parser.add_argument("--kind")
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(1, 2 ** 31)
    return given


def plan(given):
    """(store, kind) for ever: the stores in turn, each with its kinds, in an
    order that the seed draws."""
    rows = []
    for store in [given.store] if given.store else sorted(STORES):
        faults = [kind for kind in STORES[store]
                  if given.kind in (None, kind)]
        random.Random(f"{given.seed}/{store}").shuffle(faults)
        rows.append([(store, kind) for kind in faults])
    turns = [itertools.cycle(row) for row in rows if row]
    while turns:
        for turn in turns:
            yield next(turn)


class Sums:
    """What the closing lines say."""

    def __init__(self):
        self.rounds = collections.Counter()
        self.faults = collections.Counter()
        self.counts = collections.Counter()
        self.skipped, self.failed, self.broken = {}, [], 0

    def add(self, store, verdict, faults):
        self.rounds[store] += 1
        self.faults.update(faults)
        self.counts.update(verdict.counts)
        self.broken += sum(finding.soft for finding in verdict.broken)

    def say(self, seed, began):
        counts = self.counts
        rounds = ", ".join(f"{store} {number}"
                           for store, number in sorted(self.rounds.items()))
        print(f"campaign: seed {seed}, {sum(self.rounds.values())} rounds"
              f" ({rounds}) in {(time.monotonic() - began) / 60:.1f} minutes")
        print(f"  {counts['operations']} operations ({counts['unknown']}"
              f" unknown), {counts['grants']} grants, {counts['losses']}"
              f" losses, {counts['sections']} commands under snib run")
        print(f"  {counts['written']} elements acknowledged,"
              f" {counts['refused_writes']} writes refused by the fence or"
              " given up")
        print("  faults: " + ", ".join(
            f"{kind} {number}" for kind, number in sorted(self.faults.items())))
        for kind, why in sorted(self.skipped.items()):
            print(f"  skipped {kind}: {why}")
        print(f"  exclusion broken {self.broken} times where the store"
              " forgot; " + (f"{len(self.failed)} rounds FAILED"
                             if self.failed else "fence held, no promise"
                                                 " broken"))
        for path in self.failed:
            print(f"  history: {path}")


def main():
    given = arguments()
    if missing():
        print(f"campaign: skipped: {missing()}")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sums, began = Sums(), time.monotonic()
    end = began + given.minutes * 60
    print(f"campaign: seed {given.seed}", flush=True)
    for number, (store, kind) in enumerate(plan(given)):
        if time.monotonic() >= end or len(sums.failed) >= 10:
            break
        if f"{store} {kind}" in sums.skipped:
            if len(sums.skipped) > 40:
                break
            continue
        seed = given.seed + number
        try:
            verdict, faults, path = run_round(store, kind, seed,
                                              given.seconds)
        except Skip as why:
            sums.skipped[f"{store} {kind}"] = str(why)
            continue
        sums.add(store, verdict, faults)
        if not verdict.ok:
            sums.failed.append(path)
            print(f"FAILED round {number}: --store {store} --kind {kind}"
                  f" --seed {seed}\n{verdict}\nhistory: {path}", flush=True)
    sums.say(given.seed, began)
    return 1 if sums.failed or not sums.rounds else 0


if __name__ == "__main__":
    sys.exit(main())
