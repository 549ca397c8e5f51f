"""keep.lua: how a node of a quorum is brought in line, case by case."""

import hashlib

import pytest

from harness.redis_server import redis_missing
from harness.resp import RedisError

from test_redis_scripts import Party, script_text

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

TEXT = {name: script_text(name)
        for name in ("acquire", "release", "renew", "cancel", "force", "keep")}
SHA = hashlib.sha1(TEXT["keep"].encode()).hexdigest()
KEPT, NOT = 1, 0
UNLESS_LATER, ANYWAY = 1, 2


@pytest.fixture
def server(redis):
    for text in TEXT.values():
        redis.command("SCRIPT", "LOAD", text)
    return redis


@pytest.fixture
def party(server):
    """party() is one more client."""
    return lambda: Party(server, listen=False)


def keep(party, token, request=None, memory=None, lease=30000, how=ANYWAY,
         not_after=None, room=31, about="host=h"):
    request = request or party.request
    return party.talk.command(
        "EVALSHA", SHA, 9,
        *party.keys("", ":t", ":q", ":w", ":a", ":x:" + request, ":r", ":c"), "snib:m",
        party.uuid, request, token, memory or token + room, lease, how,
        not_after or party.now() + 9000, room, about)[1]


def record(server, party):
    text = server.command("HGET", "snib:{n}", party.uuid)
    return text and text.decode().split(" ", 7)


def memory(server):
    return int(server.command("GET", "snib:{n}:t"))


def test_own_grant_gets_the_token_and_the_memory(server, party):
    a = party()
    token = a.acquire()[2]
    assert keep(a, token + 5000) == KEPT
    assert int(record(server, a)[1]) == token + 5000
    assert memory(server) == token + 5031


def test_own_grant_with_a_higher_token_is_lowered_its_memory_is_not(
        server, party):
    a = party()
    token = a.acquire()[2]
    before = memory(server)
    assert keep(a, token - 5000) == KEPT
    assert int(record(server, a)[1]) == token - 5000
    assert memory(server) == before


def test_it_extends_and_never_shortens(server, party):
    a = party()
    token = a.acquire(lease=30000)[2]
    end, rest = int(record(server, a)[2]), record(server, a)[3:]
    assert keep(a, token, lease=1000, room=7, about="host=i") == KEPT
    assert record(server, a)[3:] == rest  # as it was granted
    assert int(record(server, a)[2]) == end
    assert keep(a, token, lease=60000) == KEPT
    assert int(record(server, a)[2]) > end + 20000
    assert server.command("PTTL", "snib:{n}") > 50000


def test_a_grant_that_is_not_known_is_set(server, party):
    a, b = party(), party()
    request = "0" * 31 + "7"
    before = a.now()
    token = (before + 20) * 1024
    assert keep(a, token, request=request, how=UNLESS_LATER) == KEPT
    told = record(server, a)
    assert told[:2] == [request, str(token)]
    assert told[3:5] == ["0", "1"] and told[6:] == ["31", "host=h"]
    assert before <= int(told[5]) <= a.now()  # since then it is here
    assert before + 30000 <= int(told[2]) <= a.now() + 30000
    assert memory(server) == token + 31
    assert 0 < server.command("PTTL", "snib:{n}") <= 30200
    assert b.acquire(queue=0)[0] == 3  # held
    # What was set can be renewed and released as any grant.
    a.request = request
    assert a.run("renew", a.keys("", ":r"),
                 [a.uuid, request, token, 5000])[1] == 1
    assert a.run("release", a.keys("", ":t", ":q", ":w", ":a",
                                   ":x:" + request, ":c"),
                 [a.uuid, request, token, 0, 0]) == [1]


def test_not_where_another_holds(server, party):
    a, b = party(), party()
    b.acquire()
    assert keep(a, a.now() * 1024, request="0" * 32) == NOT
    assert record(server, a) is None and record(server, b)


def test_not_after_a_later_grant_unless_a_majority_is_proven(server, party):
    a, b = party(), party()
    old = a.acquire()[2]
    server.command("FLUSHALL")
    for text in TEXT.values():
        server.command("SCRIPT", "LOAD", text)
    later = b.acquire()[2]
    b.run("release", b.keys("", ":t", ":q", ":w", ":a", ":x:" + b.request, ":c"),
          [b.uuid, b.request, later, 0, 0])
    assert keep(a, old, how=UNLESS_LATER) == NOT
    assert record(server, a) is None
    assert keep(a, old, how=ANYWAY) == KEPT
    assert memory(server) >= later


def test_not_where_it_was_ended_with_a_tombstone(server, party):
    a = party()
    token = a.acquire()[2]
    a.run("cancel", a.keys("", ":t", ":q", ":w", ":a", ":x:" + a.request, ":c"),
          [a.uuid, a.request, 0, 0])
    assert keep(a, token) == NOT  # H15
    assert record(server, a) is None


def test_not_where_it_was_revoked(server, party):
    a, b = party(), party()
    token = a.acquire()[2]
    b.run("force", b.keys("", ":t", ":q", ":w", ":a", ":r", ":c"), ["stuck"])
    assert keep(a, token) == b"REVOKED stuck"
    assert record(server, a) is None


def test_late_or_from_another_time_is_refused(server, party):
    a = party()
    token = a.acquire()[2]
    for off in (-1, 10001 + 1000):
        with pytest.raises(RedisError) as error:
            keep(a, token, not_after=a.now() + off)
        assert error.value.word == "SNIBLATE"
    with pytest.raises(RedisError) as error:
        keep(a, (a.now() + 2 * 86_400_000) * 1024)
    assert error.value.word == "SNIBFLOOR"


@pytest.mark.parametrize("broken", [
    dict(token=0), dict(lease=0), dict(lease=86_400_001), dict(room=32),
    dict(how=0), dict(memory=1), dict(about="x" * 1025),
    dict(request="g" * 32)])
def test_bad_arguments_change_nothing(server, party, broken):
    a = party()
    token = a.acquire()[2]
    before = record(server, a), memory(server)
    with pytest.raises(RedisError) as error:
        keep(a, **{"token": token, **broken})
    assert error.value.word == "SNIBARG"
    assert (record(server, a), memory(server)) == before


def test_damage_and_wrong_types_change_nothing(server, party):
    a = party()
    token = a.acquire()[2]
    server.command("SET", "snib:{n}:t", "damaged", "PX", 10000)
    with pytest.raises(RedisError) as error:
        keep(a, token)
    assert error.value.word == "CORRUPT"
    server.command("DEL", "snib:{n}")
    server.command("SET", "snib:{n}", "a string", "PX", 10000)
    with pytest.raises(RedisError) as error:
        keep(a, token)
    assert error.value.word == "CORRUPT"
    server.command("DEL", "snib:{n}")
    server.command("RPUSH", "snib:{n}", "a list")
    with pytest.raises(RedisError) as error:
        keep(a, token)
    assert error.value.word == "WRONGTYPE"
    assert server.command("GET", "snib:{n}:t") == b"damaged"


def test_full_memory_changes_nothing(server, party):
    a = party()
    token = a.acquire()[2]
    before = record(server, a), memory(server)
    server.command("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(RedisError) as error:
            keep(a, token + 77)
        assert "OOM" in str(error.value)
    finally:
        server.command("CONFIG", "SET", "maxmemory", "0")
    assert (record(server, a), memory(server)) == before
