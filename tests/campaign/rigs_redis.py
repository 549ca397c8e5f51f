"""Redis with whoever takes its place: three servers that Sentinels watch, each
behind a door (harness/door.py), and a cluster of six."""

from harness.cluster import Cluster
from harness.redis_server import redis_missing
from harness.resp import RedisError
from harness.sentinel import SERVICE, Watched
from harness.wait import wait_until

from stores import Skip

READY_S = 90  # a Sentinel that saw itself stand still does nothing for 30 s


class SentinelRig:
    """A primary, two replicas, three Sentinels. The third server is promoted
    before others, so that one can be made to lag that will be."""
    more = ""
    lease_ms, request_ms = 4000, 700
    free_within_ms = 30_000
    outage_ms = age_s = 0
    keeps = False  # a grant may be forgotten

    def __init__(self):
        if redis_missing():
            raise Skip(redis_missing())
        self.watched = Watched(replicas=2, doors=True)
        self.servers = self.watched.servers
        self.primary = self.servers[0]
        for one, priority in zip(self.servers, (100, 100, 10)):
            one.own = [line for line in one.config
                       if not line.startswith("replicaof")] + [
                           f"replica-priority {priority}"]
            one.command("CONFIG", "SET", *one.own[-1].split())

    @property
    def direct_url(self):
        return self.watched.url + self.more

    def url_of(self, index):
        """Each fourth client knows the servers and no Sentinel."""
        return ((self.watched.list_url if index % 4 == 3 else
                 self.watched.url) + self.more)

    def next_one(self):
        """Who will be promoted, if it is there."""
        return next(one for one in reversed(self.servers)
                    if one is not self.primary)

    def lags(self, one):
        """The primary's writes reach it no more."""
        self.primary.door.shut(f"replica:{one.shown}")

    def drop(self, old, one):
        """What it lacks of the old primary's will never come."""
        old.door.drop(f"replica:{one.shown}")

    def plan(self, sentinel):
        """Ask this Sentinel for a failover until it begins one."""
        def begun():
            try:
                return sentinel.command("SENTINEL", "FAILOVER", SERVICE)
            except RedisError:  # no good replica yet, or one is under way
                return False
        wait_until(begun, READY_S, "a failover begins", every=0.2)

    def switched(self, old):
        """The Sentinels have another primary; that one."""
        self.primary = self.watched.await_switch(old, READY_S)
        return self.primary

    def goes_on(self, old):
        """Does it say still that it is the primary?"""
        return old.command("ROLE")[0] == b"master"

    def back(self, old):
        """It and the third follow the one that took its place, as a Sentinel
        would tell them ten seconds later."""
        if old.child.poll() is not None:
            old.config = old.own + [
                f"replicaof 127.0.0.1 {self.primary.shown}"]
            old.start()
        for one in self.servers:
            if one is not self.primary:
                one.command("REPLICAOF", "127.0.0.1", self.primary.shown)
            one.door.open()

    def settled(self):
        """The failover is over for each Sentinel, and somebody follows. (A Sentinel
        whose promoted server dies in the midst of it stays in it for ever.)"""
        wait_until(lambda: all(one.calm() for one in self.watched.sentinels)
                   and self.primary.command("ROLE")[2], READY_S,
                   "the Sentinels are done", every=0.05)

    def ready(self):
        """All follow the primary, and all Sentinels would agree on another."""
        def fact():
            try:
                roles = [one.command("ROLE") for one in self.servers
                         if one is not self.primary]
                return (all(role[0] == b"slave" and role[3] == b"connected"
                            and role[2] == self.primary.shown for role in roles)
                        and all(one.primary_port() == self.primary.shown
                                and one.ready()
                                for one in self.watched.sentinels))
            except (RedisError, OSError, IndexError):
                return False
        wait_until(fact, READY_S, "all follow the primary", every=0.05)

    def is_gone(self):
        return any(one.child.poll() is not None for one in self.servers)

    def close(self):
        self.watched.close()


class KeptRig(SentinelRig):
    """The same with what keeps two from holding (docs/REDIS.md)."""
    more = "?recovery=5s&replicas=1"


class ClusterRig:
    """Six nodes. The lock's home is what befalls."""
    lease_ms, request_ms = 4000, 700
    free_within_ms = 30_000
    outage_ms = age_s = 0
    keeps = False

    def __init__(self):
        if redis_missing():
            raise Skip(redis_missing())
        self.cluster = Cluster()

    @property
    def direct_url(self):
        return self.cluster.url

    def url_of(self, index):
        del index
        return self.cluster.url

    def ready(self):
        wait_until(self.cluster.whole, READY_S, "the cluster is whole",
                   every=0.05)

    def is_gone(self):
        return any(one.child.poll() is not None for one in self.cluster.servers)

    def close(self):
        self.cluster.close()
