"""The shipped Lua scripts on a real redis-server, hole by hole.

Names H01 … are those of the list of protocol holes in docs/REDIS.md; each
test here is the interleaving that the hole was found by.
"""

import hashlib
import os
import re
import sys
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests"))

from harness.redis_server import RedisServer, redis_missing  # noqa: E402
from harness.resp import Client, RedisError  # noqa: E402

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

SCRIPTS = os.path.join(ROOT, "src", "store", "redis", "scripts")
DAY = 86_400_000
GRANTED, QUEUED, HELD, LATE, ENDED = 1, 2, 3, 4, 5


def script_text(name):
    """As embed.cmake makes it."""
    def load(part):
        with open(os.path.join(SCRIPTS, part + ".lua"), encoding="utf-8") as f:
            return f.read()
    text = load(name)
    for part in ("acquire", "release", "enter", "settle"):
        text = text.replace(f"-- @include {part}\n", load(part))
    text = "\n" + text
    text = re.sub(r"\n[ \t]*--[^\n]*", "", text)
    text = re.sub(r"\n[ \t\n]+", "\n", text)
    return re.sub(r"^\n", "", text)


TEXT = {name: script_text(name) for name in
        ("acquire", "release", "renew", "cancel", "inspect", "force", "probe",
         "several", "drop")}
SHA = {name: hashlib.sha1(text.encode()).hexdigest()
       for name, text in TEXT.items()}


@pytest.fixture(scope="module")
def server():
    made = RedisServer()
    yield made
    made.close()


@pytest.fixture
def fresh(server):
    server.command("CONFIG", "SET", "maxmemory", "0")
    server.command("FLUSHALL")
    for name in TEXT:
        server.command("SCRIPT", "LOAD", TEXT[name])
    return server


ids = iter(range(1, 1 << 30))
# Their last key is the mark, if the login may use it.
MARK = "snib:m"
MARKED = {"acquire", "release", "cancel", "force", "params", "several"}


class Party:
    """One snib client, by hand: its uuid, its subscription, its requests."""

    def __init__(self, server, name="n", listen=True, connection=None):
        self.server, self.name = server, name
        self.uuid = f"{next(ids):032x}"
        self.channel = f"snib:{self.uuid}"
        self.talk = connection or server.client()
        self.marked = True
        self.ear = None
        self.polls = 0
        if listen:
            self.listen()

    def listen(self):
        self.ear = self.server.client()
        assert self.ear.command("SUBSCRIBE", self.channel)[0] == b"subscribe"

    def deafen(self):
        self.ear.close()
        self.ear = None
        self.server.wait_for(lambda s: s.command(
            "PUBSUB", "NUMSUB", self.channel)[1] == 0)

    def keys(self, *suffixes):
        return ["snib:{%s}%s" % (self.name, s) for s in suffixes]

    def run(self, script, keys, args):
        if script in MARKED and self.marked:
            keys = [*keys, MARK]
        return self.talk.command("EVALSHA", SHA[script], len(keys), *keys,
                                 *args)

    def now(self):
        s, us = self.talk.command("TIME")
        return int(s) * 1000 + int(us) // 1000

    def asked(self, request=None, lease=30000, queue=1, floor=0, room=0,
              prior=0, not_after=None, poll=None, window=3000,
              about="host=h", mode=0, permits="1", size=0, rank=128):
        """Keys and arguments of an acquire."""
        self.request = request or f"{next(ids):032x}"
        self.polls += 1
        if not_after is None:
            not_after = self.now() + 9000
        return (self.keys("", ":t", ":q", ":w", ":a", ":x:" + self.request,
                          ":c"),
                [self.uuid, self.request, lease, queue, poll or self.polls,
                 not_after, floor, room, prior, self.channel, mode, permits,
                 window, about, size, rank])

    def acquire(self, *of, **terms):
        return self.run("acquire", *self.asked(*of, **terms))

    def release(self, token, request=None, tomb=0, copies=None):
        request = request or self.request
        return self.run("release", self.keys("", ":t", ":q", ":w", ":a", ":r",
                                             ":c", *[":x:" + request] * tomb),
                        [self.uuid, request, token, tomb,
                         copies or self.now() + 9000])[0]

    def cancel(self, request=None, prior=0, copies=None):
        request = request or self.request
        return self.cancel_says(request, prior, copies)[0]

    def cancel_says(self, request=None, prior=0, copies=None):
        request = request or self.request
        return self.run("cancel", self.keys("", ":t", ":q", ":w", ":a",
                                            ":x:" + request, ":c"),
                        [self.uuid, request, prior,
                         copies or self.now() + 9000])

    def renew(self, token, lease=30000, request=None):
        return self.run("renew", self.keys("", ":r"),
                        [self.uuid, request or self.request, token, lease])[1]

    def force(self, reason="why"):
        return self.run("force", self.keys("", ":t", ":q", ":w", ":a", ":r",
                                            ":c"),
                        [reason])

    def inspect(self, at=0, size=100):
        return self.run("inspect", self.keys("", ":t", ":q", ":w", ":a", ":c"),
                        [at, size])

    def pushed(self, timeout=2.0):
        """(request, token, room, claim, poll, server ms, key) of a push."""
        kind, channel, text = self.ear.read(timeout)
        assert kind == b"message" and channel == self.channel.encode()
        word, request, *numbers, key = text.decode().split(" ", 7)
        assert word == "g"
        return (request, *map(int, numbers), key)

    def silent(self):
        """Nothing was pushed: PING comes back first."""
        self.ear.send("PING")
        return self.ear.read(2.0)[0] == b"pong"


def fields(server, name="n"):
    """Of the holders; not the one by which the hash outlives them."""
    return [field for field in server.command("HKEYS", "snib:{%s}" % name)
            if field != b"~"]


PROBED = ["snib:{%d}:h", "snib:{%d}:s", "snib:{%d}:z", "snib:{%d}:m"]


@pytest.fixture
def party(fresh):
    return lambda **options: Party(fresh, **options)


def ttl_everywhere(server):
    """{key: ttl}; fails for a key without one."""
    found = server.keys()
    assert all(left > 0 for left in found.values()), found
    return found


# -- the plain life of a lock ---------------------------------------------------


def test_acquire_then_release_leaves_only_the_token(party, fresh):
    a = party()
    code, now, token, room, lease, _ = a.acquire(room=31)
    assert (code, room, lease) == (GRANTED, 31, 30000)
    assert token >= now * 1024
    assert int(fresh.command("GET", "snib:{n}:t")) == token + 31
    ttl_everywhere(fresh)
    assert a.release(token) == 1
    assert set(ttl_everywhere(fresh)) == {b"snib:{n}:t", MARK.encode()}


def test_release_twice_finds_nobody(party):
    a = party()
    token = a.acquire()[2]
    assert a.release(token) == 1
    assert a.release(token) == 0


def test_release_of_another_token_or_client_touches_nothing(party):
    a, b = party(), party()
    token = a.acquire()[2]
    assert a.release(token + 1) == 0
    assert b.release(token, request=a.request) == 0
    assert a.renew(token) == 1


def test_try_on_a_held_lock_is_told_who_is_first_and_leaves_nothing(party, fresh):
    a, b = party(), party()
    a.acquire(lease=5000)
    code, _, left = b.acquire(queue=0)
    assert code == HELD and 0 < left <= 5000
    assert len(fresh.keys()) == 3


def test_waiters_are_served_in_order_and_a_section_costs_two_calls(party, fresh):
    a, b, c = party(), party(), party()
    token = a.acquire()[2]
    assert b.acquire()[0:3:2] == [QUEUED, 1]
    assert c.acquire()[0:3:2] == [QUEUED, 2]
    before = calls(fresh)
    assert a.release(token) == 1
    request, token_b, room, claim, poll, _, key = b.pushed()
    assert (request, claim, poll, key) == (b.request, 3000, 1, "snib:{n}")
    assert token_b > token
    assert a.acquire()[0:3:2] == [QUEUED, 2]
    assert b.release(token_b) == 1
    assert c.pushed()[1] > token_b
    assert b.acquire()[0] == QUEUED
    assert calls(fresh) - before == 4          # two sections
    assert b.silent()
    ttl_everywhere(fresh)


def calls(server):
    stats = server.command("INFO", "commandstats").decode()
    found = re.search(r"cmdstat_evalsha:calls=(\d+)", stats)
    return int(found.group(1)) if found else 0


def test_fast_path_is_ten_and_three_commands(party, fresh):
    a = party()
    a.release(a.acquire()[2])  # the mark is there from now on
    not_after = a.now() + 9000
    fresh.command("CONFIG", "RESETSTAT")
    token = a.acquire(not_after=not_after)[2]
    assert inner(fresh) == 10
    fresh.command("CONFIG", "RESETSTAT")
    assert a.release(token, copies=not_after) == 1
    assert inner(fresh) == 3


def inner(server):
    stats = server.command("INFO", "commandstats").decode()
    return sum(int(n) for name, n in
               re.findall(r"cmdstat_([\w|]+):calls=(\d+)", stats)
               if not name.startswith(("evalsha", "config", "info")))


# -- holes -----------------------------------------------------------------------


def test_H01_a_waiter_not_subscribed_here_is_skipped_and_told_nothing(party):
    a, deaf, c = party(), party(), party()
    token = a.acquire()[2]
    deaf.acquire()
    c.acquire()
    deaf.deafen()
    assert a.release(token) == 1
    assert c.pushed()[0] == c.request


def test_H02_a_pattern_subscriber_is_no_life_sign(party, fresh):
    with fresh.client() as spy:
        spy.command("PSUBSCRIBE", "snib:*")
        a, dead, c = party(), party(), party()
        token = a.acquire()[2]
        dead.acquire()
        c.acquire()
        dead.deafen()
        a.release(token)
        assert c.pushed()[0] == c.request


def test_H03_the_grant_names_the_last_poll_seen(party):
    a, b = party(), party()
    token = a.acquire()[2]
    b.acquire(poll=7)
    b.acquire(request=b.request, poll=9)
    b.acquire(request=b.request, poll=8)   # a late copy
    a.release(token)
    assert b.pushed()[4] == 9


def test_H05_a_poll_finds_an_unheard_grant_and_takes_the_full_lease(party):
    a, b = party(), party()
    token = a.acquire()[2]
    b.acquire()
    a.release(token)
    code, _, token_b, _, lease, _ = b.acquire(request=b.request, lease=20000)
    assert (code, token_b, lease) == (GRANTED, b.pushed()[1], 20000)
    assert b.talk.command("PTTL", "snib:{n}") > 15000


def test_H06_a_waiter_past_its_alive_window_is_dropped(party, fresh):
    a, frozen, c = party(), party(), party()
    token = a.acquire()[2]
    frozen.acquire(window=20)
    c.acquire()
    time.sleep(0.03)
    a.release(token)
    assert c.pushed()[0] == c.request
    assert frozen.silent()
    assert fresh.command("ZCARD", "snib:{n}:a") == 0


def test_H07_deaf_waiters_step_aside_once_and_return_to_their_rank(party, fresh):
    a = party()
    token = a.acquire()[2]
    deaf = [party(listen=False, connection=a.talk) for _ in range(50)]
    for d in deaf:
        d.acquire()
    c = party()
    c.acquire()
    fresh.command("CONFIG", "RESETSTAT")
    a.release(token)
    first = inner(fresh)
    token = c.pushed()[1]
    assert fresh.command("ZCARD", "snib:{n}:q") == 0
    a.acquire()
    deaf[3].listen()
    assert deaf[3].acquire(request=deaf[3].request)[2] == 1   # before a
    deaf[1].acquire(request=deaf[1].request)
    assert fresh.command("ZRANGE", "snib:{n}:q", 0, -1) == [
        deaf[1].request.encode(), deaf[3].request.encode(), a.request.encode()]
    fresh.command("CONFIG", "RESETSTAT")
    c.release(token)
    assert inner(fresh) < first / 4
    assert deaf[3].pushed()[0] == deaf[3].request


def test_H07_ten_thousand_dead_cost_once(party, fresh):
    a, c = party(), party()
    token = a.acquire()[2]
    for i in range(10000):
        fresh.command("ZADD", "snib:{n}:q", i - 20000, f"{i:032x}")
        fresh.command("ZADD", "snib:{n}:a", 1, f"{i:032x}")
    c.acquire()
    start = time.monotonic()
    a.release(token)
    assert time.monotonic() - start < 1  # each one looked at anew: minutes
    assert c.pushed()[0] == c.request
    assert fresh.command("ZCARD", "snib:{n}:q") == 0


def test_H08_after_an_expiry_a_newcomer_does_not_barge(party):
    a, b, newcomer = party(), party(), party()
    a.acquire(lease=30)
    b.acquire()
    time.sleep(0.05)
    code, _, place, left = newcomer.acquire()
    assert (code, place) == (QUEUED, 1) and left > 2000
    assert b.pushed()[0] == b.request


def test_H08_the_end_in_the_record_counts_not_the_keys_ttl(party, fresh):
    a, b = party(), party()
    a.acquire(lease=30)
    fresh.command("PERSIST", "snib:{n}")
    time.sleep(0.05)
    assert b.acquire()[0] == GRANTED
    ttl_everywhere(fresh)


def test_H09_the_reply_tells_place_and_the_holders_time(party):
    a, b, c = party(), party(), party()
    a.acquire(lease=1000)
    code, _, place, left = b.acquire()
    assert (code, place) == (QUEUED, 1) and 500 < left <= 1000
    assert c.acquire()[2] == 2


def test_H10_the_grant_names_request_token_room_and_claim(party):
    a, b = party(), party()
    token = a.acquire()[2]
    b.acquire(lease=700, room=31)
    a.release(token)
    request, token, room, claim, poll, ms, key = b.pushed()
    assert (request, room, claim) == (b.request, 31, 700)


def test_H11_cancel_of_waiting_granted_and_neither(party, fresh):
    a, b, c = party(), party(), party()
    token = a.acquire()[2]
    b.acquire()
    assert b.cancel() == 1
    c.acquire()
    a.release(token)
    assert c.pushed()[0] == c.request
    assert b.silent()
    b.acquire()
    assert c.cancel() == 2                  # granted: released, handed on
    assert b.pushed()[0] == b.request
    assert a.cancel(request="f" * 32) == 3
    ttl_everywhere(fresh)


def test_H12_a_late_copy_after_its_cancel_is_refused(party, fresh):
    a = party()
    request = "a" * 32
    assert a.cancel(request=request) == 3
    assert a.acquire(request=request)[0] == ENDED
    # The hash keeps out those who ask without a script. (It is read first: a
    # millisecond may go by.)
    stands = fresh.command("PTTL", "snib:{n}")
    assert 0 < fresh.command("PTTL", "snib:{n}:x:" + request) <= stands <= 10000
    assert fields(fresh) == []


def test_H12_cancel_of_a_granted_request_also_leaves_a_tombstone(party):
    a = party()
    a.acquire()
    assert a.cancel() == 2
    assert a.acquire(request=a.request)[0] == ENDED


def test_H12_release_of_a_resent_request_leaves_a_tombstone(party):
    a = party()
    token = a.acquire()[2]
    assert a.release(token, tomb=1) == 1
    assert a.acquire(request=a.request)[0] == ENDED


def test_H12_not_after_is_checked_both_ways(party, fresh):
    a = party()
    assert a.acquire(not_after=a.now() - 1)[0] == LATE
    assert a.acquire(not_after=a.now() + 10100)[0] == LATE
    assert fresh.keys() == {}


def test_H13_a_repeat_re_arms_and_returns_the_same_token(party, fresh):
    a = party()
    first = a.acquire(lease=1000, room=5)
    fresh.command("PEXPIRE", "snib:{n}", 500)
    again = a.acquire(request=a.request, lease=20000)
    assert again[:1] + again[2:] == [GRANTED, first[2], 5, 20000, 1]
    assert fresh.command("PTTL", "snib:{n}") > 15000


def test_H13_a_late_copy_never_shortens_a_longer_renewal(party):
    a, b = party(), party()
    token = a.acquire(lease=1000)[2]
    assert a.renew(token, lease=60000) == 1
    a.acquire(request=a.request, lease=1000)
    assert a.renew(token, lease=100) == 1
    assert b.acquire(queue=0)[2] > 50000


def test_H14_H15_no_renewal_creates(party, fresh):
    a = party()
    token = a.acquire()[2]
    a.release(token)
    assert a.renew(token) == 2               # nobody's
    assert fresh.command("EXISTS", "snib:{n}") == 0
    token = a.acquire(lease=30)[2]
    fresh.command("PERSIST", "snib:{n}")
    time.sleep(0.05)
    assert a.renew(token) == 0               # ended: not revived
    assert a.renew(token + 1) == 0


def test_H16_one_bad_key_costs_the_others_nothing(party, fresh):
    parties = [party(name=f"n{i}") for i in range(3)]
    uuid = parties[0].uuid
    tokens = []
    for p in parties:
        p.uuid = uuid
        tokens.append(p.acquire(lease=1000)[2])
    fresh.command("DEL", "snib:{n1}")
    fresh.command("LPUSH", "snib:{n1}", "x")
    keys, args = [], [uuid]
    for p, token in zip(parties, tokens):
        keys += p.keys("", ":r")
        args += [p.request, token, 30000]
    assert parties[0].run("renew", keys, args)[1:] == [1, 3, 1]
    assert fresh.command("PTTL", "snib:{n2}") > 25000
    assert fresh.command("LRANGE", "snib:{n1}", 0, -1) == [b"x"]


def test_H16_a_batch_of_128(party, fresh):
    a = party()
    keys, args, tokens = [], [a.uuid], []
    for i in range(128):
        a.name = f"b{i}"
        token = a.acquire(lease=1000)[2]
        keys += a.keys("", ":r")
        args += [a.request, token, 30000]
    assert a.run("renew", keys, args)[1:] == [1] * 128


@pytest.mark.parametrize("suffix", ["", ":t", ":q", ":w", ":a"])
@pytest.mark.parametrize("script", ["acquire", "release", "cancel", "force"])
def test_H17_a_wrong_type_is_an_error_and_nothing_is_changed(
        party, fresh, suffix, script):
    a, b = party(), party()
    token = a.acquire()[2]
    b.acquire()
    key = "snib:{n}" + suffix
    fresh.command("DEL", key)
    fresh.command("RPUSH", key, "x")
    before = dump(fresh)
    try:
        {"acquire": lambda: party().acquire(),
         "release": lambda: a.release(token),
         "cancel": lambda: a.cancel(),
         "force": lambda: a.force()}[script]()
    except RedisError as error:
        assert error.word in ("WRONGTYPE", "CORRUPT")
        assert dump(fresh) == before
        return
    pytest.fail("no error")


def dump(server):
    return {key: server.command("DUMP", key) for key in server.keys()}


@pytest.mark.parametrize("damage", [
    ("HSET", "snib:{n}", "0" * 32, "not a record"),
    ("SET", "snib:{n}:t", "1e99"),
    ("SET", "snib:{n}:t", "9007199254740999"),
    ("HSET", "snib:{n}:w", "#", "x"),
])
def test_H17_a_damaged_record_is_told_and_nothing_is_changed(
        party, fresh, damage):
    a, b = party(), party()
    token = a.acquire()[2]
    b.acquire()
    fresh.command(*damage)
    before = dump(fresh)
    with pytest.raises(RedisError) as caught:
        party().acquire()
    assert caught.value.word == "CORRUPT"
    assert dump(fresh) == before


def test_H17_a_damaged_waiter_is_told(party, fresh):
    a, b = party(), party()
    token = a.acquire()[2]
    b.acquire()
    fresh.command("HSET", "snib:{n}:w", b.request, "junk")
    with pytest.raises(RedisError) as caught:
        a.release(token)
    assert caught.value.word == "CORRUPT"
    assert a.renew(token) == 1


def test_H17_out_of_range_arguments_are_refused_before_anything(party, fresh):
    a = party()
    for bad in ({"lease": 0}, {"lease": DAY + 1}, {"lease": "1e5"},
                {"lease": -5}, {"room": 32}, {"floor": 1 << 53},
                {"window": 0}, {"about": "x" * 1025}, {"prior": "x"},
                {"not_after": "nan"}):
        with pytest.raises(RedisError) as caught:
            a.acquire(**bad)
        assert caught.value.word == "SNIBARG", bad
    assert fresh.keys() == {}


def restricted(server, *rules):
    server.command("ACL", "SETUSER", "u", "reset", "on", ">p", *rules)
    return server.client(user="u", password="p")


def test_H17_without_the_right_to_channels_the_state_is_whole(party, fresh):
    """Redis 7 gives new users no channel: PUBLISH fails, the grant stands."""
    with restricted(fresh, "~snib:*", "resetchannels", "+@all") as weak:
        a, b = party(connection=weak), party()
        token = a.acquire()[2]
        b.acquire()
        assert a.release(token) == 1
        assert b.silent()
        code, _, token_b, _, _, _ = b.acquire(request=b.request)
        assert code == GRANTED and token_b > token
    ttl_everywhere(fresh)


def test_H17_without_numsub_nothing_is_changed(party, fresh):
    with restricted(fresh, "~snib:*", "resetchannels", "&snib:*", "+@all",
                    "-pubsub") as weak:
        a, b = party(connection=weak), party()
        token = a.acquire()[2]
        b.acquire()
        before = dump(fresh)
        with pytest.raises(RedisError) as caught:
            a.release(token)
        assert re.search("NOPERM|ACL failure|can't run", caught.value.text)
        assert dump(fresh) == before


@pytest.mark.parametrize("right", ["set", "hset", "pexpire", "zrem"])
def test_H17_a_release_that_cannot_serve_the_next_is_done(party, fresh, right):
    """It had removed the grant, failed, and found at its repeat that the grant
    was gone: that was told as a loss."""
    with restricted(fresh, "~snib:*", "allchannels", "+@all",
                    "-" + right) as weak:
        b = party()
        a = party()
        token = a.acquire()[2]
        b.acquire()
        a.talk = weak
        assert a.release(token) == 1
        a.talk = b.talk
        assert a.renew(token) != 1
        code, _, token_b, _, _, _ = b.acquire(request=b.request)
        assert code in (GRANTED, HELD) and token_b > token


@pytest.mark.parametrize("right, tomb", [("hdel", 0), ("set", 1)])
def test_H17_a_release_that_is_not_done_is_an_error(party, fresh, right, tomb):
    with restricted(fresh, "~snib:*", "allchannels", "+@all",
                    "-" + right) as weak:
        a, b = party(), party()
        token = a.acquire()[2]
        b.acquire()
        a.talk = weak
        with pytest.raises(RedisError) as caught:
            a.release(token, tomb=tomb)
        assert re.search("NOPERM|ACL failure|can't run", caught.value.text)
        a.talk = b.talk
        assert a.renew(token) == 1 or tomb


def test_H18_at_maxmemory_all_but_a_new_lock_works(party, fresh):
    a, b, c = party(), party(), party()
    token = a.acquire()[2]
    b.acquire()
    c.acquire()
    fresh.command("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(RedisError) as caught:
        party(name="other").acquire()
    assert caught.value.word == "OOM"
    assert a.renew(token) == 1
    assert a.release(token) == 1
    token_b = b.pushed()[1]
    assert b.acquire(request=b.request)[2] == token_b
    assert b.cancel() == 2
    token_c = c.pushed()[1]
    assert c.release(token_c, tomb=1) == 1
    assert a.cancel(request="e" * 32) == 3
    fresh.command("CONFIG", "SET", "maxmemory", "0")
    ttl_everywhere(fresh)
    assert fresh.command("EXISTS", "snib:{other}", "snib:{other}:t") == 0


def test_H18_yield_at_maxmemory(party, fresh):
    a, b = party(), party()
    token = a.acquire()[2]
    b.acquire()
    fresh.command("CONFIG", "SET", "maxmemory", "1")
    assert a.acquire(prior=token)[0] == QUEUED
    assert b.pushed()[0] == b.request
    fresh.command("CONFIG", "SET", "maxmemory", "0")
    ttl_everywhere(fresh)


def test_H19_the_token_memory_outlives_a_clock_set_back(party, fresh):
    """:t from two days ahead keeps for a day after *its own* time."""
    a = party()
    ahead = (a.now() + 2 * DAY) * 1024
    fresh.command("SET", "snib:{n}:t", ahead, "PX", DAY)
    token = a.acquire()[2]
    assert token == ahead + 1
    assert fresh.command("PTTL", "snib:{n}:t") > 3 * DAY - 60000
    a.release(token)
    assert a.acquire()[2] == ahead + 2


def test_H20_the_floor_raises_the_token_and_is_bounded(party, fresh):
    a = party()
    floor = (a.now() + 60000) * 1024
    token = a.acquire(floor=floor)[2]
    assert token == floor + 1
    a.release(token)
    fresh.command("FLUSHALL")
    for text in TEXT.values():
        fresh.command("SCRIPT", "LOAD", text)
    assert a.acquire(floor=token)[2] > token
    with pytest.raises(RedisError) as caught:
        party(name="m").acquire(floor=(a.now() + DAY + 60000) * 1024)
    assert caught.value.word == "SNIBFLOOR"


def test_H20_a_queued_waiters_floor_counts(party):
    a, b = party(), party()
    token = a.acquire()[2]
    floor = (a.now() + 3600000) * 1024
    b.acquire(floor=floor)
    a.release(token)
    assert b.pushed()[1] == floor + 1


def test_H21_room_is_reserved_in_the_memory(party, fresh):
    a, b = party(), party()
    token = a.acquire(room=31)[2]
    b.acquire(room=31)
    a.release(token)
    later = b.pushed()[1]
    assert later > token + 31
    assert int(fresh.command("GET", "snib:{n}:t")) >= later + 31


def test_H21_tokens_rise_when_the_memory_was_evicted_while_held(party, fresh):
    a, b = party(), party()
    floor = (a.now() + 3600000) * 1024
    token = a.acquire(room=31, floor=floor)[2]
    fresh.command("DEL", "snib:{n}:t")
    b.acquire()
    a.release(token)
    assert b.pushed()[1] > token + 31


def test_a_grant_held_for_days_keeps_the_memory(party, fresh):
    """:t ends a day after the grant; the record takes over, then the release
    writes :t again."""
    a = party()
    token = a.acquire()[2]
    old = (a.now() - 3 * DAY) * 1024 + 7
    record = fresh.command("HGET", "snib:{n}", a.uuid).decode()
    fresh.command("HSET", "snib:{n}", a.uuid,
                  record.replace(str(token), str(old)))
    fresh.command("DEL", "snib:{n}:t")
    assert a.renew(old) == 1
    assert fresh.command("PTTL", "snib:{n}") > DAY - 60000
    assert a.release(old) == 1
    assert int(fresh.command("GET", "snib:{n}:t")) == old
    assert fresh.command("PTTL", "snib:{n}:t") > DAY - 60000


def test_H24_yield_grants_the_head_and_queues_us_at_the_tail(party):
    a, b, c = party(), party(), party()
    token = a.acquire()[2]
    b.acquire()
    c.acquire()
    code, _, place, left = a.acquire(prior=token)
    assert (code, place) == (QUEUED, 2) and left <= 3000
    assert b.pushed()[0] == b.request


def test_a_try_that_does_not_fit_keeps_nobody_behind_it_waiting(party):
    """It ends the writer's grant, a read grant beside is left, and its rank is
    ahead of the reader's; but it does not stay in the queue."""
    a, b = party(), party()
    token = a.acquire()[2]
    assert a.acquire(mode=1, permits="1,b" + a.request)[0] == GRANTED
    assert b.acquire(mode=1)[0] == QUEUED
    assert a.acquire(prior=token, queue=0, rank=100)[0] == HELD
    assert b.pushed()[0] == b.request


def test_H24_yield_with_nobody_waiting_renews_the_room(party):
    a = party()
    first = a.acquire(room=31)
    code, _, token, room, _, _ = a.acquire(prior=first[2], room=31)
    assert (code, room) == (GRANTED, 31) and token > first[2] + 31


def test_H24_yield_repeated_after_a_lost_reply(party):
    a, b = party(), party()
    token = a.acquire()[2]
    b.acquire()
    a.acquire(prior=token)
    code, _, place, _ = a.acquire(request=a.request, prior=token)
    assert (code, place) == (QUEUED, 1)
    assert b.pushed() and b.silent()


def test_yield_of_anothers_token_ends_nothing(party):
    a, b = party(), party()
    token = a.acquire()[2]
    assert b.acquire(prior=token)[0] == QUEUED
    assert a.renew(token) == 1


def test_H26_rank_is_a_counter(party, fresh):
    a = party()
    a.acquire()
    waiters = [party(listen=False, connection=a.talk) for _ in range(12)]
    for w in waiters:
        w.acquire()
    ranks = fresh.command("ZRANGE", "snib:{n}:q", 0, -1, "WITHSCORES")
    ordinary = 128 << 40
    assert [int(r) - ordinary for r in ranks[1::2]] == list(range(1, 13))
    assert ranks[::2] == [w.request.encode() for w in waiters]
    assert waiters[0].acquire(request=waiters[0].request)[2] == 1


def test_H31_the_second_copy_of_a_release_says_not_yours(party):
    a, b = party(), party()
    token = a.acquire()[2]
    a.release(token)
    token_b = b.acquire()[2]
    assert a.release(token) == 0
    assert b.renew(token_b) == 1


def test_H52_two_ears_on_one_channel_are_not_pushed_to(party):
    a, b, c = party(), party(), party()
    token = a.acquire()[2]
    b.acquire()
    c.acquire()
    second = b.ear
    b.listen()
    a.release(token)
    assert c.pushed()[0] == c.request
    second.close()


def test_force_ends_the_holder_tells_it_and_hands_on(party, fresh):
    a, b = party(), party()
    token = a.acquire(lease=5000)[2]
    b.acquire()
    assert a.force("maintenance")[0] == 1
    assert a.renew(token) == b"REVOKED maintenance"
    assert a.release(token) == 2             # no release of its own
    assert a.release(token, tomb=1) == 2
    assert b.pushed()[1] > token
    assert 0 < fresh.command("PTTL", "snib:{n}:r") <= 5000
    assert b.force()[0] == 1
    assert a.renew(token) == b"REVOKED maintenance"   # the older mark stands
    assert b.force()[0] == 0
    ttl_everywhere(fresh)


def test_what_a_force_ended_is_not_granted_again(party, fresh):
    a, b = party(), party()
    token = a.acquire(lease=60000)[2]
    b.force()
    assert a.acquire(request=a.request)[0] == ENDED  # a copy, or a repeat
    assert a.renew(token) == b"REVOKED why"
    left = fresh.command("PTTL", "snib:{n}:x:" + a.request)
    assert 50000 < left <= 60000             # as long as its mark
    a.acquire(lease=1000)
    b.force()
    assert 9000 < fresh.command("PTTL", "snib:{n}:x:" + a.request) <= 10000
    assert a.acquire()[0] == GRANTED
    ttl_everywhere(fresh)


def test_a_mark_that_is_over_is_of_an_earlier_grant(party, fresh):
    a, b = party(), party()
    token = a.acquire()[2]
    fresh.command("HSET", "snib:{n}:r", a.request, "1 long ago")
    assert a.release(token) == 1
    assert a.release(token, tomb=1) == 0     # a repeat: not revoked
    b.acquire()


def test_force_repairs_a_damaged_record(party, fresh):
    a = party()
    fresh.command("HSET", "snib:{n}", a.uuid, "junk")
    with pytest.raises(RedisError):
        a.acquire()
    assert a.force()[0] == 1
    assert a.acquire()[0] == GRANTED


def test_force_keeps_the_token_memory(party, fresh):
    a = party()
    floor = (a.now() + 3600000) * 1024
    token = a.acquire(floor=floor, room=31)[2]
    fresh.command("DEL", "snib:{n}:t")
    a.force()
    assert a.acquire()[2] > token + 31


def test_inspect_shows_holder_and_waiters_in_order(party):
    a, b, c, deaf = party(), party(), party(), party()
    token = a.acquire(about="host=h&reason=x%20y")[2]
    deaf.acquire()
    b.acquire()
    c.acquire()
    now, last, count, holders, waiters, _ = a.inspect()
    assert (last, count) == (token, 3)
    assert holders[0] == a.uuid.encode()
    assert holders[1].endswith(b" host=h&reason=x%20y")
    assert waiters[::3] == [p.request.encode() for p in (deaf, b, c)]
    assert a.inspect(1, 1)[4][0] == b.request.encode()


def test_inspect_hides_the_ended_and_writes_nothing(party, fresh):
    a = party()
    a.acquire(lease=30)
    fresh.command("PERSIST", "snib:{n}")
    time.sleep(0.05)
    before = dump(fresh)
    assert a.inspect()[3:] == [[], [], [-1, -1]]
    assert dump(fresh) == before


def test_probe_finds_nothing_wrong_and_leaves_nothing(party, fresh):
    a = party()
    wrong, heard = a.run("probe", PROBED,
                         [a.channel])
    assert (wrong, heard) == ([], 1)
    assert fresh.keys() == {}


def test_probe_names_what_is_refused(party, fresh):
    with restricted(fresh, "~snib:*", "resetchannels", "+@all", "-zadd",
                    "-pubsub") as weak:
        wrong, heard = party(connection=weak).run(
            "probe", PROBED, ["snib:x"])
        assert wrong[::2] == [b"ZADD", b"PUBSUB", b"PUBLISH"]
        assert heard == -1
    with restricted(fresh, "~snib:*", "+@all", "-del", "-set") as weak:
        wrong, heard = party(connection=weak).run(
            "probe", PROBED, ["snib:x"])
        assert wrong[::2] == [b"DEL"]    # writes nothing it cannot remove
    assert fresh.keys() == {}


RIGHTS = ("~snib:*", "&snib:*", "resetchannels", "&snib:*", "+evalsha",
          "+eval", "+time", "+select", "+subscribe", "+ping", "+exists",
          "+get", "+set", "+del", "+hget", "+hset", "+hmget", "+hgetall",
          "+hexists", "+hdel", "+pexpire", "+pttl", "+zadd", "+zrem", "+zrange",
          "+zrangebyscore", "+zscore", "+zrank", "+zcard", "+publish",
          "+pubsub|numsub", "+pubsub|channels", "+scan", "+info", "+config|get",
          "+multi", "+exec", "+xadd", "+xlen", "+mget")


def test_the_least_privilege_of_the_manual_is_enough(party, fresh):
    manual = open(os.path.join(ROOT, "docs", "REDIS.md"), encoding="utf-8").read()
    line = re.search(r"ACL SETUSER snib on >\S+ ((?:.|\n)*?)```", manual)
    rights = line.group(1).replace("\\\n", " ").split()
    assert set(rights) == set(RIGHTS), set(rights) ^ set(RIGHTS)
    with restricted(fresh, *rights) as weak:
        a = party(connection=weak)
        token = a.acquire()[2]
        b = party(connection=restricted(fresh, *rights))
        b.acquire()
        assert a.renew(token) == 1
        assert a.inspect()[2] == 1
        assert a.acquire(prior=token)[0] == QUEUED
        b.pushed()
        assert b.force()[0] == 1
        a.pushed()
        assert a.cancel() == 2
        assert weak.command("SUBSCRIBE", a.channel)
    with restricted(fresh, *rights) as weak:
        for command in (["FLUSHALL"], ["KEYS", "*"], ["GET", "other"],
                        ["CONFIG", "SET", "save", ""], ["ACL", "LIST"]):
            with pytest.raises(RedisError) as caught:
                weak.command(*command)
            assert caught.value.word == "NOPERM"
