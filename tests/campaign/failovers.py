"""Failovers of Redis while 16 clients count, and slots that move under them.

    ./dev campaign --failovers 40      at least so many of each kind: two hours
    ./dev campaign --failovers 1 --kind freeze

Three servers and three Sentinels (rigs_redis.py), in turn as anybody runs them
and with `recovery=` and `replicas=1`. As they are, a failover may cost exclusion
(docs/REDIS.md) and never the fence: two owners are counted, and a campaign that
sees none has looked at nothing. With the two nobody may hold beside another.
In a cluster of six there are no such two, so two owners are counted there, too.
A round is one history with five failovers of one kind, read by both judges.
"""

import collections
import random
import time

from harness.wait import wait_until

from pairs import Bench, Pair
from rigs_redis import ClusterRig, KeptRig, SentinelRig

TIMES = 5          # failovers a round
GOES_ON_S = 1.5    # so long a primary that was replaced goes on
RIGS = {"sentinel": SentinelRig, "kept": KeptRig, "cluster": ClusterRig}

# What does not get through, and who feels it. A Sentinel that hears no answers
# replaces a primary that goes on.
PARTITIONS = (
    (("sentinel", "replica"), ("client", "server")),
    (("sentinel", "replica", "client"), ("client", "server")),
    (("sentinel",), ("server",)),
    (("sentinel", "replica"), ("server",)),
    (("sentinel", "client"), ("server",)),
)


def _each(world, rig, once):
    """How many failovers were seen. Whoever is in his section when one begins
    stays there for as long as he is told that he holds."""
    seen = 0
    for number in range(world.times):
        rig.ready()
        seen += once(number)
        world.more(3)
    return seen


def _replaced(world, rig, end, goes_on):
    """The primary is replaced by one that lacks its last grant; goes_on: it
    goes on beside that one for a while."""
    old, new = rig.primary, rig.next_one()
    rig.lags(new)
    world.more(1)
    with world.held_through():
        end(old)
        rig.drop(old, new)
        rig.switched(old)
        if goes_on:
            old.thaw()
            world.pause(GOES_ON_S)
            assert rig.goes_on(old), "it is no primary any more"
        else:
            world.pause(GOES_ON_S)
        rig.back(old)
    return 1


def planned(world, rig):
    """Asked for; the old one goes on until it is told."""
    def once(number):
        old = rig.primary
        with world.held_through():
            rig.plan(rig.watched.sentinels[number % 3])
            rig.switched(old)
            world.pause(GOES_ON_S)
            rig.back(old)
        return 1
    return _each(world, rig, once)


def kill(world, rig):
    """kill -9, and the one that is promoted lacks the last grants."""
    return _each(world, rig, lambda number: _replaced(
        world, rig, lambda old: old.kill(), False))


def freeze(world, rig):
    """SIGSTOP until another one is the primary; then it wakes."""
    return _each(world, rig, lambda number: _replaced(
        world, rig, lambda old: old.freeze(), True))


def partition(world, rig):
    """Some do not reach the primary, or are not answered, and others are."""
    def once(number):
        who, ways = PARTITIONS[number % len(PARTITIONS)]
        return _replaced(world, rig,
                         lambda old: old.door.shut(*who, ways=ways), True)
    return _each(world, rig, once)


def twice(world, rig):
    """Whoever was promoted is killed, too, as soon as the Sentinels can replace
    it."""
    def once(number):
        del number
        first = rig.primary
        with world.held_through():
            first.kill()
            second = rig.switched(first)
            rig.back(first)
            rig.settled()
            second.kill()
            rig.switched(second)
            world.pause(GOES_ON_S)
            rig.back(second)
        return 1
    return _each(world, rig, once)


def cluster_kill(world, rig):
    def once(number):
        del number
        old = rig.cluster.home(world.lock)
        with world.held_through():
            rig.cluster.kill(world.lock)
        old.start()
        return 1
    return _each(world, rig, once)


def cluster_freeze(world, rig):
    """It wakes beside its successor, and learns of it."""
    def once(number):
        del number
        cluster = rig.cluster
        old = cluster.home(world.lock)
        new = cluster.replica(old)
        with world.held_through():
            old.freeze()
            try:
                wait_until(lambda: new.command("ROLE")[0] == b"master", 60,
                           "it is promoted")
            finally:
                old.thaw()
        return 1
    return _each(world, rig, once)


def cluster_planned(world, rig):
    def once(number):
        del number
        with world.held_through():
            rig.cluster.fail_over(world.lock)
        return 1
    return _each(world, rig, once)


def cluster_move(world, rig):
    """The lock's slot, key by key, while it is held and waited for."""
    def once(number):
        del number
        before = rig.cluster.home(world.lock)
        with world.held_through():
            home, to = rig.cluster.begin_move(world.lock)
            world.pause(0.1)  # half way: nobody can be asked
            rig.cluster.end_move(world.lock, home, to)
        return rig.cluster.home(world.lock) is not before
    return _each(world, rig, once)


SENTINELS = [planned, kill, freeze, partition, twice]
KINDS = [play.__name__ for play in SENTINELS] + [
    "cluster_kill", "cluster_freeze", "cluster_planned", "cluster_move"]


def rounds_of(kind):
    """The pairs that show it, to be played in turn."""
    play = globals()[kind]
    shapes = ["cluster"] if kind.startswith("cluster") else ["sentinel", "kept"]
    return [Pair(shape, kind, play, 1, "failovers", shape != "kept", shape,
                 False) for shape in shapes]


class Rigs(Bench):
    """Of Redis with whoever takes its place."""
    rigs = {(shape, shape): kind for shape, kind in RIGS.items()}

    def rig_for(self, pair):
        """Sentinels that never got over the failover before are not used again."""
        rig = super().rig_for(pair)
        try:
            rig.ready()
        except AssertionError:
            self.close()
            rig = super().rig_for(pair)
        return rig

    def play(self, pair, seed, single=False, keep=False, times=TIMES):
        return super().play(pair._replace(least=times), seed, single, keep,
                            times)


class Sums:
    """What was seen of each kind."""

    def __init__(self):
        self.seen, self.counts = collections.Counter(), collections.Counter()
        self.owners = collections.Counter()  # two at once, by shape
        self.failed, self.begun = [], time.monotonic()

    def add(self, played):
        pair = played.pair
        self.seen[pair.fault] += played.seen
        self.seen[pair.shape, pair.fault] += played.seen
        self.counts.update(played.verdict.counts)
        self.owners[pair.shape] += len(played.verdict.broken)
        if not played.ok:
            self.failed.append(played.path)

    def say(self, seed):
        kinds = ", ".join(f"{kind} {self.seen[kind]}" for kind in KINDS
                          if self.seen[kind])
        total = sum(self.seen[kind] for kind in KINDS)
        counts = self.counts
        print(f"failovers: {total} ({kinds}) in"
              f" {(time.monotonic() - self.begun) / 60:.1f} minutes, seed"
              f" {seed}")
        print(f"  {counts['grants']} grants, {counts['losses']} losses,"
              f" {counts['written']} elements acknowledged")
        for shape in RIGS:
            many = sum(self.seen[shape, kind] for kind in KINDS)
            if many:
                print(f"  {shape}: {many} failovers, two owners"
                      f" {self.owners[shape]} times")
        print(f"  {len(self.failed)} rounds FAILED" if self.failed else
              "  no element lost, tokens rose, nobody held beside another"
              " where that is promised")
        for path in self.failed:
            print(f"  history: {path}")


def play_all(count, kinds, seed, single, keep):
    """At least so many of each kind; how many rounds have failed."""
    sums, number = Sums(), 0
    order = random.Random(seed)
    with Rigs() as rigs:
        todo = {kind: rounds_of(kind) for kind in kinds}
        while todo and len(sums.failed) < 10:
            for kind in order.sample(sorted(todo), len(todo)):
                for pair in todo[kind]:
                    played = rigs.play(pair, seed + number, single, keep,
                                       min(TIMES, count))
                    number += 1
                    sums.add(played)
                    print(played, flush=True)
                if sums.seen[kind] >= count:
                    del todo[kind]
    sums.say(seed)
    return len(sums.failed)
