"""What the servers that pairs of store and fault are played on have in common
(pairs.py; each store's own: rigs_databases.py, rigs_services.py).

A rig outlives its pairs: each has a lock of its own. One of another shape (three
members, a standby, …) is another rig.
"""

import signal
import socket

from harness import process
from harness.wait import wait_until

from stores import Skip
from wire import Wire


class Rig:
    """One server, and a proxy before it for each second client."""
    name, shape = "", "one"
    lease_ms, request_ms = 1500, 700
    # For somebody whom no fault touches: a dead holder's lease, a poll, …
    free_within_ms = 10_000
    more = ""              # at the end of its URLs
    words_of_texts = True  # what is asked stands in what is sent
    # By which the messages of an exchange are known: to get the lock, to keep
    # it, to give it back.
    words = ()
    age_s = 0              # so old must a lock be when its server is killed
    # How many leases its server is away each time; it takes about so long more.
    away, outage_ms = (0, 1.2), 6000
    keeps = True           # a grant outlives its server, by the store's page

    def __init__(self):
        why = self.missing()
        if why:
            raise Skip(why)
        self.server = self.wire = None
        try:
            self.server = self.make()
            self.wire = Wire(self.server, self.words_of_texts)
        except BaseException:
            self.close()
            raise

    @property
    def direct_url(self):
        return self.server.url + self.more

    @property
    def wired_url(self):
        return self.wire.url + self.more

    def url_of(self, index):
        return self.direct_url if index % 2 else self.wired_url

    # -- the server's process --------------------------------------------------

    @property
    def child(self):
        return self.server.child

    def pids(self):
        return [self.child.pid]

    def kill(self):
        self.server.kill()

    def start(self):
        self.server.start()

    def stop(self):
        """In order."""
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(timeout=60)

    def freeze(self):
        self.server.freeze()

    def thaw(self):
        self.server.thaw()

    def is_gone(self):
        """Neither a process nor anybody at its port."""
        if self.child.poll() is None:
            return False
        with socket.socket() as probe:
            return probe.connect_ex(self.server.address) != 0

    def stands_still(self):
        return all(process.state_of(pid) in ("T", "Z", "")
                   for pid in self.pids())

    def close(self):
        for one in (self.wire, self.server):
            if one is not None:
                one.close()


class Members(Rig):
    """Three members, all of whom each client knows."""
    shape = "three"
    # A new leader is elected first, and leases are given anew by it.
    free_within_ms = 20_000

    def url_of(self, index):
        del index
        return self.direct_url

    def is_gone(self):
        return any(one.child.poll() is not None for one in self.server.members)

    def leader(self):
        return wait_until(self.server.leader, 40, "a leader")

    def back(self, *members):
        for member in members:
            if member.child.poll() is not None:
                member.start(self.server.members)
            else:
                member.thaw()
        for member in members:
            wait_until(lambda m=member: self.server.answers(m), 60, "it is back")

    def member_is_gone(self, member):
        with socket.socket() as probe:
            return (member.child.poll() is not None
                    and probe.connect_ex(member.address) != 0)

    def close(self):
        if self.server is not None:
            for member in self.server.members:
                if member.child is not None and member.child.poll() is None:
                    member.thaw()
        super().close()
