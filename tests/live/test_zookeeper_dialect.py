"""The same lock at the same moment as Curator's own clients (?dialect=):
InterProcessMutex, and InterProcessReadWriteLock."""

import os
import statistics
import subprocess
import time

import pytest

from counters import Counter
from harness.foreign import Foreign, curator, missing
from harness.wait import stays, wait_until
from harness.zookeeper_server import (ZookeeperError, ZookeeperServer,
                                      zookeeper_missing)

pytestmark = pytest.mark.skipif(bool(zookeeper_missing()),
                                reason=zookeeper_missing())
WAKE_S = 0.2  # a release of one side wakes the other; a poll comes later
NEEDS, KINDS = "zookeeper://127.0.0.1:1", ("mutex", "rw")
SNIB = os.environ.get("SNIB_BIN", "")


@pytest.fixture(scope="module")
def one():
    with ZookeeperServer() as server:
        yield server


@pytest.fixture(scope="module")
def built():
    """Why Curator can't be had here; fetched before anybody waits for it."""
    return missing(curator)


@pytest.fixture
def look(one, built):
    # its session is not kept alive while a JVM starts
    with one.client(session_ms=60000) as client:
        yield client


NUMBER = iter(range(10**6))


@pytest.fixture
def name():
    return f"n{next(NUMBER)}"


@pytest.fixture
def locks(one, name, built):
    """locks(kind): a process with Curator's lock of that kind."""
    if built:
        pytest.skip(built)
    made = []

    def start(kind, *more):
        made.append(Foreign(curator(), f"127.0.0.1:{one.port}",
                            f"/snib/{name}", kind, *more))
        return made[-1]
    yield start
    for each in made:
        each.close()


def url(one, kind, more=""):
    return f"{one.url}?dialect=curator-{kind}{more}"


def standing(look, name):
    """How many stand there."""
    try:
        return len([each for each in look.children(f"/snib/{name}")
                    if each.startswith("_c_")])
    except ZookeeperError:  # there is no such lock yet
        return 0


def waits(look, name, count):
    wait_until(lambda: standing(look, name) == count, 10,
               f"{count} stand at {name}")


@pytest.mark.parametrize("kind", KINDS)
def test_each_release_wakes_curators_side_or_ours(one, drivers, look, locks,
                                                  name, kind):
    ours, theirs, woken = drivers(url(one, kind)), locks(kind), []
    ours.lock(name)
    for _ in range(11):
        theirs.lock()
        assert not ours.try_acquire(name).ok
        waiting = ours.start_acquire(name, wait_ms=20000)
        waits(look, name, 2)
        time.sleep(0.05)  # its watch is there
        began = time.monotonic()
        theirs.say("unlock")
        grant = waiting.wait()
        woken.append(time.monotonic() - began)
        assert theirs.line() == "unlocked"
        theirs.say("lock")
        waits(look, name, 2)
        time.sleep(0.05)
        assert theirs.says_nothing()
        began = time.monotonic()
        grant.release()
        assert theirs.line() == "locked"
        woken.append(time.monotonic() - began)
        theirs.unlock()
    # the first rounds warm a JVM up
    assert statistics.median(woken[2::2]) < WAKE_S, woken
    assert statistics.median(woken[3::2]) < WAKE_S, woken


@pytest.mark.parametrize("kind", KINDS)
def test_a_counter_with_curator_is_exact(one, drivers, locks, name, tmp_path,
                                         kind):
    counter = Counter(tmp_path)
    theirs = [locks(kind) for _ in range(2)]
    counter.start_ours([drivers(url(one, kind)) for _ in range(2)], name, 60)
    for each in theirs:
        each.say(f"count {counter.path} 60")
    for each in theirs:
        assert each.line(120) == "counted 60"
    counter.join()
    assert counter.number() == 240


@pytest.mark.parametrize("kind", KINDS)
def test_curator_is_refused_while_ours_holds(one, drivers, locks, name, kind):
    ours, theirs = drivers(url(one, kind)), locks(kind)
    grant = ours.acquire(ours.lock(name))
    assert theirs.do("try") == "busy"
    grant.renew()
    assert theirs.do("try") == "busy"
    grant.release()
    assert theirs.do("try") == "locked"


def test_readers_of_both_sides_read_together(one, drivers, look, locks, name):
    ours, theirs = drivers(url(one, "rw")), locks("rw")
    writer = drivers(url(one, "rw"))
    reads = ours.acquire(ours.lock(name, kind="read"))
    assert theirs.do("read") == "locked"
    waiting = writer.start_acquire(writer.lock(name, kind="write"),
                                   wait_ms=20000)
    waits(look, name, 3)
    reads.release()
    stays(lambda: not waiting.done(), 0.5)
    assert theirs.do("unread") == "unlocked"
    written = waiting.wait()
    assert theirs.do("tryread") == "busy"
    written.release()
    assert theirs.do("tryread") == "locked"


def test_a_writer_of_ours_that_goes_on_reading_keeps_curators_writer_out(
        one, drivers, look, locks, name):
    """It waits behind the writer, and the reader comes later."""
    ours, theirs = drivers(url(one, "rw")), locks("rw")
    written = ours.acquire(ours.lock(name, id="w", kind="write"))
    theirs.say("lock")
    waits(look, name, 2)
    read = ours.acquire(ours.lock(name, id="r", kind="read"))
    written.release()
    stays(theirs.says_nothing, 0.5)
    read.release()
    assert theirs.line() == "locked"


def test_a_writer_of_curators_that_goes_on_reading_keeps_ours_out(
        one, drivers, look, locks, name):
    ours, theirs = drivers(url(one, "rw")), locks("rw")
    theirs.lock()
    waiting = ours.start_acquire(ours.lock(name, kind="write"), wait_ms=20000)
    waits(look, name, 2)
    assert theirs.do("read") == "locked"
    theirs.unlock()
    stays(lambda: not waiting.done(), 0.5)
    assert theirs.do("unread") == "unlocked"
    waiting.wait().release()


@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_holder_of_ours_has_lost_before_curator_has_it(
        one, drivers, look, locks, name, kind):
    """Its session ends; its lease, a third of that, has ended long before."""
    ours, theirs = drivers(url(one, kind, "&session_ms=3000")), locks(kind)
    grant = ours.acquire(ours.lock(name, lease_ms=30000))
    theirs.say("lock")
    waits(look, name, 2)
    ours.freeze()
    assert theirs.line(30) == "locked"
    ours.thaw()
    assert ours.ask("renew", id=grant.id).err == "LOST"


def test_a_lease_is_a_third_of_the_session_at_most(one, drivers, name):
    ours = drivers(url(one, "mutex", "&session_ms=6000"))
    grant = ours.acquire(ours.lock(name, lease_ms=30000))
    assert grant.status()["left_ms"] <= 2000
    time.sleep(2.5)  # it is renewed
    assert grant.status()["state"] == "held"
    grant.release()


@pytest.mark.skipif(not SNIB, reason="no snib")
def test_the_command_has_its_whole_lease_or_is_refused(one, name):
    def run(ttl):
        return subprocess.run(
            [SNIB, "run", "-w", "5s", *ttl, name, "--", "echo", "ran"],
            text=True, check=False, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "SNIB_URL": url(one, "mutex", "")})
    done = run([])
    assert (done.returncode, done.stdout) == (64, "")
    assert ("this store gives leases of 10000 ms at most, not of 30000 ms: make "
            "it shorter (lease_ms, --ttl)") in done.stderr
    done = run(["--ttl", "10s"])
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


def test_a_path_is_one_or_the_other(one, drivers, locks, name):
    theirs = locks("mutex")
    theirs.lock()
    for other in ("?session_ms=3000", "?dialect=curator-rw"):
        ours = drivers(one.url + other)
        said = ours.ask("acquire", lock=ours.lock(name), id="g", wait_ms=2000)
        assert said.err == "CONFIG" and "lock-" in said.text, said


def test_kazoo_is_told_apart(one, drivers, look, name):
    for kind in KINDS:
        ours = drivers(url(one, kind))
        ours.acquire(ours.lock(name + kind)).release()
        look.create(f"/snib/{name}{kind}/{'0' * 32}__lock__", b"", 3)
        said = ours.ask("acquire", lock=name + kind, id="g", wait_ms=2000)
        assert said.err == "CONFIG" and "__lock__" in said.text, said


def test_mutexes_have_no_readers(one, drivers, name):
    ours = drivers(url(one, "mutex"))
    for kind in ("read", "write"):
        lock = ours.lock(name, id=kind, kind=kind)
        assert ours.try_acquire(lock).err == "UNSUPPORTED"


@pytest.mark.parametrize("kind, session_ms, warns", [
    ("mutex", 30000, False), ("rw", 6000, True)])
def test_the_doctor_looks_at_the_length_of_the_session(one, kind, session_ms,
                                                       warns):
    if not SNIB:
        pytest.skip("no snib")
    done = subprocess.run(
        [SNIB, "doctor"], text=True, check=False, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={
            **os.environ,
            "SNIB_URL": url(one, kind, f"&session_ms={session_ms}")})
    line = next(each for each in done.stdout.splitlines()
                if "Curator's" in each)
    assert f"{session_ms // 3} ms" in line, done.stdout
    assert ("warn" in line) == warns, done.stdout
