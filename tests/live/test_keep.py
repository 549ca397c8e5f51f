"""Released locks that their client keeps (snib_lock_options.keep_ms), at a real
server: what it saves, how others get it, and what a client that dies meanwhile
costs them.
"""

import os
import subprocess
import time

import pytest

from harness.pulse import late_ms
from harness.redis_server import redis_missing
from harness.wait import wait_until

SNIB = os.environ.get("SNIB_BIN", "")

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


def calls(redis):
    """Calls of scripts, and transactions, so far."""
    stats = redis.command("INFO", "commandstats").decode()
    return sum(int(line.split("calls=")[1].split(",")[0])
               for line in stats.splitlines()
               if line.split(":")[0] in ("cmdstat_evalsha", "cmdstat_exec",
                                         "cmdstat_eval"))


def keeps(driver, name="n", keep_ms=1000, lease_ms=5000):
    """A handle whose lock is kept once the client hears of others."""
    return driver.lock(name, keep_ms=keep_ms, lease_ms=lease_ms)


def kept(redis, driver, lock):
    """Acquire and release until it is kept."""
    def once():
        driver.acquire(lock).release()
        return redis.command("EXISTS", "snib:{n}") == 1
    wait_until(once, what="it is kept")


def test_again_it_costs_no_round_trip(drivers, redis):
    one = drivers(redis.url)
    lock = keeps(one)
    kept(redis, one, lock)
    before, tokens = calls(redis), []
    for _ in range(10):
        grant = one.acquire(lock)
        tokens.append(grant.token)
        grant.release()
    assert calls(redis) - before <= 2, "a reserve lasts for 31, or a second"
    assert tokens == sorted(set(tokens)), "each has a token of its own"


def test_who_waits_gets_it_at_once(drivers, redis):
    one, two = drivers(redis.url), drivers(redis.url)
    kept(redis, one, keeps(one))
    last = one.acquire("n")
    last.release()
    since = time.monotonic()
    grant = two.acquire(two.lock("n"))
    assert time.monotonic() - since < 0.4 + late_ms() / 1000, \
        "well before keep_ms is over"
    assert grant.token > last.token
    grant.release()


def test_a_try_gets_it_too(drivers, redis):
    one, two = drivers(redis.url), drivers(redis.url)
    two.acquire(two.lock("other")).release()  # it is connected
    kept(redis, one, keeps(one))

    def once():
        one.acquire("n").release()
        assert redis.command("EXISTS", "snib:{n}") == 1
        return two.try_acquire("t").ok
    two.lock("n", id="t")
    wait_until(once, what="a try is served within its 13 ms")


def test_a_try_is_refused_while_it_is_held(drivers, redis):
    one, two = drivers(redis.url), drivers(redis.url)
    kept(redis, one, keeps(one))
    grant = one.acquire("n")
    answer = two.try_acquire(two.lock("n"))
    assert answer.err == "BUSY"
    assert "keeps it" in answer.text
    grant.release()
    two.acquire("n").release()  # asked for: it was not kept


def test_it_goes_back_when_its_time_is_up(drivers, redis):
    one = drivers(redis.url)
    kept(redis, one, keeps(one, keep_ms=50))
    wait_until(lambda: redis.command("EXISTS", "snib:{n}") == 0,
               what="it is given back")


def test_a_killed_keeper_costs_the_rest_of_its_lease(drivers, redis):
    one, two = drivers(redis.url), drivers(redis.url)
    kept(redis, one, keeps(one, lease_ms=2000))
    since = time.monotonic()
    one.acquire("n").release()
    one.kill()
    grant = two.acquire(two.lock("n"))
    took = time.monotonic() - since
    assert 1.0 < took < 4.5 + late_ms() / 1000
    grant.release()


def test_a_client_that_stops_gives_it_back(drivers, redis):
    one = drivers(redis.url)
    kept(redis, one, keeps(one))
    one.acquire("n").release()
    one.call("stop", id="c")
    assert redis.command("EXISTS", "snib:{n}") == 0


def test_without_its_subscription_it_keeps_nothing(drivers, redis):
    one = drivers(redis.url)
    kept(redis, one, keeps(one))
    one.acquire("n").release()
    redis.command("CLIENT", "KILL", "TYPE", "pubsub")
    wait_until(lambda: redis.command("EXISTS", "snib:{n}") == 0, timeout=0.8,
               what="it is given back before keep_ms is over")


def test_status_and_why_show_it(drivers, redis):
    one = drivers(redis.url)
    kept(redis, one, keeps(one))
    one.acquire("n").release()
    shown = {verb: subprocess.run(
        [SNIB, verb, "--store", redis.url, "n"], capture_output=True, text=True,
        timeout=20).stdout for verb in ("status", "why")}
    one.acquire("n").release()
    assert "kept     it may be released and kept, up to 1s" in shown["status"]
    assert "It may be released and kept, up to 1s" in shown["why"]
