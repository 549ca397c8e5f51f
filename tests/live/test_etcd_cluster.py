"""Locks in an etcd cluster of three members: what becomes of them when the leader
is killed, frozen, or cut off from the others, and when members are away.
"""

import os
import subprocess
import threading

import pytest

from harness.etcd_server import EtcdServer, etcd_missing
from harness.wait import stays, wait_until

pytestmark = pytest.mark.skipif(bool(etcd_missing()), reason=etcd_missing())
BUILT_IN = []
SNIB = os.environ.get("SNIB_BIN", "")


@pytest.fixture(autouse=True)
def built_in(drivers):
    if not BUILT_IN:
        said = drivers().ask("open", id="x", url="etcd://127.0.0.1:1")
        BUILT_IN.append(said.err != "UNSUPPORTED")
    if not BUILT_IN[0]:
        pytest.skip("the store etcd: is not built in")


@pytest.fixture
def three():
    with EtcdServer(members=3, proxied=True) as cluster:
        wait_until(cluster.leader, 20, "a leader")
        yield cluster


BODY = """
exec 9> "$1/mutex"
flock -n 9 || { echo overlap >> "$1/overlaps"; exit 1; }
sleep 0.02
echo "$SNIB_TOKEN" >> "$1/tokens"
"""


class Crowd:
    """Processes that take one lock again and again, and look whether they are
    alone: flock(2) refuses a second one."""

    def __init__(self, url, folder, count=4):
        self.url, self.folder, self.stop = url, str(folder), False
        self.done, self.said = 0, []
        (folder / "tokens").touch()
        self.threads = [threading.Thread(target=self._run)
                        for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self):
        while not self.stop:
            made = subprocess.run(
                [SNIB, "run", "--ttl", "3s", "--wait", "30s", "crowd", "--",
                 "sh", "-c", BODY, "sh", self.folder], text=True,
                env={**os.environ, "SNIB_URL": self.url},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                check=False)
            self.done += made.returncode == 0
            if made.returncode:
                self.said.append(made.stdout)

    def tokens(self):
        with open(self.folder + "/tokens", encoding="ascii") as file:
            return [int(line) for line in file if line.strip()]

    def end(self):
        self.stop = True
        for thread in self.threads:
            thread.join()
        assert not os.path.exists(self.folder + "/overlaps")
        tokens = self.tokens()
        assert tokens == sorted(set(tokens))
        return len(tokens)


def more_than(crowd, count):
    return lambda: len(crowd.tokens()) > count


def lose(cluster, member, what):
    if what == "kill":
        member.kill()
    elif what == "freeze":
        member.freeze()
    else:
        cluster.cut_off(member)


def bring_back(cluster, member, what):
    if what == "kill":
        member.start(cluster.members)
    elif what == "freeze":
        member.thaw()
    else:
        cluster.join_again()


@pytest.mark.parametrize("what", ["kill", "freeze", "cut off"])
def test_the_leader_is_lost_and_there_is_one_owner(three, tmp_path, what):
    crowd = Crowd(three.url, tmp_path)
    try:
        wait_until(more_than(crowd, 10), 30, "the crowd works")
        for _ in range(2):
            leader = three.leader()
            lose(three, leader, what)
            others = [m for m in three.members if m is not leader]
            three.members.sort(key=lambda m, lost=leader: m is lost)
            wait_until(lambda: any(three.answers(m) for m in others), 30,
                       "a new leader")
            before = len(crowd.tokens())
            wait_until(more_than(crowd, before + 10), 40, "it goes on")
            bring_back(three, leader, what)
            wait_until(lambda: three.answers(leader), 30, "it is back")
            before = len(crowd.tokens())
            wait_until(more_than(crowd, before + 10), 40, "it goes on")
    finally:
        for member in three.members:
            if member.child.poll() is None:
                member.thaw()
        count = crowd.end()
    assert count > 40


def test_an_old_leader_that_wakes_up_renews_nothing(three, drivers):
    """It stands still for longer than the lease while another one leads. Its
    clients ask it, and nobody else, to renew."""
    leader = three.leader()
    others = [m for m in three.members if m is not leader]
    holder = drivers(f"etcd://127.0.0.1:{leader.port}", request_ms=30000)
    grant = holder.acquire(holder.lock("n", lease_ms=4000))
    leader.freeze()
    rival = drivers("etcd://" + ",".join(f"127.0.0.1:{m.port}"
                                         for m in others))
    got = rival.acquire(rival.lock("n", lease_ms=30000), wait_ms=30000,
                        timeout=40)
    leader.thaw()
    stays(lambda: holder.ask("renew", id=grant.id, wait_ms=100).err != "OK", 3)
    assert got.renew().ok
    got.release()


def test_a_leader_that_is_cut_off_grants_and_renews_nothing(three, drivers):
    """Its clients reach it and nobody else. They lose what they hold by their own
    deadlines, before the others get it."""
    leader = three.leader()
    others = [m for m in three.members if m is not leader]
    at_it = f"etcd://127.0.0.1:{leader.port}"
    holder, asker = [drivers(at_it, request_ms=1000) for _ in range(2)]
    grant = holder.acquire(holder.lock("n", lease_ms=4000))
    asker.lock("free")
    three.cut_off(leader)
    rival = drivers("etcd://" + ",".join(f"127.0.0.1:{m.port}"
                                         for m in others))
    waits = rival.start_acquire(rival.lock("n", lease_ms=30000), wait_ms=40000)
    said = []
    while not waits.done():
        said.append(asker.ask("acquire", lock="free", id=f"g{len(said)}",
                              wait_ms=500))
    got = waits.wait(60)
    lost = [c for c in grant.changes() if c.state == "lost"]
    assert lost and lost[0].at < got.ended, (lost, got.ended)
    assert said and all(one.err in ("UNREACHABLE", "UNKNOWN", "TIMEOUT")
                        for one in said), said
    stays(lambda: not asker.ask("acquire", lock="free", id="more",
                                wait_ms=500).ok, 2)
    three.join_again()
    stays(lambda: holder.ask("renew", id=grant.id).err == "LOST", 1)
    wait_until(lambda: rival.ask("renew", id=got.id).ok, 10, "a renewal")
    got.release()


def test_a_member_that_is_away_is_passed_by(three, drivers):
    three.members[0].kill()
    holder = drivers(three.url)
    holder.acquire(holder.lock("n"), wait_ms=8000).release()


def test_without_a_majority_nobody_gets_a_lock(three, drivers):
    for member in three.members[1:]:
        member.kill()
    holder = drivers(three.url, request_ms=1000)
    said = holder.ask("acquire", lock=holder.lock("n"), id="g", wait_ms=2500)
    assert said.err in ("UNREACHABLE", "UNKNOWN", "TIMEOUT"), said
