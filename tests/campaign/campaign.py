"""One round: a store, clients, a nemesis, a history, a verdict.

A round is drawn from its seed: what the clients do, what the nemesis does and
to whom. The machine's scheduling is not, so a seed repeats the plan, not the
interleaving; the history is what counts, and it is kept when a round fails.
"""

import os
import random as random_module
import shutil
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for _path in (HERE, os.path.dirname(HERE)):
    if _path not in sys.path:
        sys.path.insert(0, _path)

import checker  # noqa: E402
import nemesis  # noqa: E402
from clients import CliClient, DriverClient, snib_binary  # noqa: E402
from harness.driver import Driver, driver_missing  # noqa: E402
from harness.pulse import Pulse  # noqa: E402
from history import History, boot_ns  # noqa: E402
from protected import Resource  # noqa: E402
from stores import STORES, Skip, scratch  # noqa: E402

__all__ = ["Skip", "run_round", "missing"]

# The longest wait for the next grant: alive window + push lease + poll cap,
# and a dead holder's lease.
FREE_WITHIN_MS = 7_000 + 1_000
# Callbacks are seen through a pipe and a thread of Python's.
EPS_MS = 400
COMPLETE_S = 20  # so much longer a round may last


def missing():
    """Why no round can run here; "" when one can."""
    if driver_missing():
        return driver_missing()
    return "" if snib_binary() else "SNIB_BIN does not name the program"


class World:
    """What clients and nemesis share in one round. made: the store, when it
    is there already."""
    # What clients ask for.
    lock, lease_ms, request_ms = "n", DriverClient.LEASE_MS, 500
    waits_ms, long_hold_s = (0, 50, 400, 1500), 1.3 * lease_ms / 1000
    free_within_ms = FREE_WITHIN_MS

    def __init__(self, store, kind, seed, seconds, folder, made=None):
        self.folder, self.seconds = folder, seconds
        self.random = random_module.Random(f"{store}/{kind}/{seed}")
        self.history = History(self.path("history.jsonl"))
        self.resource = Resource(
            self.path("resource.json"),
            lambda **line: self.history("fence", lock=self.lock, **line))
        self.resource.make()
        self._over = threading.Event()
        self.faults = {}
        self.drivers, self.clis = [], []
        self.granted = []  # of what kind, in their order; "": a mutex
        self.holder = ""  # the process that was the last to enter
        self.inside = ""  # it, until it has left its section
        self.stay = False  # nobody leaves his section who still holds
        self.store = made or STORES[store](kind, folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def url_of(self, index):
        """The store, for this client."""
        del index
        return self.store.url

    @staticmethod
    def new_random(seed):
        return random_module.Random(seed)

    def over(self):
        return self._over.is_set()

    def end(self):
        self._over.set()

    @staticmethod
    def pause(seconds):
        """A part of the plan: how long a fault, a hold, a gap lasts."""
        time.sleep(seconds)

    def complete(self):
        """Has all happened that a round is to show?"""
        return len(self.granted) >= 2

    def open(self):
        self.drivers = [DriverClient(self, 0, 2), DriverClient(self, 1, 1),
                        DriverClient(self, 2, 1)]
        self.clis = [CliClient(self, 0)]
        for client in self.drivers + self.clis:
            for thread in client.threads:
                thread.start()

    def join(self):
        for client in self.drivers + self.clis:
            for thread in client.threads:
                thread.join(60)
                if thread.is_alive():
                    self.history("hang", p="", text="a client does not end")

    def close(self):
        for client in self.drivers + self.clis:
            client.close()
        self.drivers, self.clis = [], []


def _torment(world, kinds):
    """The nemesis, until the round's time is over; on a busy machine longer,
    until it has shown all that it is for."""
    faults = nemesis.KINDS[world.store.name]
    end = time.monotonic() + world.seconds
    world.pause(world.random.uniform(0.05, 0.2))  # all at work
    while (not world.faults or time.monotonic() < end
           or not world.complete() and time.monotonic() < end + COMPLETE_S):
        kind = world.random.choice(kinds)
        world.history("nemesis", kind=kind, lossy=kind in nemesis.LOSSY)
        faults[kind](world)
        world.faults[kind] = world.faults.get(kind, 0) + 1
        world.pause(world.random.uniform(0.05, 0.3))


def last_word(world):
    """A process that no fault touches gets the lock, and reads the end."""
    begun = boot_ns()
    with Driver() as driver:
        driver.open(world.store.direct_url)
        driver.lock(world.lock, id="n", lease_ms=5000)
        answer = driver.start_acquire(
            "n", wait_ms=world.free_within_ms).answer(30)
        if not answer.ok:
            world.history("stuck", err=answer.err, text=answer.text)
        else:
            who = {"p": "last", "owner": "last/main", "lock": world.lock}
            ident = world.history.new_id()
            world.history("acquire", e="invoke", id=ident, t=begun, **who)
            world.history("acquire", e="ok", id=ident, grant="last.1",
                          token=answer.token, holds=answer.holds,
                          began=answer.began, ended=answer.ended, **who)
            world.resource.enter(answer.token)
        data = world.resource.read()
        world.history("final", elements=data["elements"], count=data["count"])


def run_round(store, kind, seed, seconds=1.5, keep=False):
    """One round; (Verdict, faults by kind, path of the history).

    kind "mixed": each fault is drawn from all that may meet in one server.
    The history is deleted when the verdict is good, unless keep.
    """
    folder = scratch()
    try:
        world = World(store, kind, seed, seconds, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    kinds = [kind]
    if kind == "mixed":  # these need a set-up of their own
        kinds = sorted(set(nemesis.KINDS[store])
                       - {"disk_full", "clock_forward", "clock_back"})
    pulse = Pulse()
    try:
        world.history("meta", store=store, kind=kind, seed=seed, eps_ms=EPS_MS)
        world.open()
        try:
            _torment(world, kinds)
        finally:
            world.history("meta", ended=boot_ns())
            world.end()
            world.join()
            world.close()
        last_word(world)
        for text in world.store.problems():
            world.history("residue", text=text)
    finally:
        world.close()
        pulse.close()
        world.store.close()
        world.history("pulse", gap_ms=pulse.worst_ms())
        world.history.close()
    verdict = checker.check(checker.read(world.history.path))
    if verdict.ok and not keep:
        shutil.rmtree(folder, ignore_errors=True)
    return verdict, world.faults, world.history.path
