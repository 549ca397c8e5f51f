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


# -- who looks, and by which number ---------------------------------------------


def snib(url, *words):
    return subprocess.run([os.environ["SNIB_BIN"], *words],
                          env={**os.environ, "SNIB_URL": url}, text=True,
                          capture_output=True, timeout=30)


def epoch(server):
    return server.command("GET", "snib:epoch").split()


def test_look_begins_nothing_and_says_that_none_has_begun(servers):
    shown = snib(servers[0].url + KEYS, "status", "n")
    assert "from when the first asks" in shown.stdout, shown
    assert servers[0].command("EXISTS", "snib:epoch") == 0
    assert servers[0].command("EXISTS", "snib:m") == 0


FEW = {
    "status n": (0, "nothing new is granted until 1 more replica is connected"),
    "status --json n": (0, '"replicas_missing":1'),
    "list": (0, ""),
    "why n": (0, "Nothing new is granted until 1 more replica is connected"),
    "wait -w 0 n": (75, ""),
    "semaphore n": (0, ""),
    "doctor": (78, "0 replica(s) are connected"),
    "store ready": (64, "not before 1 more replica is connected"),
    "store ready --json": (64, '"replicas_missing":1'),
    "store ready --yes": (69, "0 of the 1 replicas"),
}


@pytest.mark.parametrize("words", FEW)
def test_look_where_too_few_are_connected_says_so_and_writes_nothing(
        redis, words):
    """It was refused as who wants a lock is."""
    code, says = FEW[words]
    told = snib(redis.url + KEYS, *words.split())
    assert told.returncode == code, told
    assert says in (told.stderr + told.stdout).replace('": ', '":'), told
    assert redis.command("EXISTS", "snib:epoch") == 0
    assert redis.command("EXISTS", "snib:m") == 0


def test_look_without_it_is_told_of_missing_replicas(one, servers):
    """By the number in the epoch of before."""
    primary = servers[0]
    for replica in servers[1:]:
        replica.kill()
    primary.restart(data="kept")
    told = snib(primary.url, "status", "n")
    assert told.returncode == 0, told
    assert "until 1 more replica is connected" in told.stdout, told


def test_who_waits_waits_on_until_a_replica_is_there_and_counts_from_then(
        redis_with):
    """Until then an older primary may go on with them, and grant."""
    primary = redis_with(*QUICK)
    with subprocess.Popen(
            [os.environ["SNIB_BIN"], "wait", "-q", "n"],
            env={**os.environ, "SNIB_URL": primary.url + KEYS}) as waits:
        stays(lambda: waits.poll() is None, RECOVERY + 1, "nobody can say")
        redis_with(*QUICK, "replicaof 127.0.0.1 %d" % primary.port)
        wait_until(lambda: b"state=online" in primary.command(
            "INFO", "replication"), 10, "it follows")
        there = time.monotonic()
        assert waits.wait(timeout=30) == 0
        assert time.monotonic() - there > RECOVERY - 0.6
    assert primary.command("EXISTS", "snib:epoch") == 0


@pytest.mark.parametrize("keys", ["?recovery=2500ms",
                                  "?recovery=2500ms&replicas=2"])
@pytest.mark.parametrize("runs", [False, True])
def test_number_that_was_never_served_changes_nothing(one, servers, keys, runs):
    if runs:
        servers[0].command("FLUSHALL")
        assert one.try_acquire(one.lock("m", lease_ms=LEASE_MS)).err == "BUSY"
    before = epoch(servers[0])
    for words in ["status", "n"], ["try", "-t", "1s", "n"]:
        told = snib(servers[0].url + keys, *words)
        assert ("recovery=2500ms&replicas=1, this URL says "
                + keys.split("=", 1)[1] + ": write 2500ms&replicas=1 here"
                in told.stderr + told.stdout), told
    assert epoch(servers[0]) == before
    one.acquire(one.lock("n", lease_ms=LEASE_MS), wait_ms=20000).release()


def test_more_replicas_of_who_was_served_begin_the_recovery_anew(
        one, servers, drivers):
    """Who asked for none came first to a server that was emptied."""
    servers[0].command("FLUSHALL")
    other = drivers(servers[0].url + "?recovery=2500ms", request_ms=1000)
    assert other.try_acquire(other.lock("n", lease_ms=LEASE_MS)).err == "BUSY"
    before = epoch(servers[0])
    assert before[2] == b"2500"
    time.sleep(0.1)
    assert one.try_acquire(one.lock("n", lease_ms=LEASE_MS)).err == "BUSY"
    after = epoch(servers[0])
    assert after[2] == b"02500" and int(after[1]) > int(before[1])
    assert other.try_acquire(other.lock("n", lease_ms=LEASE_MS)).err == "CONFIG"


@pytest.mark.parametrize("served, first", [
    ("?recovery=3s", KEYS), ("?recovery=2500ms&replicas=1", "?recovery=3s")])
def test_of_two_numbers_the_longer_recovery_and_the_more_replicas_count(
        servers, drivers, served, first):
    """A lease of its length may be forgotten; and who relies on replicas is not
    let in by who does not. So both are refused, and told what to write."""
    one = drivers(servers[0].url + served, request_ms=1000)
    one.try_acquire(one.lock("n", lease_ms=LEASE_MS))
    servers[0].command("FLUSHALL")
    other = drivers(servers[0].url + first, request_ms=1000)
    assert other.try_acquire(other.lock("n", lease_ms=LEASE_MS)).err == "BUSY"
    for driver in one, other:
        told = driver.start_acquire(driver.lock("n", lease_ms=LEASE_MS),
                                    wait_ms=20000).answer()
        assert told.err == "CONFIG", told
        assert "write 3s&replicas=1 here" in told.text, told
        assert epoch(servers[0])[2] == b"03000"
    last = drivers(servers[0].url + "?recovery=3s&replicas=1", request_ms=1000)
    last.acquire(last.lock("n", lease_ms=LEASE_MS), wait_ms=20000).release()


def test_end_by_hand_keeps_the_number_of_replicas(one, servers):
    url = servers[0].url + KEYS
    servers[0].command("FLUSHALL")
    assert one.try_acquire(one.lock("n", lease_ms=LEASE_MS)).err == "BUSY"
    assert snib(url, "store", "ready", "--yes").returncode == 0
    assert is_open(servers[0])
    assert epoch(servers[0])[2] == b"02500"
    one.acquire(one.lock("n", lease_ms=LEASE_MS), wait_ms=2000).release()


def test_one_that_has_not_begun_is_ended_by_hand_with_its_replicas(servers):
    url = servers[0].url + KEYS
    assert snib(url, "store", "ready", "--yes").returncode == 0
    assert is_open(servers[0])
    assert epoch(servers[0])[2] == b"02500"
    assert snib(url, "try", "-t", "1s", "n").returncode == 0


def test_who_looked_first_gets_the_lock_later(servers, drivers):
    """The connection that looked is let in by no script, and judged by the life
    that it was greeted in."""
    one = drivers(servers[0].url + KEYS, request_ms=1000)
    snib(servers[0].url + KEYS, "status", "n")
    one.acquire(one.lock("n", lease_ms=LEASE_MS), wait_ms=20000).release()


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
