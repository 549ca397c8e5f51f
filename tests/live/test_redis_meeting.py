"""How a client meets its server: who answers there, who does not, and what
the caller is told by when. Locks live on a primary; who waits for a store waits
as for a lock, until its own limit.
"""

import os
import subprocess
import time

import pytest

from harness.checks import LAYOUT, holders
from harness.pulse import late_ms
from harness.ports import free_port
from harness.redis_server import RedisServer, redis_missing
from harness.wait import wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

WRITABLE = ("replica-read-only no",)


@pytest.fixture
def replica(redis, redis_with):
    """A replica of `redis` that may be written to, in step."""
    redis.command("CONFIG", "SET", "repl-diskless-sync-delay", "0")
    made = redis_with(*WRITABLE, f"replicaof 127.0.0.1 {redis.port}")
    made.wait_for(lambda s: s.command("ROLE")[3] == b"connected",
                  what="the replica is in step")
    return made


def is_replica(text, replica, redis):
    assert text.startswith(f"127.0.0.1:{replica.port} is a replica of "
                           f"127.0.0.1:{redis.port}; locks live on the primary")


def test_writable_replica_grants_nothing(drivers, redis, replica):
    one, two = drivers(redis.url), drivers(replica.url)
    grant = one.acquire(one.lock("n"))
    answer = two.try_acquire(two.lock("n"))
    assert answer.err == "UNREACHABLE"
    is_replica(answer.text, replica, redis)
    assert answer.took_ms < 1000 + late_ms(), "told at once"
    assert two.try_acquire(two.lock("free")).err == "UNREACHABLE"
    assert replica.command("EXISTS", "snib:{free}") == 0
    grant.release()


@pytest.mark.parametrize("verb, more", [
    ("inspect", {"name": "n"}), ("list", {}), ("doctor", {}),
    ("force_release", {"name": "n"})])
def test_replica_is_not_asked_about_locks_either(drivers, redis, replica,
                                                 verb, more):
    one = drivers(replica.url)
    answer = one.ask(verb, client="c", **more)
    assert answer.err == "UNREACHABLE"
    is_replica(answer.text, replica, redis)
    assert answer.took_ms < 1000 + late_ms()


def test_who_waits_gets_the_lock_when_the_replica_is_promoted(
        drivers, redis, replica):
    two = drivers(replica.url)
    waiting = two.start_acquire(two.lock("n"), wait_ms=20000)
    wait_until(lambda: any("is a replica of" in line for line in two.logs()),
               5, "it has met the replica")
    assert not waiting.done()
    redis.kill()
    replica.command("REPLICAOF", "NO", "ONE")
    waiting.wait().release()


def test_limit_of_who_waits_names_the_replica(drivers, redis, replica):
    two = drivers(replica.url)
    answer = two.start_acquire(two.lock("n"), wait_ms=700).answer()
    assert answer.err == "UNREACHABLE"
    is_replica(answer.text, replica, redis)
    assert 695 <= answer.took_ms < 1500 + late_ms()


def test_server_that_becomes_a_replica_later(drivers, redis, redis_with):
    other = redis_with()
    one = drivers(redis.url)
    one.acquire(one.lock("n")).release()
    redis.command("REPLICAOF", "127.0.0.1", str(other.port))
    answer = one.try_acquire(one.lock("n"))
    assert answer.err == "UNREACHABLE"
    is_replica(answer.text, redis, other)
    assert answer.took_ms < 1500 + late_ms()
    waiting = one.start_acquire(one.lock("m"), on="waits", wait_ms=20000)
    redis.command("REPLICAOF", "NO", "ONE")
    waiting.wait().release(on="waits")


def test_waiter_in_the_queue_of_a_server_that_becomes_a_replica(
        drivers, redis, redis_with):
    other = redis_with()
    one, two = drivers(redis.url), drivers(redis.url)
    one.acquire(one.lock("n", lease_ms=60000))
    behind = two.lock("behind")
    waiting = two.start_acquire(two.lock("n"), wait_ms=3500)
    redis.wait_for(lambda s: s.connections(channels=True) == 1,
                   what="the waiter subscribed")
    redis.command("REPLICAOF", "127.0.0.1", str(other.port))
    answer = waiting.answer()
    assert answer.err == "UNREACHABLE", "not TIMEOUT: what was asked is not known"
    assert "is a replica of" in answer.text
    assert 3490 <= answer.took_ms < 4500 + late_ms()


def test_cluster_is_refused_in_words(drivers, redis_with):
    node = redis_with("cluster-enabled yes", f"cluster-port {free_port()}")
    one = drivers(node.url)
    answer = one.start_acquire(one.lock("n"), wait_ms=20000).answer()
    assert answer.err == "CONFIG"
    assert "Redis Cluster" in answer.text
    assert answer.took_ms < 2000 + late_ms()


def test_server_without_hello_is_refused_by_version(drivers, redis_with):
    old = redis_with('rename-command HELLO ""')
    one = drivers(old.url)
    answer = one.start_acquire(one.lock("n"), wait_ms=20000).answer()
    assert answer.err == "CONFIG"
    assert "give the URL of Redis 6.2 or later" in answer.text
    assert answer.took_ms < 2000 + late_ms()


# -- nobody is there -------------------------------------------------------------


@pytest.fixture
def later():
    """A server that has a port and is not started yet."""
    made = RedisServer(start=False)
    made.start()
    made.kill()
    yield made
    made.close()


def test_server_that_starts_after_its_client(drivers, later):
    one = drivers(later.url, request_ms=300)
    one.lock("n"), one.lock("m")
    waiting = one.start_acquire("n", wait_ms=20000)
    forever = one.start_acquire("m", on="two")
    began = time.monotonic()
    wait_until(lambda: time.monotonic() > began + 0.7, 5,
               "more than twice the patience for an answer")
    assert not waiting.done() and not forever.done()
    later.start()
    waiting.wait().release()
    forever.wait().release(on="two")


def test_limit_says_why_nobody_was_reached(drivers, later):
    one = drivers(later.url, request_ms=300)
    answer = one.start_acquire(one.lock("n"), wait_ms=900).answer()
    assert answer.err == "UNREACHABLE"
    assert "Connection refused" in answer.text
    assert 895 <= answer.took_ms < 1500 + late_ms()


def test_try_and_look_end_with_their_first_attempt(drivers, later):
    one = drivers(later.url, request_ms=5000)
    for answer in (one.try_acquire(one.lock("n")),
                   one.ask("inspect", client="c", name="n"),
                   one.ask("list", client="c")):
        assert answer.err == "UNREACHABLE"
        assert "Connection refused" in answer.text
        assert answer.took_ms < 2500 + late_ms()


def test_name_that_does_not_resolve_ends_at_once(drivers):
    one = drivers("redis://no-such-host.invalid:6379")
    answer = one.start_acquire(one.lock("n"), wait_ms=30000).answer(20)
    assert answer.err == "UNREACHABLE"
    assert "no-such-host.invalid" in answer.text
    assert answer.took_ms < 15000 + late_ms()


def test_refused_login_ends_who_waits_for_ever(drivers, redis):
    redis.command("CONFIG", "SET", "requirepass", "geheim")
    one = drivers(redis.url)
    answer = one.start_acquire(one.lock("n")).answer()
    assert answer.err == "DENIED"
    assert answer.took_ms < 2000 + late_ms()


# -- while it waits in the queue ---------------------------------------------------


def in_queue(drivers, redis, **options):
    one, two = drivers(redis.url), drivers(redis.url, request_ms=1000)
    one.acquire(one.lock("n", lease_ms=60000))
    behind = two.lock("behind")
    waiting = two.start_acquire(two.lock("n"), **options)
    redis.wait_for(lambda s: s.command("ZCARD", "snib:{n}:q") == 1,
                   what="it stands in the queue")
    # Answers come in order: it knows its place when the next one is there.
    # Before that, what a server takes with it leaves the outcome UNKNOWN.
    two.acquire(behind, on="another").release()
    return waiting


def test_login_refused_while_waiting_is_told_at_once(drivers, redis):
    waiting = in_queue(drivers, redis)
    with redis.client() as admin:
        admin.command("CONFIG", "SET", "requirepass", "geheim")
        admin.command("CLIENT", "KILL", "TYPE", "normal")
        admin.command("CLIENT", "KILL", "TYPE", "pubsub")
    killed = time.monotonic()
    answer = waiting.answer()
    assert answer.err == "DENIED"
    assert answer.text.startswith("NOAUTH: the server asks for a login: ")
    assert answer.text.endswith(")"), "not cut"
    assert time.monotonic() - killed < 5
    redis.login("geheim")


def test_server_killed_while_waiting_is_the_cause_at_the_limit(drivers, redis):
    waiting = in_queue(drivers, redis, wait_ms=3000)
    redis.kill()
    answer = waiting.answer()
    assert answer.err == "UNREACHABLE"
    assert "connection refused" in answer.text
    assert 2990 <= answer.took_ms < 3500 + late_ms()


def test_server_frozen_while_waiting_is_the_cause_at_the_limit(drivers, redis):
    waiting = in_queue(drivers, redis, wait_ms=4000)
    redis.freeze()
    answer = waiting.answer()
    assert answer.err == "UNREACHABLE"
    assert "answer" in answer.text
    assert 3990 <= answer.took_ms < 4500 + late_ms()
    redis.thaw()


def test_client_of_a_dead_server_is_freed_within_one_patience(drivers, redis):
    one = drivers(redis.url, request_ms=1000)
    for name in ("a", "b", "c"):
        one.acquire(one.lock(name, lease_ms=60000))
    waits = one.start_acquire(one.lock("d"), on="other", wait_ms=100)
    redis.freeze()
    waits.answer()
    freed = one.ask("free", id="c")
    assert freed.took_ms < 1500 + late_ms()
    redis.thaw()


# -- the layout ------------------------------------------------------------------


OTHER = ("the locks of this server have layout 3, this snib knows 2; use the "
         "newer snib everywhere, or delete the key snib:layout when nobody "
         "uses them")
YEAR_MS = 365 * 86_400_000


def test_the_number_of_the_layout_is_written_by_who_comes_first(drivers, redis):
    """And again, by who connects after it was lost; who is connected already
    goes on."""
    one = drivers(redis.url)
    grant = one.acquire(one.lock("n"))
    for _ in range(2):
        assert redis.command("GET", LAYOUT) == b"2"
        assert YEAR_MS - 60_000 < redis.command("PTTL", LAYOUT) <= YEAR_MS
        redis.command("DEL", LAYOUT)
        assert redis.command("EXISTS", LAYOUT) == 0
        two = drivers(redis.url)
        two.acquire(two.lock("m")).release()
    assert grant.status().held
    grant.release()


@pytest.mark.parametrize("verb, more", [
    ("inspect", {"name": "n"}), ("list", {}), ("doctor", {}),
    ("force_release", {"name": "n"})])
def test_locks_of_another_layout_are_not_looked_at(drivers, redis, verb, more):
    redis.command("SET", LAYOUT, "3", "PX", 60000)
    one = drivers(redis.url)
    answer = one.ask(verb, client="c", **more)
    assert (answer.err, answer.text) == ("CONFIG", OTHER)
    assert answer.took_ms < 1000


def test_locks_of_another_layout_are_not_taken(drivers, redis):
    redis.command("SET", LAYOUT, "3", "PX", 60000)
    one = drivers(redis.url)
    for wait_ms in (0, 5000):
        answer = one.start_acquire(one.lock("n"), wait_ms=wait_ms).answer()
        assert (answer.err, answer.text) == ("CONFIG", OTHER)
        assert answer.took_ms < 1000, "told at once"
    assert list(redis.keys()) == [LAYOUT]
    assert redis.command("GET", LAYOUT) == b"3"


def test_a_user_of_some_keys_only_is_not_told_the_layout_and_works(
        drivers, redis):
    redis.command("ACL", "SETUSER", "team", "reset", "on", ">p", "~snib:{team-a.*",
                  "&*", "+@all")
    one = drivers(redis.url.replace("://", "://team:p@"))
    one.acquire(one.lock("team-a.n")).release()
    assert redis.command("EXISTS", LAYOUT) == 0
    redis.command("ACL", "SETUSER", "team", "~snib:layout")
    two = drivers(redis.url.replace("://", "://team:p@"))
    two.acquire(two.lock("team-a.n")).release()
    assert redis.command("GET", LAYOUT) == b"2"


# -- the command line -------------------------------------------------------------


def test_command_does_not_run_by_the_word_of_a_replica(
        redis, replica, tmp_path):
    ran = tmp_path / "ran"
    done = subprocess.run(
        [os.environ["SNIB_BIN"], "run", "-s", replica.url, "-w", "0", "n", "--", "touch",
         str(ran)], capture_output=True, text=True, timeout=20)
    assert done.returncode == 69
    assert "is a replica of" in done.stderr
    assert "does the server run" not in done.stderr
    assert not ran.exists()
    assert not holders(replica, "n")
