"""several.lua on a real redis-server: several acquires as one step."""

import pytest

from test_redis_scripts import (  # noqa: F401
    GRANTED, HELD, Party, RedisError, fresh, ids, party, pytestmark, server,
    ttl_everywhere)

FAILED, LEFT_OUT = 0, 10


class Several:
    """One client's requests for several names."""

    def __init__(self, server, names):
        self.server, self.names = server, names
        first = Party(server, names[0])
        self.parts = [first]
        for name in names[1:]:
            part = Party(server, name, listen=False, connection=first.talk)
            part.uuid, part.channel = first.uuid, first.channel
            self.parts.append(part)

    def call(self, every=0, requests=None, terms=None):
        keys, args = [], [every]
        for i, part in enumerate(self.parts):
            more = (terms or {}).get(self.names[i], {})
            asked = part.asked(request=requests and requests[i], queue=0,
                               **more)
            keys += asked[0]
            args += asked[1]
        return self.parts[0].run("several", keys, args)

    def requests(self):
        return [part.request for part in self.parts]

    def holds(self):
        """The names of which this client has a record."""
        return "".join(
            name for name, part in zip(self.names, self.parts)
            if any(field.decode().startswith(part.uuid) for field in
                   self.server.command("HKEYS", "snib:{%s}" % name)))


def codes(replies):
    return [reply[0] for reply in replies]


@pytest.fixture
def several(fresh):
    return lambda names="abc": Several(fresh, names)


@pytest.mark.parametrize("every", [0, 1])
def test_all_that_are_free_are_granted(several, fresh, every):
    s = several()
    replies = s.call(every)
    assert codes(replies) == [GRANTED] * 3
    assert s.holds() == "abc"
    for part, reply in zip(s.parts, replies):
        assert part.release(reply[2]) == 1
    ttl_everywhere(fresh)


def test_those_before_the_refused_one_are_kept(several, party):
    s, other = several(), party(name="b")
    other.acquire()
    assert codes(s.call(0)) == [GRANTED, HELD, LEFT_OUT]
    assert s.holds() == "a"


@pytest.mark.parametrize("held", "abc")
def test_all_or_none(several, party, fresh, held):
    s, other = several(), party(name=held)
    token = other.acquire()[2]
    replies = s.call(1)
    at = "abc".index(held)
    assert codes(replies) == [LEFT_OUT] * at + [HELD] + [LEFT_OUT] * (2 - at)
    assert s.holds() == ""
    other.release(token)
    assert codes(s.call(1)) == [GRANTED] * 3
    ttl_everywhere(fresh)


def test_tokens_rise_past_those_given_back(several, party):
    s, other = several(), party(name="c")
    one = party(name="a")
    before = one.acquire()[2]
    one.release(before)
    other.acquire()
    s.call(1)
    assert one.acquire()[2] > before


def test_what_is_given_back_goes_to_who_waits(several, party):
    """A reader beside a reader, with a writer behind: the reader that was let
    in for a moment does not make the writer wait longer."""
    s, reader, writer = several("ab"), party(name="a"), party(name="a")
    party(name="b").acquire()
    token = reader.acquire(mode=1)[2]
    assert codes(s.call(1, terms={"a": {"mode": 1}})) == [LEFT_OUT, HELD]
    assert s.holds() == ""
    writer.acquire(mode=2)
    assert reader.release(token) == 1
    assert writer.pushed()[0] == writer.request


def test_a_repeat_does_not_give_back_what_its_first_copy_took(several, party):
    """The reply to the first was lost; part of it was asked for again alone,
    and is in use."""
    s = several("ab")
    assert codes(s.call(1)) == [GRANTED] * 2
    requests = s.requests()
    s.parts[1].cancel()
    party(name="b").acquire()
    replies = s.call(1, requests=requests)
    assert replies[0][0] == GRANTED and replies[1][0] != GRANTED
    assert s.holds() == "a"


@pytest.mark.parametrize("every", [0, 1])
def test_what_is_not_ours_fails_alone(several, fresh, every):
    fresh.command("RPUSH", "snib:{b}", "something else")
    s = several()
    replies = s.call(every)
    assert codes(replies) == [LEFT_OUT if every else GRANTED, FAILED, LEFT_OUT]
    assert b"WRONGTYPE" in replies[1][2]
    assert b"user_script" not in replies[1][2]
    assert fresh.command("LRANGE", "snib:{b}", 0, -1) == [b"something else"]
    fresh.command("DEL", "snib:{b}")
    assert s.holds() == ("" if every else "a")


def test_one_refused_by_its_arguments_fails_alone(several):
    s = several("ab")
    replies = s.call(0, terms={"b": {"lease": 0}})
    assert codes(replies) == [GRANTED, FAILED]
    assert replies[1][2].startswith(b"SNIBARG")


def test_permits_and_a_writer_in_one_step(several):
    s = several("ab")
    terms = {"a": {"mode": 3, "permits": "2", "size": 3}, "b": {"mode": 2}}
    assert codes(s.call(1, terms=terms)) == [GRANTED] * 2
    t = several("ab")
    assert codes(t.call(1, terms={"a": {"mode": 3, "permits": "1"}}))[0] \
        == LEFT_OUT
    assert t.holds() == ""


def test_a_wrong_number_of_arguments_is_refused(several):
    part = several("a").parts[0]
    keys, args = part.asked()
    with pytest.raises(RedisError, match="SNIBARG"):
        part.run("several", keys[:5], [0, *args])
    with pytest.raises(RedisError, match="SNIBARG"):
        part.run("several", keys, [0, *args[:15]])
    with pytest.raises(RedisError, match="SNIBARG"):
        part.run("several", [], [0])
