"""The scripts on a real redis-server where a mutex is held by a thin record,
which a client has set without a script (enter.lua); test_redis_scripts.py plays
a client by hand, and so does this.

Rows: late copies (F-060; H12).
"""

import re

import pytest

from test_kind_scripts import PERMITS, READ
from test_redis_scripts import (  # noqa: F401
    DAY, GRANTED, HELD, MARK, QUEUED, RedisError, dump, fields, fresh, ids,
    party, pytestmark, restricted, server, ttl_everywhere)

REFUSED = "NOPERM|ACL failure|can't run"


def packet(one, lease=30000, first=9900, token=0):
    """A grant of this party without a script; its token."""
    one.request = f"{next(ids):032x}"
    now = one.now()
    assert one.talk.command("MULTI") == b"OK"
    one.talk.command("SET", one.keys("")[0],
                     f"{one.request} {one.uuid} {lease} {now} {token} host=h",
                     "NX", "PXAT", now + min(lease, first))
    one.talk.command("XADD", MARK, "NOMKSTREAM", "MAXLEN", 0, "*", "a", "")
    done, id = one.talk.command("EXEC")
    assert done == b"OK"
    milliseconds, sequence = id.decode().split("-")
    return int(milliseconds) * 1024 + int(sequence)


def form(server):
    return server.command("TYPE", "snib:{n}")


@pytest.fixture
def marked(fresh):
    """The server, with a mark."""
    fresh.command("XADD", MARK, "MAXLEN", 0, "1-0", "a", "")
    fresh.command("PEXPIRE", MARK, 2 * DAY)
    return fresh


# -- which grant is meant ------------------------------------------------------


def yielded(a, prior):
    """A has asked for n anew, and names the grant that this ends."""
    request = f"{next(ids):032x}"
    assert a.acquire(request, prior=prior, queue=0)[0] == GRANTED
    return request


def test_late_cancel_of_a_yield_does_not_end_a_later_grant(party, marked):
    """Its client holds thinly again, and nobody is told the token of that: the
    cancel took it for the grant that it names, and another came in."""
    a = party()
    token = packet(a)
    prior = f"{token},{a.request}"
    again = yielded(a, prior)
    assert a.cancel(again, prior=prior) == 2
    marked.command("DEL", "snib:{n}", "snib:{n}:x:" + again)  # both are over
    packet(a)
    held = marked.command("GET", "snib:{n}")
    assert a.cancel(again, prior=prior) == 3
    assert fields(marked) == [a.uuid.encode()]
    assert marked.command("HGET", "snib:{n}", a.uuid).startswith(held[:32])
    assert party().acquire(queue=0)[0] == HELD


def test_late_yield_does_not_end_a_later_grant(party, marked):
    a = party()
    token = packet(a)
    prior = f"{token},{a.request}"
    assert a.release(token) == 1
    packet(a)
    held = marked.command("GET", "snib:{n}")
    assert a.acquire(f"{next(ids):032x}", queue=0, prior=prior)[0] == HELD
    assert marked.command("GET", "snib:{n}") == held


def test_hand_overs_do_not_add_to_the_time_of_the_key(party, marked):
    """The key stands for waiters, and each grant prolonged that by 100 ms: after
    a thousand it stood for minutes behind the last of them."""
    one, two = party(), party()
    token = packet(one)
    assert two.acquire()[0] == QUEUED
    most = marked.command("PTTL", "snib:{n}")
    for _ in range(30):
        assert one.release(token) == 1
        _, token, *_ = two.pushed()
        assert one.acquire(lease=1000)[0] == QUEUED
        one, two = two, one
        assert marked.command("PTTL", "snib:{n}") <= max(most, 23000) + 100


def test_server_that_stands_still_in_a_script_shortens_no_lease(party, marked):
    """The record is so large that reading it takes a while: the clock was read
    before that, the time that is left behind it."""
    a = party()
    a.request = f"{next(ids):032x}"
    end = a.now() + 60000
    marked.command("SET", "snib:{n}", f"{a.request} {a.uuid} 90000 1 0 "
                   + "h" * 40_000_000, "PXAT", end)
    assert party().acquire(request=f"{next(ids):032x}")[0] == QUEUED
    told = int(marked.command("HGET", "snib:{n}", a.uuid)[:99].split()[2])
    assert end - 1 <= told <= end + 5000


@pytest.mark.parametrize("told", [False, True])
def test_yield_and_its_cancel_end_the_thin_grant_that_they_name(
        party, marked, told):
    a = party()
    token = packet(a)
    if told:
        assert a.renew(token) == 1
    prior = f"{token},{a.request}"
    again = yielded(a, prior)
    assert marked.command("HGET", "snib:{n}", a.uuid).startswith(
        again.encode())
    assert a.cancel(again) == 2
    marked.command("DEL", "snib:{n}")
    token = packet(a)
    if told:
        assert a.renew(token) == 1
    assert a.cancel(f"{next(ids):032x}", prior=f"{token},{a.request}") == 3
    assert fields(marked) == []


@pytest.mark.parametrize("prior", [
    "", "x", "1,", "-1", "1,2 3", "1,xyz", "1e1", "1," + "a" * 31,
    "1" + "a" * 33])
def test_prior_that_is_none_is_refused(party, marked, prior):
    a = party()
    with pytest.raises(RedisError, match="SNIBARG"):
        a.acquire(prior=prior)
    with pytest.raises(RedisError, match="SNIBARG"):
        a.cancel(f"{next(ids):032x}", prior=prior)


def test_prior_without_a_request_is_meant_by_its_token(party, marked):
    a = party()
    packet(a)
    assert a.cancel(f"{next(ids):032x}", prior=1) == 3
    assert fields(marked) == [a.uuid.encode()]


# -- rights that are missing ---------------------------------------------------


@pytest.mark.parametrize("right", ["hset", "pexpire"])
@pytest.mark.parametrize("deed", ["wait", "cancel", "release",
                                  "release another's"])
def test_thin_lock_outlives_a_script_that_may_not_make_the_hash(
        party, marked, right, deed):
    """It had removed the record by then: the lock was free, and its holder knew
    nothing of that."""
    a, b, c = party(), party(), party()
    token = packet(a)
    before = marked.command("GET", "snib:{n}")
    left = marked.command("PTTL", "snib:{n}")
    with restricted(marked, "~snib:*", "allchannels", "+@all",
                    "-" + right) as weak:
        a.talk = b.talk = weak
        with pytest.raises(RedisError) as caught:
            if deed == "wait":
                b.acquire()
            elif deed == "cancel":
                b.cancel(f"{next(ids):032x}", copies=1)
            elif deed == "release":
                a.release(token, copies=1)
            else:
                b.release(1, request=f"{next(ids):032x}", tomb=1)
        assert re.search(REFUSED, caught.value.text)
        a.talk = b.talk = c.talk
    assert marked.command("GET", "snib:{n}") == before
    assert left - 5000 < marked.command("PTTL", "snib:{n}") <= left
    assert c.acquire(queue=0)[0] == HELD
    assert a.renew(token) == 1


# -- token order ---------------------------------------------------------------


def test_reader_after_a_forced_release_of_a_thin_grant_is_behind_it(
        party, marked):
    """The era was that of the grant before: a reader had a lower token than the
    writer who had just been ended."""
    a, b = party(), party()
    first = a.acquire()[2]
    assert a.release(first) == 1
    token = packet(a)
    assert token > first
    reader = party()
    assert reader.acquire(mode=READ)[0] == QUEUED
    assert b.force()[0] == 1
    code, _, era = reader.acquire(request=reader.request, mode=READ)[:3]
    assert (code, era > token) == (GRANTED, True)


def test_forced_release_without_a_token_leaves_no_memory_of_one(party, marked):
    a = party()
    packet(a)
    assert a.force()[0] == 1
    assert marked.command("EXISTS", "snib:{n}:t") == 0
    ttl_everywhere(marked)


def test_token_far_ahead_of_the_clock_counts_for_its_own_lock(party, marked):
    """One name's memory, which no clock made, drove the mark to its time: then
    no mutex at all went without a script."""
    a, b = party(), party()
    far = (a.now() + 10 * DAY) * 1024
    marked.command("SET", "snib:{n}:t", far, "PX", DAY)
    code, now, era = a.acquire(mode=READ)[:3]
    assert code == GRANTED and era == far
    assert b.acquire(mode=READ)[2] == far
    assert marked.command("PTTL", "snib:{n}") > DAY // 2  # no thin grant
    other = party(name="other")
    token = other.acquire()[2]
    assert token < (now + DAY) * 1024
    id = marked.command("XADD", MARK, "MAXLEN", 0, "*", "a", "").decode()
    assert abs(int(id.split("-")[0]) - now) < 60000


# -- a mark that is not ours, or has given all its ids -------------------------


def foreign(server):
    server.command("DEL", MARK)
    server.command("SET", MARK, "mine", "PX", 60000)


def test_lock_is_freed_though_the_mark_is_not_ours(party, marked):
    a, b, c = party(), party(), party()
    token = a.acquire(room=0)[2]
    b.acquire()
    foreign(marked)
    before = dump(marked)
    for deed in (lambda: c.acquire(), lambda: party(name="m").acquire()):
        with pytest.raises(RedisError) as caught:
            deed()
        assert caught.value.word == "CORRUPT"
        assert "the mark snib:m is of another type" in caught.value.text
    assert dump(marked) == before
    assert a.release(token) == 1
    assert b.pushed()[1] > token
    assert a.force()[0] == 1
    assert fields(marked) == []
    assert marked.command("GET", MARK) == b"mine"
    marked.command("DEL", MARK)
    assert c.acquire()[0] == GRANTED
    assert marked.command("TYPE", MARK) == b"stream"


def test_cancel_frees_the_lock_though_the_mark_is_not_ours(party, marked):
    a, b = party(), party()
    a.acquire()
    b.acquire()
    foreign(marked)
    assert a.cancel() == 2
    assert b.pushed()[0] == b.request
    assert b.cancel() == 2
    assert fields(marked) == []


def test_mark_that_has_given_its_last_id_is_done_without(party, marked):
    marked.command("XADD", MARK, "MAXLEN", 0,
                   "18446744073709551615-18446744073709551615", "a", "")
    a, b = party(), party()
    token = a.acquire()[2]
    assert abs(token // 1024 - a.now()) < 60000
    b.acquire()
    assert a.release(token) == 1
    assert b.pushed()[1] > token
    reader = party()
    reader.acquire(mode=READ)
    assert a.force()[0] == 1
    assert reader.acquire(request=reader.request, mode=READ)[2] > token
    # Nobody may take it without a script meanwhile.
    assert marked.command("PTTL", "snib:{n}") > DAY // 2
    assert form(marked) == b"hash"


# -- a latch that is closed ----------------------------------------------------


def test_try_for_permits_keeps_the_latch_and_what_shows_it(party, marked):
    """It made the params live on for a month, and not the hash that keeps who
    asks without a script out."""
    a = party()
    marked.command("HSET", "snib:{n}:c", "size", 3, "gate", 1)
    marked.command("PEXPIRE", "snib:{n}:c", 60000)
    marked.command("HSET", "snib:{n}", "~", 0)
    marked.command("PEXPIRE", "snib:{n}", 60000)
    assert a.acquire(mode=PERMITS, queue=0)[0] == HELD
    for key in ("snib:{n}", "snib:{n}:c"):
        assert marked.command("PTTL", key) > 29 * DAY, key


def test_try_for_permits_on_a_thin_lock_of_a_closed_latch(party, marked):
    a, b = party(), party()
    packet(a)
    marked.command("HSET", "snib:{n}:c", "size", 3, "gate", 1)
    marked.command("PEXPIRE", "snib:{n}:c", 60000)
    assert b.acquire(mode=PERMITS, queue=0)[0] == HELD
    assert fields(marked) == [a.uuid.encode()]
    assert marked.command("PTTL", "snib:{n}") > 29 * DAY


# -- damage --------------------------------------------------------------------


def for_ever(server):
    server.command("PERSIST", "snib:{n}")


def torn(server):
    record = server.command("GET", "snib:{n}")
    server.command("SET", "snib:{n}", record[:70], "PX", 60000)


def of_years(server):
    words = server.command("GET", "snib:{n}").split(b" ")
    words[2] = b"9" * 12
    server.command("SET", "snib:{n}", b" ".join(words), "PX", 60000)


@pytest.mark.parametrize("damage", [for_ever, torn, of_years])
def test_damaged_thin_record_is_told_and_force_mends_it(
        party, marked, damage):
    a, b = party(), party()
    token = packet(a)
    damage(marked)
    before = dump(marked)
    for deed in (b.acquire, b.inspect, lambda: b.cancel(f"{next(ids):032x}"),
                 lambda: a.release(token)):
        with pytest.raises(RedisError) as caught:
            deed()
        assert caught.value.word == "CORRUPT"
        assert "snib force-release mends it" in caught.value.text
    assert dump(marked) == before
    assert b.force()[0] == 1
    assert fields(marked) == []
    code, _, again = b.acquire()[:3]
    assert code == GRANTED and again > token
    ttl_everywhere(marked)


@pytest.mark.parametrize("value", ["mine", "", "0" * 32 + " x"])
def test_string_that_is_no_record_is_told_and_force_mends_it(
        party, marked, value):
    """It has the type of a record, so its value is what is wrong."""
    marked.command("SET", "snib:{n}", value, "PX", 60000)
    a = party()
    for deed in (a.acquire, a.inspect):
        with pytest.raises(RedisError) as caught:
            deed()
        assert caught.value.word == "CORRUPT"
        assert "snib force-release mends it" in caught.value.text
    assert marked.command("GET", "snib:{n}") == value.encode()
    assert a.force()[0] == 1
    assert a.acquire()[0] == GRANTED


def test_key_of_another_type_is_left_alone(party, marked):
    marked.command("LPUSH", "snib:{n}", "mine")
    a = party()
    for deed in (a.acquire, a.force):
        with pytest.raises(RedisError) as caught:
            deed()
        assert caught.value.word == "WRONGTYPE"
    assert marked.command("LRANGE", "snib:{n}", 0, 9) == [b"mine"]
