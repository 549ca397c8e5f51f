"""§4.3: states of the server (F-070 … F-103), as far as no other suite shows
them."""

import os
import shutil

import pytest

from conftest import ms_since
from harness.pulse import late_ms
from harness.checks import Rising, with_login
from harness.redis_server import RedisError, redis_missing
from harness.wait import boot_ns, stays, wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


@pytest.mark.parametrize("mode", ["WRITE", "ALL"])
def test_F_071_client_pause_makes_calls_wait_and_then_finish(
        redis, drivers, clean, mode):
    one = drivers(redis.url)
    grant = one.acquire(one.lock("n", lease_ms=5000), wait_ms=2000)
    redis.command("CLIENT", "PAUSE", 500, mode)
    begun = boot_ns()
    other = one.acquire(one.lock("m"), wait_ms=5000)
    assert 400 < ms_since(begun) < 1500 + late_ms()
    assert grant.status().held
    other.release()
    grant.release()


def test_F_074_unkillable_script_is_waited_for_and_ends_with_the_server(
        redis_with, drivers):
    redis = redis_with("busy-reply-threshold 50")
    one = drivers(redis.url, request_ms=500)
    grant = one.acquire(one.lock("n", lease_ms=1500))
    with redis.client(timeout=20) as busy:
        busy.send("EVAL", "redis.call('SET', KEYS[1], 1, 'PX', 1000)"
                  " while true do end", 1, "x")

        def word():
            try:
                redis.command("SCRIPT", "KILL")
            except RedisError as error:
                return error.word
            return ""
        wait_until(lambda: word() == "UNKILLABLE", 5, "UNKILLABLE")
        answer = one.start_acquire(one.lock("m"), on="b",
                                   wait_ms=300).answer()
        assert not answer.ok and answer.took_ms < 500 + late_ms(), answer
        told = one.wait_event("change", ticket=grant.ticket, state="lost")
        assert told.reason in ("unreachable", "expired", "paused")
        redis.kill()
    redis.start()
    grant.start_release().answer()
    again = one.acquire("n", wait_ms=5000)
    assert again.token > grant.token
    again.release()


def test_F_076_stale_replica_is_never_asked_for_the_truth(
        redis, drivers, clean):
    """Its master is down and it says so: MASTERDOWN."""
    one = drivers(redis.url)
    grant = one.acquire(one.lock("n", lease_ms=10000))
    redis.command("CONFIG", "SET", "replica-serve-stale-data", "no")
    redis.command("REPLICAOF", "127.0.0.1", 1)
    answer = one.start_acquire(one.lock("m"), wait_ms=300).answer()
    assert answer.err in ("STORE", "UNREACHABLE") and answer.exit == 69
    look = one.ask("inspect", client="c", name="n")
    assert not look.ok
    redis.command("REPLICAOF", "NO", "ONE")
    one.acquire("m", wait_ms=5000).release()
    grant.release()


@pytest.mark.parametrize("how", ["SWAPDB 0 1", "MOVE snib:{n} 1"])
def test_F_090_moved_data_is_told_and_the_token_rises(
        redis, drivers, how):
    one, two = drivers(redis.url), drivers(redis.url)
    grant = one.acquire(one.lock("n", lease_ms=1200))
    redis.command(*how.split())
    told = one.wait_event("change", ticket=grant.ticket, state="lost")
    assert told.reason in ("stolen", "forgotten", "expired", "paused")
    taken = two.acquire(two.lock("n"), wait_ms=3000)
    assert taken.token > grant.token
    grant.start_release().answer()
    taken.release()


def test_F_090_another_database_is_another_store(redis, drivers, clean):
    one, two = drivers(redis.url), drivers(redis.url + "/1")
    grant = one.acquire(one.lock("n"))
    other = two.acquire(two.lock("n"), wait_ms=1000)
    other.release()
    grant.release()


def test_F_094_rotated_password_is_told_and_not_hammered(
        redis, proxy, drivers, clean):
    redis.command("ACL", "SETUSER", "app", "on", ">old", "~snib:*",
                  "allchannels", "+@all")
    one = drivers(with_login(proxy.url, "app", "old"))
    grant = one.acquire(one.lock("n", lease_ms=1500))
    redis.command("ACL", "SETUSER", "app", ">new", "<old")
    # Whoever is in stays in.
    stays(lambda: grant.status().held, 1.6, "open connections go on")
    mark = proxy.mark()
    redis.command("CLIENT", "KILL", "USER", "app")
    begun = boot_ns()
    told = one.wait_event("change", ticket=grant.ticket, state="lost")
    assert ms_since(begun, told.at) <= 1500 + late_ms()
    answer = one.start_acquire(one.lock("m"), wait_ms=2000).answer()
    assert answer.err == "DENIED" and answer.exit == 77
    assert proxy.count(command="AUTH", since=mark) <= 4
    assert "old" not in answer.text.replace("hold", "")
    grant.start_release().answer()


def test_F_095_protected_mode_is_told_in_the_servers_words(
        proxy, drivers):
    text = (b"-DENIED Redis is running in protected mode because protected"
            b" mode is enabled and no password is set\r\n")
    one = drivers(proxy.url)
    with proxy.greet(text):
        answer = one.start_acquire(one.lock("n"), wait_ms=400).answer()
    assert answer.err in ("STORE", "UNREACHABLE", "DENIED"), answer
    assert "protected mode" in answer.text


def test_F_101_without_config_info_script_and_wait_it_works(
        redis_with, drivers, look):
    """What managed services take away."""
    redis = redis_with(*(f'rename-command {word} ""' for word in (
        "CONFIG", "INFO", "SCRIPT", "WAIT", "DEBUG", "CLIENT", "SCAN")))
    one, two = drivers(redis.url), drivers(redis.url)
    held = one.acquire(one.lock("n"))
    waiting = two.start_acquire(two.lock("n"), wait_ms=8000)
    look(redis.url).wait_waiters("n", 1)
    held.release()
    taken = waiting.wait()
    assert taken.token > held.token
    taken.release()
    assert one.ask("doctor", client="c").findings


def test_F_103_token_rises_over_a_dump_of_yesterday(
        redis_with, drivers, tmp_path):
    redis = redis_with()
    one, two = drivers(redis.url, request_ms=500), drivers(redis.url)
    rising = Rising()
    for driver in (one, two):
        driver.lock("n")
    for driver in (one, two):
        grant = driver.acquire("n", wait_ms=3000)
        rising(grant.token)
        grant.release()
    redis.command("SAVE")
    dump = os.path.join(redis.dir, "dump.rdb")
    shutil.copy(dump, tmp_path / "old.rdb")
    for driver in (one, two, one):
        grant = driver.acquire("n", wait_ms=3000)
        rising(grant.token)
        grant.release()
    redis.kill()
    shutil.copy(tmp_path / "old.rdb", dump)
    redis.start()
    for driver in (two, one):
        grant = driver.acquire("n", wait_ms=5000)
        rising(grant.token)
        grant.release()
