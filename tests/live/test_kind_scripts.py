"""The shipped Lua scripts for readers, permits and barriers, hole by hole, on
a real redis-server; test_redis_scripts.py has the exclusive kinds, and how a
client is played by hand."""

import time

import pytest

from test_redis_scripts import (  # noqa: F401
    GRANTED, HELD, QUEUED, Party, RedisError, fields, fresh, ids, party,
    pytestmark, server, ttl_everywhere)

MUTEX, READ, WRITE, PERMITS, BARRIER = range(5)
ENDED, TOO_MANY, BESIDE_OVER, SECOND_UPGRADE, NO_SIZE = 5, 6, 7, 8, 9
SHARED = {"read": {"mode": READ}, "permits": {"mode": PERMITS, "size": 9},
          "barrier": {"mode": BARRIER}}
shared_kinds = pytest.mark.parametrize("kind", SHARED)


def new_request():
    return f"{next(ids):032x}"


def take(of, mode, permits="1", **more):
    """The reply of one more request of that party, and the request."""
    reply = of.acquire(mode=mode, permits=permits, **more)
    return reply, of.request


def read(of, **more):
    reply, request = take(of, READ, **more)
    assert reply[0] == GRANTED
    return reply[2], request


def upgrade(of, beside, request=None, **more):
    return take(of, WRITE, f"1,b{beside}", request=request, **more)


def holders(server):
    return len(fields(server))


def over(milliseconds):
    time.sleep(milliseconds / 1000 + 0.01)  # a lease is to run out: no fact


# -- who fits beside whom --------------------------------------------------------


def test_readers_share_and_permits_go_with_them_but_nobody_with_a_writer(
        party, fresh):
    a, b, c = party(), party(), party()
    read(a)
    read(a)                                    # two of one client
    read(b)
    assert take(b, PERMITS, "2", size=2)[0][0] == GRANTED
    assert holders(fresh) == 4
    for mode in (MUTEX, WRITE):
        assert take(c, mode, queue=0)[0][0] == HELD
    ttl_everywhere(fresh)


@pytest.mark.parametrize("mode", [MUTEX, WRITE])
def test_nobody_shares_with_an_exclusive_holder(party, mode):
    a, b = party(), party()
    take(a, mode)
    for other in (MUTEX, READ, WRITE, PERMITS, BARRIER):
        assert take(b, other, size=1, queue=0)[0][0] == HELD


def test_a_queued_writer_makes_new_readers_wait(party, fresh):
    a, w, b = party(), party(), party()
    token, request = read(a)
    assert take(w, WRITE)[0][0] == QUEUED
    reply, of_b = take(b, READ)
    assert (reply[0], reply[2]) == (QUEUED, 2)
    assert take(b, READ, queue=0)[0][0] == HELD
    assert a.release(token, request=request) == 1
    got = w.pushed()
    assert got[0] == w.request and b.silent()
    assert w.release(got[1]) == 1
    assert b.pushed()[0] == of_b


def test_a_reader_shows_the_era_and_all_others_a_token_of_their_own(party):
    a, b = party(), party()
    era = take(a, WRITE, room=31)[0][2]
    a.release(era)
    first, _ = read(a)
    second, _ = read(b)
    assert first == second == era + 31
    lots = [take(b, PERMITS, size=9)[0][2] for _ in range(3)]
    assert era + 31 < lots[0] < lots[1] < lots[2]


# -- lost replies, late copies, tombstones -----------------------------------------


@shared_kinds
def test_a_repeat_after_a_lost_reply_is_the_same_grant(party, fresh, kind):
    a = party()
    first = a.acquire(lease=20000, **SHARED[kind])
    again = a.acquire(request=a.request, lease=30000, **SHARED[kind])
    assert (again[0], again[2]) == (GRANTED, first[2])
    assert holders(fresh) == 1
    assert fresh.command("PTTL", "snib:{n}") > 29000
    a.acquire(request=a.request, lease=1000, **SHARED[kind])  # a late copy
    assert fresh.command("PTTL", "snib:{n}") > 29000
    ttl_everywhere(fresh)


@shared_kinds
def test_a_repeat_keeps_the_lock_delay(party, fresh, kind):
    """A claim of 3 s is confirmed by a poll: the key has to outlive the lease
    and the lock-delay."""
    terms = dict(SHARED[kind], permits="1,d60000")
    a = party()
    a.acquire(lease=3000, **terms)
    a.acquire(request=a.request, lease=30000, **terms)
    assert fresh.command("PTTL", "snib:{n}") > 89000


def test_a_pushed_mutex_that_is_confirmed_keeps_its_lock_delay(party, fresh):
    a, b = party(), party()
    token = a.acquire()[2]
    b.acquire(permits="1,d60000")
    a.release(token)
    b.pushed()
    assert b.acquire(request=b.request, permits="1,d60000")[0] == GRANTED
    assert fresh.command("PTTL", "snib:{n}") > 89000


@shared_kinds
def test_cancel_of_waiting_granted_and_neither(party, fresh, kind):
    w, a = party(), party()
    token = w.acquire(mode=WRITE)[2]
    a.acquire(**SHARED[kind])
    assert a.cancel() == 1
    assert a.acquire(request=a.request, **SHARED[kind])[0] == ENDED
    w.release(token)
    assert a.silent()
    a.acquire(**SHARED[kind])
    assert a.cancel() == 2
    assert a.acquire(request=a.request, **SHARED[kind])[0] == ENDED
    assert holders(fresh) == 0
    assert a.cancel(request=new_request()) == 3
    ttl_everywhere(fresh)


@shared_kinds
def test_cancel_of_one_touches_no_other_of_the_same_client(party, fresh, kind):
    a = party()
    a.acquire(**SHARED[kind])
    kept = a.request
    a.acquire(**SHARED[kind])
    assert a.cancel() == 2
    assert fields(fresh) == [f"{a.uuid}:{kept}".encode()]


@shared_kinds
def test_release_of_a_resent_request_leaves_a_tombstone(party, kind):
    a = party()
    token = a.acquire(**SHARED[kind])[2]
    assert a.release(token, tomb=1) == 1
    assert a.acquire(request=a.request, **SHARED[kind])[0] == ENDED
    assert a.release(token, tomb=1) == 0


@shared_kinds
def test_release_wants_request_token_and_client(party, fresh, kind):
    a, b = party(), party()
    token = a.acquire(**SHARED[kind])[2]
    assert a.release(token + 1) == 0
    assert b.release(token, request=a.request) == 0
    assert a.release(token, request=new_request()) == 0
    assert holders(fresh) == 1
    assert a.release(token) == 1
    assert holders(fresh) == 0


# -- waiters: deaf, dead, many -------------------------------------------------------


@shared_kinds
def test_deaf_and_dead_waiters_are_passed_over(party, kind):
    w, deaf, dead, c = party(), party(), party(), party()
    token = w.acquire(mode=WRITE)[2]
    deaf.acquire(**SHARED[kind])
    dead.acquire(window=20, **SHARED[kind])
    c.acquire(**SHARED[kind])
    deaf.deafen()
    over(20)
    w.release(token)
    assert c.pushed()[0] == c.request
    assert dead.silent()
    deaf.listen()
    assert deaf.acquire(request=deaf.request, **SHARED[kind])[0] == GRANTED


def test_three_hundred_readers_come_in_by_one_release(party, fresh):
    w, a, b = party(), party(), party()
    token = w.acquire(mode=WRITE)[2]
    asked = set()
    for i in range(300):
        reply, request = take(a if i % 2 else b, READ)
        assert reply[0] == QUEUED
        asked.add(request)
    w.release(token)
    assert 256 <= holders(fresh) < 300         # so much of one script's time
    code = a.acquire(request=a.request, mode=READ)[0]   # the last one's poll
    assert code == GRANTED
    assert holders(fresh) == 300
    told = {of.pushed()[0] for of, n in ((a, 149), (b, 150)) for _ in range(n)}
    assert told == asked - {a.request}
    assert a.silent() and b.silent()
    ttl_everywhere(fresh)
    assert fresh.command("ZCARD", "snib:{n}:q") == 0


def test_an_expired_reader_gives_way_and_the_others_stay(party, fresh):
    a, b, w = party(), party(), party()
    read(a, lease=50)
    token, request = read(b)
    assert take(w, WRITE)[0][0] == QUEUED
    over(50)
    assert b.release(token, request=request) == 1
    assert w.pushed()[0] == w.request
    assert fields(fresh) == [w.uuid.encode()]


# -- the life of the key --------------------------------------------------------------


def test_no_holder_shortens_the_record_of_another(party, fresh):
    a, b, c = party(), party(), party()

    def lives():
        assert fresh.command("PTTL", "snib:{n}") > 55000
        ttl_everywhere(fresh)

    token, request = read(a, lease=60000)
    lives()
    small, of_b = read(b, lease=1000)
    lives()
    b.acquire(request=of_b, lease=1000, mode=READ)
    lives()
    assert b.renew(small, lease=1000, request=of_b) == 1
    lives()
    lot = take(c, PERMITS, lease=1000, size=1)[0][2]
    lives()
    assert take(b, PERMITS, lease=1000)[0][0] == QUEUED
    assert c.release(lot) == 1                 # a push: push lease
    assert b.pushed()
    lives()
    b.release(small, request=of_b)
    b.cancel()
    lives()
    assert upgrade(a, request, lease=1000)[0][0] == GRANTED
    lives()
    assert a.renew(token, lease=70000, request=request) == 1
    lives()


def test_a_lock_delay_keeps_the_key_and_others_out(party, fresh):
    a, b = party(), party()
    a.acquire(lease=50, permits="1,d30000")
    over(50)
    code, _, left = b.acquire(queue=0)
    assert code == HELD and 29000 < left <= 30000
    assert take(b, READ, queue=0)[0][0] == HELD
    assert a.renew(fresh.command("HGET", "snib:{n}", a.uuid).split()[1]) == 0
    assert b.acquire()[0] == QUEUED
    assert b.force()[0] == 0                   # nobody holds by lease …
    assert b.pushed()[0] == b.request          # … and a person's word counts


def test_a_renewal_keeps_the_lock_delay(party, fresh):
    a = party()
    token = a.acquire(lease=1000, permits="1,d40000")[2]
    assert a.renew(token, lease=20000) == 1
    assert fresh.command("PTTL", "snib:{n}") > 59000


def test_a_release_opens_a_lock_with_a_delay_at_once(party):
    a, b = party(), party()
    token = a.acquire(permits="1,d60000")[2]
    b.acquire()
    assert a.release(token) == 1
    assert b.pushed()[0] == b.request


# -- becoming the writer ----------------------------------------------------------------


def test_a_writer_reads_at_once_and_the_readers_come_when_it_has_written(
        party, fresh):
    a, b = party(), party()
    token = take(a, WRITE)[0][2]
    write = a.request
    assert take(b, READ)[0][0] == QUEUED
    reply, nested = take(a, READ, f"1,b{write}")
    assert (reply[0], reply[2]) == (GRANTED, token)
    assert b.silent()
    assert a.release(token, request=write) == 1
    assert b.pushed()[0] == b.request
    assert holders(fresh) == 2
    assert a.release(token, request=nested) == 1


def test_an_upgrade_goes_first_and_waits_for_the_other_readers(party, fresh):
    a, b, w = party(), party(), party()
    token, of_a = read(a)
    token_b, of_b = read(b)
    assert take(w, WRITE, rank=28)[0][0] == QUEUED    # priority 100
    assert upgrade(a, of_a, queue=0)[0][0] == HELD
    reply, up = upgrade(a, of_a)
    assert (reply[0], reply[2]) == (QUEUED, 1)
    assert b.release(token_b, request=of_b) == 1
    request, token_up, *_ = a.pushed()
    assert request == up and token_up > token and w.silent()
    assert holders(fresh) == 2
    assert a.release(token_up, request=up) == 1
    assert w.silent()                                 # a still reads
    assert a.release(token, request=of_a) == 1
    assert w.pushed()[0] == w.request


def test_a_second_upgrade_is_refused_and_leaves_nothing(party, fresh):
    a, b = party(), party()
    _, of_a = read(a)
    token_b, of_b = read(b)
    _, up = upgrade(a, of_a)
    for queue in (0, 1):
        assert upgrade(b, of_b, queue=queue)[0][0] == SECOND_UPGRADE
    assert fresh.command("ZRANGE", "snib:{n}:q", 0, -1) == [up.encode()]
    assert fresh.command("HLEN", "snib:{n}:w") == 2   # and the counter
    assert b.release(token_b, request=of_b) == 1
    assert a.pushed()[0] == up


def test_an_upgrade_whose_rival_has_died_is_not_refused(party):
    a, b = party(), party()
    _, of_a = read(a)
    _, of_b = read(b)
    upgrade(a, of_a, window=20)
    over(20)
    assert upgrade(b, of_b)[0][0] == QUEUED


def test_two_upgrades_never_wait_for_each_other(party, fresh):
    """The first was deaf when its turn came and stepped aside; another reader
    came in and wants to write, too: one of them must hear of it."""
    a, b = party(), party()
    _, of_a = read(a)
    token_b, of_b = read(b)
    _, up = upgrade(a, of_a)
    a.deafen()
    b.release(token_b, request=of_b)
    assert fresh.command("ZCARD", "snib:{n}:q") == 0
    token_b, of_b = read(b)
    assert upgrade(b, of_b)[0][0] == QUEUED
    up_b = b.request
    a.listen()
    codes = [upgrade(a, of_a, request=up)[0][0],
             upgrade(b, of_b, request=up_b)[0][0]]
    assert sorted(codes) == [QUEUED, SECOND_UPGRADE]


def test_an_upgrade_beside_nothing_is_refused(party, fresh):
    a, b = party(), party()
    assert upgrade(a, new_request())[0][0] == BESIDE_OVER
    token, of_a = read(a)
    read(b)
    _, up = upgrade(a, of_a)
    assert a.release(token, request=of_a) == 1        # ended while it waited
    assert upgrade(a, of_a, request=up)[0][0] == BESIDE_OVER
    assert fresh.command("ZCARD", "snib:{n}:q") == 0
    assert take(b, READ)[0][0] == GRANTED             # nothing bars readers
    ttl_everywhere(fresh)


# -- permits ------------------------------------------------------------------------------


def test_the_first_sets_the_size_and_later_ones_do_not_change_it(party, fresh):
    a, b = party(), party()
    assert take(a, PERMITS, "2", size=3)[0][5] == 2
    assert fresh.command("HGET", "snib:{n}:c", "size") == b"3"
    assert take(b, PERMITS, "2", size=9, queue=0)[0][0] == HELD
    assert fresh.command("HGET", "snib:{n}:c", "size") == b"3"
    assert fresh.command("PTTL", "snib:{n}:c") > 2591990000
    assert take(b, PERMITS, "4", size=9)[0][::2] == [TOO_MANY, 3]
    assert fresh.command("ZCARD", "snib:{n}:q") == 0
    ttl_everywhere(fresh)


def test_without_a_size_nothing_is_granted_and_nothing_is_left(party, fresh):
    a = party()
    assert take(a, PERMITS)[0][0] == NO_SIZE
    assert fresh.keys() == {}
    assert take(a, PERMITS, "5", size=4)[0][::2] == [TOO_MANY, 4]
    assert fresh.keys() == {}


def test_permits_are_summed_and_given_in_order(party, fresh):
    a, big, small = party(), party(), party()
    lots = [take(a, PERMITS, size=4) for _ in range(4)]
    assert take(big, PERMITS, "3")[0][0] == QUEUED
    assert take(small, PERMITS, "1")[0][0] == QUEUED
    for reply, request in lots[:2]:
        assert a.release(reply[2], request=request) == 1
    assert big.silent() and small.silent()            # small must not overtake
    assert take(a, PERMITS, queue=0)[0][0] == HELD
    reply, request = lots[2]
    assert a.release(reply[2], request=request) == 1
    token = big.pushed()[1]
    assert small.silent()                             # 3 + 1 of 4
    assert big.release(token) == 1
    assert small.pushed()[0] == small.request


def test_permits_of_the_dead_are_back_when_their_lease_is_over(party):
    a, b = party(), party()
    take(a, PERMITS, "2", size=2, lease=50)
    assert take(b, PERMITS, queue=0)[0][0] == HELD
    over(50)
    assert take(b, PERMITS, "2", queue=0)[0][0] == GRANTED


def test_slots_are_told_by_grant_repeat_renewal_and_message(party, fresh):
    a, b, c = party(), party(), party()
    delayed = take(a, PERMITS, "1,d60000", size=4)
    assert delayed[0][5:] == [1, 0]
    two = take(a, PERMITS, "2")
    assert two[0][5:] == [2, 1]
    assert a.acquire(request=two[1], mode=PERMITS, permits="2")[5:] == [2, 1]
    assert a.renew(two[0][2], request=two[1]) == 5 + 1
    records = fresh.command("HVALS", "snib:{n}")
    assert sorted(r.split()[4] for r in records) == [b"1,d60000,s0", b"2,s1"]
    assert take(b, PERMITS)[0][5:] == [1, 2]
    assert take(c, PERMITS)[0][0] == QUEUED
    assert a.release(two[0][2], request=two[1]) == 1
    request, token, *_, slot_and_key = c.pushed()
    assert (request, slot_and_key) == (c.request, "1 snib:{n}")
    assert c.acquire(request=request, mode=PERMITS)[5:] == [1, 1]
    assert c.renew(token) == 5 + 1
    assert len(a.acquire(mode=READ)) == 6      # others have none


def test_drain_takes_all_that_are_left_and_never_waits(party, fresh):
    a, b = party(), party()
    take(a, PERMITS, "3", size=10)
    reply, request = take(b, PERMITS, "0", queue=0)
    assert (reply[0], reply[5]) == (GRANTED, 7)
    assert b.acquire(request=request, mode=PERMITS, permits="0")[5] == 7
    assert take(a, PERMITS, "0", queue=0)[0][0] == HELD
    assert b.release(reply[2], request=request) == 1
    assert take(b, PERMITS, "7", queue=0)[0][0] == GRANTED


@pytest.mark.parametrize("field, value", [("size", "many"), ("gate", "x")])
def test_damaged_terms_are_told_and_nothing_is_changed(
        party, fresh, field, value):
    a, b = party(), party()
    token, request = read(a)
    assert take(b, WRITE)[0][0] == QUEUED
    fresh.command("HSET", "snib:{n}:c", field, value)
    fresh.command("PEXPIRE", "snib:{n}:c", 60000)
    before = fresh.command("HGETALL", "snib:{n}")
    for step in (lambda: take(a, PERMITS), lambda: take(a, READ),
                 lambda: a.release(token, request=request),
                 lambda: b.cancel()):
        with pytest.raises(RedisError, match="CORRUPT"):
            step()
    assert fresh.command("HGETALL", "snib:{n}") == before
    assert fresh.command("ZCARD", "snib:{n}:q") == 1


def test_terms_of_a_wrong_type_change_nothing(party, fresh):
    a = party()
    token, request = read(a)
    fresh.command("SET", "snib:{n}:c", "x", "PX", 60000)
    for mode in (PERMITS, READ):
        with pytest.raises(RedisError, match="WRONGTYPE"):
            take(a, mode, size=3)
    assert holders(fresh) == 1
    assert a.release(token, request=request) == 1     # nobody waits: no look


# -- renewal, force, inspect -----------------------------------------------------------------


def test_shared_holders_are_renewed_each_by_itself(party, fresh):
    a, b = party(), party()
    token, one = read(a, lease=2000)
    _, two = read(a, lease=2000)
    lot = take(a, PERMITS, "2", size=3, lease=2000)
    keys = a.keys("", ":r") * 3
    reply = a.run("renew", keys, [a.uuid, one, token, 60000, new_request(),
                                  token, 60000, lot[1], lot[0][2], 50000])
    assert reply[1:] == [1, 0, 5]       # 5: permits, slot 0
    ends = {name.decode()[33:]: int(record.split()[2]) - reply[0]
            for name, record in zip(*[iter(fresh.command(
                "HGETALL", "snib:{n}"))] * 2)}
    assert ends[one] == 60000 and ends[lot[1]] == 50000
    assert ends[two] <= 2000
    assert b.renew(token, request=one) == 0           # not b's
    assert a.renew(token, lease=100, request=one) == 1
    assert fresh.command("PTTL", "snib:{n}") > 59000  # never shorter


def test_a_renewal_does_not_bring_an_ended_reader_back(party, fresh):
    a, b = party(), party()
    token, request = read(a, lease=50)
    read(b)
    over(50)
    assert a.renew(token, request=request) == 0


def test_force_ends_all_and_tells_each(party, fresh):
    a, b, w = party(), party(), party()
    token, one = read(a)
    _, two = read(a)
    lot = take(b, PERMITS, "2", size=3)[0][2]
    take(w, WRITE)
    assert w.force()[0] == 3
    assert w.pushed()[0] == w.request
    assert a.renew(token, request=one) == b"REVOKED why"
    assert a.renew(token, request=two) == b"REVOKED why"
    assert b.renew(lot) == b"REVOKED why"
    assert fresh.command("HGET", "snib:{n}:c", "size") == b"3"
    ttl_everywhere(fresh)


def test_inspect_shows_all_that_share_and_the_size(party):
    a, b = party(), party()
    read(a)
    take(a, PERMITS, "2", size=3)
    take(b, WRITE)
    _, _, count, held, waiting, terms = a.inspect()
    assert (count, len(held), len(waiting), terms) == (1, 4, 3, [3, -1])


# -- barriers ------------------------------------------------------------------------------------


def test_a_barrier_opens_for_all_at_once_with_one_token(party, fresh):
    parties = [party() for _ in range(4)]
    for generation in range(2):
        for one in parties[:3]:
            assert take(one, BARRIER, "4")[0][0] == QUEUED
        assert holders(fresh) == 0
        reply, _ = take(parties[3], BARRIER, "4")
        assert reply[0] == GRANTED
        tokens = {reply[2]} | {one.pushed()[1] for one in parties[:3]}
        assert len(tokens) == 1
        assert holders(fresh) == 4
        token = tokens.pop()
        assert all(one.release(token) == 1 for one in parties)
        assert generation == 0 or token > before
        before = token
    ttl_everywhere(fresh)


def test_two_that_wait_do_not_make_a_generation_with_two_deaf(party):
    a, deaf, dead, b, c = (party() for _ in range(5))
    take(a, BARRIER, "3")
    take(deaf, BARRIER, "3")
    deaf.deafen()
    take(dead, BARRIER, "3", window=20)
    over(20)
    assert take(b, BARRIER, "3")[0][0] == QUEUED
    assert a.silent()
    assert take(c, BARRIER, "3")[0][0] == GRANTED
    assert a.pushed()[1] == b.pushed()[1]


def test_a_party_that_cancels_does_not_count(party):
    a, b, c = party(), party(), party()
    take(a, BARRIER, "2")
    a.cancel()
    assert take(b, BARRIER, "2")[0][0] == QUEUED
    assert take(c, BARRIER, "2")[0][0] == GRANTED
    assert b.pushed()[0] == b.request


def test_a_party_that_cancels_hears_whether_it_was_counted(party, fresh):
    """Its copy, too. The others go on the strength of it."""
    a, b, c = party(), party(), party()
    take(a, BARRIER, "2")
    reply, _ = take(b, BARRIER, "2")
    assert reply[0] == GRANTED
    assert a.cancel_says() == [2, reply[2]]
    assert a.cancel_says() == [2, reply[2]]
    assert holders(fresh) == 1
    take(c, BARRIER, "2")
    assert c.cancel_says() == [1]
    assert c.cancel_says() == [3]
    ttl_everywhere(fresh)


def test_a_party_that_cancels_after_a_force_hears_that_it_was_counted(
        party, fresh):
    a, b = party(), party()
    take(a, BARRIER, "2")
    reply, _ = take(b, BARRIER, "2")
    assert b.force()[0] == 2
    assert a.cancel_says() == [2, reply[2]]
    assert a.cancel_says() == [2, reply[2]]
    ttl_everywhere(fresh)


def test_a_party_that_only_tries_keeps_nobody_behind_it_waiting(party):
    a, low, c = party(), party(), party()
    take(a, WRITE, lease=200)
    take(low, READ, rank=129)
    over(200)
    assert take(c, BARRIER, "2", queue=0)[0][0] == HELD
    assert low.pushed()[0] == low.request


def test_parties_of_different_sizes_are_no_generation(party, fresh):
    """A mistake of the caller's; those behind it wait, and nobody passes by
    the count of another."""
    a, b, c = party(), party(), party()
    assert take(a, BARRIER, "2")[0][0] == QUEUED
    assert take(b, BARRIER, "3")[0][0] == QUEUED
    assert take(c, BARRIER, "3")[0][0] == QUEUED
    assert holders(fresh) == 0
    assert a.silent()


def test_a_barrier_waits_behind_others_and_for_the_writer(party):
    w, a, r, b = party(), party(), party(), party()
    token = take(w, WRITE)[0][2]
    take(a, BARRIER, "2")
    take(r, WRITE)
    take(b, BARRIER, "2")
    w.release(token)
    assert a.silent() and b.silent() and r.silent()
    r.cancel()                                 # who stood between them is gone
    assert a.pushed()[1] == b.pushed()[1]


# -- the rest ---------------------------------------------------------------------------------------


def test_ranks_are_served_from_the_lowest_and_equals_in_order(party):
    w = party()
    token = w.acquire()[2]
    waiting = [(rank, party()) for rank in (128, 228, 28, 128, 28, 121)]
    for rank, one in waiting:
        one.acquire(rank=rank)
    served = []
    for _ in waiting:
        w.release(token, request=w.request)
        (w, token), = [(one, push[1]) for one, push in
                       ((one, try_push(one)) for _, one in waiting
                        if one not in served) if push]
        served.append(w)
    order = [waiting.index(pair) for one in served for pair in waiting
             if pair[1] is one]
    assert order == [2, 4, 5, 0, 3, 1]


def try_push(one):
    """What was pushed, or None; PING answers behind it."""
    one.ear.send("PING")
    first = one.ear.read(2.0)
    if first[0] == b"pong":
        return None
    one.ear.read(2.0)
    word, request, token, *_ = first[2].decode().split(" ")
    assert (word, request) == ("g", one.request)
    return request, int(token)


@pytest.mark.parametrize("terms", [
    {"mode": 5}, {"mode": -1}, {"mode": READ, "permits": "0"},
    {"mode": PERMITS, "permits": ""}, {"mode": PERMITS, "permits": "-1"},
    {"mode": PERMITS, "permits": "4294967296"}, {"permits": "1,x"},
    {"permits": "1,bxyz"}, {"permits": "1,d"}, {"permits": "1,b1,d1"},
    {"mode": PERMITS, "size": -1}, {"mode": PERMITS, "size": 4294967296},
    {"rank": 256}, {"rank": -1}])
def test_out_of_range_terms_are_refused_before_anything(party, fresh, terms):
    with pytest.raises(RedisError, match="SNIBARG"):
        party().acquire(**terms)
    assert fresh.keys() == {}
