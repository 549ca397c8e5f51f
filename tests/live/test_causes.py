"""What a holder is told when its lock is at risk or lost, and why."""

import pytest

from harness.redis_server import redis_missing
from harness.wait import wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

LEASE_MS = 1500


@pytest.fixture
def one(drivers, redis):
    return drivers(redis.url, request_ms=500)


def told(driver, grant, state):
    return driver.wait_event("change", ticket=grant.ticket, state=state)


FAULTS = {
    "killed": (lambda redis: redis.kill(),
               lambda redis: redis.restart(data="lost"), "refused"),
    "frozen": (lambda redis: redis.freeze(),
               lambda redis: redis.thaw(), "answer"),
    "read-only": (lambda redis: redis.command("REPLICAOF", "127.0.0.1", "1"),
                  lambda redis: redis.command("REPLICAOF", "NO", "ONE"),
                  "is a replica"),
}


@pytest.fixture
def broken(redis):
    """break it by name; it is mended at the end"""
    mend = []

    def break_it(name):
        mend.append(FAULTS[name][1])
        FAULTS[name][0](redis)

    yield break_it
    for undo in mend:
        undo(redis)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_loss_to_the_server_is_no_expiry_and_says_what_failed(
        one, clean, broken, fault):
    word = FAULTS[fault][2]
    grant = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    broken(fault)
    risk = told(one, grant, "at risk")
    assert risk.reason == "unreachable"
    wait_until(lambda: word in grant.status().why or not grant.status().held,
               LEASE_MS / 1000, "the cause is told while it is at risk")
    lost = told(one, grant, "lost")
    assert lost.reason == "unreachable", lost
    assert lost.why.startswith("unreachable: ") and word in lost.why, lost


def test_at_risk_is_told_long_before_the_lease_is_over(one, clean, broken):
    grant = one.acquire(one.lock("n", lease_ms=3000))
    broken("killed")
    risk = told(one, grant, "at risk")
    assert grant.status().left_ms > 1000, risk


def test_who_forced_it_and_why_reaches_the_holder(one, drivers, redis, clean):
    grant = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    two = drivers(redis.url)
    two.call("force_release", client="c", name="n",
             reason="release 4.2 is bad")
    lost = told(one, grant, "lost")
    assert lost.reason == "revoked"
    assert lost.why.startswith("revoked by "), lost
    assert lost.why.endswith(": release 4.2 is bad"), lost
