"""Versioned values on a real server: the scripts by hand, and the library
through lost replies, late copies, foreign keys and a full server.

What every store does is in tests/conformance/value.c.
"""

import hashlib
import os
import random
import re

import pytest

from harness.pulse import late_ms
from harness.redis_server import redis_missing
from harness.resp import RedisError
from harness.wait import wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
DAY = 86_400_000
V, U = "snib:{n}:v", "snib:{n}:u"
DONE, NO, LATE, FORGOTTEN = 1, 0, 4, 5
CHANGES = 8
LOST_REPLY = ["rst", "fin", "silence"]


def script_text(name):
    path = os.path.join(ROOT, "src", "store", "redis", "scripts", name + ".lua")
    with open(path, encoding="utf-8") as file:
        return re.sub(r"\n[ \t]*--[^\n]*", "", "\n" + file.read())


class Scripts:
    """value_put.lua and value_get.lua, as the library calls them."""

    def __init__(self, server):
        self.talk = server.client()
        self.text = {n: script_text(n) for n in ("value_get", "value_put")}
        for text in self.text.values():
            self.talk.command("SCRIPT", "LOAD", text)
        self.ids = iter(range(1, 1 << 30))

    def run(self, name, keys, *args):
        sha = hashlib.sha1(self.text[name].encode()).hexdigest()
        return self.talk.command("EVALSHA", sha, len(keys), *keys, *args)

    def now(self):
        s, us = self.talk.command("TIME")
        return int(s) * 1000 + int(us) // 1000

    def get(self):
        version, value = self.run("value_get", [V])
        return version, value

    def put(self, expected, value=b"x", request=None, keep=60000, again=0,
            age=0, not_after=None, floor=0):
        self.request = request or f"{next(self.ids):032x}"
        if not_after is None:
            not_after = self.now() + 9900
        reply = self.run("value_put", [V, U], self.request, expected, keep,
                         again, age, not_after, floor, value)
        assert abs(reply[1] - self.now()) < 5000
        return [reply[0], *reply[2:]]

    def delete(self, expected, **more):
        return self.put(expected, b"", keep=0, **more)


@pytest.fixture
def scripts(redis):
    return Scripts(redis)


# -- the scripts ----------------------------------------------------------------


def test_put_get_delete(scripts, redis):
    assert scripts.get() == (0, b"")
    code, first = scripts.put(0, b"a\0\r\n\xff")
    assert code == DONE and first >= (scripts.now() - 5000) * 1024
    assert scripts.get() == (first, b"a\0\r\n\xff")
    assert scripts.put(0) == [NO, first]
    assert scripts.put(first + 1) == [NO, first]
    code, second = scripts.put(first, b"b")
    assert code == DONE and second > first
    assert scripts.delete(first) == [NO, second]
    assert scripts.delete(second) == [DONE, 0]
    assert scripts.get() == (0, b"")
    assert scripts.delete(second) == [NO, 0]
    code, third = scripts.put(0)
    assert code == DONE and third > second


def test_every_key_has_a_time_to_live(scripts, redis):
    _, version = scripts.put(0, keep=5000)
    assert 4000 < redis.command("PTTL", V) <= 5000
    assert DAY < redis.command("PTTL", U) <= DAY + 5000
    scripts.put(version, keep=30 * DAY)
    assert 29 * DAY < redis.command("PTTL", V) <= 30 * DAY
    _, version = scripts.put(scripts.get()[0], keep=1000)
    assert 0 < redis.command("PTTL", V) <= 1000
    # The memory does not get shorter: what it knows may be asked for.
    assert 30 * DAY < redis.command("PTTL", U) <= 31 * DAY
    scripts.delete(version)
    assert redis.command("EXISTS", V) == 0
    assert 30 * DAY < redis.command("PTTL", U) <= 31 * DAY


def test_versions_rise_through_loss_of_either_key(scripts, redis):
    _, version = scripts.put(0)
    last = version
    for key in (V, U, V, U):
        redis.command("DEL", key)
        # Of the same millisecond as a forgotten change a new one is taken for
        # its late copy, and has to be sent again.
        while scripts.now() <= last // 1024:
            pass
        code, version = scripts.put(0 if key == V else last)
        assert code == DONE and version > last
        last = version
    redis.command("FLUSHALL")
    Scripts(redis)
    # Nothing is known; the floor that a client brings is.
    code, version = scripts.put(0, floor=last + 10_000_000)
    assert code == DONE and version == last + 10_000_001


def test_a_floor_of_another_age_is_refused(scripts):
    with pytest.raises(RedisError, match="SNIBFLOOR"):
        scripts.put(0, floor=(scripts.now() + 2 * DAY) * 1024)


def test_a_repeat_is_told_what_the_first_copy_did(scripts):
    _, first = scripts.put(0, b"mine")
    mine = scripts.request
    _, second = scripts.put(first, b"theirs")
    assert scripts.put(0, b"mine", request=mine, again=1) == [DONE, first]
    assert scripts.get() == (second, b"theirs")
    assert scripts.delete(second) == [DONE, 0]
    mine = scripts.request
    scripts.put(0, b"new")
    assert scripts.delete(second, request=mine, again=1) == [DONE, 0]
    assert scripts.get()[1] == b"new"


def test_a_repeat_beyond_the_memory_is_told_so(scripts):
    _, first = scripts.put(0)
    _, version = scripts.put(first)
    second = scripts.request
    for _ in range(CHANGES - 1):
        _, version = scripts.put(version)
    assert scripts.put(first, again=1) == [NO, version]
    assert scripts.put(first, request=second, again=1)[0] == DONE
    _, version = scripts.put(version)
    assert scripts.put(first, request=second, again=1) == [FORGOTTEN]
    assert scripts.put(first) == [NO, version]  # a first copy is not
    assert scripts.put(0, again=1) == [FORGOTTEN]
    # After a loss of the data nobody can say.
    scripts.talk.command("DEL", V, U)
    assert scripts.put(first, again=1) == [FORGOTTEN]


def test_a_late_copy_of_a_refused_repeat_does_nothing(scripts):
    _, there = scripts.put(0)
    assert scripts.put(0, b"ghost", again=1) == [NO, there]
    ghost = scripts.request
    scripts.delete(there)
    assert scripts.put(0, b"ghost", request=ghost) == [NO, 0]
    assert scripts.get() == (0, b"")


def test_a_late_copy_does_nothing_when_its_refusal_was_forgotten(scripts):
    sent = scripts.now()
    _, version = scripts.put(0)
    assert scripts.put(0, again=1) == [NO, version]
    ghost = scripts.request
    for _ in range(CHANGES):
        _, version = scripts.put(version)
    scripts.delete(version)
    assert scripts.put(0, b"ghost", request=ghost,
                       not_after=sent + 9900) == [LATE]
    assert scripts.get() == (0, b"")


def test_too_late_or_strange_times_do_nothing(scripts):
    assert scripts.put(0, not_after=scripts.now() - 1) == [LATE]
    assert scripts.put(0, not_after=scripts.now() + 20000) == [LATE]
    assert scripts.get() == (0, b"")


def test_the_rules_by_chance_against_a_model(scripts):
    """Random puts, deletes and repeats: each is applied at most once, and what
    is told is true. The model remembers everything."""
    rng = random.Random(4711)
    version, applied, sent, numbers = 0, {}, [], []
    for _ in range(3000):
        if sent and rng.random() < 0.3:
            request, remove, expected = rng.choice(sent[-12:])
            again = 1
        else:
            request, again = None, 0
            remove = version > 0 and rng.random() < 0.2
            expected = version if rng.random() < 0.7 else \
                rng.choice([0, *numbers[-3:]])
            remove = remove and expected > 0
        call = scripts.delete if remove else scripts.put
        reply = call(expected, request=request, again=again)
        request = scripts.request
        if not again:
            sent.append((request, remove, expected))
        if reply[0] == DONE and request in applied:
            assert reply[1] == applied[request]
        elif reply[0] == DONE:
            assert expected == version
            version = applied[request] = reply[1]
            if version:
                assert version > max(numbers, default=0)
                numbers.append(version)
        elif reply[0] == NO:
            assert request not in applied and reply[1] == version
            assert again or expected != version
            if again and expected == 0:
                # Refused for good.
                assert version != 0 or (request, remove, expected) in sent
        else:
            assert reply == [FORGOTTEN] and again
        assert scripts.get()[0] == version
    assert len(applied) > 500


@pytest.mark.parametrize("change", [
    {"request": "short"}, {"request": "g" * 32}, {"expected": "-1"},
    {"expected": "x"}, {"expected": str(2 ** 53)}, {"keep": "2592000001"},
    {"keep": "0"}, {"again": "2"}, {"age": "-1"}, {"not_after": "1e3"},
    {"floor": str(2 ** 53)}, {"value": b"x" * 65537}])
def test_bad_arguments_are_a_bug_of_the_caller(scripts, change):
    args = {"request": "0" * 32, "expected": "0", "keep": "1000", "again": "0",
            "age": "0", "not_after": str(scripts.now() + 9000), "floor": "0",
            "value": b"x", **change}
    with pytest.raises(RedisError, match="SNIBARG"):
        scripts.run("value_put", [V, U], *args.values())
    assert scripts.get() == (0, b"")


# -- the library -------------------------------------------------------------------


class Values:
    """The verbs of the driver for one name."""

    def __init__(self, driver, name="n"):
        self.driver, self.name = driver, name

    def get(self):
        answer = self.driver.call("value_get", client="c", name=self.name)
        return answer.version, answer.bytes

    def put(self, expected, text, **more):
        return self.driver.ask("value_put", client="c", name=self.name,
                               expected=expected, bytes=text, **more)

    def delete(self, expected):
        return self.driver.ask("value_delete", client="c", name=self.name,
                               expected=expected)


@pytest.fixture
def value(drivers, proxy):
    """Behind the proxy, connected, its scripts loaded; patient enough for a
    line that is cut after 600 ms of silence."""
    made = Values(drivers(proxy.url, request_ms=600))
    made.get()
    made.driver.ask("value_put", client="c", name="warm", expected=0)
    return made


@pytest.fixture
def other(drivers, redis):
    return Values(drivers(redis.url))


@pytest.mark.parametrize("then", ["rst", "fin"])
def test_put_whose_reply_is_lost_is_done_once(value, other, proxy, then):
    rule = proxy.drop_reply(script="value_put", times=1, then=then)
    answer = value.put(0, "once")
    assert answer.ok and rule.fired == 1
    assert other.get() == (answer.version, "once")
    assert proxy.count(script="value_put") >= 3  # warm-up, first, repeat


@pytest.mark.parametrize("then", ["rst", "fin"])
def test_put_that_was_lost_and_overwritten_is_still_done(
        value, other, proxy, then):
    """The repeat meets another's value; it says what became of the first."""
    rule = proxy.hold_reply(script="value_put")
    waiting = value.driver.start("value_put", client="c", name="n", expected=0,
                                 bytes="mine")
    rule.wait_fired()
    first = other.get()[0]
    second = other.put(first, "theirs").version
    rule.remove()
    proxy.cut_all(how=then)
    answer = waiting.answer()
    assert answer.ok and answer.version == first
    assert other.get() == (second, "theirs")


def test_put_whose_request_is_lost_is_done_by_the_repeat(value, other, proxy):
    rule = proxy.drop_request(script="value_put", times=1, then="rst")
    answer = value.put(0, "x")
    assert answer.ok and rule.fired == 1
    assert other.get() == (answer.version, "x")


def test_delete_whose_reply_is_lost_is_done(value, other, proxy):
    there = value.put(0, "x").version
    rule = proxy.drop_reply(script="value_put", times=1)
    assert value.delete(there).ok and rule.fired == 1
    assert other.get() == (0, "")


def test_silence_is_unknown_in_time_and_not_more(value, other, proxy):
    proxy.drop_reply(script="value_put", then="silence")
    answer = value.put(0, "perhaps")
    assert answer["err"] == "UNKNOWN"
    assert answer.took_ms < 1500 + late_ms()
    proxy.clear()
    assert other.get()[1] == "perhaps"  # truthfully not known to the first


def test_a_change_whose_client_is_closed_may_be_applied(value, other, proxy):
    rule = proxy.hold_reply(script="value_put")
    waiting = value.driver.start("value_put", client="c", name="n", expected=0,
                                 bytes="perhaps", on="a")
    rule.wait_fired()
    reading = value.driver.start("value_get", client="c", name="n", on="b")
    value.driver.call("close", id="c")
    answer = waiting.answer()
    assert answer["err"] == "UNKNOWN", answer
    assert reading.answer()["err"] in ("OK", "CLOSED")
    assert other.get()[1] == "perhaps"


def test_late_copy_of_a_put_changes_nothing(value, other, proxy):
    rule = proxy.duplicate(script="value_put", times=1)
    first = value.put(0, "one").version
    assert value.delete(first).ok
    rule.fire_late()
    rule.wait_late()
    assert other.get() == (0, "")


def test_counting_is_exact_while_each_fifth_reply_is_lost(value, other, proxy):
    lost = {"n": 0}

    def fifth(frame):
        lost["n"] += 1
        return lost["n"] % 5 == 0
    proxy.drop_reply(script="value_put", where=fifth)
    done, version = 0, 0
    for _ in range(60):
        answer = value.put(version, str(done + 1))
        assert answer.ok, answer
        assert answer.version > version
        done, version = done + 1, answer.version
    assert other.get() == (version, "60")
    assert lost["n"] > 65


def test_server_that_is_not_there_is_unreachable(drivers):
    value = Values(drivers("redis://127.0.0.1:1", request_ms=200))
    assert value.put(0, "x")["err"] == "UNREACHABLE"
    answer = value.driver.ask("value_get", client="c", name="n")
    assert answer["err"] == "UNREACHABLE"


def test_server_that_never_answers_is_unreachable_for_a_read(value, proxy):
    proxy.partition()
    answer = value.driver.ask("value_get", client="c", name="n")
    assert answer["err"] == "UNREACHABLE" and answer.took_ms < 1500 + late_ms()
    assert value.put(0, "x")["err"] in ("UNKNOWN", "UNREACHABLE")


@pytest.mark.parametrize("spoil", [
    ("SET", V, "a string"), ("HSET", V, "v", "12"), ("HSET", V, "b", "x"),
    ("HSET", V, "v", "nonsense", "b", "x"), ("HSET", V, "v", "0", "b", "x"),
    ("HSET", V, "v", "12", "b", "x" * 65537)])
def test_foreign_value_is_corrupt_and_left_alone(other, redis, spoil):
    redis.command(*spoil)
    before = redis.command("DUMP", V)
    got = other.driver.ask("value_get", client="c", name="n")
    assert got["err"] == "CORRUPT"
    if len(spoil) < 6 or len(spoil[-1]) < 9:
        answer = other.put(0, "mine") if spoil[3:4] != ("12",) \
            else other.driver.ask("value_get", client="c", name="n")
        assert answer["err"] == "CORRUPT", answer
    assert redis.command("DUMP", V) == before
    lock = other.driver.lock("n")  # the connection is as good as before
    other.driver.acquire(lock, wait_ms=2000).release()


@pytest.mark.parametrize("memory", [
    ("HSET", U, "a", "b"), ("SET", U, "nonsense"), ("SET", U, "1 2 3"),
    ("SET", U, "9007199254740992 1 1")])
def test_foreign_memory_is_corrupt(other, redis, memory):
    redis.command(*memory)
    answer = other.put(0, "mine")
    assert answer["err"] == "CORRUPT", answer
    assert redis.command("EXISTS", V) == 0


def test_full_server_changes_nothing(redis_with, drivers):
    server = redis_with("maxmemory-policy noeviction")
    value = Values(drivers(server.url))
    version = value.put(0, "before").version
    server.command("CONFIG", "SET", "maxmemory", "1")
    answer = value.put(version, "after")
    assert answer["err"] == "STORE" and "OOM" in answer.text
    assert value.get() == (version, "before")
    assert value.driver.ask("value_delete", client="c", name="n",
                            expected=version)["err"] == "STORE"
    server.command("CONFIG", "SET", "maxmemory", "0")
    assert value.put(version, "after").ok


def test_least_privilege_of_the_manual_is_enough(redis, drivers):
    with open(os.path.join(ROOT, "docs", "REDIS.md"), encoding="utf-8") as file:
        rule = re.search(r"ACL SETUSER snib on >CHANGE-ME ((?:.*\\\n)*.*)",
                         file.read()).group(1)
    redis.command("ACL", "SETUSER", "snib", "on", ">secret",
                  *rule.replace("\\\n", " ").split())
    value = Values(drivers(redis.url.replace("//", "//snib:secret@")))
    version = value.put(0, "x").version
    assert value.get() == (version, "x")
    assert value.delete(version).ok
