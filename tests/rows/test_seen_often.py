"""§4.1: what hurts real users first (F-001 … F-046), as far as no other suite
shows it already."""

import os

import pytest

from conftest import ms_since, show_two_holders
from harness.pulse import late_ms
from harness import process
from harness.checks import holders, next_millisecond
from harness.redis_server import redis_missing
from harness.wait import boot_ns, stays, wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


def warm_up(driver):
    driver.acquire(driver.lock("warm"), wait_ms=2000).release()


@pytest.mark.usefixtures("by_script")
def test_F_006_reply_lost_and_given_up_is_unknown_and_cleaned_up(
        redis, proxy, drivers, look, clean):
    one, two = drivers(proxy.url), drivers(redis.url)
    warm_up(one)
    lost = proxy.drop_reply(script="acquire", times=1, then="silence")
    answer = one.start_acquire(one.lock("n"), wait_ms=300).answer()
    assert lost.fired == 1 and answer.err == "UNKNOWN", answer
    # 300, and a fifth of request_ms for the answer to its cancel
    assert answer.exit == 69 and answer.took_ms < 700 + late_ms()
    # Executed, so it is held until the clean-up ends it: long before 30 s.
    two.acquire(two.lock("n"), wait_ms=8000).release()


@pytest.mark.usefixtures("by_script")
def test_F_008_paused_inside_release_it_touches_nothing(
        redis, proxy, drivers, clean):
    """The release is on its way; its sender is stopped past the lease."""
    one, two = drivers(proxy.url), drivers(redis.url)
    warm_up(one)
    grant = one.acquire(one.lock("n", lease_ms=500))
    sent = proxy.hold_request(script="release", times=1)
    ending = grant.start_release()
    sent.wait_fired()
    one.freeze()
    taken = two.acquire(two.lock("n"), wait_ms=5000)
    sent.release()
    one.thaw()
    ending.answer()
    stays(lambda: taken.status().held, 0.2, "the next grant is untouched")
    assert holders(redis, "n") == 1
    taken.release()


@pytest.mark.usefixtures("by_script")
def test_F_009_release_lost_on_the_way_is_sent_again(
        redis, proxy, drivers, clean):
    one = drivers(proxy.url, request_ms=500)
    warm_up(one)
    grant = one.acquire(one.lock("n"))
    lost = proxy.drop_request(then="rst", script="release", times=1)
    assert grant.start_release().answer().err in ("OK", "UNKNOWN")
    assert lost.fired == 1
    redis.wait_for(lambda s: holders(s, "n") == 0, 3)


def test_F_011_no_renewal_after_the_release_returned(
        redis, proxy, drivers, clean):
    """Twenty locks with short leases, released while renewals are due."""
    one = drivers(proxy.url)
    warm_up(one)
    lease_ms = 150 + int(late_ms())  # that none is lost before it is released
    grants = [one.acquire(one.lock(f"n{i}", lease_ms=lease_ms + i),
                          on=f"t{i % 4}") for i in range(20)]
    proxy.wait_for(lambda f: f.direction == "request"
                   and f.script == "renew", what="renewals are under way")
    for grant in grants:
        grant.release()
    mark = proxy.mark()
    stays(lambda: proxy.count(since=mark, script="renew") == 0,
          2 * lease_ms / 1000, "no renewal any more")


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_F_017_F_018_evicted_lock_is_told_and_the_fence_holds(
        redis_with, drivers, fence, policy):
    """Two holders: documented, and doctor warns. The fence holds."""
    redis = redis_with("maxmemory 3mb", f"maxmemory-policy {policy}")
    one, two = drivers(redis.url), drivers(redis.url)
    levels = [f for f in one.call("doctor", client="c").findings
              if "maxmemory" in str(f) or "evict" in str(f)]
    assert levels, "doctor says nothing about " + policy
    first = one.acquire(one.lock("n", lease_ms=30000, fixed=True))
    read = fence.begin(first.token)
    for i in range(20_000):
        redis.command("SET", f"cache:{i}", "x" * 4000, "PX", 3_600_000)
        if i % 50 == 0 and not redis.command("EXISTS", "snib:{n}"):
            break
    assert not redis.command("EXISTS", "snib:{n}"), "it was not evicted"
    redis.command("FLUSHALL")  # room for the second
    second = two.acquire(two.lock("n"), wait_ms=2000)
    show_two_holders(one, first, read, second, fence)


@pytest.mark.usefixtures("by_script")
def test_F_022_grant_that_comes_after_its_lease_is_no_success(
        redis, proxy, drivers, clean):
    one = drivers(proxy.url)
    warm_up(one)
    late = proxy.hold_reply(script="acquire", times=1)
    asked = one.start_acquire(one.lock("n", lease_ms=300, fixed=True),
                              wait_ms=8000)
    late.wait_fired()
    redis.wait_for(lambda s: not s.command("EXISTS", "snib:{n}"), 3,
                   "its lease has run out")
    late.release()
    grant = asked.wait()
    # What it entered on is a grant of its own, with time left.
    left = grant.status()
    assert left.held and 0 < left.left_ms <= 300
    assert redis.command("PTTL", "snib:{n}") > left.left_ms
    grant.start_release().answer()


@pytest.mark.usefixtures("by_script")
@pytest.mark.parametrize("where", ["request", "reply"])
def test_F_023_delay_on_either_side_never_lengthens_the_deadline(
        redis, proxy, drivers, clean, where):
    one = drivers(proxy.url)
    warm_up(one)
    delay = getattr(proxy, f"delay_{where}")
    delay(0.3, script="acquire", times=1)
    grant = one.acquire(one.lock("n", lease_ms=3000, fixed=True),
                        wait_ms=5000)
    # The key outlives the lease by 100 ms.
    assert grant.status().left_ms < redis.command("PTTL", "snib:{n}") - 100
    grant.release()


def test_F_026_power_loss_with_everysec_is_told_and_the_token_rises(
        redis_with, drivers, fence):
    """The tail of the AOF is cut off: the grant is forgotten."""
    redis = redis_with("appendonly yes", "appendfsync everysec",
                       "aof-load-truncated yes")
    one, two = drivers(redis.url, request_ms=500), drivers(redis.url)
    one.acquire(one.lock("before")).release()
    # Before Redis 7: one file, in the folder itself.
    tail = next(os.path.join(top, name)
                for top, _, names in os.walk(redis.dir) for name in names
                if name.endswith((".incr.aof", "appendonly.aof")))
    wait_until(lambda: os.path.getsize(tail) > 0, 3, "the first is written")
    size = os.path.getsize(tail)
    first = one.acquire(one.lock("n", lease_ms=30000, fixed=True))
    read = fence.begin(first.token)
    redis.kill()
    os.truncate(tail, min(size, os.path.getsize(tail)))
    redis.start()
    second = two.acquire(two.lock("n"), wait_ms=5000)
    show_two_holders(one, first, read, second, fence)


@pytest.mark.parametrize("how", [
    "restart", "FLUSHALL", "FLUSHDB", "DEL snib:{n}", "SWAPDB 0 1"])
def test_F_024_F_088_forgotten_grant_gives_two_holders_and_the_fence_holds(
        redis, drivers, fence, how):
    one, two = drivers(redis.url), drivers(redis.url)
    first = one.acquire(one.lock("n", lease_ms=30000, fixed=True))
    read = fence.begin(first.token)
    next_millisecond(redis)
    if how == "restart":
        redis.restart(data="lost")
    else:
        redis.command(*how.split())
    second = two.acquire(two.lock("n"), wait_ms=5000)
    show_two_holders(one, first, read, second, fence)


def test_F_030_waiter_that_waits_long_keeps_its_place(
        redis, proxy, drivers, look, clean):
    """Longer than the alive window of 3 s; later ones do not pass it."""
    one, two, three = (drivers(u) for u in (redis.url, proxy.url, redis.url))
    warm_up(two)
    held = one.acquire(one.lock("n"))
    first = two.start_acquire(two.lock("n"), wait_ms=30000)
    look(redis.url).wait_waiters("n", 1)
    second = three.start_acquire(three.lock("n"), wait_ms=30000)
    look(redis.url).wait_waiters("n", 2)
    begun, mark = boot_ns(), proxy.mark()
    wait_until(lambda: ms_since(begun) > 3600
               and proxy.count("reply", since=mark, script="acquire") >= 3, 8,
               "it has polled past the window")
    held.release()
    grant = first.wait()
    assert not second.done()
    grant.release()
    second.wait().release()


def test_F_031_lease_that_ends_without_a_release_grants_the_first_waiter(
        redis, drivers, look, clean):
    one, two, three = (drivers(redis.url) for _ in range(3))
    held = one.acquire(one.lock("n", lease_ms=1200, fixed=True))
    first = two.start_acquire(two.lock("n"), wait_ms=10000)
    look(redis.url).wait_waiters("n", 1)
    second = three.start_acquire(three.lock("n"), wait_ms=10000)
    grant = first.wait()
    assert ms_since(held.began, grant.ended) < 1200 + 500 + late_ms()
    assert not second.done()
    held.start_release().answer()
    grant.release()
    second.wait().release()


def test_F_036_default_lease_is_finite(redis, drivers, clean):
    one = drivers(redis.url)
    grant = one.acquire(one.lock("n"))
    assert 0 < redis.command("PTTL", "snib:{n}") <= 60_100
    assert 0 < grant.status().left_ms <= 60_000
    grant.release()


def test_F_045_starved_process_keeps_its_lock_or_is_told(
        redis, drivers, clean):
    """Stopped for 120 ms of each 130 ms: an eighth of a lease at a time."""
    one, two = drivers(redis.url), drivers(redis.url)
    grant = one.acquire(one.lock("n", lease_ms=1500))
    waiting = two.start_acquire(two.lock("n"), wait_ms=10000)
    begun = boot_ns()
    while ms_since(begun) < 3200:
        process.freeze(one.child)
        stop = boot_ns()
        wait_until(lambda: ms_since(stop) > 120, 2)
        process.thaw(one.child)
        run = boot_ns()
        wait_until(lambda: ms_since(run) > 10, 2)
    if late_ms() < 500:  # else the whole machine is starved
        states = [change.state for change in grant.changes()]
        assert grant.status().held and "lost" not in states, states
        assert not waiting.done()
    told = not grant.status().held
    assert (grant.start_release().answer().err == "LOST") == told
    waiting.wait().release()


def test_F_046_a_thousand_locks_are_renewed_by_one_process(
        redis, proxy, drivers, clean):
    """In batches, each in time."""
    one, count = drivers(proxy.url), 1000
    asked = []
    for i in range(count):
        one.start("lock", id=f"n{i}", client="c", name=f"n{i}",
                  lease_ms=5000)
        asked.append(one.start_acquire(f"n{i}"))
    grants = [pending.wait(30) for pending in asked]
    mark = proxy.mark()
    begun = boot_ns()
    wait_until(lambda: ms_since(begun) > 5300, 8, "a lease has passed")
    calls = proxy.count("request", since=mark, script="renew")
    assert 0 < calls < count, calls
    left = [redis.command("PTTL", f"snib:{{n{i}}}") for i in range(count)]
    assert min(left) > 0, min(left)
    assert not [e for e in one.events("change") if e.state == "lost"]
    ended = [grant.start_release() for grant in grants]
    assert all(pending.answer(30).ok for pending in ended)
