"""Locks in an etcd cluster of three members: what becomes of them when the leader
is killed, frozen, or cut off from the others, and when members are away.
"""

import pytest

from ensembles import *  # noqa: F401,F403
from ensembles import lose_leaders
from harness.etcd_server import EtcdServer, etcd_missing
from harness.wait import stays, wait_until

pytestmark = pytest.mark.skipif(bool(etcd_missing()), reason=etcd_missing())
NEEDS, MORE = "etcd://127.0.0.1:1", ""


@pytest.fixture
def three():
    with EtcdServer(members=3, proxied=True) as cluster:
        wait_until(cluster.leader, 20, "a leader")
        yield cluster


@pytest.mark.parametrize("what", ["kill", "freeze", "cut off"])
def test_the_leader_is_lost_and_there_is_one_owner(three, tmp_path, what):
    lose_leaders(three, three.url, tmp_path, what)


def test_a_leader_that_is_cut_off_grants_and_renews_nothing(three, drivers):
    """Its clients reach it and nobody else. They lose what they hold by their own
    deadlines, before the others get it."""
    leader = three.leader()
    others = [m for m in three.members if m is not leader]
    holder, asker = [drivers(three.url_of(leader), request_ms=1000)
                     for _ in range(2)]
    grant = holder.acquire(holder.lock("n", lease_ms=4000))
    asker.lock("free")
    three.cut_off(leader)
    rival = drivers(three.url_of(*others))
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
