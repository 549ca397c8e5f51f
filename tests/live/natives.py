"""A lock of the server's own (PostgreSQL's advisory locks, MySQL's named ones), beside
programs that take it by hand, is the same whichever server: as tests that the module
of a database takes over. It has

    DIALECT    at the end of its URLs
    WORDS      do names stand in what clients send (StreamProxy)?
    TRIES      how what a try sends is told there
    LOCKED     what one by hand hears when it has waited
    Bare       a session of the database's own program, or of another command:
               lock(), ask_lock(), try_lock(), unlock() of the lock "nightly"
    base       a fixture: the server
    waiting(base), holding(base)    how many sessions

The mixed counter is a file to which both sides add one by reading, a pause and
writing, under the lock: whatever is lost, two were inside at once.
"""

import json
import statistics
import time

import pytest

from counters import Counter
from harness.beside import bare_clients, snib_at
from harness.stream_proxy import StreamProxy
from harness.wait import stays, wait_until

WAKE_S = 0.05


@pytest.fixture
def side(request):
    return request.module


@pytest.fixture
def url(base, side):
    return base.url + side.DIALECT


@pytest.fixture
def snib(url):
    """The command."""
    return lambda *words: snib_at(url, *words)


@pytest.fixture
def bare(base, side):
    made = []

    def start(command=None):
        made.append(side.Bare(base, command))
        return made[-1]
    yield start
    for each in made:
        each.close()


@pytest.fixture(params=["its own", "C", "Python"])
def client(request, base):
    """The command of a bare client; None: the database's own program."""
    command = bare_clients(base).get(request.param)
    if isinstance(command, str):
        pytest.skip(command)
    return command


@pytest.fixture
def queue(base, side):
    """Wait until so many wait at the server."""
    return lambda n: wait_until(lambda: side.waiting(base) == n, 20,
                                f"{n} wait")


def test_each_release_wakes_the_other_side(side, url, drivers, bare, client,
                                           queue):
    ours, theirs, woken = drivers(url), bare(client), []
    ours.lock("nightly")
    for _ in range(9):
        theirs.lock()
        assert ours.try_acquire("nightly").err == "BUSY"
        pending = ours.start_acquire("nightly", wait_ms=20000)
        queue(1)
        began = time.monotonic()
        theirs.unlock()
        grant = pending.wait()
        woken.append(time.monotonic() - began)
        assert not theirs.try_lock()
        theirs.ask_lock()
        queue(1)
        began = time.monotonic()
        grant.release()
        assert theirs.line() == side.LOCKED
        woken.append(time.monotonic() - began)
        theirs.unlock()
    assert statistics.median(woken[::2]) < WAKE_S, woken
    assert statistics.median(woken[1::2]) < WAKE_S, woken


def count_bare(theirs, counter, times):
    for _ in range(times):
        theirs.lock()
        counter.add_one()
        theirs.unlock()


def test_a_counter_that_both_increment_is_exact(base, side, url, drivers, bare,
                                                client, tmp_path):
    counter = Counter(tmp_path)
    ours = [drivers(url) for _ in range(3)]
    theirs = [bare(client), bare(client)]
    counter.start_ours(ours, "nightly", 60)
    for each in theirs:
        counter.start(count_bare, each, counter, 60)
    counter.join()
    assert counter.number() == 300
    tokens = counter.tokens
    assert len(tokens) == 180 and tokens == sorted(set(tokens))
    wait_until(lambda: side.holding(base) == 0, what="all is given back")


def test_a_holder_that_stands_still_is_followed_after_its_lease_and_told(
        side, url, drivers, bare):
    ours, theirs = drivers(url), bare()
    grant = ours.acquire(ours.lock("nightly", lease_ms=1500))
    stays(lambda: not theirs.try_lock(), 4, "it is renewed")
    theirs.ask_lock()
    ours.freeze()
    began = time.monotonic()
    assert theirs.line(10) == side.LOCKED
    assert time.monotonic() - began > 0.8  # the third of a lease may be over
    ours.thaw()
    grant.wait_state("lost")
    theirs.unlock()
    assert ours.ask("release", id=grant.id).err == "LOST"
    ours.acquire("nightly", wait_ms=5000).release()


def test_a_silence_shorter_than_the_lease_ends_nothing(base, side, drivers,
                                                       bare):
    with StreamProxy(base.address, side.WORDS) as wire:
        theirs = bare()
        ours = drivers(wire.url(base) + side.DIALECT, request_ms=500)
        grant = ours.acquire(ours.lock("nightly", lease_ms=6000))
        wire.partition()
        grant.wait_state("at risk")
        stays(lambda: not theirs.try_lock(), 1, "it is kept")
        wire.heal()
        grant.wait_state("held")
        stays(lambda: not theirs.try_lock(), 7, "it is renewed")
        grant.release()
        assert theirs.try_lock()
        theirs.unlock()


def test_a_holder_that_is_killed_lets_the_next_one_in(side, url, drivers, bare,
                                                      queue):
    ours, theirs = drivers(url), bare()
    ours.acquire(ours.lock("nightly", lease_ms=30000))
    theirs.ask_lock()
    queue(1)
    ours.kill()
    assert theirs.line(5) == side.LOCKED


def test_an_observer_sees_who_leads_though_not_which_term(snib, bare):
    look = ("elect", "--observe", "--once", "nightly")
    assert snib(*look).stdout == "nightly: no leader\n"
    theirs = bare()
    theirs.lock()
    said = snib(*look).stdout
    assert said.startswith("nightly: led by ") and "term" not in said, said
    said = json.loads(snib(*look, "--json").stdout)
    assert said["term"] is None and said["leader"] is not None, said
    theirs.unlock()
    assert json.loads(snib(*look, "--json").stdout)["term"] == 0


def test_a_waiter_that_gives_up_leaves_the_queue(side, url, drivers, bare,
                                                 queue):
    ours, theirs = drivers(url), bare()
    theirs.lock()
    ours.lock("nightly")
    said = ours.start_acquire("nightly", wait_ms=300).answer()
    assert said.err == "TIMEOUT"
    queue(0)
    other = bare()
    other.ask_lock()
    theirs.unlock()
    assert other.line() == side.LOCKED
    other.unlock()
    ours.acquire("nightly").release()


def test_a_waiter_that_is_killed_leaves_the_queue(url, drivers, bare, queue):
    ours, theirs = drivers(url), bare()
    theirs.lock()
    ours.lock("nightly")
    ours.start_acquire("nightly", wait_ms=60000)
    queue(1)
    ours.kill()
    queue(0)
    theirs.unlock()


def test_a_server_that_restarts_is_told_and_waited_for(base, url, drivers,
                                                       queue):
    ours, other = drivers(url), drivers(url)
    grant = ours.acquire(ours.lock("nightly", lease_ms=30000))
    pending = other.start_acquire(other.lock("nightly"), wait_ms=30000)
    queue(1)
    base.kill()
    base.start()
    grant.wait_state("lost")
    pending.wait(30).release()


@pytest.mark.parametrize("then", ["rst", "silence"])
def test_an_acquire_whose_answer_is_lost_is_asked_again(base, side, drivers,
                                                        then):
    with StreamProxy(base.address, side.WORDS) as wire:
        ours = drivers(wire.url(base) + side.DIALECT, request_ms=700)
        lock = ours.lock("nightly")
        for _ in range(2):
            ours.acquire(lock, wait_ms=5000).release()
        rule = wire.lose_answers(side.TRIES, then=then)
        grant = ours.acquire(lock, wait_ms=20000, timeout=30)
        assert rule.fired <= 1
        grant.release()
        wait_until(lambda: side.holding(base) == 0, 40, "it is free")
