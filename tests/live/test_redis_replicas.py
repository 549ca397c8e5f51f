"""?replicas=: a grant counts when replicas have it (store/redis/confirm.c), on a
real primary with two replicas: frozen ones, hand-overs, a primary that was
replaced and wakes. The simulator's --replicas has the rest.
"""

import os
import subprocess
import time

import pytest

from harness.redis_server import redis_missing
from harness.sentinel import QUICK
from harness.wait import stays, wait_until
from recoveries import begin, is_open

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

LEASE_MS, RECOVERY = 2000, 2.5
KEYS = "?recovery=2500ms&replicas=1"
SAYS = "of the 1 replicas that replicas= asks for have acknowledged it"


def in_step(server):
    return b"master_link_status:up" in server.command("INFO", "replication")


@pytest.fixture
def servers(redis_with):
    """A primary and its two replicas."""
    primary = redis_with(*QUICK)
    replicas = [redis_with(*QUICK, "replicaof 127.0.0.1 %d" % primary.port)
                for _ in range(2)]
    wait_until(lambda: all(in_step(r) for r in replicas), 10,
               "the replicas follow")
    return [primary, *replicas]


@pytest.fixture
def one(drivers, servers):
    driver = drivers(servers[0].url + KEYS, request_ms=1000)
    begin(servers[0], driver, LEASE_MS, 4 * RECOVERY)
    return driver


@pytest.fixture
def two(drivers, servers):
    return drivers(servers[0].url + KEYS, request_ms=1000)


def test_grant_is_at_a_replica_when_it_is_told(one, servers):
    held = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    assert any(r.command("EXISTS", "snib:{n}") for r in servers[1:])
    held.release()


def test_one_replica_that_hangs_costs_nothing(one, servers):
    servers[1].freeze()
    lock = one.lock("n", lease_ms=LEASE_MS)
    for _ in range(3):
        held = one.acquire(lock, wait_ms=2000)
        held.release()


def test_without_a_replica_nothing_is_told_and_the_error_says_so(one, servers):
    for replica in servers[1:]:
        replica.freeze()
    lock = one.lock("n", lease_ms=LEASE_MS)
    refused = one.try_acquire(lock)
    assert refused.err == "UNKNOWN", refused
    assert SAYS in refused.text, refused
    for replica in servers[1:]:
        replica.thaw()
    held = one.acquire(lock, wait_ms=5000)
    held.release()


def test_who_waited_is_told_of_a_hand_over_that_a_replica_has(one, two,
                                                              servers):
    held = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    two.lock("n", lease_ms=LEASE_MS)
    waiting = two.start_acquire("n", wait_ms=20000)
    wait_until(lambda: servers[0].command("ZCARD", "snib:{n}:q") == 1,
               what="it waits")
    held.release()
    began = time.monotonic()
    after = waiting.wait()
    assert after.token > held.token
    assert time.monotonic() - began < 0.9, "a message, not the next poll"
    after.release()


def test_hand_over_that_no_replica_has_is_not_told(one, two, servers):
    held = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    two.lock("n", lease_ms=LEASE_MS)
    waiting = two.start_acquire("n", wait_ms=20000)
    wait_until(lambda: servers[0].command("ZCARD", "snib:{n}:q") == 1,
               what="it waits")
    for replica in servers[1:]:
        replica.freeze()
    held.release()
    stays(lambda: not waiting.done(), 1.5)
    for replica in servers[1:]:
        replica.thaw()
    waiting.wait().release()


def test_renewal_that_no_replica_has_does_not_count(one, servers):
    held = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    for replica in servers[1:]:
        replica.freeze()
    held.wait_state("lost", timeout=2 * LEASE_MS / 1000)
    assert "at risk" in [change.state for change in held.changes()]


def test_primary_that_was_replaced_and_wakes_grants_nothing(
        one, drivers, servers):
    """What lies in its sockets is granted there, and told to nobody."""
    primary, new, other = servers
    names = [f"n{k}" for k in range(5)]
    for name in names:
        one.lock(name, lease_ms=LEASE_MS)
    held = one.acquire(one.lock("held", lease_ms=LEASE_MS))
    primary.freeze()
    asked = [one.start_acquire(name, on=name, wait_ms=3000) for name in names]
    new.command("REPLICAOF", "NO", "ONE")
    other.command("REPLICAOF", "127.0.0.1", str(new.port))
    wait_until(lambda: in_step(other), 10, "it follows the new one")
    next_one = drivers(new.url + KEYS, request_ms=1000)
    primary.thaw()
    begin(new, next_one, LEASE_MS, 4 * RECOVERY)
    for name in names + ["held"]:
        next_one.acquire(next_one.lock(name, lease_ms=LEASE_MS),
                         wait_ms=10000)
    for one_of in asked:
        answer = one_of.answer()
        assert answer.err in ("UNKNOWN", "TIMEOUT"), answer
    assert not held.status().held


def test_replica_that_lacks_a_grant_is_promoted_and_nobody_new_comes_in(
        servers, drivers):
    """The other one has acknowledged it."""
    primary, new, other = servers
    hosts = "redis://" + ",".join(f"127.0.0.1:{s.port}" for s in servers)
    holder, next_one = (drivers(hosts + KEYS, request_ms=1000)
                        for _ in range(2))
    begin(primary, holder, LEASE_MS, 4 * RECOVERY)
    new.command("REPLICAOF", "127.0.0.1", "1")  # it gets nothing any more
    held = holder.acquire(holder.lock("n", lease_ms=LEASE_MS))
    next_one.lock("n", lease_ms=LEASE_MS)
    primary.kill()
    new.command("REPLICAOF", "NO", "ONE")
    other.command("REPLICAOF", "127.0.0.1", str(new.port))
    assert new.command("EXISTS", "snib:{n}") == 0
    promoted = time.monotonic()
    waiting = next_one.start_acquire("n", wait_ms=20000)
    wait_until(lambda: is_open(new), 4 * RECOVERY, "the recovery is over")
    assert time.monotonic() - promoted > RECOVERY - 0.1
    if held.status().held:  # it has reclaimed it in time
        assert not waiting.done()
        held.release()
    waiting.wait(timeout=20).release()


def test_another_number_is_refused(one, drivers, servers):
    other = drivers(servers[0].url + "?recovery=2500ms", request_ms=1000)
    refused = other.try_acquire(other.lock("n", lease_ms=LEASE_MS))
    assert refused.err == "CONFIG", refused
    assert "replicas=1" in refused.text, refused


def test_too_few_replicas_let_nobody_in_and_say_so(redis, drivers):
    alone = drivers(redis.url + KEYS, request_ms=1000)
    refused = alone.try_acquire(alone.lock("n", lease_ms=LEASE_MS))
    assert refused.err == "STORE", refused
    assert "0 of the 1 replicas" in refused.text, refused


def test_doctor_says_whether_they_suffice(one, servers, redis_with):
    def doctor():
        return subprocess.run(
            [os.environ["SNIB_BIN"], "doctor", "-s",
             servers[0].url + KEYS], text=True, capture_output=True).stdout

    assert "2 replica(s) are connected" in doctor()
    assert "give a larger number" not in doctor()
    more = [redis_with(*QUICK, "replicaof 127.0.0.1 %d" % servers[0].port)
            for _ in range(1)]
    wait_until(lambda: in_step(more[0]), 10, "it follows, too")
    assert "give a larger number" in doctor()
