#!/usr/bin/env python3
"""The campaign, for as long as one likes.

usage: ./dev campaign --minutes N [--seed S] [--kind KIND] [--seconds ROUND]
                      [--keep] [STORE…]
       ./dev campaign --pairs all|list|[STORE]:[FAULT],… [--seed S] [--keep]
       ./dev campaign --failovers N [--kind KIND] [--seed S] [--keep]

STORE: file, redis, quorum: one lock; file-shared, redis-shared,
memory-shared: readers, writers and permits (kinds.py). None: all of them.
Rounds go in turn through the stores and the kinds of faults ("mixed" draws
each fault anew); round i of seed S has the seed S + i.

--pairs: PostgreSQL, MariaDB, etcd, ZooKeeper and RabbitMQ, each with its faults,
one after the other, 16 clients at a time (pairs.py); `list` names them.

--failovers: Redis with Sentinels, as it is and with `recovery=` and
`replicas=1`, and a Cluster: at least N failovers of each kind, or of that KIND
(planned, kill, freeze, partition, twice, cluster_kill, cluster_freeze,
cluster_planned, cluster_move), 16 clients at a time (failovers.py).

Each history has two judges, who share nothing but the file: checker.py, and,
where one lock is what it is about, porcupine with a model of its own (judge/;
where that can't be built, the closing lines say why). What it can't decide in
time counts as broken.

Prints a line for each failure as it happens and the sums at the end. Exit
status: 0; 1: a history broke a promise (it is kept, and its path printed; with
--keep all of them are); 64: bad usage; 77: nothing could run.
"""

import argparse
import collections
import itertools
import os
import random
import shutil
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import campaign  # noqa: E402
import failovers  # noqa: E402
import kinds  # noqa: E402
import nemesis  # noqa: E402
import pairs  # noqa: E402
import second  # noqa: E402
from campaign import Skip, missing  # noqa: E402

SHARED = "-shared"
STORES = {store: sorted(nemesis.KINDS[store]) + ["mixed"]
          for store in ("quorum", "redis", "file")}
STORES |= {"redis" + SHARED: kinds.REDIS_KINDS,
           "file" + SHARED: sorted(nemesis.KINDS["file"]),
           "memory" + SHARED: sorted(nemesis.KINDS["memory"])}


class Round:
    """One round and what its judges say. The history is gone when all is
    good, unless keep."""

    def __init__(self, given, store, kind, seed):
        self.opinion = None
        if store.endswith(SHARED):
            self.verdict, self.faults, self.path = kinds.run_round(
                store.removesuffix(SHARED), kind, seed, given.seconds)
            return
        self.verdict, self.faults, self.path = campaign.run_round(
            store, kind, seed, given.seconds, keep=True)
        if not given.single:
            self.opinion = second.judge(self.path)[0]
        if self.ok and not given.keep:
            shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)

    @property
    def ok(self):
        return self.verdict.ok and (self.opinion is None or self.opinion.ok)

    def __str__(self):
        return "\n".join([str(self.verdict)] + [str(self.opinion)] * bool(
            self.opinion))


class Parser(argparse.ArgumentParser):
    """Bad usage is 64, as with ./dev."""

    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(64, f"{self.prog}: {message}\n")


def arguments():
    parser = Parser(prog="./dev campaign")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--pairs", metavar="WHICH",
                        help="all, list, or names: STORE, STORE:FAULT, :FAULT,"
                        " with commas between them")
    parser.add_argument("--failovers", type=int, metavar="N",
                        help="at least so many of each kind")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kind")
    parser.add_argument("--seconds", type=float, default=3.0,
                        metavar="ROUND", help="the length of a round")
    parser.add_argument("--keep", action="store_true",
                        help="each history, not only that of a failure")
    parser.add_argument("stores", nargs="*", metavar="STORE",
                        help=" ".join(sorted(STORES)))
    given = parser.parse_args()
    for store in given.stores:
        if store not in STORES:
            parser.error(f"no such store: {store} (there are:"
                         f" {' '.join(sorted(STORES))})")
    given.stores = given.stores or sorted(STORES)
    if [given.minutes, given.pairs, given.failovers].count(None) != 2:
        parser.error("one of --minutes, --pairs and --failovers")
    if given.pairs not in (None, "list"):
        given.pairs = pairs.chosen(given.pairs)
        if given.pairs is None:
            parser.error("no such pair; --pairs list names them")
    if given.failovers is not None:
        check_failovers(parser, given)
    elif given.kind and not any(given.kind in STORES[store]
                                for store in given.stores):
        parser.error(f"no such kind of fault: {given.kind}")
    if given.seed is None:
        given.seed = random.SystemRandom().randrange(1, 2 ** 31)
    return given


def check_failovers(parser, given):
    if given.failovers < 1:
        parser.error("--failovers wants 1 or more")
    if given.kind and given.kind not in failovers.KINDS:
        parser.error(f"no such kind of failover: {given.kind} (there are:"
                     f" {' '.join(failovers.KINDS)})")


def plan(given):
    """(store, kind) for ever: the stores in turn, each with its kinds, in an
    order that the seed draws."""
    rows = []
    for store in given.stores:
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
        self.words, self.judged = collections.Counter(), 0
        self.skipped, self.failed, self.broken = {}, [], 0

    def add(self, store, played):
        self.rounds[store] += 1
        self.faults.update(played.faults)
        self.counts.update(played.verdict.counts)
        self.broken += sum(finding.soft for finding in played.verdict.broken)
        if played.opinion is not None:
            self.words[played.opinion.word] += 1
            self.judged += played.opinion.operations
        if not played.ok:
            self.failed.append(played.path)

    def second(self, single):
        """What the second judge says of all."""
        if single:
            return f"second judge: skipped: {single}"
        return (f"second judge (porcupine): {self.judged} operations; "
                + (", ".join(f"{number} histories {word}" for word, number
                             in sorted(self.words.items())) or "no history"))

    def say(self, seed, began, single):
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
        print(f"  {self.second(single)}")
        print(f"  exclusion broken {self.broken} times where the store"
              " forgot; " + (f"{len(self.failed)} rounds FAILED"
                             if self.failed else "fence held, no promise"
                                                 " broken"))
        for path in self.failed:
            print(f"  history: {path}")


def main():
    given = arguments()
    if given.pairs == "list":
        print(pairs.listed())
        return 0
    if missing():
        print(f"campaign: skipped: {missing()}")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    given.single = second.missing()
    if given.pairs:
        return 1 if pairs.play_all(given.pairs, given.seed, given.single,
                                   given.keep) else 0
    if given.failovers:
        kinds_of = [given.kind] if given.kind else failovers.KINDS
        try:
            return 1 if failovers.play_all(given.failovers, kinds_of, given.seed,
                                           given.single, given.keep) else 0
        except Skip as why:
            print(f"campaign: skipped: {why}")
            return 77
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
            played = Round(given, store, kind, seed)
        except Skip as why:
            sums.skipped[f"{store} {kind}"] = str(why)
            continue
        sums.add(store, played)
        if not played.ok:
            print(f"FAILED round {number}: --kind {kind} --seed {seed} {store}"
                  f"\n{played}", flush=True)
        if not played.ok or given.keep:
            print(f"history: {played.path}", flush=True)
    sums.say(given.seed, began, given.single)
    return 1 if sums.failed or not sums.rounds else 0


if __name__ == "__main__":
    sys.exit(main())
