"""The same lock at the same moment as who takes PostgreSQL's advisory locks by
hand (?dialect=advisory): psql, and bare clients in C and Python."""

import re

import pytest

from harness.beside import snib_at
from harness.foreign import Lines
from harness.postgres_server import PostgresServer, postgres_missing
from harness.wait import wait_until
from natives import *  # noqa: F401,F403

pytestmark = pytest.mark.skipif(bool(postgres_missing()),
                                reason=postgres_missing())
DIALECT, WORDS, TRIES = "?dialect=advisory", False, "pg_try_advisory_lock"
LOCKED = "locked"
# What "nightly" is by Medallion.Threading's formula.
KEY = "-576242034,-1690517505"


class Bare(Lines):
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


def waiting(base):
    return int(base.psql("SELECT count(*) FROM pg_locks WHERE "
                         "locktype='advisory' AND NOT granted"))


def holding(base):
    return int(base.psql("SELECT count(*) FROM pg_locks WHERE "
                         "locktype='advisory' AND granted"))


def end_holders(base):
    assert "t" in base.psql(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE "
        "locktype='advisory' AND granted")


def test_a_session_that_is_ended_is_told_at_once(base, url, drivers):
    for options in ({}, {"fixed": 1}):
        ours = drivers(url)
        grant = ours.acquire(ours.lock("nightly", lease_ms=30000, **options))
        end_holders(base)
        grant.wait_state("lost", 2)


def test_names_are_the_numbers_of_medallion(base, url, drivers):
    ours = drivers(url)
    for name, where in [
            ("nightly", f"{-576242034 + 2**32}|{-1690517505 + 2**32}|2"),
            ("000000000000002a", "0|42|1"), ("00000007,0000000b", "7|11|2")]:
        grant = ours.acquire(ours.lock(name, id="x"))
        assert base.psql("SELECT classid,objid,objsubid FROM pg_locks WHERE "
                         "locktype='advisory'") == where
        grant.release()
        ours = drivers(url)


def test_what_there_is_not_is_unsupported(url, snib, drivers):
    ours = drivers(url)
    for kind in ("read", "write", "permits"):
        said = ours.try_acquire(ours.lock(f"k{kind}", kind=kind))
        assert said.err == "UNSUPPORTED" and "mutexes only" in said.text, said
    said = ours.try_acquire(ours.lock("d", lock_delay_ms=1000))
    assert said.err == "UNSUPPORTED" and "lock-delay" in said.text
    said = ours.ask("value_get", client="c", name="n")
    assert said.err == "UNSUPPORTED" and "mutexes only" in said.text
    done = snib("list")
    assert done.returncode == 78 and "cannot be listed" in done.stdout
    for holds in (False, True):
        grant = ours.acquire(ours.lock("n")) if holds else None
        done = snib("force-release", "n")
        assert done.returncode == 78, (holds, done)
        assert "ended by pg_terminate_backend" in done.stdout, (holds, done)
    grant.release()


def test_urls_that_mean_nothing_are_refused(url, drivers):
    driver = drivers()
    for more in ("&table=x", "&schema=x", "&durable=no", "&ttl=9s"):
        said = driver.ask("open", id="x", url=url + more)
        assert said.err == "USAGE" and "in no table" in said.text


def test_who_holds_and_waits_is_shown(base, url, snib, drivers, bare, queue):
    theirs = bare()
    theirs.lock()
    ours = drivers(url)
    pending = ours.start_acquire(ours.lock("nightly"), wait_ms=20000)
    queue(1)
    said = snib("status", "nightly").stdout
    assert f"session {theirs.pid}" in said, said
    why = snib("why", "nightly")  # though the locks cannot be listed
    assert why.returncode == 0 and "nightly:" in why.stdout, why
    assert "Next: the first in the queue" in why.stdout, why.stdout
    assert snib("deadlocks").returncode == 78
    base.psql("CREATE ROLE other LOGIN")  # which may not see all of theirs
    said = snib_at(url.replace("snib@", "other@"), "status",
                   "nightly").stdout
    assert re.match(rf"nightly: held by .*\(session {theirs.pid}\), lease 1s\n"
                    rf"  holder   .*\(session {theirs.pid}\)\n  lease ",
                    said), said
    assert "host" not in said, said
    theirs.unlock()
    pending.wait().release()
    assert "free" in snib("status", "nightly").stdout
    done = snib("doctor")
    assert done.returncode == 0 and re.search(
        r"ok +dialect +advisory locks: 0 held", done.stdout), done.stdout


def test_without_connections_that_is_said(base, url, drivers):
    held_open = [Bare(base) for _ in range(3)]
    base.psql("ALTER ROLE snib CONNECTION LIMIT 4")
    try:
        ours = drivers(url)
        said = ours.try_acquire(ours.lock("nightly"))
        assert said.err == "UNREACHABLE", said
        assert "no connection left for this user" in said.text, said
    finally:
        base.psql("ALTER ROLE snib CONNECTION LIMIT -1")
        for each in held_open:
            each.close()


def test_many_names_and_threads_of_one_process(base, url, drivers):
    ours = drivers(url)
    grants = []
    for i in range(12):
        grants.append(ours.acquire(ours.lock(f"n{i}", id=f"l{i}")))
    assert holding(base) == 12
    for grant in grants:
        grant.release()
    wait_until(lambda: holding(base) == 0, what="all is given back")
