"""The same lock at the same moment as who takes MariaDB's named locks by hand
(?dialect=getlock): the program mariadb, and bare clients in C and Python.

The mixed counter is a file to which both sides add one by reading, a pause and
writing, under the lock: whatever is lost, two were inside at once.
"""

import re
import statistics
import time

import pytest

from counters import Counter
from harness.beside import bare_clients, snib_at
from harness.foreign import Lines
from harness.mysql_server import MysqlServer, mysql_missing
from harness.stream_proxy import StreamProxy
from harness.wait import stays, wait_until

pytestmark = pytest.mark.skipif(bool(mysql_missing()), reason=mysql_missing())
WAKE_S = 0.05


class Bare(Lines):
    """A session that says what it is told, and one line for each answer."""

    def __init__(self, server, command=None):
        super().__init__(
            command or
            ["mariadb", "--no-defaults", "-BNrn", "--skip-reconnect", "-h",
             "127.0.0.1", "-P", str(server.port), "-u", "snib", "snib"])
        self.id = self.do("SELECT CONNECTION_ID()")

    def say(self, line):
        super().say(line + ";")

    def ask_lock(self):
        self.say("SELECT GET_LOCK('nightly', 1000)")

    def lock(self):
        self.ask_lock()
        assert self.line() == "1"

    def try_lock(self):
        return self.do("SELECT GET_LOCK('nightly', 0)") == "1"

    def unlock(self):
        assert self.do("SELECT RELEASE_LOCK('nightly')") == "1"


@pytest.fixture(scope="module")
def kept():
    with MysqlServer() as server:
        yield server


@pytest.fixture
def base(kept, drivers):
    said = drivers().ask("open", id="x", url="mysql://127.0.0.1:1/x")
    if said.err == "UNSUPPORTED":
        pytest.skip("the store mysql: is not built in")
    if kept.child.poll() is not None:
        kept.start()
    return kept


@pytest.fixture
def bare(base):
    made = []

    def start(command=None):
        made.append(Bare(base, command))
        return made[-1]
    yield start
    for each in made:
        each.close()


def url(base):
    return base.url + "?dialect=getlock"


def snib(base, *words):
    return snib_at(url(base), *words)


def waiting(base):
    return int(base.sql("SELECT COUNT(*) FROM information_schema.PROCESSLIST "
                        "WHERE STATE='User lock'"))


def holder(base):
    """Of the lock, by its session; "NULL": nobody."""
    return base.sql("SELECT IS_USED_LOCK('nightly')")


@pytest.fixture(params=["mariadb", "C", "Python"])
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
        assert theirs.line() == "1"
        woken.append(time.monotonic() - began)
        theirs.unlock()
    assert statistics.median(woken[::2]) < WAKE_S, woken
    assert statistics.median(woken[1::2]) < WAKE_S, woken


def count_bare(theirs, counter, times):
    for _ in range(times):
        theirs.lock()
        counter.add_one()
        theirs.unlock()


def test_a_counter_that_both_increment_is_exact(base, drivers, bare, client,
                                                tmp_path):
    counter = Counter(tmp_path)
    ours, theirs = [drivers(url(base)) for _ in range(3)], \
        [bare(client), bare(client)]
    counter.start_ours(ours, "nightly", 60)
    for each in theirs:
        counter.start(count_bare, each, counter, 60)
    counter.join()
    assert counter.number() == 300
    tokens = counter.tokens
    assert len(tokens) == 180 and tokens == sorted(set(tokens))
    wait_until(lambda: holder(base) == "NULL", what="all is given back")


def test_a_holder_that_stands_still_is_followed_after_its_lease_and_told(
        base, drivers, bare):
    ours, theirs = drivers(url(base)), bare()
    grant = ours.acquire(ours.lock("nightly", lease_ms=1500))
    stays(lambda: not theirs.try_lock(), 4, "it is renewed")
    theirs.ask_lock()
    ours.freeze()
    began = time.monotonic()
    assert theirs.line(10) == "1"
    assert time.monotonic() - began > 0.8  # the third of a lease may be over
    ours.thaw()
    grant.wait_state("lost")
    theirs.unlock()
    assert ours.ask("release", id=grant.id).err == "LOST"
    ours.acquire("nightly", wait_ms=5000).release()


def test_a_silence_shorter_than_the_lease_ends_nothing(base, drivers, bare):
    with StreamProxy(base.address, True) as wire:
        theirs = bare()
        ours = drivers(wire.url(base) + "?dialect=getlock", request_ms=500)
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


def test_a_server_that_becomes_a_replica_grants_no_more(base, drivers):
    ours, other = drivers(url(base)), drivers(url(base))
    grant = ours.acquire(ours.lock("nightly", lease_ms=6000))
    base.sql("SET GLOBAL read_only=1")
    try:
        grant.wait_state("lost", 4)
        said = other.try_acquire(other.lock("nightly"))
        assert not said.ok and "replica" in said.text, said
    finally:
        base.sql("SET GLOBAL read_only=0")
    other.acquire("nightly", wait_ms=5000).release()


def test_a_session_that_is_ended_is_told_at_once(base, drivers):
    for options in ({}, {"fixed": 1}):
        ours = drivers(url(base))
        grant = ours.acquire(ours.lock("nightly", lease_ms=30000, **options))
        base.sql("KILL IS_USED_LOCK('nightly')")
        grant.wait_state("lost", 2)


def test_a_holder_that_is_killed_lets_the_next_one_in(base, drivers, bare):
    ours, theirs = drivers(url(base)), bare()
    ours.acquire(ours.lock("nightly", lease_ms=30000))
    theirs.ask_lock()
    wait_until(lambda: waiting(base) == 1, what="they wait")
    ours.kill()
    assert theirs.line(5) == "1"


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
    assert other.line() == "1"
    other.unlock()
    ours.acquire("nightly").release()


def test_a_waiter_that_is_killed_leaves_the_queue(base, drivers, bare):
    ours, theirs = drivers(url(base)), bare()
    theirs.lock()
    ours.start_acquire(ours.lock("nightly"), wait_ms=20000)
    wait_until(lambda: waiting(base) == 1, what="it waits")
    ours.kill()
    wait_until(lambda: waiting(base) == 0, 10, "it has left")


def test_a_wait_outlasts_what_a_statement_may_take(base, drivers, bare):
    """Elsewhere no statement of ours takes longer than 30 s."""
    ours, theirs = drivers(url(base)), bare()
    theirs.lock()
    pending = ours.start_acquire(ours.lock("nightly"), wait_ms=60000)
    wait_until(lambda: waiting(base) == 1, what="it waits")
    first = base.sql("SELECT ID FROM information_schema.PROCESSLIST "
                     "WHERE STATE='User lock'")
    time.sleep(32)
    assert base.sql("SELECT ID FROM information_schema.PROCESSLIST "
                    "WHERE STATE='User lock'") == first
    theirs.unlock()
    pending.wait(10).release()


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
    with StreamProxy(base.address, True) as wire:
        ours = drivers(wire.url(base) + "?dialect=getlock", request_ms=700)
        lock = ours.lock("nightly")
        for _ in range(2):
            ours.acquire(lock, wait_ms=5000).release()
        rule = wire.lose_answers("GET_LOCK(", then=then)
        grant = ours.acquire(lock, wait_ms=20000, timeout=30)
        assert rule.fired <= 1
        grant.release()
        wait_until(lambda: holder(base) == "NULL", 40, "it is free")


def test_names_are_theirs_up_to_192_bytes(base, drivers):
    ours = drivers(url(base))
    for name in ("n" * 192, "it's", "n\u00e4chtlich"):
        grant = ours.acquire(ours.lock(name, id="x"))
        quoted = name.encode().hex()
        assert base.sql(f"SELECT IS_USED_LOCK(x'{quoted}')") != "NULL"
        grant.release()
        ours = drivers(url(base))
    said = ours.try_acquire(ours.lock("n" * 193, id="y"))
    assert said.err == "USAGE" and "192 bytes" in said.text, said


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
        assert "ended by KILL alone" in done.stdout, (holds, done)
    grant.release()


def test_urls_that_mean_nothing_are_refused(base, drivers):
    driver = drivers()
    for more in ("&table=x", "&prefix=x", "&ttl=3s"):
        said = driver.ask("open", id="x", url=url(base) + more)
        assert said.err == "USAGE" and "in no table" in said.text


def test_who_holds_is_shown(base, drivers, bare):
    theirs = bare()
    theirs.lock()
    ours = drivers(url(base))
    pending = ours.start_acquire(ours.lock("nightly"), wait_ms=20000)
    wait_until(lambda: waiting(base) == 1, what="it waits")
    said = snib(base, "status", "nightly").stdout
    assert f"session {theirs.id}" in said, said
    assert "\n  waiting  cannot be seen on ?dialect=getlock\n" in said, said
    why = snib(base, "why", "nightly").stdout
    assert "Who waits cannot be seen on ?dialect=getlock. " in why, why
    assert "1970" not in said and "since" not in said and " for " not in why
    theirs.unlock()
    pending.wait().release()
    assert "free" in snib(base, "status", "nightly").stdout
    done = snib(base, "doctor")
    assert done.returncode == 0 and re.search(
        r"ok +dialect +named locks \(GET_LOCK\)", done.stdout), done.stdout


def test_no_right_and_no_table_is_needed(base, drivers, bare):
    base.sql("CREATE USER bare@'%'", "CREATE DATABASE empty",
             "GRANT SELECT ON empty.* TO bare@'%'")
    where = url(base).replace("snib@", "bare@").replace("/snib?", "/empty?")
    ours = drivers(where)
    grant = ours.acquire(ours.lock("nightly"))
    assert grant.renew().ok
    grant.release()
    theirs = bare()  # another user's: the server does not say what it is
    theirs.lock()
    said = snib_at(where, "status", "nightly").stdout
    assert said.startswith(f"nightly: held by session {theirs.id}, lease 1s\n"
                           f"  holder   session {theirs.id}\n"), said
    theirs.unlock()
    assert base.sql("SELECT COUNT(*) FROM information_schema.TABLES WHERE "
                    "TABLE_SCHEMA='empty'") == "0"
    assert snib_at(where, "doctor").returncode == 0
    done = snib(base, "doctor", "--schema")
    assert done.returncode != 0 and "need no table" in done.stdout


def test_many_names_of_one_process(base, drivers):
    ours = drivers(url(base))
    grants = []
    for i in range(12):
        grants.append(ours.acquire(ours.lock(f"n{i}", id=f"l{i}")))
    names = ",".join(f"IS_USED_LOCK('n{i}') IS NOT NULL" for i in range(12))
    assert base.sql(f"SELECT {names}") == "|".join(["1"] * 12)
    for grant in grants:
        grant.release()
    wait_until(lambda: base.sql(f"SELECT {names}") == "|".join(["0"] * 12),
               what="all is given back")
