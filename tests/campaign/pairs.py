"""Pairs of a store and a fault: a short round for each, in which 16 clients count
while that fault happens, and two judges read the history.

    ./dev campaign --pairs all              each of them, once
    ./dev campaign --pairs postgres,etcd    those of two stores
    ./dev campaign --pairs etcd:kill_leader,:kill_server
                                            one pair; a fault in each store
    ./dev campaign --pairs list             their names, and how many a store

A pair's clients count until a dozen grants were made, then the fault happens,
then they count until a dozen more were made. What the fault did is counted by
the fault itself, from outside, and a pair whose fault did nothing has failed.
lossy: the store's page promises only the fence for it (an administrator ends a
claim by force, data are restored, a clock is set): two may hold then, tokens
rise all the same, and no acknowledged element is lost.
"""

import collections
import contextlib
import os
import shutil
import time

import campaign
import checker
import pair_faults as faults
import pair_hands as hands
import second
from clients import CliClient, DriverClient
from harness.driver import LockError
from harness.pulse import Pulse
from harness.wait import wait_until
from history import boot_ns
from rigs import RIGS
from stores import Skip, scratch

CLIENTS = 16
GRANTS = 12      # before the fault, and after it
MORE_S = 60      # so long the next grants may take

# outlasts: leases are longer than the server is away, so that who holds does so
# still when it is back, and one that forgot him would let in another one.
Pair = collections.namedtuple(
    "Pair", "store fault play least seen lossy shape outlasts")


def _pairs(stores, play, least, seen, lossy=False, shape="one",
           outlasts=False):
    return [Pair(store, play.__name__, play, least, seen, lossy, shape,
                 outlasts) for store in stores.split()]


EACH = "postgres mysql etcd zookeeper rabbitmq"
SQL = "postgres mysql"
PAIRS = [pair for row in (
    _pairs(EACH, faults.kill_server, 1, "times it was gone", outlasts=True),
    _pairs(EACH, faults.restart_server, 1, "times it was gone", outlasts=True),
    _pairs(EACH, faults.freeze_server, 2, "times it stood still"),
    _pairs(EACH, faults.freeze_server_long, 2, "times it stood still"),
    _pairs(EACH, faults.freeze_clients, 2, "holders outlived"),
    _pairs(EACH, faults.kill_clients, 3, "holders killed"),
    _pairs(EACH, faults.cut_all, 20, "connections cut"),
    _pairs(EACH, faults.cut_each, 8, "different messages lost"),
    _pairs(EACH, faults.lose_answers, 3, "answers lost"),
    _pairs(EACH, faults.silence_answers, 3, "answers lost"),
    _pairs(EACH, faults.partition_short, 2, "pieces kept back"),
    _pairs(EACH, faults.partition_long, 2, "pieces kept back"),
    _pairs(SQL, faults.end_connections, 20, "connections ended"),
    _pairs(SQL, faults.end_listeners, 5, "listeners ended"),
    _pairs("postgres", faults.time_out_the_idle, 5, "connections ended"),
    _pairs("mysql", faults.end_idle, 20, "connections ended"),
    _pairs(SQL, faults.want_repeats, 5, "writes refused"),
    _pairs(SQL, faults.lock_rows, 2, "waits for a row given up"),
    _pairs(SQL, faults.fill_disk, 3, "writes refused"),
    _pairs("mysql", faults.read_only, 2, "times nothing was written"),
    _pairs(SQL, faults.restore_database, 1, "times restored", True,
           outlasts=True),
    _pairs(SQL, faults.clock_forward, 3, "steps", True, "clock"),
    _pairs(SQL, faults.clock_back, 3, "steps", True, "clock"),
    _pairs(SQL, faults.fail_over, 1, "failovers", False, "synchronous",
           True),
    _pairs(SQL, faults.fail_over_behind, 1, "failovers", True, "asynchronous",
           True),
    _pairs("etcd", hands.revoke_holders, 4, "leases revoked", True),
    _pairs("etcd", hands.revoke_waiters, 4, "leases revoked", True),
    _pairs("etcd", hands.delete_claims, 4, "claims deleted", True),
    _pairs("etcd", hands.compact, 5, "compactions"),
    _pairs("etcd", hands.restore_etcd, 1, "times restored", True,
           outlasts=True),
    _pairs("etcd", hands.fill_etcd, 1, "alarms", False, "small"),
    _pairs("etcd", hands.move_leader, 3, "new leaders", False, "three"),
    _pairs("etcd", hands.cut_off_leader, 2, "new leaders", False, "three",
           True),
    _pairs("etcd zookeeper", hands.kill_leader, 2, "new leaders", False,
           "three", True),
    _pairs("etcd zookeeper", hands.freeze_leader, 2, "new leaders", False,
           "three", True),
    _pairs("etcd zookeeper", hands.kill_followers, 2, "members gone", False,
           "three"),
    _pairs("etcd zookeeper", hands.kill_majority, 2, "members gone", False,
           "three"),
    _pairs("zookeeper", hands.remove_nodes, 3, "nodes removed"),
    _pairs("zookeeper", hands.remove_records, 3, "records removed"),
    _pairs("zookeeper", hands.remove_both, 3, "grants ended", True),
    _pairs("zookeeper", hands.end_sessions, 8, "sessions over"),
    _pairs("rabbitmq", hands.close_connections, 3, "connections closed"),
    _pairs("rabbitmq", hands.close_holder, 3, "connections closed"),
    _pairs("rabbitmq", hands.delete_queue, 3, "queues deleted", True),
    _pairs("rabbitmq", hands.kill_queue, 2, "new processes"),
    _pairs("rabbitmq", hands.memory_alarm, 1, "alarms"),
    _pairs("rabbitmq", hands.disk_alarm, 1, "alarms"),
    _pairs("rabbitmq", hands.stop_app, 1, "times it was away", outlasts=True),
) for pair in row]
PAIRS.sort(key=lambda pair: (EACH.split().index(pair.store),
                             list(RIGS).index((pair.store, pair.shape))))


def chosen(text):
    """The pairs that a text such as "etcd,:kill_server" names; None: it names
    something that there is not."""
    found = []
    for word in text.split(","):
        store, _, fault = word.partition(":")
        some = [pair for pair in PAIRS
                if store in ("", "all", pair.store) and fault in ("", pair.fault)]
        if not word or not some:
            return None
        found += some
    return [pair for pair in PAIRS if pair in found]


def listed():
    """All pairs by name, and how many a store."""
    lines = []
    for store in EACH.split():
        own = [pair for pair in PAIRS if pair.store == store]
        lines += [f"{store}: {len(own)}"] + [
            f"  {store}:{pair.fault}{'  (fence)' * pair.lossy}"
            for pair in own]
    return "\n".join(lines + [f"{len(PAIRS)} pairs"])


class Holder:
    """Who came in as the last one before a fault."""

    def __init__(self, p):
        self.p, self.since, self.stayed = p, time.monotonic(), False


class PairWorld(campaign.World):
    """16 clients of one lock, one of them `snib run` again and again."""

    def __init__(self, pair, rig, seed, folder, times):
        self.lock, self.times = pair.fault.replace("_", "-"), times
        longer_ms = rig.outage_ms if pair.outlasts else 0
        self.lease_ms = rig.lease_ms + longer_ms
        self.request_ms = rig.request_ms
        self.waits_ms = (0, 400, 4000, 8000)
        self.long_hold_s = 0.6 * rig.lease_ms / 1000  # it is renewed meanwhile
        self.free_within_ms = rig.free_within_ms + longer_ms
        self.since = None  # when the lock was first granted
        super().__init__(pair.store, pair.fault, seed, 0, folder, made=rig)

    def url_of(self, index):
        return self.store.url_of(index)

    def open(self):
        try:
            self.drivers = [DriverClient(self, index, 1)
                            for index in range(CLIENTS - 1)]
        except LockError as why:
            if why.err == "UNSUPPORTED":
                raise Skip(f"the store {self.store.name} is not built in") \
                    from None
            raise
        self.clis = [CliClient(self, CLIENTS - 1)]
        for client in self.drivers + self.clis:
            for thread in client.threads:
                thread.start()

    @contextlib.contextmanager
    def held_through(self, seconds=0.0):
        """Somebody has just entered his section when this begins, and whoever is
        in one stays there for as long as he is told that he holds: until this is
        over, and so long after it. Inside, Holder tells since when; afterwards,
        whether it was the same one all the time."""
        wait_until(lambda: not self.inside, 20, "a section ends")
        self.stay = True
        try:
            holder = Holder(wait_until(lambda: self.inside, 20,
                                       "somebody comes in"))
            yield holder
            self.pause(seconds)
            holder.stayed = self.inside == holder.p
        finally:
            self.stay = False

    def check_kept(self, holder, back):
        """The server was back at that instant, early in the lease: does the holder
        hold still, as the store promises?"""
        if (self.store.keeps
                and back - holder.since < 0.4 * self.lease_ms / 1000):
            self.history("kept", p=holder.p, held=holder.stayed)
            assert holder.stayed, f"{holder.p} held, and the store forgot it"

    def is_old(self):
        """Old enough for its server to be killed?"""
        return time.monotonic() - self.since >= self.store.age_s

    def more(self, count):
        """So many more are granted."""
        goal = len(self.granted) + count
        wait_until(lambda: len(self.granted) >= goal, MORE_S,
                   f"{count} more grants")


class Played:
    """One pair, played once."""

    def __init__(self, pair, rig, seed, single=False, keep=False, times=1):
        self.pair, self.seen, self.trouble = pair, 0, ""
        self.opinion, begun = None, time.monotonic()
        folder = scratch()
        world = PairWorld(pair, rig, seed, folder, times)
        self.path = world.history.path
        pulse = Pulse()
        try:
            world.history("meta", store=pair.store, kind=pair.fault, seed=seed,
                          eps_ms=campaign.EPS_MS)
            self._play(world, rig)
            campaign.last_word(world)
        except Skip:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        except AssertionError as why:
            self.trouble = self.trouble or str(why)
        finally:
            world.close()
            pulse.close()
            world.history("pulse", gap_ms=pulse.worst_ms())
            world.history.close()
        self.verdict = checker.check(checker.read(self.path))
        if not single:
            self.opinion = second.judge(self.path)[0]
        self.seconds = time.monotonic() - begun
        if self.ok and not keep:
            shutil.rmtree(os.path.dirname(self.path), ignore_errors=True)

    def _play(self, world, rig):
        try:
            world.open()
            world.more(1)
            world.since = time.monotonic()
            world.more(GRANTS - 1)
            world.history("nemesis", kind=self.pair.fault,
                          lossy=self.pair.lossy)
            self.seen = self.pair.play(world, rig)
            world.history("effect", seen=self.seen, what=self.pair.seen)
            world.more(GRANTS)
        except Skip:
            raise
        except Exception as why:  # of the fault: no reason to leave clients
            self.trouble = f"{type(why).__name__}: {why}"
        finally:
            world.history("meta", ended=boot_ns())
            world.end()
            world.join()
            world.close()

    def problems(self):
        """What is wrong, a sentence each."""
        found = [self.trouble] if self.trouble else []
        if not self.trouble and self.seen < self.pair.least:
            found.append(f"the fault did nothing: {self.seen} {self.pair.seen},"
                         f" and not {self.pair.least}")
        if not self.verdict.ok:
            found.append(str(self.verdict))
        elif self.verdict.broken and not self.pair.lossy:
            found.append(f"two owners: {self.verdict.broken[0]}")
        if self.opinion is not None and not self.opinion.ok:
            found.append(str(self.opinion))
        return found

    @property
    def ok(self):
        return not self.problems()

    def __str__(self):
        counts = self.verdict.counts
        line = (f"{self.pair.store + ':' + self.pair.fault:32}"
                f" {'ok' if self.ok else 'FAILED':6} {self.seconds:5.1f} s"
                f" {counts['grants']:4} grants {counts['losses']:3} losses"
                f" {counts['unknown']:3} unknown; {self.seen} {self.pair.seen}")
        if self.verdict.broken:
            line += f"; two owners {len(self.verdict.broken)} times"
        return "\n  ".join([line] + self.problems())


class Bench:
    """Rigs, each made when it is needed; one at a time."""
    rigs = RIGS

    def __init__(self):
        self.rig = None

    def rig_for(self, pair):
        kind = self.rigs[pair.store, pair.shape]
        if (type(self.rig) is not kind or getattr(self.rig, "once", False)
                or self.rig.is_gone()):
            self.close()
            self.rig = kind()
        return self.rig

    def play(self, pair, seed, single=False, keep=False, times=1):
        played = Played(pair, self.rig_for(pair), seed, single, keep, times)
        if not played.ok:
            self.close()  # what is left of it is in nobody's way
        return played

    def close(self):
        if self.rig is not None:
            self.rig.close()
        self.rig = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def play_all(pairs, seed, single, keep):
    """Each of them once; how many have failed."""
    sums, failed, skipped = collections.Counter(), [], {}
    begun = time.monotonic()
    with Bench() as bench:
        for pair in pairs:
            try:
                played = bench.play(pair, seed, single, keep)
            except Skip as why:
                skipped[f"{pair.store}:{pair.fault}"] = str(why)
                bench.close()
                continue
            print(played, flush=True)
            sums.update(played.verdict.counts)
            sums[pair.store] += 1
            if not played.ok:
                failed.append(played.path)
            if not played.ok or keep:
                print(f"  history: {played.path}", flush=True)
    stores = ", ".join(f"{store} {sums[store]}" for store in EACH.split()
                       if sums[store])
    print(f"pairs: {sum(sums[store] for store in EACH.split())} ({stores}) in"
          f" {(time.monotonic() - begun) / 60:.1f} minutes, seed {seed}:"
          f" {sums['grants']} grants, {sums['losses']} losses,"
          f" {sums['written']} elements acknowledged; "
          + (f"{len(failed)} FAILED" if failed else "none lost, tokens rose"))
    for name, why in skipped.items():
        print(f"  skipped {name}: {why}")
    if single:
        print(f"  second judge: skipped: {single}")
    return len(failed)
