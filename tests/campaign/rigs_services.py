"""etcd, ZooKeeper and RabbitMQ, as their pairs need them: one server or three
members (rig.py)."""

from harness.etcd_server import EtcdServer, etcd_missing
from harness.rabbitmq_server import RabbitmqServer, rabbitmq_missing
from harness.wait import wait_until
from harness.zookeeper_server import ZookeeperServer, zookeeper_missing

from rig import Members, Rig


class EtcdRig(Rig):
    name = "etcd"
    lease_ms, request_ms = 2000, 1000
    words = ("/c/",)
    missing = staticmethod(etcd_missing)
    config = ()

    def make(self):
        return EtcdServer(config=self.config)

    @property
    def child(self):
        return self.server.only.child

    def ctl(self, *words, **options):
        return self.server.ctl(*words, **options)

    def fields(self, *words, **options):
        """{name: [value, …]} of what is asked."""
        found = {}
        for line in self.ctl(*words, "-w", "fields", **options).splitlines():
            name, colon, value = line.partition(" : ")
            if colon:
                found.setdefault(name.strip('"'), []).append(value)
        return found

    def claims(self, lock):
        """(key, lease) of each, oldest first."""
        found = self.fields("get", "--prefix", f"snib/l/{lock}/c/", "--order",
                            "ASCEND", "--sort-by", "CREATE")
        return list(zip(found.get("Key", []), found.get("Lease", [])))

    def revoke(self, lease):
        """Is it gone by this?"""
        said = self.ctl("lease", "revoke", f"{int(lease):x}", check=False)
        return "revoked" in said and "Error" not in said

    def compact(self):
        self.ctl("compact", "--physical", self.fields(
            "endpoint", "status")["Revision"][0], check=False)


class EtcdSmall(EtcdRig):
    shape, config = "small", ("--quota-backend-bytes", "4194304")


class EtcdMembers(Members, EtcdRig):
    def make(self):
        server = EtcdServer(members=3, proxied=True)
        wait_until(server.leader, 30, "a leader")
        return server

    def member_id(self, member):
        return int(self.fields_of(member)["MemberID"][0])

    def fields_of(self, member):
        return self.fields("endpoint", "status", member=member)


class ZookeeperRig(Rig):
    name = "zookeeper"
    outage_ms = 9000
    SESSION_MS = 1500
    more = f"?session_ms={SESSION_MS}"
    lease_ms, request_ms = 1500, 1000
    free_within_ms = 15_000
    words = ("_c_", "=held-")
    missing = staticmethod(zookeeper_missing)

    def make(self):
        return ZookeeperServer()

    @property
    def child(self):
        return self.server.only.child

    def nodes(self, look, lock):
        """(who stands there, in order; the records of grants)"""
        there = look.children(f"/snib/{lock}")
        return (sorted((node for node in there if node.startswith("_c_")),
                       key=lambda node: node[-10:]),
                [node for node in there if node.startswith("=held-")])


class ZookeeperMembers(Members, ZookeeperRig):
    more, SESSION_MS = "?session_ms=4000", 4000
    free_within_ms = 30_000

    def make(self):
        server = ZookeeperServer(members=3)
        wait_until(server.leader, 60, "a leader")
        return server


class RabbitmqRig(Rig):
    name = "rabbitmq"
    away, outage_ms = (0,), 12_000
    keeps = False          # who is cut off has lost all
    more = "?heartbeat_s=1"
    request_ms = 1000
    free_within_ms = 15_000
    words = ("held", "free")
    missing = staticmethod(rabbitmq_missing)
    age_s = 5  # docs/RABBITMQ.md: a younger queue may not come back

    def make(self):
        return RabbitmqServer()

    def ctl(self, *words):
        return self.server.ctl(*words)

    def log_says(self, words):
        return self.server.log().count(words)
