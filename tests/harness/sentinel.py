"""A primary, its replicas and three Sentinels, each a real process."""

import contextlib

from .certs import tls_config
from .door import Door
from .ports import free_port
from .redis_server import RedisServer
from .resp import RedisError
from .wait import wait_until

__all__ = ["SERVICE", "Sentinel", "Watched"]

SERVICE = "svc"

MONITOR = """sentinel monitor {service} 127.0.0.1 {port} 2
sentinel down-after-milliseconds {service} 1000
sentinel failover-timeout {service} 6000
sentinel parallel-syncs {service} 1"""

# A replica that attaches at once, and a primary that does not wait for more.
QUICK = ("repl-diskless-sync yes", "repl-diskless-sync-delay 0",
         "repl-ping-replica-period 1", "repl-timeout 5")


class Sentinel(RedisServer):
    """redis-server --sentinel, which watches the primary on this port."""

    def __init__(self, port, config=()):
        lines = MONITOR.format(service=SERVICE, port=port).splitlines()
        super().__init__([*lines, *config], mode="--sentinel")

    def primary_port(self):
        """The one that it names; 0: it knows no such service."""
        found = self.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return int(found[1]) if found else 0

    def _about(self, *words):
        row = [x.decode() for x in self.command("SENTINEL", *words, SERVICE)]
        return dict(zip(row[::2], row[1::2]))

    def calm(self):
        """For it no failover is under way, and the primary is there."""
        try:
            return self._about("MASTER")["flags"] == "master"
        except (RedisError, OSError):
            return False

    def ready(self):
        """It has found the replica and the other two, and all would agree."""
        try:
            about = self._about("MASTER")
            return (about["num-slaves"] != "0"
                    and about["num-other-sentinels"] == "2"
                    and bool(self.command("SENTINEL", "CKQUORUM", SERVICE)))
        except (RedisError, OSError):
            return False


class Watched:
    """with Watched() as redis: … redis.url, redis.primary, redis.kill().

    papers: an Authority; then all of them speak TLS with each other.
    doors: each server is known to all by a Door before it, its .door.
    """

    def __init__(self, papers=None, replicas=1, doors=False):
        self.stack = contextlib.ExitStack()
        self.papers, self.doors = papers, doors
        with contextlib.ExitStack() as undo:
            undo.callback(self.stack.close)
            first = self._start_server([])
            self.servers = [first] + [
                self._start_server([f"replicaof 127.0.0.1 {first.shown}"])
                for _ in range(replicas)]
            wait_until(self.in_step, 20, "the replicas follow")
            self.sentinels = [
                self._start(lambda config: Sentinel(first.shown, config), [])
                for _ in range(3)]
            wait_until(lambda: all(s.ready() for s in self.sentinels), 40,
                       "the Sentinels have found each other")
            undo.pop_all()

    def _start_server(self, config):
        if not self.doors:
            return self._start(RedisServer, [*QUICK, *config])
        door = Door()
        self.stack.callback(door.close)
        one = self._start(RedisServer, [*QUICK, *door.announced(), *config])
        one.door, one.shown, door.target = door, door.port, one.address
        return one

    def _start(self, make, config):
        """shown: the port by which others know it."""
        port = 0
        if self.papers:
            port = free_port()
            config = [*config, *tls_config(port, *self.papers.issue(str(port)),
                                           self.papers.ca),
                      "tls-replication yes"]
        one = make(config)
        one.shown = port or one.port
        self.stack.callback(one.close)
        return one

    def close(self):
        self.stack.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # -- where it is -----------------------------------------------------------

    @property
    def hosts(self):
        return ",".join(f"127.0.0.1:{s.shown}" for s in self.sentinels)

    @property
    def url(self):
        if self.papers:
            return (f"rediss+sentinel://{self.hosts}/{SERVICE}"
                    f"?tls_ca={self.papers.ca}")
        return f"redis+sentinel://{self.hosts}/{SERVICE}"

    @property
    def list_url(self):
        """The same servers without Sentinels: one of them is the primary."""
        return "redis://" + ",".join(
            f"127.0.0.1:{s.port if self.papers else s.shown}"
            for s in self.servers)

    @staticmethod
    def _role(server):
        try:
            return server.command("ROLE")[0].decode()
        except (RedisError, OSError):
            return ""

    @property
    def primary(self):
        """The server that says so; a dead one does not."""
        found = [s for s in self.servers if self._role(s) == "master"]
        assert len(found) == 1, found
        return found[0]

    @property
    def replica(self):
        return next(s for s in self.servers if self._role(s) == "slave")

    def in_step(self):
        """Each replica has all that the primary has."""
        try:
            role = self.primary.command("ROLE")
            others = [s.command("ROLE") for s in self.servers
                      if s is not self.primary]
            return (all(mine[3] == b"connected" for mine in others)
                    and [int(one[2]) for one in role[2]]
                    == [int(role[1])] * len(others))
        except (AssertionError, IndexError, RedisError, OSError):
            return False

    # -- what happens to it ----------------------------------------------------

    def await_switch(self, old, timeout=40):
        """Every Sentinel that runs names another server, which says that it is
        the primary; that one."""
        def fact():
            try:
                named = {s.primary_port() for s in self.sentinels
                         if s.child.poll() is None}
            except (RedisError, OSError):
                return None
            return next((one for one in self.servers if one is not old
                         and named == {one.shown}
                         and self._role(one) == "master"), None)
        return wait_until(fact, timeout, "a failover")

    def fail_over(self):
        """A planned one; the new primary."""
        old = self.primary
        wait_until(self.in_step, 20, "the replica follows")
        self.sentinels[0].command("SENTINEL", "FAILOVER", SERVICE)
        return self.await_switch(old)

    def kill(self):
        """kill -9 of the primary; the new one when it was promoted."""
        old = self.primary
        wait_until(self.in_step, 20, "the replica follows")
        old.kill()
        return self.await_switch(old)
