"""Locks in ZooKeeper: what stands in its nodes, and what becomes of them when
answers, connections, sessions, a server, the leader or a client are lost.

What every store does is in tests/conformance.
"""

import time

import pytest

from ensembles import *  # noqa: F401,F403
from ensembles import Wire, lose_leaders
from harness.driver import LockError
from harness.wait import stays, wait_until
from harness.zookeeper_server import ZookeeperServer, zookeeper_missing

pytestmark = pytest.mark.skipif(bool(zookeeper_missing()),
                                reason=zookeeper_missing())
NEEDS = "zookeeper://127.0.0.1:1"
# What a killed client has is kept for so long, and up to a tick more.
SESSION_MS = 1500
MORE = f"?session_ms={SESSION_MS}"
# Somebody else's nodes, as Curator calls them.
CURATOR = "/snib/{}/_c_0f0e0d0c-0b0a-4908-8706-050403020100-__{}__"


@pytest.fixture(scope="module")
def kept():
    """One server for these tests, whatever they do to it."""
    with ZookeeperServer() as server:
        yield server


@pytest.fixture
def one(kept):
    if kept.only.child.poll() is not None:
        kept.start()
    return kept


@pytest.fixture
def three():
    with ZookeeperServer(members=3) as ensemble:
        wait_until(ensemble.leader, 30, "a leader")
        yield ensemble


@pytest.fixture
def look(one):
    with one.client() as client:
        yield client


NUMBER = iter(range(10**6))


@pytest.fixture
def name():
    return f"n{next(NUMBER)}"


@pytest.fixture
def wire(one):
    with Wire(one, MORE) as proxy:
        yield proxy


def standing(look, name):
    """In their order."""
    return sorted((node for node in look.children(f"/snib/{name}")
                   if node.startswith("_c_")), key=lambda node: node[-10:])


def records(look, name):
    return [node for node in look.children(f"/snib/{name}")
            if node.startswith("=held-")]


# -- what is there ---------------------------------------------------------------


def test_a_holder_is_a_node_and_a_record_and_leaves_nothing(one, drivers, look):
    holder = drivers(one.url + MORE)
    grant = holder.acquire(holder.lock("n/a%", lease_ms=4000))
    there = look.children("/snib/n%2Fa%25")
    assert len(there) == 2
    assert there[0].startswith("=held-") and there[0].endswith("-W-4000")
    assert there[1].startswith("_c_") and "__WRIT__" in there[1]
    assert b"client=" in look.data(f"/snib/n%2Fa%25/{there[1]}")
    grant.release()
    assert look.children("/snib/n%2Fa%25") == []


def test_a_path_is_a_store_of_its_own(one, drivers, look):
    a, b = drivers(one.url), drivers(one.url + "/team/b")
    first = a.acquire(a.lock("n"))
    b.acquire(b.lock("n"), wait_ms=2000).release()
    assert "n" in look.children("/team/b") and standing(look, "n")
    first.release()


def test_tokens_are_those_of_the_log_and_rise(one, drivers, name):
    a, b = drivers(one.url), drivers(one.url)
    tokens = []
    for client in (a, b, a):
        grant = client.acquire(client.lock(name))
        tokens.append(grant.token)
        grant.release()
    assert tokens == sorted(set(tokens)) and tokens[0] > 0


def test_a_release_wakes_the_next_and_they_go_in_order(one, drivers, name):
    holder = drivers(one.url + MORE)
    grant = holder.acquire(holder.lock(name))
    waits = []
    with one.client() as look:
        for i in range(4):
            client = drivers(one.url + MORE)
            waits.append(client.start_acquire(client.lock(name),
                                              wait_ms=30000))
            wait_until(lambda n=i: len(standing(look, name)) == n + 2, 10,
                       "it waits")
    took = []
    for pending in waits:
        began = time.monotonic()
        grant.release()
        grant = pending.wait()
        took.append(time.monotonic() - began)
    grant.release()
    assert min(took) < 0.3, took  # not by a poll


# -- beside others --------------------------------------------------------------------


def test_curators_locks_and_ours_exclude_each_other(one, drivers, look, name):
    holder, other = drivers(one.url + MORE), drivers(one.url + MORE)
    grant = holder.acquire(holder.lock(name))
    theirs = look.create(CURATOR.format(name, "WRIT"), b"10.0.0.7", 3)
    waits = other.start_acquire(other.lock(name), wait_ms=20000)
    wait_until(lambda: len(standing(look, name)) == 3, 10, "it waits")
    grant.release()
    stays(lambda: not waits.done(), 1.5)
    look.delete(theirs)
    waits.wait().release()


def test_nodes_that_are_no_locks_of_either_are_refused(one, drivers, look,
                                                       name):
    holder = drivers(one.url + MORE)
    holder.acquire(holder.lock(name)).release()
    look.create(f"/snib/{name}/{'0' * 32}__lock__", b"", 3)  # kazoo's
    said = holder.ask("acquire", lock=name, id="g", wait_ms=2000)
    assert said.err == "CONFIG" and "__lock__" in said.text, said


# -- by hand ---------------------------------------------------------------------------


def test_a_node_that_is_removed_by_hand_lets_nobody_in_for_a_lease(
        one, drivers, look, name):
    holder, other = drivers(one.url + MORE), drivers(one.url + MORE)
    grant = holder.acquire(holder.lock(name, lease_ms=3000))
    began = time.monotonic()
    look.delete(f"/snib/{name}/{standing(look, name)[0]}")
    got = other.acquire(other.lock(name), wait_ms=15000)
    assert time.monotonic() - began >= 2.95
    said = holder.ask("renew", id=grant.id)
    assert said.err == "LOST", said
    assert got.token > grant.token
    got.release()


def test_both_removed_by_hand_let_the_next_in_at_once(one, drivers, look,
                                                      name):
    holder, other = drivers(one.url + MORE), drivers(one.url + MORE)
    grant = holder.acquire(holder.lock(name, lease_ms=20000))
    waits = other.start_acquire(other.lock(name), wait_ms=15000)
    wait_until(lambda: len(standing(look, name)) == 2, 10, "it waits")
    for node in (records(look, name)[0], standing(look, name)[0]):
        look.delete(f"/snib/{name}/{node}")
    waits.wait(5)
    assert holder.ask("renew", id=grant.id).err == "LOST"


# -- sessions --------------------------------------------------------------------------


def test_a_killed_holder_delays_by_its_session_and_its_lease(one, drivers,
                                                             name):
    holder, other = drivers(one.url + MORE), drivers(one.url + MORE)
    holder.acquire(holder.lock(name, lease_ms=2000))
    waits = other.start_acquire(other.lock(name), wait_ms=20000)
    time.sleep(0.3)
    holder.kill()
    began = time.monotonic()
    waits.wait(20).release()
    took = time.monotonic() - began
    # the last answer that the server gave it may be a ping's old
    assert 2.0 <= took < SESSION_MS / 1000 + 0.5 + 2 + 2.5, took


def test_a_session_that_is_over_loses_all_and_that_is_told(one, drivers, wire,
                                                           name):
    holder, other = drivers(wire.at, request_ms=700), \
        drivers(one.url + MORE)
    grants = [holder.acquire(holder.lock(f"{name}-{i}", lease_ms=25000))
              for i in range(3)]
    wire.held = True
    wire.partitioned = True
    port, wire.target = wire.target, ("127.0.0.1", 1)
    wire.cut()
    time.sleep(SESSION_MS / 1000 + 2)
    wire.target = port
    for grant in grants:
        grant.wait_state("lost", 12)
    assert all(g.status().lost.upper() in ("FORGOTTEN", "STOLEN")
               if "lost" in g.status() else True for g in grants)
    # and nobody was let in meanwhile
    assert not other.try_acquire(other.lock(f"{name}-0")).ok


def test_a_session_goes_on_after_a_cut(one, drivers, wire, look, name):
    holder = drivers(wire.at, request_ms=700)
    grant = holder.acquire(holder.lock(name, lease_ms=20000))
    there = look.children(f"/snib/{name}")
    wire.cut()
    wait_until(lambda: holder.ask("renew", id=grant.id).ok, 10, "a renewal")
    assert look.children(f"/snib/{name}") == there
    grant.release()


def test_pings_are_no_renewals(one, drivers, wire, name):
    """All answers to renewals are lost, while the session lives."""
    holder = drivers(wire.at, request_ms=400)
    grant = holder.acquire(holder.lock(name, lease_ms=3000))
    wire.lose_answers("=held-", times=1000, then="rst")
    began = time.monotonic()
    grant.wait_state("lost", 10)
    assert time.monotonic() - began < 3.2


def test_a_frozen_holder_is_lost_when_it_wakes(one, drivers, name):
    holder, other = drivers(one.url + MORE), drivers(one.url + MORE)
    grant = holder.acquire(holder.lock(name, lease_ms=1500))
    holder.freeze()
    got = other.acquire(other.lock(name), wait_ms=15000)
    holder.thaw()
    assert holder.ask("renew", id=grant.id).err == "LOST"
    assert got.renew().ok
    got.release()


# -- tries -----------------------------------------------------------------------------


def test_tries_get_in_when_a_dead_grant_is_old(one, drivers, look, name):
    """Nobody ever waits: by the ensemble's clock, two leases and ten seconds
    after the first try."""
    holder, other = drivers(one.url + MORE), drivers(one.url + MORE)
    holder.acquire(holder.lock(name, lease_ms=500))
    holder.kill()
    wait_until(lambda: not standing(look, name), 10, "its session is over")
    assert records(look, name)
    lock = other.lock(name)
    assert not other.try_acquire(lock).ok
    began = time.monotonic()
    wait_until(lambda: other.try_acquire(lock).ok, 30, "a try is granted")
    assert time.monotonic() - began > 10.5


def test_waits_that_are_shorter_than_a_dead_grants_lease_get_in(one, drivers,
                                                               name):
    """Each begins with its wait, and gives up before: as with tries it is two
    leases and ten seconds."""
    holder, other = drivers(one.url + MORE), drivers(one.url + MORE)
    holder.acquire(holder.lock(name, lease_ms=3000))
    holder.kill()
    began, lock = time.monotonic(), other.lock(name)
    wait_until(lambda: other.start_acquire(lock, wait_ms=1500).answer().ok, 40,
               "one that waits is granted it")
    assert time.monotonic() - began > 16


# -- lost answers ------------------------------------------------------------------


@pytest.mark.parametrize("then", ["rst", "silence"])
def test_the_connection_is_lost_at_each_message(one, drivers, look, then):
    """Whatever the message was: at no time two hold, and afterwards the lock can
    be had, and nothing is left."""
    other = drivers(one.url + MORE)
    cut = 0
    for at in range(1, 13):
        name = f"cut-{then}-{at}"
        theirs = other.lock(name)
        with Wire(one, MORE) as proxy:
            proxy.cut_at, proxy.then = at, then
            holder = drivers(proxy.at, request_ms=500)
            lock = holder.lock(name, lease_ms=2000)
            try:
                grant = holder.acquire(lock, wait_ms=4000)
                assert len(standing(look, name)) == 1
                assert not other.try_acquire(theirs).ok
                grant.renew()
                grant.release()
                assert standing(look, name) == [] == records(look, name)
            except LockError as error:
                assert error.err in ("UNKNOWN", "UNREACHABLE", "TIMEOUT",
                                     "LOST", "BUSY"), error
            cut += proxy.pieces >= at
            holder.kill()  # it may hold, if only a renewal was in vain
            other.acquire(theirs, wait_ms=15000).release()
    assert cut > 6


@pytest.mark.parametrize("words", ["_c_", "=held-"])
def test_what_was_made_is_found_again_when_its_answer_is_lost(
        one, drivers, look, wire, name, words):
    holder = drivers(wire.at, request_ms=1000)
    lock = holder.lock(name, lease_ms=9000)
    holder.acquire(lock, wait_ms=5000).release()
    rule = wire.lose_answers(words)
    grant = holder.acquire(lock, wait_ms=10000)
    assert rule.fired
    assert len(standing(look, name)) == 1 == len(records(look, name))
    grant.release()
    assert look.children(f"/snib/{name}") == []


def test_a_late_copy_of_a_cancelled_acquire_makes_nothing(one, drivers, look,
                                                          wire, name):
    """It is held back until the caller was told, and the request cancelled."""
    holder, other = drivers(wire.at, request_ms=700), \
        drivers(one.url + MORE)
    lock = holder.lock(name, lease_ms=3000)
    holder.acquire(lock, wait_ms=5000).release()
    rule = wire.be_late("_c_")
    said = holder.ask("acquire", lock=lock, id="late", wait_ms=500)
    assert rule.fired
    if said.ok:  # by a repeat
        assert holder.ask("release", id="late").ok
    got = other.acquire(other.lock(name), wait_ms=10000)
    rule.go_on.set()
    stays(lambda: len(standing(look, name)) == 1, 1.5)
    got.release()
    assert other.try_acquire(name).ok


# -- the server ------------------------------------------------------------------------


def test_a_server_that_comes_back_has_the_lock(one, drivers, name):
    holder, other = drivers(one.url), drivers(one.url)
    grant = holder.acquire(holder.lock(name, lease_ms=30000))
    one.kill()
    one.start()
    assert not other.try_acquire(other.lock(name)).ok
    wait_until(lambda: holder.ask("renew", id=grant.id).ok, 15, "a renewal")
    grant.release()


# -- an ensemble --------------------------------------------------------------------


@pytest.mark.parametrize("what", ["kill", "freeze"])
def test_the_leader_is_lost_and_there_is_one_owner(three, tmp_path, what):
    lose_leaders(three, three.url + "?session_ms=4000", tmp_path, what)
