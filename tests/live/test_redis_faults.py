"""Messages lost, cut, late, doubled, on the way to Redis and back.

Rows: lost replies (F-001, F-005, F-006, F-009, F-010), cuts at each byte
(F-053, F-054), late copies (F-060, F-061; H10-H15), dead and half-open
subscriptions (F-003, F-004; H03, H05), partitions (F-002, F-051, F-062),
connecting (F-056, F-058).
"""

import time

import pytest

from harness.checks import (Rising, assert_no_residue, assert_ttls, holders,
                            read_tally)
from harness.driver import LockError
from harness.pulse import late_ms
from harness.redis_server import redis_missing
from harness.wait import boot_ns, stays, wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


@pytest.fixture(autouse=True)
def scripts_only(by_script):
    """What is broken here is a script."""


# A waiter polls at least each second, with jitter up to half of that.
POLL_S = 1.5
LOST_REPLY = ["rst", "fin", "silence"]
UNSENT = {"UNREACHABLE", "UNKNOWN", "TIMEOUT"}


@pytest.fixture
def holder(drivers, proxy):
    """A process behind the proxy; quick to find a silent line dead."""
    return drivers(proxy.url, request_ms=600)


@pytest.fixture
def other(drivers, redis):
    """A process with a healthy connection."""
    return drivers(redis.url)


def warm_up(driver, name="warm"):
    """Connect and load the scripts, so that faults meet the real thing."""
    lock = driver.lock(name)
    driver.acquire(lock, wait_ms=2000).release()


# -- lost replies -------------------------------------------------------------


@pytest.mark.parametrize("then", LOST_REPLY)
def test_acquire_whose_reply_is_lost_is_granted_once(
        holder, proxy, redis, look, clean, then):
    warm_up(holder)
    rule = proxy.drop_reply(script="acquire", times=1, then=then)
    lock = holder.lock("n")
    grant = holder.acquire(lock, wait_ms=5000)
    assert rule.fired == 1
    view = look(redis.url).view("n")
    assert [party["token"] for party in view.holders] == [grant.token]
    assert grant.status().holds == 1
    assert holder.try_acquire(lock).holds == 2  # re-entry, not a second grant
    grant.release()
    assert look(redis.url).holders("n") == 1
    grant.release()
    assert look(redis.url).holders("n") == 0


@pytest.mark.parametrize("then", LOST_REPLY)
def test_acquire_of_permits_whose_reply_is_lost_has_one_slot(
        holder, proxy, redis, other, look, then):
    warm_up(holder)
    kind = {"kind": "permits", "capacity": 3}
    first = other.acquire(other.lock("s", **kind))
    rule = proxy.drop_reply(script="acquire", times=1, then=then)
    grant = holder.acquire(holder.lock("s", **kind), wait_ms=5000)
    assert rule.fired == 1
    assert grant.status().slot == 1
    view = look(redis.url).view("s")
    assert sorted(party["slot"] for party in view.holders) == [0, 1]
    first.release()
    grant.renew()
    assert grant.status().slot == 1
    assert other.acquire(other.lock("s", **kind)).status().slot == 0


def test_permits_pushed_to_a_waiter_come_with_their_slot(
        holder, redis, other, look):
    kind = {"kind": "permits", "capacity": 2}
    held = [other.acquire(other.lock("s", owner=n, **kind)) for n in (1, 2)]
    waiting = holder.start_acquire(holder.lock("s", **kind), wait_ms=15000)
    look(redis.url).wait_waiters("s", 1)
    held[1].release()
    grant = waiting.wait()
    assert grant.status().slot == 1
    assert held[0].status().slot == 0


def test_deadline_counts_from_the_repeat_that_was_answered(
        holder, proxy, redis, clean):
    """H13: never past what the server will keep."""
    warm_up(holder)
    proxy.drop_reply(script="acquire", times=1)
    lock = holder.lock("n", lease_ms=3000, fixed=True)
    grant = holder.acquire(lock, wait_ms=5000)
    left = grant.status().left_ms
    server_left = redis.command("PTTL", "snib:{n}")
    assert left <= server_left
    grant.release()


@pytest.mark.parametrize("then", LOST_REPLY)
def test_release_whose_reply_is_lost_is_done(
        holder, proxy, redis, other, clean, then):
    warm_up(holder)
    grant = holder.acquire(holder.lock("n"))
    rule = proxy.drop_reply(script="release", times=1, then=then)
    grant.start_release().answer(timeout=5)  # OK, or UNKNOWN and repeated
    assert rule.fired == 1
    taken = other.acquire(other.lock("n"), wait_ms=1000)
    assert taken.token > grant.token
    # The repeat of the first release must not touch the new grant (F-010).
    stays(lambda: taken.status().held, 0.3, "the new grant stays held")
    taken.release()


def test_release_whose_reply_is_cut_is_repeated_and_says_done(
        holder, proxy, clean):
    warm_up(holder)
    grant = holder.acquire(holder.lock("n"))
    proxy.drop_reply(script="release", times=1, then="rst")
    assert grant.release().ok
    assert proxy.count(script="release") >= 3  # warm-up, first, repeat


def test_release_whose_reply_is_cut_says_lost_after_a_forced_one(
        holder, proxy, other, clean):
    """The repeat is told what the first copy was: not done, but too late."""
    warm_up(holder)
    grant = holder.acquire(holder.lock("n"))
    assert other.call("force_release", client="c", name="n").released == 1
    rule = proxy.drop_reply(script="release", times=1, then="rst")
    assert grant.start_release().answer().err == "LOST"
    assert rule.fired == 1


@pytest.mark.parametrize("then", LOST_REPLY)
def test_renewal_whose_reply_is_lost_keeps_the_lock(
        holder, proxy, redis, clean, then):
    warm_up(holder)
    lock = holder.lock("n", lease_ms=1500)
    grant = holder.acquire(lock)
    rule = proxy.drop_reply(script="renew", times=1, then=then)
    rule.wait_fired()
    mark = proxy.mark()
    # Two more answered renewals: it went on, on time.
    wait_until(lambda: proxy.count("reply", since=mark, script="renew") >= 2,
               what="renewals go on")
    status = grant.status()
    assert status.held and status.token == grant.token
    assert "lost" not in [change.state for change in grant.changes()]
    grant.release()


@pytest.mark.parametrize("then", LOST_REPLY)
def test_explicit_renewal_whose_reply_is_lost_is_done_or_unknown(
        holder, proxy, clean, then):
    warm_up(holder)
    grant = holder.acquire(holder.lock("n", lease_ms=5000, fixed=True))
    proxy.drop_reply(script="renew", times=1, then=then)
    try:
        grant.renew(lease_ms=10000)
        assert grant.status().left_ms > 5000
    except LockError as error:
        assert error.err == "UNKNOWN"
    assert grant.status().held
    grant.release()


@pytest.mark.parametrize("then", LOST_REPLY)
def test_cancel_whose_reply_is_lost_still_leaves_the_queue(
        holder, proxy, redis, other, look, clean, then):
    warm_up(holder)
    held = other.acquire(other.lock("n"))
    rule = proxy.drop_reply(script="cancel", times=1, then=then)
    waiting = holder.start_acquire(holder.lock("n"), wait_ms=300)
    answer = waiting.answer(timeout=5)
    assert answer.err in ("TIMEOUT", "UNKNOWN")
    assert answer.took_ms < 600 + late_ms()
    rule.wait_fired()
    look(redis.url).wait_waiters("n", 0)
    held.release()


def test_waiter_whose_queued_reply_is_lost_is_granted_in_its_turn(
        holder, proxy, redis, other, look, clean):
    warm_up(holder)
    held = other.acquire(other.lock("n"))
    rule = proxy.drop_reply(script="acquire", times=2)
    waiting = holder.start_acquire(holder.lock("n"), wait_ms=8000)
    rule.wait_fired(2)
    look(redis.url).wait_waiters("n", 1)
    held.release()
    grant = waiting.wait(timeout=5)
    assert grant.token > held.token
    grant.release()


@pytest.mark.parametrize("nth", [5, 7])
def test_counting_is_exact_while_each_nth_reply_is_lost(
        drivers, proxy, redis, tmp_path, clean, nth):
    """Whatever the script was: acquire, poll, release, yield, cancel."""
    seen = {"scripts": 0}

    def each_nth(frame):
        if frame.request is None or not frame.request.script:
            return False
        seen["scripts"] += 1
        return seen["scripts"] % nth == 0
    rule = proxy.drop_reply(where=each_nth)
    path = tmp_path / "tally"
    jobs = []
    for alone in (False, True): # one passes locally, one asks each time
        driver = drivers(proxy.url, request_ms=600)
        lock = driver.lock("n", lease_ms=2000, no_local_pass=alone)
        jobs += [driver.start("count", lock=lock, path=path, rounds=15, on=on)
                 for on in ("a", "b")]
    answers = [job.wait(timeout=45) for job in jobs]
    assert sum(answer.fallen_tokens for answer in answers) == 0
    assert read_tally(path)[0] == sum(answer.done for answer in answers) == 60
    assert rule.fired > 0
    rule.remove()


# -- cuts ---------------------------------------------------------------------


def positions(raw, wanted):
    """All of a short message; of a long one each class of position: both
    ends, around each line end, and an even sample of the rest."""
    size = len(raw)
    if size <= wanted:
        return list(range(size + 1))
    chosen = {0, 1, 2, size - 2, size - 1, size}
    at = raw.find(b"\r\n")
    ends = []
    while at >= 0:
        ends.append(at)
        at = raw.find(b"\r\n", at + 1)
    step = max(1, len(ends) // 4)
    for end in ends[::step]:
        chosen |= {end, end + 1, end + 2}
    step = max(1, size // max(1, wanted - len(chosen)))
    chosen |= set(range(0, size, step))
    return sorted(position for position in chosen if 0 <= position <= size)


def sample_of(proxy, direction, script):
    """The last one by EVALSHA: what all but the first look like."""
    found = [frame for frame in proxy.frames(direction, script=script)
             if frame.command == "EVALSHA"]
    assert found, f"no {direction} of {script} seen:\n{proxy.tail()}"
    return found[-1].raw


@pytest.mark.parametrize("how", ["rst", "fin"])
@pytest.mark.parametrize("script", ["acquire", "release", "renew"])
@pytest.mark.parametrize("direction", ["request", "reply"])
def test_connection_cut_at_any_byte_leaves_one_grant_and_no_residue(
        drivers, proxy, redis, clean, direction, script, how):
    holder = drivers(proxy.url)
    lock = holder.lock("n", lease_ms=20000)
    rising = Rising()
    for _ in range(2):  # EVAL, then EVALSHA
        grant = holder.acquire(lock)
        grant.renew()
        rising(grant.token)
        grant.release()
    make = {"request": proxy.cut_request, "reply": proxy.cut_reply}[direction]
    wanted = 12 if how == "fin" else 24
    for at in positions(sample_of(proxy, direction, script), wanted):
        rule = make(at, how, script=script, times=1)
        grant = holder.acquire(lock, wait_ms=5000)
        where = f"{direction} of {script} cut at {at}"
        rising(grant.token)
        status = grant.status()
        assert status.held and status.holds == 1, where
        if script == "renew":
            grant.renew()
        assert holders(redis, "n") == 1, where
        grant.release()
        redis.wait_for(lambda s: holders(s, "n") == 0,
                       what=f"free again: {where}")
        assert rule.fired == 1, where
        rule.remove()


def test_script_text_cut_at_any_byte_is_sent_again(
        holder, proxy, redis, clean):
    """EVAL, kilobytes long: the first use on each connection."""
    lock = holder.lock("n")
    holder.acquire(lock).release()
    size = len(next(frame for frame in proxy.frames("request")
                    if frame.command == "EVAL").raw)
    for at in (0, 1, size // 2, size - 1, size):
        redis.command("SCRIPT", "FLUSH")
        with proxy.cut_request(at, command="EVAL", times=1) as rule:
            grant = holder.acquire(lock, wait_ms=5000)
            assert rule.fired == 1 and grant.status().holds == 1
            assert holders(redis, "n") == 1
        grant.release()


def test_push_cut_at_any_byte_still_reaches_the_waiter(
        holder, proxy, redis, other, look, clean):
    ours, theirs = holder.lock("n"), other.lock("n")
    rising = Rising()

    def hand_over():
        held = other.acquire(theirs)
        rising(held.token)
        waiting = holder.start_acquire(ours, wait_ms=10000)
        look(redis.url).wait_waiters("n", 1)
        held.release()
        grant = waiting.wait(timeout=POLL_S + 3)
        rising(grant.token)
        grant.release()
    hand_over()
    size = len(proxy.frames("push")[-1].raw)
    for at in (0, 1, 4, size // 2, size - 2, size - 1, size):
        with proxy.cut_push(at, times=1) as rule:
            hand_over()
        assert rule.fired == 1


def test_messages_in_one_byte_pieces_work(drivers, proxy, redis, other, look,
                                          clean):
    # Thousands of pieces, a turn of the proxy each: no time for a reply, but
    # for so many of them.
    holder = drivers(proxy.url, request_ms=10_000)
    proxy.split_requests(1)
    proxy.split_replies(1)
    proxy.split_pushes(1)
    held = other.acquire(other.lock("n"))
    waiting = holder.start_acquire(holder.lock("n"), wait_ms=12_000)
    look(redis.url).wait_waiters("n", 1)
    held.release()
    grant = waiting.wait()
    grant.renew()
    grant.release()


def test_replies_glued_together_work(holder, proxy, redis, clean):
    """Many threads at once: several replies are due on one line."""
    warm_up(holder)
    proxy.merge_replies(script="acquire")
    names = [f"glue{i}" for i in range(8)]
    locks = [holder.lock(name) for name in names]
    for _ in range(5):
        with proxy.hold_request(script="acquire", times=1) as gate:
            pending = [holder.start_acquire(lock, on=lock, wait_ms=5000)
                       for lock in locks]
            gate.wait_fired()
        for job in pending:
            job.wait().release()


# -- late copies --------------------------------------------------------------


def test_late_copy_of_a_repeated_acquire_does_not_take_the_lock(
        holder, proxy, redis, clean):
    """H12: first copy stuck in the network, the repeat was granted and
    released; then the first copy arrives."""
    warm_up(holder)
    stuck = proxy.hold_request(script="acquire", times=1)
    lock = holder.lock("n")
    grant = holder.acquire(lock, wait_ms=5000)
    assert stuck.fired == 1
    grant.release()
    late = stuck.frames[0]
    stuck.release()
    proxy.wait_for(lambda f: f.direction == "close" and f.conn == late.conn)
    # Whatever the late copy did, it was executed before this answers.
    assert holders(redis, "n") == 0
    stays(lambda: holders(redis, "n") == 0, 0.2, "still free")


def test_late_copy_of_an_abandoned_acquire_does_not_take_the_lock(
        holder, proxy, redis, clean):
    warm_up(holder)
    stuck = proxy.hold_request(script="acquire")
    answer = holder.start_acquire(holder.lock("n"), wait_ms=200).answer()
    assert answer.err in UNSENT and answer.took_ms < 500 + late_ms()
    wait_until(lambda: any(reply.request.conn != stuck.frames[0].conn
                           for reply in proxy.frames("reply", script="cancel"))
               or not proxy.open_conns(), 8, "the request was cancelled")
    stuck.remove()
    wait_until(lambda: holders(redis, "n") == 0, 3, "free")
    stays(lambda: holders(redis, "n") == 0, 0.3, "still free")


def test_late_copy_of_a_release_does_not_touch_the_next_grant(
        holder, proxy, redis, other, clean):
    """F-010, and the same owner again: compare the token, not the owner."""
    warm_up(holder)
    lock = holder.lock("n")
    copy = proxy.duplicate(script="release", times=1)
    holder.acquire(lock).release()
    again = holder.acquire(lock)
    copy.fire_late()
    copy.wait_late()
    assert holders(redis, "n") == 1
    assert again.renew().ok
    again.release()


def test_late_copy_of_a_renewal_creates_nothing(
        holder, proxy, redis, clean):
    """H15: a renewal after the release."""
    warm_up(holder)
    copy = proxy.duplicate(script="renew", times=1)
    grant = holder.acquire(holder.lock("n"))
    grant.renew()
    grant.release()
    copy.fire_late()
    copy.wait_late()
    assert holders(redis, "n") == 0


def test_doubled_acquire_of_a_held_lock_changes_nothing(
        holder, proxy, redis, clean):
    """F-060: executed twice while held: one grant, one release ends it."""
    warm_up(holder)
    copy = proxy.duplicate(script="acquire", times=1)
    grant = holder.acquire(holder.lock("n"))
    copy.fire_late()
    copy.wait_late()
    assert holders(redis, "n") == 1
    grant.release()
    assert holders(redis, "n") == 0


def test_reply_that_comes_after_the_limit_meets_no_other_request(
        holder, proxy, redis, clean):
    """F-061: the late answer is drained, never read as the next one's."""
    warm_up(holder)
    first, second = holder.lock("first"), holder.lock("second")
    held = proxy.hold_reply(script="acquire", times=1)
    answer = holder.start_acquire(first, wait_ms=100).answer()
    assert answer.err in ("UNKNOWN", "TIMEOUT"), answer
    pending = holder.start_acquire(second, on="b", wait_ms=5000)
    held.remove()
    grant = pending.wait()
    assert holders(redis, "second") == 1
    redis.wait_for(lambda s: holders(s, "first") == 0,
                   what="the abandoned one is cancelled")
    grant.release()


# -- the subscription ---------------------------------------------------------


def holds_and_listens(holder, redis, other, look):
    """A grant of a minute, by a process that has waited for another lock."""
    held = other.acquire(other.lock("w"))
    waiting = holder.start_acquire(holder.lock("w"), wait_ms=15000)
    look(redis.url).wait_waiters("w", 1)
    held.release()
    waiting.wait().release()
    return holder.acquire(holder.lock("n", lease_ms=60000))


def test_release_during_a_slow_subscribe_is_not_missed(
        holder, proxy, redis, other, clean):
    """F-003."""
    held = other.acquire(other.lock("n"))
    slow = proxy.hold_reply(command="SUBSCRIBE", times=1)
    waiting = holder.start_acquire(holder.lock("n"), wait_ms=8000)
    slow.wait_fired()
    held.release()
    freed = boot_ns()
    slow.release()
    grant = waiting.wait()
    assert (grant.ended - freed) / 1e9 < POLL_S
    grant.release()


def test_waiter_whose_subscriber_connection_is_killed_is_still_granted(
        drivers, redis, look, clean):
    """F-004: killed again and again while it waits."""
    holder, waiter = drivers(redis.url), drivers(redis.url)
    held = holder.acquire(holder.lock("n"))
    waiting = waiter.start_acquire(waiter.lock("n"), wait_ms=15000)
    look(redis.url).wait_waiters("n", 1)
    for _ in range(3):
        redis.wait_for(lambda s: s.command("CLIENT", "KILL", "TYPE", "pubsub"),
                       what="a subscriber to kill")
    held.release()
    freed = boot_ns()
    grant = waiting.wait()
    assert (grant.ended - freed) / 1e9 < POLL_S + 0.5
    grant.release()


def test_force_while_the_subscription_is_down_is_told_when_it_is_back(
        holder, proxy, redis, other, look):
    """The message was for nobody; a third of the lease would be 20 s."""
    grant = holds_and_listens(holder, redis, other, look)
    refused = proxy.refuse(how="rst")
    assert redis.command("CLIENT", "KILL", "TYPE", "pubsub") == 1
    assert other.call("force_release", client="c", name="n").released == 1
    assert not holder.events("change", ticket=grant.ticket)
    refused.remove()
    told = holder.wait_event("change", timeout=10, ticket=grant.ticket,
                             state="lost")
    assert told.reason == "revoked"
    assert grant.start_release().answer().err == "LOST"


def test_force_after_the_subscription_was_rebuilt_is_heard(
        holder, proxy, redis, other, look):
    grant = holds_and_listens(holder, redis, other, look)
    for times in (1, 2):
        assert redis.command("CLIENT", "KILL", "TYPE", "pubsub") == 1
        # It looks at what it holds, once, as soon as it listens again.
        wait_until(lambda n=times: proxy.count("reply", script="renew") == n,
                   what="a renewal")
    assert other.call("force_release", client="c", name="n").released == 1
    told = holder.wait_event("change", timeout=10, ticket=grant.ticket,
                             state="lost")
    assert told.reason == "revoked"
    assert grant.start_release().answer().err == "LOST"


def test_lost_push_is_found_by_the_poll(holder, proxy, redis, other, look,
                                        clean):
    held = other.acquire(other.lock("n"))
    waiting = holder.start_acquire(holder.lock("n"), wait_ms=15000)
    look(redis.url).wait_waiters("n", 1)
    rule = proxy.drop_push()
    held.release()
    freed = boot_ns()
    grant = waiting.wait()
    assert rule.fired >= 1
    assert (grant.ended - freed) / 1e9 < POLL_S + 0.5
    grant.release()


def test_half_open_subscription_delays_by_a_poll_not_for_ever(
        holder, proxy, redis, other, look, clean):
    """H05: the server counts a subscriber, the waiter hears nothing."""
    held = other.acquire(other.lock("n"))
    waiting = holder.start_acquire(holder.lock("n"), wait_ms=15000)
    look(redis.url).wait_waiters("n", 1)
    with proxy.half_open(stage="push", role="subscriber", times=1) as rule:
        held.release()
        freed = boot_ns()
        grant = waiting.wait()
        assert rule.fired == 1
        assert (grant.ended - freed) / 1e9 < POLL_S + 0.5
        grant.release()


def test_push_that_comes_after_its_grant_was_over_is_not_believed(
        holder, proxy, redis, other, look, clean):
    """The poll found the grant; it was used and released; then the push."""
    held = other.acquire(other.lock("n"))
    waiting = holder.start_acquire(holder.lock("n"), wait_ms=15000)
    look(redis.url).wait_waiters("n", 1)
    push = proxy.hold_push(times=1)
    held.release()
    grant = waiting.wait()
    assert push.fired == 1
    grant.release()
    taken = other.acquire(other.lock("n", id="again"))
    assert taken.token > grant.token
    push.release()
    stays(lambda: not grant.status().held and taken.status().held, 0.3,
          "only the new grant is held")
    assert holder.try_acquire("n").err == "BUSY"
    taken.release()


def test_grant_pushed_into_a_partition_is_not_believed_after_its_claim(
        holder, proxy, redis, other, look, clean):
    """H03: the message sits in the network past the push lease, the lock
    goes to the next, then the message arrives."""
    lease = 800
    held = other.acquire(other.lock("n", lease_ms=lease))
    waiting = holder.start_acquire(holder.lock("n", lease_ms=lease),
                                   wait_ms=20000)
    look(redis.url).wait_waiters("n", 1)
    cut = proxy.partition()
    held.release()
    taken = other.acquire("n", wait_ms=10000)
    assert taken.token > held.token
    cut.remove()
    stays(lambda: not waiting.done(), 0.5, "the waiter does not enter")
    assert taken.status().held
    taken.release()
    grant = waiting.wait()
    assert grant.token > taken.token
    grant.release()


# -- partitions and connecting ------------------------------------------------


def test_holder_cut_off_is_told_at_risk_then_lost_by_its_deadline(
        holder, proxy, redis, other, clean):
    """F-002: renewals fail until the deadline; the next owner comes after."""
    lease = 1200
    grant = holder.acquire(holder.lock("n", lease_ms=lease))
    with proxy.partition():
        begun = boot_ns()
        taken = other.acquire(other.lock("n"), wait_ms=10000)
        told = holder.wait_event("change", ticket=grant.ticket, state="lost")
        assert told.reason in ("unreachable", "expired")
        # before anybody else has it; how soon, in virtual time, is a theorem
        assert told.at <= taken.ended
        assert (told.at - begun) / 1e6 <= lease + 500
        assert not grant.status().held
        risk = holder.events("change", ticket=grant.ticket, state="at risk")
        assert risk and risk[0].at < told.at
    assert grant.start_release().answer().err == "LOST"
    assert taken.status().held
    taken.release()


@pytest.mark.parametrize("way", ["up", "down"])
def test_one_way_cut_ends_by_the_deadline_too(
        holder, proxy, redis, other, clean, way):
    """F-051."""
    lease = 1200
    grant = holder.acquire(holder.lock("n", lease_ms=lease))
    with proxy.partition(up=way == "up", down=way == "down"):
        begun = boot_ns()
        told = holder.wait_event("change", ticket=grant.ticket, state="lost")
        if way == "up":
            assert (told.at - begun) / 1e6 <= lease + 500
    grant.start_release().answer()
    taken = other.acquire(other.lock("n"), wait_ms=lease * 3)
    assert taken.token > grant.token
    taken.release()


@pytest.mark.parametrize("heal_at", [0.4, 0.8, 1.2, 2.5])
def test_partition_that_heals_never_leaves_two_holders(
        holder, proxy, redis, other, clean, heal_at):
    """F-062, as shares of the lease: what each says is compared with what
    the other says, at the same instant."""
    lease = 1000
    grant = holder.acquire(holder.lock("n", lease_ms=lease))
    waiting = other.start_acquire(other.lock("n"), wait_ms=10000)
    with proxy.partition():
        heal = boot_ns() + int(heal_at * lease * 1e6)

        def exclusive():
            # The waiter's answer first: when it has one, ours must be over.
            entered = waiting.done()
            return not (entered and grant.status().held)
        while boot_ns() < heal:
            assert exclusive()
    if not waiting.done() and grant.status().held:
        grant.release()
    taken = waiting.wait()
    assert not grant.status().held
    assert taken.token > grant.token
    taken.release()


def test_limit_ends_a_call_whose_line_is_silent(holder, proxy, clean):
    """It is told UNKNOWN: the request is being cancelled."""
    warm_up(holder)
    rule = proxy.hold_reply(script="acquire")
    answer = holder.start_acquire(holder.lock("n"), wait_ms=250).answer()
    assert answer.err in ("UNKNOWN", "TIMEOUT")
    assert 200 <= answer.took_ms < 450 + late_ms()
    rule.remove()


@pytest.mark.parametrize("how", ["refused", "rst", "hang"])
def test_limit_ends_a_call_that_cannot_connect(holder, proxy, how, clean):
    """F-056, F-058."""
    with proxy.refuse(how):
        answer = holder.start_acquire(holder.lock("n"), wait_ms=300).answer()
        assert answer.err == "UNREACHABLE" and answer.exit == 69
        assert answer.took_ms < 500 + late_ms()
        assert answer.text


def test_connecting_is_retried_within_the_limit(holder, proxy, clean):
    refused = proxy.refuse("rst")
    waiting = holder.start_acquire(holder.lock("n"), wait_ms=8000)
    refused.wait_fired(2)
    refused.remove()
    waiting.wait().release()


def test_retries_back_off(holder, proxy, clean):
    """F-052, F-058: no storm of connections."""
    with proxy.refuse("rst") as refused:
        holder.start_acquire(holder.lock("n"), wait_ms=1000).answer()
        assert 2 <= refused.fired <= 60


def test_impatient_caller_does_not_cut_the_shared_connection(
        holder, proxy, redis, clean):
    """H29: a limit that ends leaves the line to the others."""
    warm_up(holder)
    kept = holder.acquire(holder.lock("kept", lease_ms=3000), on="k")
    slow = proxy.hold_reply(script="acquire", times=1)
    patient = holder.start_acquire(holder.lock("slow"), on="p", wait_ms=8000)
    slow.wait_fired()
    for i in range(5):
        holder.start_acquire(holder.lock(f"try{i}"), on="i",
                             wait_ms=10).answer()
    closed = proxy.count("close")
    slow.release()
    patient.wait().release()
    assert proxy.count("close") == closed
    assert kept.status().held
    kept.release()


def test_connections_killed_all_the_time_still_make_progress(
        drivers, redis, tmp_path, clean):
    """F-072: exact, and done in time."""
    path = tmp_path / "tally"
    jobs = []
    for _ in range(3):
        driver = drivers(redis.url)
        jobs.append(driver.start(
            "count", lock=driver.lock("n", lease_ms=3000), path=path,
            rounds=60, hold_us=1000))
    deadline = time.monotonic() + 40
    while not all(job.done() for job in jobs):
        assert time.monotonic() < deadline, "no progress"
        for kind in ("normal", "pubsub"):
            redis.command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        assert_ttls(redis)
        time.sleep(0.05)
    answers = [job.wait() for job in jobs]
    assert [answer.done for answer in answers] == [60, 60, 60]
    assert sum(answer.fallen_tokens for answer in answers) == 0
    assert read_tally(path)[0] == 180


def test_hostile_replies_are_errors_not_crashes(holder, proxy, redis, clean):
    """§3.3: absurd lengths, junk, wrong types, in the place of a reply."""
    warm_up(holder)
    for i, raw in enumerate([
            b"*2147483647\r\n", b"$9223372036854775807\r\n", b"?what\r\n",
            b"*-7\r\n", b":999999999999999999999\r\n", b"$3\r\nabcXY",
            b"*1\r\n" * 9, b"+" + b"x" * 200_000, b"*0\r\n", b"$-1\r\n",
            b":1\r\n", b"*3\r\n:1\r\n$0\r\n\r\n*0\r\n", b"\r\n\r\n"]):
        with proxy.inject(raw, execute=True, script="acquire",
                          times=1) as rule:
            job = holder.start_acquire(holder.lock(f"h{i}"), wait_ms=1500)
            answer = job.answer(timeout=6)
            assert holder.alive() and rule.fired == 1
            if answer.ok:
                job.grant.release()
    grant = holder.acquire(holder.lock("after"), wait_ms=3000)
    grant.release()
    assert_no_residue(redis, timeout=12)
