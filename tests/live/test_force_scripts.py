"""force.lua on a real redis-server: it ends thousands of holders in one step,
and mends whatever of a lock is damaged; test_redis_scripts.py plays a client
by hand."""

import os
import subprocess

import pytest

from test_kind_scripts import MUTEX, read, take
from test_redis_scripts import (  # noqa: F401
    GRANTED, QUEUED, RedisError, fields, fresh, party, pytestmark, server,
    ttl_everywhere)

MANY = 10000


def crowd(server, count, lease_ms=60000):
    """So many readers of n, of another client."""
    seconds, _ = server.command("TIME")
    end = int(seconds) * 1000 + lease_ms
    fields = []
    for i in range(count):
        request = f"e{i:031x}"
        fields += [f"{'c' * 32}:{request}", f"{request} 5000 {end} 1 1 1 0 h"]
    for at in range(0, len(fields), 2000):
        server.command("HSET", "snib:{n}", *fields[at:at + 2000])
    server.command("PEXPIRE", "snib:{n}", 60000)
    return [field.split(":")[1] for field in fields[::2]]


def test_ten_thousand_readers_are_ended_and_each_is_told(party, fresh):
    a, w = party(), party()
    token, mine = read(a)
    others = crowd(fresh, MANY)
    assert take(w, MUTEX)[0][0] == QUEUED
    assert w.force("maintenance")[0] == MANY + 1
    assert w.pushed()[1] > token
    assert a.renew(token, request=mine) == b"REVOKED maintenance"
    assert fields(fresh) == [w.uuid.encode()]
    assert fresh.command("HLEN", "snib:{n}:r") == MANY + 1
    for request in (others[0], others[MANY // 2], others[-1]):
        mark = fresh.command("HGET", "snib:{n}:r", request)
        assert mark.endswith(b" maintenance")
        assert fresh.command("EXISTS", "snib:{n}:x:" + request) == 1
    ttl_everywhere(fresh)


def junk_of_one(fresh, a, b, c):
    fresh.command("HSET", "snib:{n}:w", b.request, "junk")


def number_that_no_command_takes(fresh, a, b, c):
    """A token above such a floor has no time to live that can be set."""
    record = fresh.command("HGET", "snib:{n}:w", b.request).split(b" ")
    record[6] = b"9" * 30
    fresh.command("HSET", "snib:{n}:w", b.request, b" ".join(record))


def junk_behind_who_does_not_fit(fresh, a, b, c):
    record = fresh.command("HGET", "snib:{n}:w", c.request)
    fresh.command("HSET", "snib:{n}:w", c.request, "junk")
    fresh.command("HSET", "snib:{n}:w", "d" * 32, record[:-40])


def counter_that_is_none(fresh, a, b, c):
    fresh.command("HSET", "snib:{n}:w", "#", "x")


def terms_that_are_none(fresh, a, b, c):
    fresh.command("HSET", "snib:{n}:c", "gate", "x")
    fresh.command("PEXPIRE", "snib:{n}:c", 60000)


def token_memory_that_is_none(fresh, a, b, c):
    fresh.command("SET", "snib:{n}:t", "x", "PX", 60000)


def lease_until_the_end_of_time(fresh, a, b, c):
    record = fresh.command("HGET", "snib:{n}", a.uuid).split(b" ")
    record[2] = b"9" * 30
    fresh.command("HSET", "snib:{n}", a.uuid, b" ".join(record))


@pytest.mark.parametrize("damage", [
    junk_of_one, number_that_no_command_takes, junk_behind_who_does_not_fit,
    counter_that_is_none, terms_that_are_none, token_memory_that_is_none,
    lease_until_the_end_of_time])
def test_whatever_is_damaged_is_mended(party, fresh, damage):
    """Afterwards the lock goes on: who waits is served, in order, and the
    record of who lost its place is made anew by its poll."""
    a, b, c = party(), party(), party()
    token = a.acquire()[2]
    b.acquire()
    c.acquire()
    damage(fresh, a, b, c)
    assert a.force()[0] == 1
    assert a.renew(token) == b"REVOKED why"
    waiters = [b, c]
    places = [p.acquire(request=p.request)[0] for p in waiters]
    assert sorted(places) == [GRANTED, QUEUED]
    first = waiters[places.index(GRANTED)]
    other = waiters[places.index(QUEUED)]
    got = first.pushed()[1]
    assert got > token or damage is token_memory_that_is_none
    new = party()
    assert new.acquire()[0:3:2] == [QUEUED, 2]
    assert new.inspect()[2] == 2
    assert first.release(got) == 1
    again = other.pushed()[1]
    assert other.release(again) == 1
    assert new.pushed()[1] > again > got
    ttl_everywhere(fresh)


def test_a_damaged_waiter_of_a_free_lock_is_mended_by_the_command(party, fresh):
    """Who looks, and who asks, is told of it and what to do; the command does
    not take the lock for a free one."""
    a, b = party(), party()
    token = a.acquire()[2]
    b.acquire(window=60000)
    fresh.command("HSET", "snib:{n}:w", b.request, "junk")
    fresh.command("HDEL", "snib:{n}", a.uuid)

    def snib(verb, *rest):
        return subprocess.run(
            [os.environ["SNIB_BIN"], verb, "-s", fresh.url, *rest],
            capture_output=True, text=True, timeout=20)

    for done in (snib("try", "n", "--", "true"), snib("status", "n")):
        assert done.returncode != 0
        assert "a waiter record of snib:{n}:w is damaged" in done.stderr
        assert "snib force-release mends it" in done.stderr
    done = snib("force-release", "--yes", "--reason", "x", "n")
    assert done.returncode == 0, done.stderr
    assert "its state at the store is damaged" in done.stderr
    done = snib("try", "n", "--", "printenv", "SNIB_TOKEN")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > token


@pytest.mark.parametrize("damage", [counter_that_is_none, terms_that_are_none])
def test_a_look_tells_of_damage_that_keeps_others_out(party, damage, fresh):
    a, b = party(), party()
    a.acquire()
    b.acquire()
    damage(fresh, a, b, None)
    with pytest.raises(RedisError, match="snib force-release"):
        a.inspect()


def test_holders_that_are_over_are_not_counted_among_those_not_shown(
        party, fresh):
    a = party()
    read(a)
    crowd(fresh, 300, lease_ms=-5)
    first, second, third = a.inspect(0), a.inspect(100), a.inspect(200)
    assert sum(len(page[3]) for page in (first, second, third)) == 2
    beyond = 1 - len(first[3]) // 2
    assert first[6:] == [1] * beyond
    assert second[6:] == third[6:] == []
