"""Rounds with readers, writers and permits: as campaign.py, on two locks.

    rw    read, write, a writer that reads and then reads on, a reader that
          wants to write
    sem   lots of 1 to 3 of 4 permits

Three processes on a store that is shared, with two threads each; on memory:
three clients in one process. Nothing is written to a resource: who held when
is the whole claim, and the checker's model `shared` is the judge.
"""

import shutil

import campaign
import checker
import nemesis
from clients import HANG_S, DriverClient, Caller
from harness.driver import Driver, DriverDied
from harness.wait import wait_until
from history import boot_ns
from stores import scratch

SIZE = 4
# Faults of one server that is always the same one, and remembers.
REDIS_KINDS = sorted(set(nemesis.KINDS["redis"]) - nemesis.LOSSY
                     - {"clock_back", "server_stop"})


class KindsClient(DriverClient):
    """One process (again and again), `clients` library clients in it."""

    def __init__(self, world, index, callers, clients):
        self.clients = clients
        super().__init__(world, index, callers)

    def _start(self):
        driver = Driver()
        for client in range(self.clients):
            of = {"client": f"c{client}", "lease_ms": self.LEASE_MS}
            driver.open(self.world.store.url, id=of["client"], request_ms=500)
            for kind in ("read", "write"):
                driver.lock("rw", id=f"{kind}{client}", kind=kind, **of)
            for permits in (1, 2, 3):
                driver.lock("sem", id=f"permits{client}.{permits}",
                            kind="permits", permits=permits, capacity=SIZE,
                            **of)
        with self._lock:
            self._count += 1
            self.driver, self.p = driver, f"d{self.index}.{self._count}"

    def _caller(self, caller, seed):
        random = self.world.new_random(seed)
        client = int(caller[1:]) % self.clients
        while not self.world.over():
            driver, p = self.current()
            try:
                KindCaller(self.world, driver, p, caller, random, client).section()
            except (DriverDied, ValueError):
                wait_until(lambda: self.current()[0] is not driver
                           or self.world.over(), 20, "a new process")
            except AssertionError as error:
                self.world.history("hang", p=p, text=str(error))
                return


class KindCaller(Caller):
    """One thread; what it holds of both locks, one after the other."""

    def __init__(self, world, driver, p, caller, random, client):
        super().__init__(world, driver, p, caller, random)
        self.client = client
        self.owner = self.who["owner"]

    def take(self, kind, wait_ms, permits=0):
        """The Grant, or None."""
        name = (f"permits{self.client}.{permits}" if permits
                else f"{kind}{self.client}")
        who = {"p": self.p, "owner": self.owner, "kind": kind,
               "lock": "sem" if permits else "rw"}
        ident = self.world.history.new_id()
        self.world.history("acquire", e="invoke", id=ident,
                           limit_ms=max(wait_ms, 500), **who)
        pending = self.driver.start_acquire(name, on=self.caller,
                                            wait_ms=wait_ms)
        grant, answer = pending.grant, pending.answer(HANG_S)
        grant.answer, grant.who = answer, who
        more = {}
        if answer.ok:
            self.world.holder = self.p
            self.world.granted.append(kind)
            more = {"token": answer.token, "holds": answer.holds,
                    "ticket": f"{name}/{answer.ticket}",
                    "permits": permits, "size": SIZE,
                    "lease_ms": DriverClient.LEASE_MS,
                    "grant": f"{self.p}.{grant.id}"}
        self.who = who
        if not self._end("acquire", ident, answer, **more):
            return None
        self.probe(grant)
        return grant

    def give(self, grant):
        self.who = grant.who
        self.release(grant)

    def hold(self, *grants):
        """In 1 of 16 cases for longer than the lease."""
        random = self.random
        hold = (1.3 * DriverClient.LEASE_MS / 1000 if random.random() < 1 / 16
                else random.choice([0, 0, 0.02, 0.05, 0.1]))
        until = boot_ns() + int(hold * 1e9)
        while boot_ns() < until:
            self.world.pause(0.02)
            if not all([self.probe(grant) for grant in grants]):
                return

    def section(self):
        random = self.random
        wait_ms = random.choice([0, 50, 400, 1500])
        what = random.choice(["read", "read", "read", "write", "downgrade",
                              "upgrade", "permits", "permits", "permits"])
        getattr(self, "_" + what)(wait_ms)
        self.world.pause(random.uniform(0.0, 0.03))

    def _one(self, grant):
        if grant is not None:
            self.hold(grant)
            self.give(grant)

    def _read(self, wait_ms):
        self._one(self.take("read", wait_ms))

    def _write(self, wait_ms):
        self._one(self.take("write", wait_ms))

    def _permits(self, wait_ms):
        self._one(self.take("permits", wait_ms, self.random.randint(1, 3)))

    def _two(self, first, second, wait_ms, second_wait_ms):
        """The first is given back before the second, or after it."""
        outer = self.take(first, wait_ms)
        if outer is None:
            return
        self.hold(outer)
        inner = self.take(second, second_wait_ms)
        if inner is None:
            self.give(outer)
            return
        self.hold(outer, inner)
        both = [outer, inner]
        if self.random.random() < 0.5:
            both.reverse()
        self.give(both[0])
        self.hold(both[1])
        self.give(both[1])

    def _downgrade(self, wait_ms):
        self._two("write", "read", wait_ms, 300)

    def _upgrade(self, wait_ms):
        self._two("read", "write", wait_ms, self.random.choice([0, 300]))


class KindsWorld(campaign.World):
    """Callers on both locks; nobody of the command line."""

    def complete(self):
        return len(set(self.granted)) == 3

    def open(self):
        if self.store.name == "memory":
            self.drivers = [KindsClient(self, 0, 6, 3)]
        else:
            self.drivers = [KindsClient(self, index, 2, 1)
                            for index in range(3)]
        for client in self.drivers:
            for thread in client.threads:
                thread.start()


def _last_word(world):
    """All of both locks is free again for a process that nothing befalls."""
    with Driver() as driver:
        driver.open(world.store.direct_url)
        driver.lock("rw", id="w", kind="write")
        driver.lock("sem", id="s", kind="permits", permits=SIZE, capacity=SIZE)
        for lock in ("w", "s"):
            answer = driver.start_acquire(
                lock, wait_ms=campaign.FREE_WITHIN_MS).answer(30)
            if not answer.ok:
                world.history("stuck", err=answer.err, text=answer.text)


def run_round(store, kind, seed, seconds=1.5):
    """One round; (Verdict, faults by kind, path of the history)."""
    folder = scratch()
    try:
        world = KindsWorld(store, kind, f"kinds/{seed}", seconds, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    pulse = campaign.Pulse()
    try:
        world.history("meta", store=store, kind=kind, seed=seed,
                      eps_ms=campaign.EPS_MS)
        world.open()
        try:
            campaign._torment(world, [kind])
        finally:
            world.history("meta", ended=boot_ns())
            world.end()
            world.join()
            world.close()
        _last_word(world)
        for text in world.store.problems():
            world.history("residue", text=text)
    finally:
        world.close()
        pulse.close()
        world.store.close()
        world.history("pulse", gap_ms=pulse.worst_ms())
        world.history.close()
    lines = checker.read(world.history.path)
    verdict = checker.check(lines)
    for line in lines:
        if line["op"] == "acquire" and line["e"] == "ok":
            word = "granted_" + line["kind"]
            verdict.counts[word] = verdict.counts.get(word, 0) + 1
    if verdict.ok:
        shutil.rmtree(folder, ignore_errors=True)
    return verdict, world.faults, world.history.path
