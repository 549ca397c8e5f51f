"""A Redis Cluster: three primaries with a replica each, each a real process."""

import contextlib
import random
import socket
import time

from .ports import free_port
from .redis_server import RedisServer, redis_version
from .resp import RedisError
from .wait import wait_until

__all__ = ["Cluster", "slot_of"]

SLOTS = 16384
TIMEOUT_MS = 2000

# A replica that attaches at once, and one that is promoted soon.
QUICK = ("cluster-enabled yes", f"cluster-node-timeout {TIMEOUT_MS}",
         "cluster-replica-validity-factor 0", "cluster-allow-replica-migration no",
         "repl-diskless-sync yes", "repl-diskless-sync-delay 0",
         "repl-ping-replica-period 1", "repl-timeout 5")


def low_port():
    """A port that is free as is the one 10,000 higher, both below those that the
    kernel gives; 0: the last one was not."""
    port = random.randrange(11000, 22000)
    try:
        for one in (port, port + 10000):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", one))
    except OSError:
        return 0
    return port


def slot_of(name):
    """The slot of a lock, by bits: another reading of the same rule."""
    crc = 0
    for byte in name.encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc % SLOTS


class Cluster:
    """with Cluster() as cluster: … cluster.url, cluster.home("n"),
    cluster.move("n"), cluster.kill("n").

    primaries, replicas: how many of each. hole: a range of slots that nobody
    gets. config: more lines for each server.
    """

    def __init__(self, primaries=3, replicas=3, config=(), hole=range(0)):
        self.stack = contextlib.ExitStack()
        self.hole = hole
        with contextlib.ExitStack() as undo:
            undo.callback(self.stack.close)
            self.servers = [self._start(config)
                            for _ in range(primaries + replicas)]
            self.ids = {s: s.command("CLUSTER", "MYID").decode()
                        for s in self.servers}
            self._meet()
            self._give_slots(self.servers[:primaries])
            self._attach(self.servers[:primaries], self.servers[primaries:])
            wait_until(self.whole, 40, "the cluster is whole")
            undo.pop_all()

    def _start(self, config):
        if redis_version() >= (7, 0):
            one = RedisServer([*QUICK, f"cluster-port {free_port()}", *config])
        else:  # the other port is 10,000 higher
            one = RedisServer([*QUICK, *config], start=False)
            one.port = wait_until(low_port, 20, "a low port")
            one.start()
        self.stack.callback(one.close)
        return one

    def _meet(self):
        first = self.servers[0]
        for number, one in enumerate(self.servers[1:], 2):
            one.command("CLUSTER", "SET-CONFIG-EPOCH", number)
            first.command("CLUSTER", "MEET", "127.0.0.1", one.port,
                          self._bus(one))
        wait_until(lambda: all(len(self.nodes(s)) == len(self.servers)
                               for s in self.servers), 40, "all have met")

    @staticmethod
    def _bus(server):
        found = server.command("CONFIG", "GET", "cluster-port")
        return found[1] if found else server.port + 10000

    def _give_slots(self, primaries):
        share = -(-SLOTS // len(primaries))
        for number, one in enumerate(primaries):
            slots = [slot for slot in range(number * share,
                                            min(SLOTS, (number + 1) * share))
                     if slot not in self.hole]
            for at in range(0, len(slots), 2000):
                one.command("CLUSTER", "ADDSLOTS", *slots[at:at + 2000])

    def _attach(self, primaries, replicas):
        for number, one in enumerate(replicas):
            primary = self.ids[primaries[number % len(primaries)]]
            wait_until(lambda one=one, primary=primary:
                       self._accepts(one, primary), 20, "a replica")

    @staticmethod
    def _accepts(one, primary):
        try:
            return one.command("CLUSTER", "REPLICATE", primary)
        except RedisError:  # it has not heard of that primary yet
            return False

    def close(self):
        self.stack.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # -- where what is -----------------------------------------------------------

    @property
    def url(self):
        return "redis+cluster://" + ",".join(
            f"127.0.0.1:{s.port}" for s in self.servers[:3])

    @staticmethod
    def nodes(server):
        """The lines of CLUSTER NODES, as lists of words."""
        return [line.split() for line in
                server.command("CLUSTER", "NODES").decode().splitlines()
                if "handshake" not in line]

    def alive(self):
        return [s for s in self.servers if s.child.poll() is None]

    def whole(self):
        """All that run agree, and every slot has a node; replicas are in
        step."""
        try:
            wants = f"cluster_slots_assigned:{SLOTS - len(self.hole)}"
            told = [s.command("CLUSTER", "INFO").decode() for s in self.alive()]
            ok = "cluster_state:ok" if not self.hole else "cluster_state:"
            return (all(ok in text and wants in text for text in told)
                    and all(self._in_step(s) for s in self.alive()))
        except (RedisError, OSError):
            return False

    def _in_step(self, server):
        """A replica has all that its primary had written by now."""
        role = server.command("ROLE")
        if role[0] == b"master":
            return True
        written = next(s for s in self.servers if s.port == role[2]).command(
            "ROLE")[1] if role[3] == b"connected" else -1
        return 0 <= written <= server.command("ROLE")[4]

    def home(self, name):
        """The primary that serves this lock."""
        slot = slot_of(name)
        for server in self.alive():
            for words in self.nodes(server):
                if "myself" in words[2] and any(
                        self._has(word, slot) for word in words[8:]):
                    return server
        raise AssertionError(f"nobody serves slot {slot}")

    @staticmethod
    def _has(word, slot):
        if word.startswith("["):
            return False
        first, _, last = word.partition("-")
        return int(first) <= slot <= int(last or first)

    def replica(self, primary):
        """A replica of this primary."""
        for server in self.alive():
            for words in self.nodes(server):
                if "myself" in words[2] and words[3] == self.ids[primary]:
                    return server
        raise AssertionError("it has no replica")

    def others(self, name):
        """The other primaries."""
        home = self.home(name)
        return [s for s in self.alive()
                if s is not home and s.command("ROLE")[0] == b"master"]

    # -- what happens to it ------------------------------------------------------

    def begin_move(self, name, to=None):
        """The slot of this lock is on its way to another node; no key is
        there yet."""
        slot, home = slot_of(name), self.home(name)
        to = to or self.others(name)[0]
        to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.ids[home])
        home.command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.ids[to])
        return home, to

    @staticmethod
    def move_keys(name, home, to, most=10000):
        """Up to so many keys of the slot; how many went."""
        keys = home.command("CLUSTER", "GETKEYSINSLOT", slot_of(name), most)
        if keys:
            home.command("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS",
                         *keys)
        return len(keys)

    def end_move(self, name, home, to):
        """The node has it from now on."""
        while self.move_keys(name, home, to):
            pass
        for server in (to, home, *self.others(name)):
            server.command("CLUSTER", "SETSLOT", slot_of(name), "NODE",
                           self.ids[to])

    def move(self, name, to=None):
        """Give the slot of this lock to another primary; that one."""
        home, to = self.begin_move(name, to)
        self.end_move(name, home, to)
        return to

    def fail_over(self, name):
        """A planned one; the new primary."""
        old = self.home(name)
        new = self.replica(old)
        wait_until(self.whole, 20, "the replica follows")
        asked = 0.0

        def served():
            """The replica gives up after five seconds, and is asked again."""
            nonlocal asked
            if (time.monotonic() - asked > 6
                    and new.command("ROLE")[0] == b"slave"):
                new.command("CLUSTER", "FAILOVER")
                asked = time.monotonic()
            return self._serves(new, name)
        wait_until(served, 60, "a failover")
        return new

    def _serves(self, server, name):
        """All that run say so."""
        slot = slot_of(name)
        try:
            return all(any(words[0] == self.ids[server]
                           and any(self._has(word, slot) for word in words[8:])
                           for words in self.nodes(one))
                       for one in self.alive())
        except (RedisError, OSError):
            return False

    def kill(self, name):
        """kill -9 of the primary; the new one when it was promoted."""
        old = self.home(name)
        new = self.replica(old)
        wait_until(self.whole, 20, "the replica follows")
        old.kill()
        wait_until(lambda: self._serves(new, name), 40, "a failover")
        return new
