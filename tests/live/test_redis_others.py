"""What others put into the server: a lock with thousands of holders, a key of
another type, a token that no clock made. It must not reach other locks, nor
those who look.
"""

import os
import re
import subprocess

import pytest

from harness.redis_server import RedisError, redis_missing

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

FAR = 8000000000000000  # a token of the year 2217


def crowd(redis, count, name="big", permits=False):
    """So many readers, or holders of a permit, with a lease of a minute."""
    seconds, _ = redis.command("TIME")
    end = int(seconds) * 1000 + 60000
    fields = []
    for i in range(count):
        request = f"{i + 1:032x}"
        fields += [f"{'c' * 32}:{request}",
                   f"{request} 5000 {end} {f'3 1,s{i}' if permits else '1 1'}"
                   f" 1 0 host=h&pid={i + 1}&user=u"]
    for at in range(0, len(fields), 2000):
        redis.command("HSET", "snib:{%s}" % name, *fields[at:at + 2000])
    redis.command("PEXPIRE", "snib:{%s}" % name, 60000)


@pytest.mark.parametrize("count", [520, 10000])
def test_lock_with_thousands_of_readers_can_be_looked_at(drivers, redis, count):
    crowd(redis, count)
    one = drivers(redis.url)
    held = one.acquire(one.lock("mine"))
    view = one.call("inspect", client="c", name="big")
    pids = {party["pid"] for party in view.holders}
    assert len(pids) == len(view.holders) == min(count, 1000)
    assert count <= 1000 or any(
        "big: 9000 holders more" in line for line in one.logs())
    views = one.call("list", client="c").locks
    assert {found["name"] for found in views} == {"big", "mine"}
    assert not [line for line in one.logs() if "lost" in line], \
        "no look ends a connection"
    assert held.status().held
    held.release()


def test_full_semaphore_of_more_than_are_shown_is_not_free(redis):
    def snib(verb, *args, command=()):
        return subprocess.run(
            [os.environ["SNIB_BIN"], verb, "-s", redis.url, "--kind",
             "semaphore", "-w", "0", *args, "big", *command],
            capture_output=True, text=True, timeout=20)

    taken = ("--capacity", "1200")
    assert snib("run", *taken, command=("--", "true")).returncode == 0
    crowd(redis, 1200, permits=True)
    assert snib("run", *taken, command=("--", "true")).returncode == 75
    assert snib("wait").returncode == 75


def test_list_says_what_it_does_not_show(drivers, redis):
    crowd(redis, 250)
    one = drivers(redis.url)
    one.call("list", client="c")
    assert any("big: 50 holders more" in line for line in one.logs())


def test_list_says_why_it_cannot_show_a_lock(drivers, redis):
    one = drivers(redis.url)
    held = one.acquire(one.lock("mine"))
    redis.command("HSET", "snib:{bad}", "x", "no record of ours")
    redis.command("LPUSH", "snib:{a list}", "x")
    views = one.call("list", client="c").locks
    assert [found["name"] for found in views] == ["a list", "bad", "mine"]
    assert "of another type, so not ours" in views[0]["damage"]
    assert "--pattern 'snib:{a list}*'" in views[0]["damage"]
    assert "snib force-release mends it" in views[1]["damage"]
    assert not any(found["holders"] + found["waiters"] for found in views[:2])
    assert "damage" not in views[2] and views[2]["holders"]
    assert any("bad: CORRUPT" in line for line in one.logs())
    held.release()


def many(redis, proxy, count=90, each=0.04):
    """So many locks, which it takes longer than request_ms to look at: the
    server takes its time for each of them."""
    for i in range(count):
        crowd(redis, 1, name=f"n{i}")
    proxy.delay_reply(each, script="inspect")


@pytest.mark.parametrize("form", [{}, {"started": 1}])
def test_list_of_many_locks_takes_its_time(drivers, redis, proxy, form):
    many(redis, proxy)
    one = drivers(proxy.url)
    views = one.call("list", client="c", timeout=60, **form).locks
    assert len(views) == 90


@pytest.mark.parametrize("words", [("list",), ("why", "n7")])
def test_the_command_looks_at_many_locks(redis, proxy, words):
    many(redis, proxy)
    done = subprocess.run(
        [os.environ["SNIB_BIN"], *words, "-s", proxy.url],
        capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search("(?m)^n7:", done.stdout), done.stdout


def test_poisoned_token_of_one_lock_is_no_floor_of_others(drivers, redis):
    redis.command("SET", "snib:{a}:t", FAR)
    one = drivers(redis.url)
    first = one.acquire(one.lock("a"), wait_ms=2000)
    assert first.token == FAR + 1
    first.release()
    other = one.acquire(one.lock("b"), wait_ms=2000)
    assert other.token < FAR
    other.release()
    again = one.acquire("a", wait_ms=2000)
    assert again.token > first.token, "and its own goes on"
    again.release()


def test_token_memory_that_is_none_is_repaired_by_force(drivers, redis):
    redis.command("SET", "snib:{a}:t", 9007199254740998)
    one = drivers(redis.url)
    answer = one.start_acquire(one.lock("a"), wait_ms=2000).answer()
    assert answer.err == "CORRUPT"
    assert "force-release" in answer.text
    one.call("force_release", client="c", name="a")
    grant = one.acquire("a", wait_ms=2000)
    assert grant.token < FAR
    grant.release()


@pytest.mark.parametrize("kind", ["another type", "no token"])
def test_token_memory_that_is_none_ends_the_wait_for_that_lock(
        drivers, redis, look, kind):
    """Who waits is told at its next poll; who holds goes on to hold."""
    one, two = drivers(redis.url), drivers(redis.url)
    held = one.acquire(one.lock("n", lease_ms=3000))
    waiting = two.start_acquire(two.lock("n"), wait_ms=20000)
    look(redis.url).wait_waiters("n", 1)
    redis.command("DEL", "snib:{n}:t")
    if kind == "no token":
        redis.command("SET", "snib:{n}:t", "x")
    else:
        redis.command("SADD", "snib:{n}:t", "x")
    answer = waiting.answer()
    assert answer.err == "CORRUPT" and answer.took_ms < 15000, answer
    assert ("delete it" if kind == "another type" else
            "force-release") in answer.text
    assert two.try_acquire(two.lock("other")).err == "OK"
    assert held.renew().ok and held.status().held
    if kind == "no token":
        two.call("force_release", client="c", name="n")
    else:
        redis.command("DEL", "snib:{n}:t")
        assert held.release().ok
    again = two.acquire("n", wait_ms=20000)
    assert held.token < again.token < FAR
    again.release()


def test_key_of_another_type_is_named_with_what_to_do(drivers, redis):
    redis.command("LPUSH", "snib:{n}", "x")
    one = drivers(redis.url)
    answer = one.try_acquire(one.lock("n"))
    assert answer.err == "CORRUPT"
    assert "snib:{n}" in answer.text and "delete it" in answer.text
    assert "user_script" not in answer.text
    redis.command("DEL", "snib:{n}")


def test_server_without_memory_says_what_to_do(drivers, redis):
    one = drivers(redis.url)
    redis.command("CONFIG", "SET", "maxmemory", "1")
    answer = one.try_acquire(one.lock("n"))
    redis.command("CONFIG", "SET", "maxmemory", "0")
    assert answer.err == "STORE"
    assert answer.text.startswith("OOM") and "raise maxmemory" in answer.text
