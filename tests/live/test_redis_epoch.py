"""?recovery=: who begins a recovery, and by which number (scripts/epoch.lua), on
a real redis-server. test_redis_recovery.py has what it is good for.
"""

import json
import os
import subprocess
import time

import pytest

from harness.redis_server import redis_missing
from harness.resp import RedisError
from test_redis_recovery import (  # noqa: F401
    LEASE_MS, RECOVERY, begin_anew, is_open, one, poll_again, snib, sure)

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

LOOKS = ["status n", "list", "why n", "doctor", "store ready", "wait -w 0 n",
         "semaphore n", "latch n", "deadlocks"]


def test_look_begins_no_recovery(redis, sure):
    """Where others use the server without recovery=, they were kept out."""
    assert snib(redis.url, "try", "m").returncode == 0
    for words in LOOKS:
        snib(sure, *words.split())
        assert redis.command("EXISTS", "snib:epoch") == 0, words
        assert redis.command("TYPE", "snib:m") == b"stream", words
    assert snib(redis.url, "try", "m").returncode == 0


WHEN = {
    "it runs": begin_anew,
    "it is over": lambda one, redis: None,
    "it is to begin": lambda one, redis: redis.restart(data="kept"),
}


@pytest.mark.parametrize("when", WHEN)
def test_look_with_another_number_is_told_and_changes_nothing(
        one, redis, when):
    WHEN[when](one, redis)
    before = redis.command("GET", "snib:epoch")
    for words in LOOKS:
        told = snib(redis.url + "?recovery=300m", *words.split())
        said = told.stderr + told.stdout
        assert "recovery=3s, this URL says 18000s: write 3s here" in said, words
        assert redis.command("GET", "snib:epoch") == before, words


def test_look_with_the_right_number_moves_no_end(one, redis, sure):
    begin_anew(one, redis)
    before = redis.command("GET", "snib:epoch")
    for words in LOOKS:
        snib(sure, *words.split())
    assert redis.command("GET", "snib:epoch") == before


@pytest.mark.parametrize("when", WHEN)
def test_longer_number_that_was_never_served_locks_out_nobody(
        one, redis, drivers, when):
    WHEN[when](one, redis)
    mistyped = drivers(redis.url + "?recovery=300m")
    before = redis.command("GET", "snib:epoch")
    told = mistyped.start_acquire(mistyped.lock("n")).answer()
    assert told.err == "CONFIG", told
    assert "recovery=3s, this URL says 18000s: write 3s here" in told.text
    assert redis.command("GET", "snib:epoch") == before
    one.acquire(one.lock("n", lease_ms=LEASE_MS), wait_ms=20000).release()


def test_number_is_changed_on_purpose(one, redis, drivers):
    """As the error says."""
    longer = redis.url + "?recovery=4s"
    assert "delete snib:epoch" in snib(longer, "try", "-t", "1s", "n").stderr
    one.kill()
    redis.command("DEL", "snib:epoch")
    other = drivers(longer)
    other.acquire(other.lock("n", lease_ms=3500), wait_ms=20000).release()
    assert redis.command("GET", "snib:epoch").split()[2] == b"4000"


def test_who_was_served_with_a_longer_number_is_heard_though_it_holds_nothing(
        one, redis, drivers):
    """Others may hold by it, and not be heard of."""
    short = drivers(redis.url + "?recovery=1s")
    redis.command("FLUSHALL")
    assert short.try_acquire(short.lock("n", lease_ms=800)).err == "BUSY"
    assert redis.command("GET", "snib:epoch").split()[2] == b"1000"
    assert one.try_acquire(one.lock("n", lease_ms=800)).err == "BUSY"
    assert redis.command("GET", "snib:epoch").split()[2] == b"3000"


def test_nobody_is_let_in_where_none_has_begun(redis, sure):
    """A script that comes behind a look does nothing."""
    snib(sure, "status", "n")
    for kind in 0, 1:
        with pytest.raises(RedisError, match="SNIBEPOCH"):
            poll_again(redis, b"c" * 32, b"d" * 32, kind)
    assert redis.command("KEYS", "*") == [b"snib:layout"]


def test_who_waits_without_wanting_it_hears_when_nobody_can_hold_it(
        redis, sure):
    begun = time.monotonic()
    assert snib(sure, "wait", "n").returncode == 0
    assert RECOVERY - 0.1 < time.monotonic() - begun < 2 * RECOVERY
    assert redis.command("EXISTS", "snib:epoch") == 0


def test_status_and_why_say_that_none_has_begun(redis, sure):
    shown = snib(sure, "status", "n").stdout
    assert shown.startswith(
        "n: nothing new is granted for 3s from when the first asks: "), shown
    told = json.loads(snib(sure, "status", "--json", "n").stdout)
    assert told["recovery"] == {"left_ms": 3000, "begun": False}
    shown = snib(sure, "why", "n").stdout
    assert "for 3s from when the first asks: the server was\n" in shown, shown


# -- who looks without it ------------------------------------------------------


def test_look_without_it_is_told_that_nothing_new_is_granted(one, redis):
    """It said "free" of what nobody can get."""
    held = one.acquire(one.lock("held", lease_ms=2900))
    begin_anew(one, redis)
    shown = snib(redis.url, "status", "n").stdout
    assert shown.startswith("n: nothing new is granted for "), shown
    assert " more: " in shown, shown
    told = json.loads(snib(redis.url, "status", "--json", "n").stdout)
    assert 0 < told["recovery"]["left_ms"] <= 1000 * RECOVERY
    row, = json.loads(snib(redis.url, "list", "--json").stdout)["locks"]
    assert row["name"] == "held"
    assert 0 < row["recovery"]["left_ms"] <= 1000 * RECOVERY
    shown = snib(redis.url, "why", "n").stdout
    assert "n: nobody that the server knows of.\n" in shown, shown
    assert "  Nothing new is granted for " in shown, shown
    assert snib(redis.url, "wait", "-w", "0", "n").returncode == 75
    assert snib(redis.url, "wait", "n").returncode == 0
    assert is_open(redis)
    assert snib(redis.url, "status", "n").stdout == "n: free\n"
    held.release()


def test_look_without_it_is_told_that_one_is_to_begin(one, redis):
    redis.restart(data="kept")
    shown = snib(redis.url, "status", "n").stdout
    assert "for 3s from when the first asks: " in shown, shown


@pytest.mark.parametrize("words", [words for words in LOOKS
                                   if words != "store ready"])
def test_look_without_it_is_not_refused(one, redis, words):
    """The numbers of a semaphore and a latch were."""
    told = snib(redis.url, *words.split())
    if words != "doctor":  # which says that who wants a lock is
        assert "use it here, too" not in told.stdout + told.stderr, told
        assert told.returncode != 78, told
    assert snib(redis.url, "semaphore", "--set", "3", "n").returncode == 78


def test_look_without_it_at_a_server_without_it_says_free(redis):
    assert snib(redis.url, "status", "n").stdout == "n: free\n"


@pytest.mark.parametrize("rights", [["~snib:{*", "~snib:layout", "~snib:m"],
                                    ["~*", "-info"]])
def test_user_who_may_not_see_the_epoch_looks_all_the_same(one, redis, rights):
    redis.command("ACL", "SETUSER", "a", "on", ">b", "&*", "+@all", *rights)
    url = redis.url.replace("redis://", "redis://a:b@")
    begin_anew(one, redis)
    shown = snib_env(url, "status", "n")
    assert shown.returncode == 0, shown
    assert ("nothing new" in shown.stdout) == ("-info" in rights), shown


def snib_env(url, *words):
    """A URL with a password is no argument."""
    return subprocess.run([os.environ["SNIB_BIN"], *words],
                          env={**os.environ, "SNIB_URL": url},
                          capture_output=True, text=True, timeout=30)
