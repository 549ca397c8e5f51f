"""The same lock at the same moment as who takes MariaDB's named locks by hand
(?dialect=getlock): the program mariadb, and bare clients in C and Python."""

import re
import time

import pytest

from harness.beside import snib_at
from harness.foreign import Lines
from harness.mysql_server import MysqlServer, mysql_missing
from harness.wait import wait_until
from natives import *  # noqa: F401,F403

pytestmark = pytest.mark.skipif(bool(mysql_missing()), reason=mysql_missing())
DIALECT, WORDS, TRIES = "?dialect=getlock", True, "GET_LOCK("
LOCKED = "1"


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


def waiting(base):
    return int(base.sql("SELECT COUNT(*) FROM information_schema.PROCESSLIST "
                        "WHERE STATE='User lock'"))


def holding(base):
    return int(base.sql("SELECT IS_USED_LOCK('nightly') IS NOT NULL"))


def test_a_server_that_becomes_a_replica_grants_no_more(base, url, drivers):
    ours, other = drivers(url), drivers(url)
    grant = ours.acquire(ours.lock("nightly", lease_ms=6000))
    base.sql("SET GLOBAL read_only=1")
    try:
        grant.wait_state("lost", 4)
        said = other.try_acquire(other.lock("nightly"))
        assert not said.ok and "replica" in said.text, said
    finally:
        base.sql("SET GLOBAL read_only=0")
    other.acquire("nightly", wait_ms=5000).release()


def test_a_session_that_is_ended_is_told_at_once(base, url, drivers):
    for options in ({}, {"fixed": 1}):
        ours = drivers(url)
        grant = ours.acquire(ours.lock("nightly", lease_ms=30000, **options))
        base.sql("KILL IS_USED_LOCK('nightly')")
        grant.wait_state("lost", 2)


def test_a_wait_outlasts_what_a_statement_may_take(
        base, url, drivers, bare, queue):
    """Elsewhere no statement of ours takes longer than 30 s."""
    ours, theirs = drivers(url), bare()
    theirs.lock()
    pending = ours.start_acquire(ours.lock("nightly"), wait_ms=60000)
    queue(1)
    first = base.sql("SELECT ID FROM information_schema.PROCESSLIST "
                     "WHERE STATE='User lock'")
    time.sleep(32)
    assert base.sql("SELECT ID FROM information_schema.PROCESSLIST "
                    "WHERE STATE='User lock'") == first
    theirs.unlock()
    pending.wait(10).release()


def test_names_are_theirs_up_to_192_bytes(base, url, drivers):
    ours = drivers(url)
    for name in ("n" * 192, "it's", "n\u00e4chtlich"):
        grant = ours.acquire(ours.lock(name, id="x"))
        quoted = name.encode().hex()
        assert base.sql(f"SELECT IS_USED_LOCK(x'{quoted}')") != "NULL"
        grant.release()
        ours = drivers(url)
    said = ours.try_acquire(ours.lock("n" * 193, id="y"))
    assert said.err == "USAGE" and "192 bytes" in said.text, said


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
        assert "ended by KILL alone" in done.stdout, (holds, done)
    grant.release()


def test_urls_that_mean_nothing_are_refused(url, drivers):
    driver = drivers()
    for more in ("&table=x", "&prefix=x", "&ttl=3s"):
        said = driver.ask("open", id="x", url=url + more)
        assert said.err == "USAGE" and "in no table" in said.text


def test_who_holds_is_shown(url, snib, drivers, bare, queue):
    theirs = bare()
    theirs.lock()
    ours = drivers(url)
    pending = ours.start_acquire(ours.lock("nightly"), wait_ms=20000)
    queue(1)
    said = snib("status", "nightly").stdout
    assert f"session {theirs.id}" in said, said
    assert "\n  waiting  cannot be seen on ?dialect=getlock\n" in said, said
    why = snib("why", "nightly").stdout
    assert "Who waits cannot be seen on ?dialect=getlock. " in why, why
    assert "1970" not in said and "since" not in said and " for " not in why
    theirs.unlock()
    pending.wait().release()
    assert "free" in snib("status", "nightly").stdout
    done = snib("doctor")
    assert done.returncode == 0 and re.search(
        r"ok +dialect +named locks \(GET_LOCK\)", done.stdout), done.stdout


def test_no_right_and_no_table_is_needed(base, url, snib, drivers, bare):
    base.sql("CREATE USER bare@'%'", "CREATE DATABASE empty",
             "GRANT SELECT ON empty.* TO bare@'%'")
    where = url.replace("snib@", "bare@").replace("/snib?", "/empty?")
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
    done = snib("doctor", "--schema")
    assert done.returncode != 0 and "need no table" in done.stdout


def test_many_names_of_one_process(base, url, drivers):
    ours = drivers(url)
    grants = []
    for i in range(12):
        grants.append(ours.acquire(ours.lock(f"n{i}", id=f"l{i}")))
    names = ",".join(f"IS_USED_LOCK('n{i}') IS NOT NULL" for i in range(12))
    assert base.sql(f"SELECT {names}") == "|".join(["1"] * 12)
    for grant in grants:
        grant.release()
    wait_until(lambda: base.sql(f"SELECT {names}") == "|".join(["0"] * 12),
               what="all is given back")
