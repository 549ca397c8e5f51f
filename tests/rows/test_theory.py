"""§1.8: cases from the theory that no other suite shows as such (A-…)."""

import pytest

from conftest import Resource, ms_since
from harness.pulse import late_ms
from harness.checks import Rising
from harness.redis_server import redis_missing
from harness.wait import boot_ns, stays, wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


def lose_while_writing(one, two, resource, raise_mark):
    """A reads, is frozen past its lease; B reads and writes; A's write comes
    afterwards. Returns how many of two sales the resource has lost."""
    first = one.acquire(one.lock("n", lease_ms=500))
    read = resource.begin(first.token) if raise_mark else resource.value
    one.freeze()
    second = two.acquire(two.lock("n"), wait_ms=5000)
    again = resource.begin(second.token) if raise_mark else resource.value
    assert again == read == 0
    done = 0
    for token, value in ((second.token, again), (first.token, read)):
        if raise_mark:
            done += resource.write(token, value + 1)
        else:
            resource.value = value + 1
            done += 1
    one.thaw()
    assert not first.status().held
    assert second.token > first.token
    first.start_release().answer()
    second.release()
    return done - resource.value


def test_A_02_delayed_write_is_refused_by_the_fence(
        redis, drivers, fence, clean):
    one, two = drivers(redis.url), drivers(redis.url)
    assert lose_while_writing(one, two, fence, raise_mark=True) == 0
    assert fence.value == 1 and fence.refused == 1


def test_A_02_control_without_a_fence_an_update_is_lost(
        redis, drivers, clean):
    one, two = drivers(redis.url), drivers(redis.url)
    assert lose_while_writing(one, two, Resource(), raise_mark=False) == 1


@pytest.mark.usefixtures("by_script")
def test_A_05_paused_while_the_reply_is_in_flight_never_enters_on_it(
        redis, proxy, drivers, look, clean):
    one, two = drivers(proxy.url), drivers(redis.url)
    one.acquire(one.lock("warm")).release()
    reply = proxy.hold_reply(script="acquire", times=1)
    asked = one.start_acquire(one.lock("n", lease_ms=500), wait_ms=20000)
    reply.wait_fired()
    one.freeze()
    reply.release()
    taken = two.acquire(two.lock("n", lease_ms=5000), wait_ms=5000)
    one.thaw()
    stays(lambda: not asked.done() and taken.status().held, 0.5,
          "the late reply is not entered on")
    taken.release()
    late = asked.wait()
    assert late.token > taken.token
    late.release()


def test_A_15_slow_server_deadline_counts_from_the_send(
        redis, drivers, clean):
    """The request is executed 0.6 s late: the server's lease ends later than
    the client's, never earlier."""
    one = drivers(redis.url)
    one.acquire(one.lock("warm")).release()
    with redis.client(timeout=10) as sleeper:
        sleeper.send("DEBUG", "SLEEP", "0.6")
        wait_until(lambda: not redis.answers(timeout=0.05), 2, "it sleeps")
        grant = one.acquire(one.lock("n", lease_ms=3000, fixed=True),
                            wait_ms=5000)
    assert grant.ended - grant.began > 200_000_000
    # The key lives 100 ms longer than the lease.
    left, server_left = grant.status().left_ms, redis.command(
        "PTTL", "snib:{n}") - 100
    assert left < server_left
    grant.release()


@pytest.mark.usefixtures("by_script")
def test_A_22_queued_reply_lost_finds_its_own_place_again(
        redis, proxy, drivers, look, clean):
    """The place was made, the reply was lost: found by the request's id, not
    a second place that blocks everybody."""
    one, two = drivers(proxy.url, request_ms=1000), drivers(redis.url)
    one.acquire(one.lock("warm"), wait_ms=5000).release()
    held = two.acquire(two.lock("n"))
    lost = proxy.drop_reply(script="acquire", times=1)
    waiting = one.start_acquire(one.lock("n"), wait_ms=10000)
    lost.wait_fired()
    look(redis.url).wait_waiters("n", 1)
    wait_until(lambda: proxy.count("reply", script="acquire") >= 2, 10,
               "the repeat is answered")
    assert look(redis.url).waiters("n") == 1
    held.release()
    waiting.wait().release()


def test_A_27_renewals_go_on_after_a_pause_and_a_restart(
        redis_with, drivers):
    redis = redis_with("appendonly yes", "appendfsync always")
    one = drivers(redis.url, request_ms=500)
    grant = one.acquire(one.lock("n", lease_ms=3000))
    redis.command("CLIENT", "PAUSE", 1200, "ALL")
    begun = boot_ns()
    wait_until(lambda: ms_since(begun) > 1200 and grant.status().left_ms
               > 2000, 5, "renewed after the pause")
    redis.restart(data="kept")
    other = one.acquire(one.lock("m", lease_ms=1000), wait_ms=5000)
    stays(lambda: grant.status().held and other.status().held, 1.3,
          "old and new locks are renewed")
    assert "lost" not in [change.state for change in grant.changes()]
    other.release()
    grant.release()


def test_A_31_tokens_near_2_to_53_keep_each_digit(redis, drivers):
    """Where a plain Lua number printed by `..` gives duplicates. No clock made
    such a token, so it is no floor of its client's."""
    rising, start, tokens = Rising(), 9007199254730001, []
    redis.command("SET", "snib:{n}:t", start, "PX", 600_000)
    for _ in range(5):
        one = drivers(redis.url)
        grant = one.acquire(one.lock("n"))
        tokens.append(rising(grant.token))
        grant.release()
    assert tokens[0] > start and tokens[-1] < start + 5 * 33
    again = one.acquire("n")
    assert rising(again.token) < start + 6 * 33
    again.release()
    assert redis.command("GET", "snib:{n}:t").isdigit()


def test_A_31_a_token_memory_past_the_range_is_an_error_not_a_duplicate(
        redis, drivers):
    one = drivers(redis.url)
    redis.command("SET", "snib:{n}:t", 2 ** 53, "PX", 600_000)
    assert one.start_acquire(one.lock("n"), wait_ms=500).answer(
        ).err == "CORRUPT"


def test_A_12_refused_renewals_are_told_as_loss_before_the_deadline(
        redis, drivers):
    """The old master's island with min-replicas: NOREPLICAS from now on."""
    one = drivers(redis.url)
    grant = one.acquire(one.lock("n", lease_ms=1000))
    redis.command("CONFIG", "SET", "min-replicas-to-write", 1)
    begun = boot_ns()
    told = one.wait_event("change", ticket=grant.ticket, state="lost")
    assert ms_since(begun, told.at) <= 1000 + late_ms()
    assert [c.state for c in grant.changes()][:2] == ["at risk", "lost"]
    redis.command("CONFIG", "SET", "min-replicas-to-write", 0)
    grant.start_release().answer()
