"""What users of other clients ask for, or complain about, at a real server
(docs/PARITY.md): what neither the conformance cases nor the rows of faults
show."""
import pytest

from harness.pulse import late_ms
from harness.redis_server import redis_missing
from harness.wait import boot_ns, stays, wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


def channels(redis):
    return redis.command("PUBSUB", "CHANNELS", "*")


def test_two_hundred_waits_for_fifty_names_use_one_channel(
        drivers, redis, look, clean):
    """No pool of subscriptions to exhaust, none left when the client ends."""
    holder, waiter = drivers(redis.url), drivers(redis.url)
    held = [holder.acquire(holder.lock(f"n{i}")) for i in range(50)]
    locks = [waiter.lock(f"n{i % 50}", id=f"w{i}") for i in range(200)]
    waits = [waiter.start_acquire(lock, on=f"t{i}", wait_ms=30000)
             for i, lock in enumerate(locks)]
    for i in range(50):
        look(redis.url).wait_waiters(f"n{i}", 1)
    assert redis.connections(channels=True) == 1
    assert len(channels(redis)) == 1
    given = [grant.start_release() for grant in held]
    assert all(answer.answer().ok for answer in given)
    while waits:  # of those for one name, one at a time
        wait_until(lambda: any(wait.done() for wait in waits), 30)
        ready = [wait for wait in waits if wait.done()]
        waits = [wait for wait in waits if wait not in ready]
        for wait in ready:
            wait.wait().release()
    waiter.call("stop", id="c", on="x")
    redis.wait_for(lambda s: not channels(s), what="its channel is gone")


@pytest.mark.parametrize("kind", ["mutex", "read", "write"])
def test_after_all_was_lost_a_new_lock_of_that_name_is_renewed(
        drivers, redis, clean, kind):
    """The keeper does not stay away from a name that it lost once."""
    one = drivers(redis.url, request_ms=500)
    grant = one.acquire(one.lock("n", lease_ms=1000, kind=kind), wait_ms=2000)
    redis.restart(data="lost")
    one.wait_event("change", ticket=grant.ticket, state="lost")
    assert grant.start_release().answer().err == "LOST"
    again = one.acquire("n", wait_ms=5000)
    stays(lambda: again.status().held and redis.command("EXISTS", "snib:{n}"),
          2.5, "held, and known to the server, past two leases")
    again.release()


def test_after_a_restart_all_that_is_held_is_asked_for_at_once(drivers, redis):
    """Not after a third of the lease. It counts its connections anew, which
    tells."""
    one = drivers(redis.url)
    for _ in range(30):
        assert redis.answers()
    grant = one.acquire(one.lock("n", lease_ms=60000))
    redis.restart(data="lost")
    change = one.wait_event("change", timeout=15, ticket=grant.ticket,
                            state="lost")
    assert change.reason == "forgotten"
    assert [line.state for line in grant.changes()] == ["at risk", "lost"]
    assert grant.start_release().answer().err == "LOST"


def test_a_wait_while_writes_are_paused_ends_and_leaves_no_place(
        drivers, redis, look, clean):
    one, two = (drivers(redis.url, request_ms=500) for _ in range(2))
    held = one.acquire(one.lock("n"), wait_ms=2000)
    lock = two.lock("n")
    two.acquire(two.lock("warm"), wait_ms=2000).release()
    redis.command("CLIENT", "PAUSE", 3000, "WRITE")
    begun = boot_ns()
    answer = two.start_acquire(lock, wait_ms=700).answer()
    took_ms = (boot_ns() - begun) / 1e6
    assert answer.err in ("TIMEOUT", "UNKNOWN", "UNREACHABLE"), answer
    assert 690 < took_ms < 2500 + late_ms()
    redis.command("CLIENT", "UNPAUSE")
    wait_until(lambda: look(redis.url).waiters("n") == 0, 5,
               what="what arrived late is taken back")
    held.release()
    two.acquire(lock, wait_ms=2000).release()
