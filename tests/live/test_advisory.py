"""The same lock at the same moment as who takes PostgreSQL's advisory locks by
hand (?dialect=advisory): psql, and bare clients in C and Python."""

import os
import re
import statistics
import subprocess
import time

import pytest

from counters import Counter
from harness.beside import bare_clients, snib_at
from harness.foreign import Lines
from harness.postgres_server import PostgresServer, postgres_missing
from harness.stream_proxy import StreamProxy
from harness.wait import stays, wait_until

pytestmark = pytest.mark.skipif(bool(postgres_missing()),
                                reason=postgres_missing())
SNIB = os.environ.get("SNIB_BIN", "")
WAKE_S = 0.05
# What "nightly" is by Medallion.Threading's formula.
KEY = "-576242034,-1690517505"


class Psql(Lines):
    """A session that says what it is told, and one line for each answer."""

    def __init__(self, server, command=None):
        super().__init__(
            command or
            ["psql", "-XAtq", "-h", "127.0.0.1", "-p", str(server.port), "-U",
             "snib", "-d", "snib"])
        self.pid = self.do("SELECT pg_backend_pid()")

    def say(self, line):
        super().say(line + ";")

    def ask_lock(self):
        self.say(f"SELECT 'locked' || pg_advisory_lock({KEY})::text")

    def lock(self):
        self.ask_lock()
        assert self.line() == "locked"

    def try_lock(self):
        return self.do(f"SELECT pg_try_advisory_lock({KEY})") == "t"

    def unlock(self):
        assert self.do(f"SELECT pg_advisory_unlock({KEY})") == "t"


@pytest.fixture(scope="module")
def kept():
    with PostgresServer() as server:
        yield server


@pytest.fixture
def base(kept, drivers):
    said = drivers().ask("open", id="x", url="postgres://127.0.0.1:1/x")
    if said.err == "UNSUPPORTED":
        pytest.skip("the store postgres: is not built in")
    if kept.child.poll() is not None:
        kept.start()
    return kept


@pytest.fixture
def bare(base):
    made = []

    def start(command=None):
        made.append(Psql(base, command))
        return made[-1]
    yield start
    for each in made:
        each.close()


def url(base):
    return base.url + "?dialect=advisory"


def snib(base, *words):
    return subprocess.run([SNIB, *words], timeout=60, check=False, text=True,
                          env={**os.environ, "SNIB_URL": url(base)},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def waiting(base):
    return int(base.psql("SELECT count(*) FROM pg_locks WHERE "
                         "locktype='advisory' AND NOT granted"))


def held(base):
    return int(base.psql("SELECT count(*) FROM pg_locks WHERE "
                         "locktype='advisory' AND granted"))


def end_holders(base):
    assert "t" in base.psql(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE "
        "locktype='advisory' AND granted")


@pytest.fixture(params=["psql", "C", "Python"])
def client(request, base):
    """The command of a bare client; None: the database's own program."""
    command = bare_clients(base).get(request.param)
    if isinstance(command, str):
        pytest.skip(command)
    return command


def test_each_release_wakes_the_other_side(base, drivers, bare, client):
    ours, theirs, woken = drivers(url(base)), bare(client), []
    ours.lock("nightly")
    for _ in range(9):
        theirs.lock()
        assert ours.try_acquire("nightly").err == "BUSY"
        pending = ours.start_acquire("nightly", wait_ms=20000)
        wait_until(lambda: waiting(base) == 1, what="it waits")
        began = time.monotonic()
        theirs.unlock()
        grant = pending.wait()
        woken.append(time.monotonic() - began)
        assert not theirs.try_lock()
        theirs.ask_lock()
        wait_until(lambda: waiting(base) == 1, what="they wait")
        began = time.monotonic()
        grant.release()
        assert theirs.line() == "locked"
        woken.append(time.monotonic() - began)
        theirs.unlock()
    assert statistics.median(woken[::2]) < WAKE_S, woken
    assert statistics.median(woken[1::2]) < WAKE_S, woken


def count_bare(psql, counter, times):
    for _ in range(times):
        psql.lock()
        counter.add_one()
        psql.unlock()


def test_a_counter_that_both_increment_is_exact(base, drivers, bare, client,
                                                tmp_path):
    counter = Counter(tmp_path)
    ours, theirs = [drivers(url(base)) for _ in range(3)], \
        [bare(client), bare(client)]
    counter.start_ours(ours, "nightly", 60)
    for psql in theirs:
        counter.start(count_bare, psql, counter, 60)
    counter.join()
    assert counter.number() == 300
    tokens = counter.tokens
    assert len(tokens) == 180 and tokens == sorted(set(tokens))
    wait_until(lambda: held(base) == 0, what="all is given back")


def test_a_holder_that_stands_still_is_followed_after_its_lease_and_told(
        base, drivers, bare):
    ours, theirs = drivers(url(base)), bare()
    grant = ours.acquire(ours.lock("nightly", lease_ms=1500))
    stays(lambda: not theirs.try_lock(), 4, "it is renewed")
    theirs.ask_lock()
    ours.freeze()
    began = time.monotonic()
    assert theirs.line(10) == "locked"
    assert time.monotonic() - began > 0.8  # the third of a lease may be over
    ours.thaw()
    grant.wait_state("lost")
    theirs.unlock()
    assert ours.ask("release", id=grant.id).err == "LOST"
    ours.acquire("nightly", wait_ms=5000).release()


def test_a_silence_shorter_than_the_lease_ends_nothing(base, drivers, bare):
    with StreamProxy(base.address, False) as wire:
        theirs = bare()
        ours = drivers(wire.url(base) + "?dialect=advisory", request_ms=500)
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


def test_a_session_that_is_ended_is_told_at_once(base, drivers):
    for options in ({}, {"fixed": 1}):
        ours = drivers(url(base))
        grant = ours.acquire(ours.lock("nightly", lease_ms=30000, **options))
        end_holders(base)
        grant.wait_state("lost", 2)


def test_a_holder_that_is_killed_lets_the_next_one_in(base, drivers, bare):
    ours, theirs = drivers(url(base)), bare()
    ours.acquire(ours.lock("nightly", lease_ms=30000))
    theirs.ask_lock()
    wait_until(lambda: waiting(base) == 1, what="they wait")
    ours.kill()
    assert theirs.line(5) == "locked"


def test_a_waiter_that_gives_up_leaves_the_queue(base, drivers, bare):
    ours, theirs = drivers(url(base)), bare()
    theirs.lock()
    ours.lock("nightly")
    said = ours.start_acquire("nightly", wait_ms=300).answer()
    assert said.err == "TIMEOUT"
    wait_until(lambda: waiting(base) == 0, what="it has left")
    other = bare()
    other.ask_lock()
    theirs.unlock()
    assert other.line() == "locked"
    other.unlock()
    ours.acquire("nightly").release()


def test_a_waiter_that_is_killed_leaves_the_queue(base, drivers, bare):
    ours, theirs = drivers(url(base)), bare()
    theirs.lock()
    ours.lock("nightly")
    ours.start_acquire("nightly", wait_ms=60000)
    wait_until(lambda: waiting(base) == 1, what="it waits")
    ours.kill()
    wait_until(lambda: waiting(base) == 0, what="its session has ended")
    theirs.unlock()


def test_a_server_that_restarts_is_told_and_waited_for(base, drivers):
    ours, other = drivers(url(base)), drivers(url(base))
    grant = ours.acquire(ours.lock("nightly", lease_ms=30000))
    pending = other.start_acquire(other.lock("nightly"), wait_ms=30000)
    wait_until(lambda: waiting(base) == 1, what="it waits")
    base.kill()
    base.start()
    grant.wait_state("lost")
    pending.wait(30).release()


@pytest.mark.parametrize("then", ["rst", "silence"])
def test_an_acquire_whose_answer_is_lost_is_asked_again(base, drivers, then):
    with StreamProxy(base.address, False) as wire:
        ours = drivers(wire.url(base) + "?dialect=advisory", request_ms=700)
        lock = ours.lock("nightly")
        for _ in range(2):
            ours.acquire(lock, wait_ms=5000).release()
        rule = wire.lose_answers("pg_try_advisory_lock", then=then)
        grant = ours.acquire(lock, wait_ms=20000, timeout=30)
        assert rule.fired <= 1
        grant.release()
        wait_until(lambda: held(base) == 0, 40, "it is free")


def test_names_are_the_numbers_of_medallion(base, drivers):
    ours = drivers(url(base))
    for name, where in [
            ("nightly", f"{-576242034 + 2**32}|{-1690517505 + 2**32}|2"),
            ("000000000000002a", "0|42|1"), ("00000007,0000000b", "7|11|2")]:
        grant = ours.acquire(ours.lock(name, id="x"))
        assert base.psql("SELECT classid,objid,objsubid FROM pg_locks WHERE "
                         "locktype='advisory'") == where
        grant.release()
        ours = drivers(url(base))


def test_what_there_is_not_is_unsupported(base, drivers):
    ours = drivers(url(base))
    for kind in ("read", "write", "permits"):
        said = ours.try_acquire(ours.lock(f"k{kind}", kind=kind))
        assert said.err == "UNSUPPORTED" and "mutexes only" in said.text, said
    said = ours.try_acquire(ours.lock("d", lock_delay_ms=1000))
    assert said.err == "UNSUPPORTED" and "lock-delay" in said.text
    said = ours.ask("value_get", client="c", name="n")
    assert said.err == "UNSUPPORTED" and "mutexes only" in said.text
    done = snib(base, "list")
    assert done.returncode == 78 and "cannot be listed" in done.stdout
    for holds in (False, True):
        grant = ours.acquire(ours.lock("n")) if holds else None
        done = snib(base, "force-release", "n")
        assert done.returncode == 78, (holds, done)
        assert "ended by pg_terminate_backend" in done.stdout, (holds, done)
    grant.release()


def test_urls_that_mean_nothing_are_refused(base, drivers):
    driver = drivers()
    for more in ("&table=x", "&schema=x", "&durable=no", "&ttl=9s"):
        said = driver.ask("open", id="x", url=url(base) + more)
        assert said.err == "USAGE" and "in no table" in said.text


def test_who_holds_and_waits_is_shown(base, drivers, bare):
    theirs = bare()
    theirs.lock()
    ours = drivers(url(base))
    pending = ours.start_acquire(ours.lock("nightly"), wait_ms=20000)
    wait_until(lambda: waiting(base) == 1, what="it waits")
    said = snib(base, "status", "nightly").stdout
    assert f"session {theirs.pid}" in said, said
    why = snib(base, "why", "nightly")  # though the locks cannot be listed
    assert why.returncode == 0 and "nightly:" in why.stdout, why
    assert "Next: the first in the queue" in why.stdout, why.stdout
    assert snib(base, "deadlocks").returncode == 78
    base.psql("CREATE ROLE other LOGIN")  # which may not see all of theirs
    said = snib_at(url(base).replace("snib@", "other@"), "status",
                   "nightly").stdout
    assert re.match(rf"nightly: held by .*\(session {theirs.pid}\), lease 1s\n"
                    rf"  holder   .*\(session {theirs.pid}\)\n  lease ",
                    said), said
    assert "host" not in said, said
    theirs.unlock()
    pending.wait().release()
    assert "free" in snib(base, "status", "nightly").stdout
    done = snib(base, "doctor")
    assert done.returncode == 0 and re.search(
        r"ok +dialect +advisory locks: 0 held", done.stdout), done.stdout


def test_without_connections_that_is_said(base, drivers):
    held_open = [Psql(base) for _ in range(3)]
    base.psql("ALTER ROLE snib CONNECTION LIMIT 4")
    try:
        ours = drivers(url(base))
        said = ours.try_acquire(ours.lock("nightly"))
        assert said.err == "UNREACHABLE", said
        assert "no connection left for this user" in said.text, said
    finally:
        base.psql("ALTER ROLE snib CONNECTION LIMIT -1")
        for each in held_open:
            each.close()


def test_many_names_and_threads_of_one_process(base, drivers):
    ours = drivers(url(base))
    grants = []
    for i in range(12):
        grants.append(ours.acquire(ours.lock(f"n{i}", id=f"l{i}")))
    assert held(base) == 12
    for grant in grants:
        grant.release()
    wait_until(lambda: held(base) == 0, what="all is given back")
