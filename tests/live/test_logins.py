"""Logins that the program gives: passwords that change and tokens that end while
a client holds locks and waits for them.
"""

import os

import pytest

from harness.pulse import late_ms
from harness.redis_server import redis_missing
from harness.wait import wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

RIGHTS = ("on", "resetpass", "~*", "&*", "+@all")


class Logins:
    """The file from which a driver's process takes each login."""

    def __init__(self, path):
        self.path = str(path)

    def give(self, user, password, valid_ms=0, sleep_ms=0):
        self._write(f"{user} {password} {valid_ms} {sleep_ms}")

    def refuse(self, error, text):
        self._write(f"{error} {text}")

    def _write(self, line):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(line + "\n")
        os.replace(self.path + ".new", self.path)


@pytest.fixture
def logins(tmp_path):
    return Logins(tmp_path / "login")


@pytest.fixture
def anna(redis):
    """anna(password): the only one by which she is let in from now on; nobody
    else is."""
    def let_in(password):
        redis.command("ACL", "SETUSER", "anna", *RIGHTS, f">{password}")
    let_in("one")
    redis.command("ACL", "SETUSER", "default", "resetpass", ">operator")
    redis.login("operator")
    yield let_in


def given(driver, second, **fields):
    """The events of logins with that password."""
    return driver.events("login", second=second, **fields)


def wait_given(driver, second, count=1, **fields):
    wait_until(lambda: len(given(driver, second, **fields)) >= count, 10,
               f"{count} logins by {second}")


def end_connections(redis, user="anna"):
    redis.command("CLIENT", "KILL", "USER", user)


def test_each_connection_logs_in_and_the_program_hears_where(
        drivers, redis, anna, logins):
    logins.give("anna", "one")
    one = drivers(redis.url, login=logins.path)
    one.acquire(one.lock("n")).release()
    asked = one.wait_event("login")
    assert (asked.address, asked.host, asked.port, asked.refused) == (
        f"127.0.0.1:{redis.port}", "127.0.0.1", redis.port, False)
    other = drivers(redis.url, login=logins.path)
    held = other.acquire(other.lock("n"))
    waiting = one.start_acquire(one.lock("n"), on="two")
    redis.wait_for(lambda s: any(c["sub"] == "1" for c in s.clients()))
    held.release()
    waiting.wait().release(on="two")
    users = {c["user"] for c in redis.clients() if c["cmd"] not in ("client|list", "client")}
    assert users == {"anna"}


def test_password_of_the_server_changes_under_a_holder_and_a_waiter(
        drivers, redis, anna, logins, clean):
    """The server ends all connections, and lets nobody in by the old one."""
    logins.give("anna", "one")
    one, two = (drivers(redis.url, login=logins.path, request_ms=1000)
                for _ in range(2))
    held = one.acquire(one.lock("n", lease_ms=1500))
    waiting = two.start_acquire(two.lock("n"), on="waits")
    redis.wait_for(lambda s: any(c["sub"] == "1" for c in s.clients()))
    for password in ("two", "three", "four"):
        anna(password)
        logins.give("anna", password)
        end_connections(redis)
        wait_given(one, password)
        wait_given(two, password)
        wait_until(lambda: held.status().left_ms > 800, 10,
                   "the lease is renewed by the new login")
    assert not waiting.done()
    assert held.status().held and not one.events("change", state="lost")
    held.release()
    waiting.wait().release(on="waits")


def test_default_users_password_changes(drivers, redis, logins, clean):
    redis.command("CONFIG", "SET", "requirepass", "one")
    redis.login("one")
    logins.give("default", "one")
    one = drivers(redis.url, login=logins.path)
    held = one.acquire(one.lock("n", lease_ms=1500))
    redis.command("CONFIG", "SET", "requirepass", "two")
    redis.login("two")
    logins.give("default", "two")
    redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_given(one, "two")
    wait_until(lambda: held.status().left_ms > 800, 10, "it is renewed")
    assert not one.events("change", state="lost")
    held.release()


def test_old_login_is_refused_once_and_asked_for_anew(
        drivers, redis, anna, logins, clean):
    """The program still gives the old one when the server has the new one."""
    logins.give("anna", "one")
    one = drivers(redis.url, login=logins.path)
    held = one.acquire(one.lock("n", lease_ms=6000))
    anna("two")
    logins.give("anna", "one", sleep_ms=1000)
    end_connections(redis)
    wait_until(lambda: len(given(one, "one")) >= 2, 10, "it is asked anew")
    logins.give("anna", "two")
    wait_given(one, "two", refused=True)
    wait_until(lambda: held.status().left_ms > 4500, 10, "it is renewed")
    assert not one.events("change", state="lost")
    held.release()


def test_login_that_stays_refused_is_denied(drivers, redis, anna, logins):
    logins.give("anna", "secret-w0rd")
    one = drivers(redis.url, login=logins.path)
    answer = one.try_acquire(one.lock("n"))
    assert answer.err == "DENIED"
    assert "secret-w0rd" not in answer.text
    refused = [event.refused for event in given(one, "secret-w0rd")]
    assert refused == [False, True]


def test_login_is_renewed_before_its_time_is_over(
        drivers, redis, anna, logins, clean):
    """No connection is made anew (one is opened to what has been held for a
    second), and a grant is pushed to the waiter."""
    logins.give("anna", "one", valid_ms=1000)
    one, two = (drivers(redis.url, login=logins.path) for _ in range(2))
    held = one.acquire(one.lock("n", lease_ms=20000))
    waiting = two.start_acquire(two.lock("n"), on="waits")
    redis.wait_for(lambda s: sum(c["sub"] == "1" for c in s.clients()) == 2)
    before = {c["id"] for c in redis.clients() if c["user"] == "anna"}
    redis.command("ACL", "SETUSER", "berta", *RIGHTS, ">two")
    logins.give("berta", "two", valid_ms=1000)
    redis.wait_for(lambda s: all(c["user"] == "berta" for c in s.clients()
                                 if c["id"] in before), 10)
    now = {c["id"]: c for c in redis.clients() if c["user"] == "berta"}
    assert set(now) >= before
    assert sum(c["sub"] == "1" for c in now.values()) == 2
    assert not waiting.done()
    end_connections(redis, "anna")
    held.release()
    waiting.wait(3).release(on="waits")


def test_many_renewals_lose_no_wake_up(
        drivers, redis, anna, logins, clean, tmp_path):
    """Logins of 150 ms, and grants that go back and forth."""
    logins.give("anna", "one", valid_ms=150)
    one, two = (drivers(redis.url, login=logins.path) for _ in range(2))
    jobs = [driver.start("count", lock=driver.lock("n", lease_ms=10000),
                         path=tmp_path / "count", rounds=300, hold_us=2000,
                         on="t")
            for driver in (one, two)]
    for job in jobs:
        done = job.wait(60)
        assert (done.done, done.fallen_tokens) == (300, 0)
        assert done.longest_wait_ms < 900 + late_ms(), "no poll found a grant"
    for driver in (one, two):
        assert len(given(driver, "one")) > 10


def test_program_that_has_no_login_is_waited_for(
        drivers, redis, anna, logins, clean):
    logins.refuse("STORE", "tokens-are-down")
    one = drivers(redis.url, login=logins.path)
    answer = one.try_acquire(one.lock("n"))
    assert (answer.err, answer.text) == (
        "UNREACHABLE",
        f"no login for 127.0.0.1:{redis.port}: tokens-are-down")
    waiting = one.start_acquire(one.lock("n"), on="two", wait_ms=20000)
    wait_until(lambda: len(one.events("login")) > 3, 10, "it is asked again")
    logins.give("anna", "one")
    waiting.wait().release(on="two")
    logins.refuse("DENIED", "go-away")
    other = drivers(redis.url, login=logins.path)
    answer = other.start_acquire(other.lock("n"), wait_ms=20000).answer()
    assert answer.err == "DENIED"
    assert answer.text.endswith(": go-away")


def test_program_that_takes_its_time_delays_no_limit(
        drivers, redis, anna, logins):
    logins.give("anna", "one", sleep_ms=4000)
    one = drivers(redis.url, login=logins.path, request_ms=300)
    answer = one.start_acquire(one.lock("n"), wait_ms=700).answer()
    assert answer.err == "UNREACHABLE"
    assert 690 < answer.took_ms < 2500
    assert answer.text.startswith("no login for 127.0.0.1:") or (
        answer.text.startswith("store unreachable")), answer.text


def test_quorum_logs_in_to_each_server(drivers, redis_with, logins):
    nodes = [redis_with() for _ in range(3)]
    for node in nodes:
        node.command("CONFIG", "SET", "requirepass", "one")
        node.login("one")
    logins.give("default", "one", valid_ms=1000)
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    one = drivers(f"redlock://{hosts}", login=logins.path)
    held = one.acquire(one.lock("n", lease_ms=2000), wait_ms=5000)
    ports = {node.port for node in nodes}
    assert {event.port for event in given(one, "one")} == ports
    for node in nodes:
        node.command("CONFIG", "SET", "requirepass", "two")
        node.login("two")
    logins.give("default", "two", valid_ms=1000)
    for node in nodes:
        node.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_until(lambda: {event.port for event in given(one, "two")} == ports,
               10, "each server gets the new login")
    wait_until(lambda: held.status().left_ms > 1200, 10, "it is renewed")
    assert not one.events("change", state="lost")
    held.release()
