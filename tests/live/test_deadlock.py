"""Circles of waits across processes and threads: one is refused, with the
circle in its error, the others go on. And nobody is refused without one."""

import threading
import time

import pytest

from harness.checks import assert_no_residue
from harness.pulse import late_ms
from harness.redis_server import redis_missing
from harness.wait import wait_until

# Two looks and the pause between them; on a busy machine a look takes longer,
# and the pause with it.
SOON = 20

needs_redis = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


@pytest.fixture(params=["file", pytest.param("redis", marks=needs_redis)])
def store(request, tmp_path):
    if request.param == "file":
        yield f"file:{tmp_path}/locks.db"
        return
    redis = request.getfixturevalue("redis")
    yield redis.url
    assert_no_residue(redis)


@pytest.fixture(params=["memory", "file",
                        pytest.param("redis", marks=needs_redis)])
def any_store(request, tmp_path):
    if request.param == "memory":
        return "memory:deadlock"
    if request.param == "file":
        return f"file:{tmp_path}/locks.db"
    return request.getfixturevalue("redis").url


def ring(parties, names, wait_ms=-1, **options):
    """Each (driver, thread) takes its own name, then asks for the next one's;
    the held grants and the pending second ones. A little apart: the youngest
    is the last."""
    held = []
    for (driver, thread), name in zip(parties, names):
        driver.lock(name, id=f"{name}-{thread}", **options)
        held.append(driver.acquire(f"{name}-{thread}", on=thread))
    pending = []
    for i, (driver, thread) in enumerate(parties):
        name = names[(i + 1) % len(names)]
        driver.lock(name, id=f"{name}-{thread}", **options)
        pending.append(driver.start_acquire(f"{name}-{thread}", on=thread,
                                            wait_ms=wait_ms))
        waiters(driver, name, 1)
        be_older()
    return held, pending


def be_older():
    """Until who asks from now on is the younger one beyond doubt: by the wall
    clock, of which each process has its own reading."""
    time.sleep(0.03)


def waiters(driver, name, count):
    wait_until(lambda: len(driver.call("inspect", client="c", name=name,
                                       on="look")["waiters"]) >= count,
               10, f"{count} wait for {name}")


def unwind(held, pending, began, limit=SOON):
    """Exactly one is refused; it releases, then the one behind it, and so on
    round the ring. The refused one's Answer."""
    def refused():
        return [i for i, p in enumerate(pending) if p.done()]
    first, = wait_until(refused, limit, "one is refused")
    assert time.monotonic() - began < limit + late_ms() / 1000
    answer = pending[first].answer()
    assert answer.err == "DEADLOCK", answer
    at = first
    held[at].release()
    for _ in range(len(pending) - 1):
        at = (at - 1) % len(pending)  # waits for what was just released
        got = pending[at].wait(10)
        got.release()
        held[at].release()
    return first, answer


def test_two_processes_each_others_way(drivers, store):
    a, b = drivers(store), drivers(store)
    began = time.monotonic()
    held, pending = ring([(a, "t"), (b, "t")], ["X", "Y"])
    first, answer = unwind(held, pending, began)
    assert first == 1  # the youngest
    assert answer.text.startswith("deadlock: this waits for 'X' held by ")
    assert f"/{a.pid} owner " in answer.text
    assert answer.text.endswith(" waits for 'Y' held by this")


def test_three_processes_in_a_ring(drivers, store):
    three = [(drivers(store), "t") for _ in range(3)]
    began = time.monotonic()
    held, pending = ring(three, ["X", "Y", "Z"])
    first, answer = unwind(held, pending, began)
    assert first == 2
    assert answer.text.count(" waits for ") == 3


def test_two_threads_of_one_client(drivers, any_store):
    one = drivers(any_store)
    began = time.monotonic()
    held, pending = ring([(one, "t"), (one, "u")], ["X", "Y"])
    first, _ = unwind(held, pending, began)
    assert first == 1  # it came to the store when the other was there


def test_threads_that_wait_behind_others_of_their_process(drivers, store):
    """Both processes have a thread that waits for the same lock already and
    holds nothing: the local queue hides nobody."""
    a, b = drivers(store), drivers(store)
    for d in (a, b):
        d.lock("X", id="X")
        d.lock("Y", id="Y")
    x, y = a.acquire("X", on="t"), b.acquire("Y", on="t")
    idle = [a.start_acquire("Y", on="idle"), b.start_acquire("X", on="idle")]
    waiters(a, "Y", 1)
    waiters(a, "X", 1)
    pending = [a.start_acquire("Y", on="t"), b.start_acquire("X", on="t")]
    done = wait_until(lambda: [p for p in pending if p.done()], SOON, "refused")
    assert len(done) == 1 and done[0].answer().err == "DEADLOCK"
    # What the refused one held goes to who waits first.
    (x if done[0] is pending[0] else y).release()
    first = idle[1] if done[0] is pending[0] else idle[0]
    first.wait().release()
    other = pending[1] if done[0] is pending[0] else pending[0]
    other.wait().release()
    (y if done[0] is pending[0] else x).release()
    for p in idle:
        if p is not first:
            p.wait().release()


def test_a_grant_passed_on_inside_a_process_is_no_circle(drivers, store):
    """B's thread u asked for Y first and passed it on; the store's record
    still names it. It waits for X, but holds nothing."""
    a, b = drivers(store), drivers(store)
    a.lock("X")
    a.lock("Y")
    b.lock("X")
    b.lock("Y")
    y = b.acquire("Y", on="u")
    passed = b.start_acquire("Y", on="v")
    x = a.acquire("X", on="t")
    y.release()
    y = passed.wait()
    late = b.start_acquire("X", on="u")
    waiters(a, "X", 1)
    blocked = a.start_acquire("Y", on="t", wait_ms=3500)
    assert blocked.answer().err == "TIMEOUT"
    assert not late.done()
    x.release()
    late.wait().release()
    y.release()


def test_upgrade_in_a_circle(drivers, store):
    """A and B read X; A wants to write it, B waits for A's Y."""
    a, b = drivers(store), drivers(store)
    for d in (a, b):
        d.lock("X", id="read", kind="read")
        d.lock("X", id="write", kind="write")
        d.lock("Y")
    mine, y = a.acquire("read", on="t"), a.acquire("Y", on="t")
    other = b.acquire("read", on="t")
    up = a.start_acquire("write", on="t")
    waiters(a, "X", 1)
    be_older()
    refused = b.start_acquire("Y", on="t").answer(SOON)
    assert refused.err == "DEADLOCK", refused
    other.release()
    for grant in (up.wait(), y, mine):
        grant.release()


def test_a_reader_behind_a_writer_closes_a_circle(drivers, store):
    """C reads X and waits for Y; B holds Y and would read X beside it, but
    somebody waits to write."""
    b, c, w = drivers(store), drivers(store), drivers(store)
    for d in (b, c):
        d.lock("X", id="read", kind="read")
        d.lock("Y")
    w.lock("X", kind="write")
    x, y = c.acquire("read", on="t"), b.acquire("Y", on="t")
    writer = w.start_acquire("X")
    waiters(w, "X", 1)
    reader = b.start_acquire("read", on="t")
    waiters(w, "X", 2)
    be_older()
    refused = c.start_acquire("Y", on="t").answer(SOON)
    assert refused.err == "DEADLOCK", refused
    assert " behind " in refused.text
    x.release()
    writer.wait().release()
    reader.wait().release()
    y.release()


def test_what_a_wait_says_ends_with_it(drivers, store):
    """A's t holds X and waits for Y; u waits behind it. t gives up. B, which
    holds Y, then waits for X: nobody who has X waits any more."""
    a, b = drivers(store), drivers(store)
    for d in (a, b):
        d.lock("X")
        d.lock("Y")
    x, y = a.acquire("X", on="t"), b.acquire("Y", on="t")
    late = a.start_acquire("Y", on="t", wait_ms=1500)
    waiters(a, "Y", 1)
    behind = a.start_acquire("Y", on="u")
    assert late.answer().err == "TIMEOUT"
    blocked = b.start_acquire("X", on="t", wait_ms=3500)
    assert blocked.answer().err == "TIMEOUT"
    assert not behind.done()
    y.release()
    behind.wait().release()
    x.release()


def test_permits_in_a_circle_are_not_refused(drivers, any_store):
    """Any thread may give them back: nothing is proven."""
    a = drivers(any_store)
    a.lock("S", kind="permits", permits=1, capacity=1)
    a.lock("Y")
    s, y = a.acquire("S", on="t"), a.acquire("Y", on="u")
    late = a.start_acquire("S", on="u")
    waiters(a, "S", 1)
    assert a.start_acquire("Y", on="t", wait_ms=3500).answer().err == "TIMEOUT"
    assert not late.done()
    s.release(on="another")
    late.wait().release()
    y.release()


def test_switched_off_both_wait_until_their_limit(drivers, store):
    a = drivers(store, no_deadlock_check=1)
    b = drivers(store, no_deadlock_check=1)
    held, pending = ring([(a, "t"), (b, "t")], ["X", "Y"], wait_ms=4000)
    assert [p.answer().err for p in pending] == ["TIMEOUT", "TIMEOUT"]
    for grant in held:
        grant.release()


@needs_redis
def test_a_search_leaves_a_large_database_its_time(drivers, redis, proxy):
    """Each page of the scan takes at least 5 ms here: those of the first tenth
    of a second come at once, the others 100 ms apart."""
    redis.command("DEBUG", "POPULATE", 200_000)
    a, b = drivers(proxy.url), drivers(redis.url)
    held = [a.acquire(a.lock("X")), b.acquire(b.lock("Y"))]
    proxy.delay_reply(0.005, command="SCAN")
    redis.command("CONFIG", "RESETSTAT")
    a.lock("Y")
    answer = a.start_acquire("Y", wait_ms=6000).answer()
    assert answer.err == "TIMEOUT", answer
    stats = redis.command("INFO", "commandstats").decode()
    asked = int(stats.partition("cmdstat_scan:calls=")[2].partition(",")[0])
    assert 5 <= asked <= 22 + answer.took_ms / 100, stats
    for grant in held:
        grant.release()


@needs_redis
def test_a_circle_beside_many_foreign_keys_is_found(drivers, redis):
    redis.command("DEBUG", "POPULATE", 30_000)
    a, b = drivers(redis.url), drivers(redis.url)
    began = time.monotonic()
    held, pending = ring([(a, "t"), (b, "t")], ["X", "Y"])
    unwind(held, pending, began)


def test_ordered_locking_is_never_refused(drivers, any_store):
    """Eight threads take two to four locks in one order, for ten seconds."""
    one = drivers(any_store)
    names = [f"L{i}" for i in range(6)]
    for name in names:
        one.lock(name)
    end = time.monotonic() + 10
    errors, rounds = [], [0] * 8

    def work(number):
        state = 12345 + number
        while time.monotonic() < end and not errors:
            chosen = []
            for name in names:
                state = (state * 1103515245 + 12345) % 2**31
                if state >> 16 & 1:
                    chosen.append(name)
            grants = []
            try:
                for name in chosen[:4]:
                    grants.append(one.acquire(name, on=f"t{number}",
                                              timeout=60))
                # Now and then long enough for others to look.
                if grants and state % 16 == 0:
                    time.sleep(1.2)
            except Exception as error:  # shown by the main thread
                errors.append(error)
            for grant in reversed(grants):
                grant.release()
            rounds[number] += 1
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sum(rounds) > 20
