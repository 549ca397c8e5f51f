"""A free mutex is taken by plain commands in one transaction, and what then
happens to these commands, to the key, and to those who come meanwhile.

Rows: lost replies (F-001, F-005), dropped connections (F-052), cuts at each byte
(F-053), late copies (F-060; H12, H15), the server's data changed under us
(F-021), holders that are killed (F-029).
"""

import time

import pytest

from harness.checks import (LAYOUT, MARK, Rising, assert_no_residue, holders,
                            lock_key, next_millisecond, read_tally, with_login)
from harness.pulse import late_ms
from harness.redis_server import redis_missing
from harness.wait import boot_ns, stays, wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

PACKET = ["MULTI", "SET", "XADD", "EXEC"]


@pytest.fixture
def holder(drivers, proxy):
    """A process behind the proxy; quick to find a silent line dead. From its
    second acquire on it asks without a script."""
    made = drivers(proxy.url, request_ms=600)
    made.acquire(made.lock("warm"), wait_ms=2000).release()
    return made


@pytest.fixture
def other(drivers, redis):
    """A process with a healthy connection, that has acquired, too."""
    made = drivers(redis.url)
    made.acquire(made.lock("warm2"), wait_ms=2000).release()
    return made


def thin(server, name="n"):
    """The record's words, if the lock is held thinly."""
    if server.command("TYPE", lock_key(name)) != b"string":
        return None
    return server.command("GET", lock_key(name)).decode().split(" ")


def asked(proxy, since=0):
    """The commands that callers asked for: word, or label of the script."""
    return [frame.script or frame.command
            for frame in proxy.frames("request", since=since)
            if frame.command not in ("PING",)]


# -- what is asked, and what is there ----------------------------------------


def test_free_mutex_costs_a_transaction_and_leaves_nothing(
        holder, proxy, redis):
    lock = holder.lock("n", lease_ms=5000)
    mark = proxy.mark()
    grant = holder.acquire(lock)
    request, client, lease, since, token, about = thin(redis)
    assert (len(request), len(client), lease, token) == (32, 32, "5000", "0")
    assert "host=" in about and abs(int(since) / 1000 - time.time()) < 60
    assert 0 < redis.command("PTTL", "snib:{n}") <= 5000
    status = grant.status()
    assert status.held and 0 < status.left_ms <= 5000
    grant.release()
    assert asked(proxy, mark) == [*PACKET, "drop"]
    assert set(redis.keys()) == {LAYOUT, MARK, b"snib:{warm}:t"}


def test_tokens_rise_over_names_and_both_forms(holder, other):
    rising = Rising()
    for i in range(30):
        who = (holder, other)[i % 2]
        options = {"no_local_pass": True} if i % 3 == 0 else {}
        grant = who.acquire(who.lock(f"n{i % 5}", id=f"l{i}", **options))
        rising(grant.token)
        grant.release()


def test_lease_longer_than_the_first_is_renewed_to_its_length(
        holder, redis):
    grant = holder.acquire(holder.lock("n", lease_ms=60000))
    assert redis.command("PTTL", "snib:{n}") <= 9900
    wait_until(lambda: redis.command("PTTL", "snib:{n}") > 50000, 8,
               "the first renewal")
    assert thin(redis)[4] == str(grant.token)
    assert grant.status().held
    grant.release()
    assert holders(redis, "n") == 0


def test_who_looks_learns_the_token_after_a_renewal(holder, redis, look):
    grant = holder.acquire(holder.lock("n"))
    seen = [p["token"] for p in look(redis.url).view("n").holders]
    assert seen in ([0], [grant.token])  # its own renewal comes after a second
    grant.renew()
    assert ([p["token"] for p in look(redis.url).view("n").holders]
            == [grant.token])
    grant.release()


def test_killed_holder_delays_by_its_lease(holder, redis, other, expires):
    grant = holder.acquire(holder.lock("n", lease_ms=1500))
    assert thin(redis)
    holder.kill()
    began = boot_ns()
    taken = other.acquire(other.lock("n"), wait_ms=8000)
    assert (boot_ns() - began) / 1e6 < 1500 + 1500 + late_ms()
    assert taken.token > grant.token
    taken.release()


# -- lost replies, cuts ------------------------------------------------------


@pytest.mark.parametrize("then", ["rst", "fin", "silence"])
@pytest.mark.parametrize("command", PACKET)
def test_packet_whose_reply_is_lost_is_granted_once(
        holder, proxy, redis, look, clean, command, then):
    rule = proxy.drop_reply(command=command, times=1, then=then)
    lock = holder.lock("n")
    grant = holder.acquire(lock, wait_ms=5000)
    assert rule.fired == 1
    view = look(redis.url).view("n")
    assert [party["token"] for party in view.holders] == [grant.token]
    assert grant.status().holds == 1
    grant.release()
    assert look(redis.url).holders("n") == 0


@pytest.mark.parametrize("percent", [5, 30, 50])
def test_dropped_connections_slow_down_and_lose_nothing(
        redis, proxy, drivers, tmp_path, clean, percent):
    """So many of the replies to a transaction are lost with their
    connection."""
    dice = iter(range(1 << 30))
    lost = proxy.drop_reply(
        where=lambda _: next(dice) * 37 % 100 < percent, then="rst",
        command="EXEC")
    one, rounds = drivers(proxy.url), 24
    mark = proxy.mark()
    job = one.start("count", lock=one.lock("n", lease_ms=5000),
                    path=tmp_path / "tally", rounds=rounds)
    assert job.wait(30).done == rounds
    assert read_tally(tmp_path / "tally")[0] == rounds
    assert lost.fired >= 1
    assert proxy.count("open", since=mark) <= 6 * rounds


def sample(proxy, direction, command):
    return [frame for frame in proxy.frames(direction)
            if (frame.request or frame).command == command][-1].raw


@pytest.mark.parametrize("command", PACKET)
@pytest.mark.parametrize("direction", ["request", "reply"])
def test_packet_cut_at_any_byte_leaves_one_grant_and_no_residue(
        drivers, proxy, redis, clean, direction, command):
    """A transaction that did not come as a whole is not executed."""
    holder = drivers(proxy.url)
    lock = holder.lock("n", lease_ms=20000)
    rising = Rising()
    for _ in range(2):
        grant = holder.acquire(lock)
        rising(grant.token)
        grant.release()
    make = {"request": proxy.cut_request, "reply": proxy.cut_reply}[direction]
    size = len(sample(proxy, direction, command))
    step = max(1, size // 12)
    for i, at in enumerate(sorted({0, 1, size - 2, size - 1, size,
                                   *range(0, size, step)})):
        # Each its name: after a cut a tombstone keeps the name from packets.
        name = f"n{i}"
        lock = holder.lock(name, lease_ms=20000)
        holder.acquire(holder.lock(f"w{i}")).release()  # connected, marked
        rule = make(at, "rst", command=command, times=1)
        grant = holder.acquire(lock, wait_ms=5000)
        where = f"{direction} of {command} cut at {at}"
        rising(grant.token)
        status = grant.status()
        assert status.held and status.holds == 1, where
        assert holders(redis, name) == 1, where
        assert rule.fired == 1, where
        rule.remove()
        grant.release()
        redis.wait_for(lambda s: holders(s, name) == 0,
                       what=f"free again: {where}")


@pytest.mark.parametrize("then", ["rst", "fin", "silence"])
def test_release_whose_reply_is_lost_is_done(
        holder, proxy, redis, other, clean, then):
    grant = holder.acquire(holder.lock("n"))
    rule = proxy.drop_reply(script="drop", times=1, then=then)
    grant.start_release().answer(timeout=5)  # OK, or UNKNOWN and repeated
    assert rule.fired == 1
    taken = other.acquire(other.lock("n"), wait_ms=1000)
    assert taken.token > grant.token
    stays(lambda: taken.status().held, 0.3, "the new grant stays held")
    taken.release()


# -- late copies -------------------------------------------------------------


def test_late_packet_of_a_repeated_acquire_does_not_take_the_lock(
        holder, proxy, redis, clean):
    """The packet is stuck before its EXEC; the repeat was granted and released;
    then the rest of it comes."""
    stuck = proxy.hold_request(command="EXEC", times=1)
    grant = holder.acquire(holder.lock("n"), wait_ms=5000)
    assert stuck.fired == 1
    grant.release()
    late = stuck.frames[0]
    stuck.release()
    proxy.wait_for(lambda f: f.direction == "close" and f.conn == late.conn)
    assert holders(redis, "n") == 0
    stays(lambda: holders(redis, "n") == 0, 0.2, "still free")


def test_late_copy_of_a_packet_that_is_too_old_takes_nothing(
        holder, proxy, redis, clean):
    """Its lease is as long as its time to be executed: e is over."""
    copy = proxy.duplicate(command="SET", times=1)
    holder.acquire(holder.lock("n", lease_ms=500)).release()
    time.sleep(0.6)
    copy.fire_late()
    copy.wait_late()
    assert redis.command("EXISTS", "snib:{n}") == 0


def test_late_copy_of_a_release_does_not_touch_the_next_grant(
        holder, proxy, redis, clean):
    lock = holder.lock("n")
    copy = proxy.duplicate(script="drop", times=1)
    holder.acquire(lock).release()
    again = holder.acquire(lock)
    copy.fire_late()
    copy.wait_late()
    assert thin(redis)
    assert again.renew().ok
    again.release()


# -- others come -------------------------------------------------------------


def test_script_between_the_commands_of_a_packet_is_ahead_of_all_of_it(
        holder, proxy, redis, other, clean):
    """The packet waits before its EXEC; another takes the lock and gives it back
    to nobody: whoever is granted later has the higher token."""
    gate = proxy.hold_request(command="EXEC", times=1)
    waiting = holder.start_acquire(holder.lock("n"), wait_ms=8000)
    gate.wait_fired()
    held = other.acquire(other.lock("n", no_local_pass=True))
    gate.release()
    stays(lambda: not waiting.done(), 0.2, "the other holds")
    held.release()
    grant = waiting.wait()
    assert grant.token > held.token
    grant.release()


def test_force_between_the_commands_of_a_packet(
        holder, proxy, redis, other, clean):
    held = other.acquire(other.lock("n", lease_ms=20000))
    gate = proxy.hold_request(command="EXEC", times=1)
    waiting = holder.start_acquire(holder.lock("n"), wait_ms=8000)
    gate.wait_fired()
    assert other.call("force_release", client="c", name="n").released == 1
    gate.release()
    grant = waiting.wait()
    assert grant.token > held.token
    assert held.start_release().answer().err == "LOST"
    grant.release()


def test_waiter_turns_the_record_into_the_hash_and_is_served(
        holder, redis, other, look, clean):
    grant = holder.acquire(holder.lock("n", lease_ms=20000))
    assert thin(redis)
    left = redis.command("PTTL", "snib:{n}")
    waiting = other.start_acquire(other.lock("n"), wait_ms=8000)
    look(redis.url).wait_waiters("n", 1)
    assert redis.command("TYPE", "snib:{n}") == b"hash"
    view = look(redis.url).view("n")
    assert 0 < view.holders[0]["left_ms"] <= left
    grant.renew()
    assert look(redis.url).view("n").holders[0]["token"] in (0, grant.token)
    grant.release()
    taken = waiting.wait(timeout=3)
    assert taken.token > grant.token
    taken.release()


def test_try_on_a_thin_lock_is_refused_and_leaves_it_thin(
        holder, redis, other):
    grant = holder.acquire(holder.lock("n", lease_ms=20000))
    answer = other.try_acquire(other.lock("n"))
    assert answer.err == "BUSY"
    assert thin(redis)
    grant.release()


def test_newcomer_does_not_pass_a_waiter_where_the_holder_was_killed(
        holder, redis, other, drivers, look, expires):
    """The lease of the first ends while somebody waits: the key outlives it, so
    that no packet comes first."""
    holder.acquire(holder.lock("n", lease_ms=1500))
    waiting = other.start_acquire(other.lock("n"), wait_ms=10000)
    look(redis.url).wait_waiters("n", 1)
    holder.kill()
    third = drivers(redis.url)
    third.acquire(third.lock("warm3"), wait_ms=2000).release()
    lock, tries = third.lock("n"), 0
    while not waiting.done():
        answer = third.try_acquire(lock)
        assert not answer.ok
        tries += 1
        time.sleep(0.02)
    assert tries > 10
    waiting.wait().release()


def test_forced_release_of_a_thin_lock_is_told(holder, redis, other, clean):
    grant = holder.acquire(holder.lock("n", lease_ms=20000))
    assert thin(redis)
    assert other.call("force_release", client="c", name="n").released == 1
    assert holders(redis, "n") == 0
    taken = other.acquire(other.lock("n"), wait_ms=2000)
    assert taken.token > grant.token
    assert grant.start_release().answer().err == "LOST"
    assert taken.status().held
    taken.release()


# -- the mark, rights, proxies -----------------------------------------------


def test_mark_that_is_lost_is_made_anew_and_tokens_rise(
        holder, redis, other):
    rising = Rising()
    for gone in ("DEL", "FLUSHALL", "DEL"):
        grant = holder.acquire(holder.lock("n", id=f"n{gone}"))
        rising(grant.token)
        grant.release()
        next_millisecond(redis)
        if gone == "DEL":
            redis.command("DEL", "snib:m")
        else:
            redis.command("FLUSHALL")
        grant = holder.acquire(holder.lock("n", id=f"m{gone}"), wait_ms=2000)
        rising(grant.token)
        assert holders(redis, "n") == 1
        assert redis.command("TYPE", "snib:m") == b"stream"
        grant.release()
        grant = other.acquire(other.lock("n", id=f"o{gone}"), wait_ms=2000)
        rising(grant.token)
        grant.release()


def test_mark_of_another_type_is_corrupt_and_named(holder, redis):
    redis.command("DEL", "snib:m")
    redis.command("SET", "snib:m", "x", "PX", 60000)
    answer = holder.start_acquire(holder.lock("n"), wait_ms=2000).answer()
    assert answer.err in ("CORRUPT", "UNKNOWN"), answer  # by packet: unknown
    answer = holder.start_acquire(holder.lock("m"), wait_ms=2000).answer()
    assert answer.err == "CORRUPT", answer
    assert holders(redis, "m") == 0
    redis.command("DEL", "snib:m")
    holder.acquire("n", wait_ms=2000).release()


@pytest.mark.parametrize("rights, check, says", [
    (["+@all", "-multi"], "transactions", "no transactions"),
    (["+@all", "-xadd"], "mark", "the mark"),
])
def test_login_without_a_right_goes_by_script_and_doctor_says_so(
        drivers, redis, rights, check, says):
    redis.command("ACL", "SETUSER", "team", "on", ">pw", "~*", "&*", *rights)
    one = drivers(with_login(redis.url, "team", "pw"))
    rising = Rising()
    for i in range(4):
        grant = one.acquire(one.lock("n", id=f"n{i}"), wait_ms=3000)
        rising(grant.token)
        if i > 1:
            assert redis.command("TYPE", "snib:{n}") == b"hash"
        grant.release()
    found = [f for f in one.call("doctor", client="c").findings
             if f["check"] in (check, "permissions")]
    assert any(says in f["text"] or "xadd" in f["text"].lower()
               for f in found), found


def test_login_of_some_keys_goes_by_script(drivers, redis):
    redis.command("ACL", "SETUSER", "team", "on", ">pw", "~snib:{team-a.*",
                  "&*", "+@all")
    one = drivers(with_login(redis.url, "team", "pw"))
    rising = Rising()
    for i in range(3):
        grant = one.acquire(one.lock("team-a.n", id=f"n{i}"), wait_ms=3000)
        rising(grant.token)
        assert redis.command("TYPE", "snib:{team-a.n}") == b"hash"
        grant.release()
    findings = one.call("doctor", client="c").findings
    assert any(f["check"] == "mark" for f in findings), findings


def test_proxy_that_knows_no_transactions_is_asked_once(
        drivers, proxy, redis, clean):
    """It answers MULTI with an error, and passes what stands behind it."""
    proxy.inject_error("ERR unknown command 'MULTI'", command="MULTI")
    one = drivers(proxy.url)
    rising = Rising()
    mark = None
    for i in range(4):
        grant = one.acquire(one.lock("n", id=f"n{i}"), wait_ms=3000)
        rising(grant.token)
        assert holders(redis, "n") == 1
        grant.release()
        if i == 1:
            mark = proxy.mark()
    assert "MULTI" not in asked(proxy, mark)


def test_proxy_that_hangs_up_at_transactions_is_asked_twice(
        drivers, proxy, redis, clean):
    proxy.drop_request(then="rst", command="MULTI")
    one = drivers(proxy.url)
    for i in range(6):
        grant = one.acquire(one.lock(f"n{i}"), wait_ms=5000)
        assert holders(redis, f"n{i}") == 1
        grant.release()
    assert len([c for c in asked(proxy) if c == "MULTI"]) == 2


# -- a crowd -----------------------------------------------------------------


def calls(server):
    stats = {}
    for line in server.command("INFO", "commandstats").decode().split("\r\n"):
        name, _, rest = line.partition(":")
        if rest:
            stats[name.removeprefix("cmdstat_")] = int(
                rest.split(",")[0].removeprefix("calls="))
    return stats


def test_tasks_that_ask_at_once_share_transactions_and_scripts(
        drivers, proxy, redis, clean):
    """While answers are slow requests come together: SETs share an EXEC, and
    releases a script."""
    one = drivers(proxy.url)
    one.acquire(one.lock("warm"), wait_ms=2000).release()
    locks = [one.lock(f"n{i}") for i in range(40)]
    redis.command("CONFIG", "RESETSTAT")
    proxy.delay_reply(0.003)
    for _ in range(3):
        pending = [one.start_acquire(lock, on=lock, wait_ms=5000)
                   for lock in locks]
        grants = [one_of.wait() for one_of in pending]
        assert all(holders(redis, lock) == 1 for lock in locks)
        ended = [grant.start_release() for grant in grants]
        for release in ended:
            release.wait()
    proxy.clear()
    said = calls(redis)
    assert said["set"] >= 100
    assert said["exec"] <= said["set"] // 2, said
    assert said["evalsha"] + said.get("eval", 0) <= 80, said
    assert_no_residue(redis)
