"""snib_version_update with the ready step of snib/steps/libpq.h, on a real
PostgreSQL server."""

import pytest

from harness.postgres_server import PostgresServer, postgres_missing
from versions import *  # noqa: F401,F403
from harness.wait import wait_until
from versions import Rows, begin_at_once

pytestmark = pytest.mark.skipif(bool(postgres_missing()),
                                reason=postgres_missing())


class Postgres(Rows):
    program, DEADLOCK = "version_postgres", "40P01: deadlock detected"
    QUICK = "SET client_min_messages = warning"

    def sql(self, *statements):
        return self.server.psql(*statements, user="snib")

    def fresh(self):
        self.server.psql("DROP SCHEMA public CASCADE", "CREATE SCHEMA public",
                         "GRANT ALL ON SCHEMA public TO snib")
        self.sql("CREATE TABLE item(id int PRIMARY KEY, n int, version bigint,"
                 " attempt text)",
                 "INSERT INTO item VALUES(1, 0, 1, NULL), (2, 0, 1, NULL)")


@pytest.fixture(scope="module")
def kept():
    """One server for these tests, whatever they do to it."""
    with PostgresServer(["deadlock_timeout = 50ms"]) as server:
        yield Postgres(server)


@pytest.fixture
def base(kept):
    return kept.again()


FAIL = """
CREATE SEQUENCE failures;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('failures') <= 2 THEN
    RAISE EXCEPTION 'planned' USING ERRCODE = '{state}';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER fail BEFORE UPDATE ON item FOR EACH ROW EXECUTE FUNCTION fail()
"""


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03", "57014"])
def test_what_the_database_wants_repeated_is_repeated(base, run, state):
    base.sql(FAIL.format(state=state))
    one = run()
    assert one.told()[:2] == ("OK", 3)
    assert one.again == [f"{state}: planned"] * 2
    assert base.row() == "1|2"


@pytest.mark.parametrize("state, error", [
    ("53100", "STORE"), ("42501", "DENIED"), ("28000", "DENIED"),
    ("23505", "STORE"), ("22012", "STORE"), ("XX000", "STORE")])
def test_any_other_error_ends_it(base, run, state, error):
    base.sql(FAIL.format(state=state))
    assert run().told() == (error, 1, 0, f"{state}: planned")
    assert base.row() == "0|1"


SERIALIZABLE = "SET default_transaction_isolation = 'serializable'"


def test_serializable_writers_count_to_the_sum(base, run, tmp_path):
    runs = [run(times=60, wait=60000, think=tmp_path / "gate",
                init=SERIALIZABLE) for _ in range(3)]
    begin_at_once(runs, tmp_path / "gate")
    for one in runs:
        assert {said[0] for said in one.done()} == {"OK"}
    assert base.row() == "180|181"


def test_a_serializable_writer_who_waited_for_a_row_begins_again(
        base, run, wire):
    rule = wire.hold("COMMIT")
    first = run(wire.port)
    wait_until(lambda: rule.fired, what="it has the row")
    behind = run(wait=60000, init=SERIALIZABLE)
    wait_until(lambda: base.sql("SELECT count(*) FROM pg_locks WHERE NOT"
                                " granted") == "1", what="it waits for it")
    rule.go_on.set()
    assert first.told()[0] == "OK"
    assert behind.told()[:2] == ("OK", 2)
    assert behind.again[0].startswith("40001: could not serialize access")
    assert base.row() == "2|3"


def test_a_constraint_that_fails_at_the_commit_ends_it(base, run):
    base.sql("CREATE TABLE low(n int UNIQUE DEFERRABLE INITIALLY DEFERRED)",
             "INSERT INTO low VALUES(1)",
             "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$"
             "BEGIN INSERT INTO low VALUES(NEW.n); RETURN NEW; END $$",
             "CREATE TRIGGER keep BEFORE UPDATE ON item FOR EACH ROW"
             " EXECUTE FUNCTION keep()")
    error, attempts, _, text = run().told()
    assert (error, attempts) == ("STORE", 1) and text.startswith("23505: ")
    assert base.row() == "0|1"


@pytest.mark.parametrize("state", ["08000", "40003", "57P05", "58030", "XX000"])
def test_a_commit_that_fails_in_doubt_is_asked_for(base, run, state):
    base.sql(FAIL.format(state=state).replace(
        "TRIGGER fail BEFORE", "CONSTRAINT TRIGGER fail AFTER").replace(
        "FOR EACH ROW", "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"))
    assert run().told() == ("OK", 3, 0, "")
    assert base.row() == "1|2"


def test_a_begin_that_fails_leaves_no_transaction(base, run, wire):
    rule = wire.put_instead("lock_timeout", "no_timeout")
    first, second = run(wire.port, times=2).done()
    assert rule.fired and first[:2] == ("STORE", 1)
    assert first[3].startswith("42704: "), first
    assert second == ("OK", 1, 0, "")
    assert base.row() == "1|2"


def test_a_statement_that_failed_unseen_is_no_commit(base, run):
    assert run(ignore="yes").told() == (
        "STORE", 1, 0, "rolled back, for a statement had failed")
    assert base.row() == "0|1"


def test_a_server_that_ends_the_session_at_the_commit_is_asked(
        base, run, wire):
    rule = wire.hold("COMMIT")
    one = run(wire.port)
    wait_until(lambda: rule.fired, what="it commits")
    assert base.server.psql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
        " usename='snib' AND state='idle in transaction'") == "t"
    rule.go_on.set()
    assert one.told()[:2] == ("OK", 2)
    assert base.row() == "1|2"
