"""What is the same in each database for rows of a program's own that are updated
by snib_version_update (snib/optimistic.h), as tests that a module takes over: the
ready step of the database, on a real server.

That module has a fixture `base`: a Rows of a fresh table.
"""

import os
import subprocess

import pytest

from harness.driver import ROOT
from harness.stream_proxy import StreamProxy
from harness.wait import stays, wait_until

BUILD = os.environ.get("SNIB_BUILD_DIR", os.path.join(ROOT, "build", "dev"))


class Rows:
    """Table item of a server: rows 1 and 2. Besides what is here it has
        program       the name of its program under tests/live
        DEADLOCK      how the database says that
        QUICK         what keeps a session from waiting for a row for long
        sql(…)        what statements answer
        fresh()       make the table anew"""

    def __init__(self, server):
        self.server = server

    def __getattr__(self, name):
        return getattr(self.server, name)

    def again(self):
        if self.child.poll() is not None:
            self.start()
        self.fresh()
        return self

    def row(self, id=1):
        """n and version."""
        return self.sql(f"SELECT n, version FROM item WHERE id={id}")


class Run:
    """A program under way; its lines come to `lines`."""

    def __init__(self, base, port, options):
        path = os.path.join(BUILD, "tests", "live", base.program)
        if not os.path.exists(path):
            pytest.skip(f"{base.program} is not built")
        self.out = os.path.join(options.pop("scratch"), f"{id(self)}.out")
        with open(self.out, "wb") as file:
            self.child = subprocess.Popen(
                [path, str(port), *(f"{k}={v}" for k, v in options.items())],
                stdout=file, stderr=subprocess.STDOUT)

    @property
    def lines(self):
        with open(self.out, encoding="utf-8") as file:
            return file.read().splitlines()

    def thinks(self):
        wait_until(lambda: "thinks" in self.lines, 20, "it has read")
        return self

    def done(self):
        """Its updates, as (error, attempts, stopped, text), and why it began
        again."""
        assert self.child.wait(timeout=120) == 0, self.lines
        updates = [line.split(" ", 3) for line in self.lines
                   if line != "thinks" and not line.startswith("again ")]
        self.again = [line[6:] for line in self.lines
                      if line.startswith("again ")]
        return [(one[0], int(one[1]), int(one[2]), (one + [""])[3])
                for one in updates]

    def told(self):
        only, = self.done()
        return only


@pytest.fixture
def wire(base):
    with StreamProxy(base.address, True) as proxy:
        yield proxy


@pytest.fixture
def run(base, tmp_path):
    """run(port, name=value, …) starts a program; port None: the server's."""
    made = []

    def start(port=None, **options):
        made.append(Run(base, port or base.port,
                        {"scratch": tmp_path, **options}))
        return made[-1]
    yield start
    for one in made:
        one.child.kill()
        one.child.wait()


# -- writers at once ------------------------------------------------------------


def test_two_writers_count_to_the_sum(base, run):
    runs = [run(times=120, wait=60000) for _ in range(2)]
    for one in runs:
        assert {said[0] for said in one.done()} == {"OK"}
    assert base.row() == "240|241"


def test_who_was_slower_reads_again(base, run, tmp_path):
    one = run(think=tmp_path / "known").thinks()
    assert run().told() == ("OK", 1, 0, "")
    (tmp_path / "known").touch()
    assert one.told() == ("OK", 2, 0, "")
    assert base.row() == "2|3"


def begin_at_once(runs, gate):
    """They have read, and wait for that file."""
    for one in runs:
        one.thinks()
    gate.touch()


def test_a_deadlock_is_begun_again(base, run, tmp_path):
    runs = [run(times=6, id=mine, also=other, inner=150, wait=60000,
                think=tmp_path / "gate") for mine, other in ((1, 2), (2, 1))]
    begin_at_once(runs, tmp_path / "gate")
    for one in runs:
        assert [said[0] for said in one.done()] == ["OK"] * 6
    assert any(base.DEADLOCK in text for one in runs for text in one.again)
    assert base.row(1) == base.row(2) == "12|13"


# -- limits ---------------------------------------------------------------------


def test_the_limit_ends_it(base, run):
    error, attempts, _, text = run(stale="yes", wait=600).told()
    assert error == "TIMEOUT" and attempts > 2
    assert text == f"{attempts} attempts in vain; the last: others had changed the row"
    assert run(stale="yes", attempts=3).told()[:2] == ("BUSY", 3)
    assert run(stale="yes", wait=0).told()[:2] == ("BUSY", 1)
    assert base.row() == "0|1"


def test_a_row_that_another_has_locked_keeps_nobody_beyond_his_limit(
        base, run, wire):
    rule = wire.hold("COMMIT")
    first = run(wire.port)
    wait_until(lambda: rule.fired, what="it has the row")
    assert run(init=base.QUICK, wait=300).told()[0] == "TIMEOUT"
    assert not first.child.poll()
    rule.go_on.set()
    assert first.told()[0] == "OK"
    assert base.row() == "1|2"


def test_the_callers_cancel_ends_it(base, run):
    error, attempts, *_ = run(stale="yes", cancel=600, wait=60000).told()
    assert error == "CANCELLED" and attempts > 2
    assert base.row() == "0|1"


# -- what is no conflict ----------------------------------------------------------


def test_a_missing_row_is_told_at_once(base, run):
    assert run(id=9, wait=60000).told() == (
        "USAGE", 1, -1, "there is no such row")


def test_what_the_database_refuses_ends_it(base, run):
    base.sql("ALTER TABLE item ADD CONSTRAINT low CHECK (n < 1)")
    error, attempts, _, text = run(wait=60000).told()
    assert (error, attempts) == ("STORE", 1) and "low" in text
    assert base.row() == "0|1"


def test_a_transaction_of_the_callers_is_left_alone(base, run):
    error, attempts, _, text = run(init="BEGIN").told()
    assert (error, attempts) == ("USAGE", 1) and "in a transaction" in text


# -- the connection -----------------------------------------------------------------


def test_a_connection_that_breaks_before_the_commit_is_made_anew(
        base, run, wire):
    rule = wire.lose_answers("UPDATE item")
    assert run(wire.port).told()[:2] == ("OK", 2)
    assert rule.fired == 1 and base.row() == "1|2"


def test_or_ends_it(base, run, wire):
    wire.lose_answers("UPDATE item")
    assert run(wire.port, reconnect="no").told()[:2] == ("UNREACHABLE", 1)
    assert base.row() == "0|1"


def test_a_server_that_is_gone_is_told_at_the_limit(base, run, tmp_path):
    one = run(think=tmp_path / "known", wait=1500).thinks()
    base.kill()
    (tmp_path / "known").touch()
    error, attempts, _, text = one.told()
    assert error == "UNREACHABLE" and attempts and text


# -- a commit without an answer -------------------------------------------------------


def test_what_was_committed_is_found_by_its_id(base, run, wire):
    rule = wire.lose_answers("COMMIT")
    assert run(wire.port).told() == ("OK", 1, 0, "")
    assert rule.fired == 1 and base.row() == "1|2"


def test_without_the_ids_it_is_unknown(base, run, wire):
    wire.lose_answers("COMMIT")
    error, attempts, _, text = run(wire.port, column="no").told()
    assert (error, attempts) == ("UNKNOWN", 1) and "no id of attempts" in text
    assert base.row() == "1|2"


@pytest.mark.parametrize("what", ["stands", "reconnect"])
def test_who_cannot_ask_is_told_so(base, run, wire, what):
    wire.lose_answers("COMMIT")
    error, attempts, _, text = run(wire.port, **{what: "no"}).told()
    assert (error, attempts) == ("UNKNOWN", 1)
    assert text.startswith("the commit of attempt 1 was not answered")
    assert base.row() == "1|2"


@pytest.mark.parametrize("column", ["yes", "no"])
def test_a_server_that_dies_at_the_commit_has_not_done_it(
        base, run, wire, column):
    rule = wire.hold("COMMIT")
    one = run(wire.port, column=column, wait=60000)
    wait_until(lambda: rule.fired, what="it commits")
    base.kill()
    rule.go_on.set()
    base.start()
    assert one.told()[:2] == ("OK", 2)
    assert base.row() == "1|2"


def test_a_server_that_stays_away_leaves_it_unknown(base, run, wire):
    rule = wire.hold("COMMIT")
    one = run(wire.port, wait=1500)
    wait_until(lambda: rule.fired, what="it commits")
    base.kill()
    rule.go_on.set()
    error, attempts, _, text = one.told()
    assert (error, attempts) == ("UNKNOWN", 1)
    assert text.startswith("the commit of attempt 1 was not answered, nor ")


def test_a_commit_that_comes_late_is_waited_for(base, run, wire):
    """The connection is gone for the client, and not yet for the server."""
    rule = wire.be_late("COMMIT")
    one = run(wire.port, wait=60000)
    wait_until(lambda: rule.fired, what="it commits")
    stays(lambda: one.child.poll() is None, 0.5, "the question waits")
    assert base.row() == "0|1"
    rule.go_on.set()
    assert one.told() == ("OK", 1, 0, "")
    assert base.row() == "1|2"


def test_what_was_written_over_since_is_unknown_unless_the_id_is_left(
        base, run, wire, tmp_path):
    for number, others in enumerate((
            "n=n+1, attempt='another'", "n=n+1")):
        base.fresh()
        gate = tmp_path / f"gate{number}"
        rule = wire.lose_answers("COMMIT")
        one = run(wire.port, gate=gate)
        wait_until(lambda: rule.fired and base.row() == "1|2", what="it is done")
        base.sql(f"UPDATE item SET {others}, version=version+1 WHERE id=1")
        gate.touch()
        assert one.told()[:2] == (("UNKNOWN", "OK")[number], 1)
        assert base.row() == "2|3"


def test_what_another_wrote_in_its_place_was_not_this_attempts(
        base, run, wire, tmp_path):
    rule = wire.hold("COMMIT")
    one = run(wire.port, gate=tmp_path / "gate", wait=60000)
    wait_until(lambda: rule.fired, what="it commits")
    base.kill()
    rule.go_on.set()
    base.start()
    assert run().told()[:2] == ("OK", 1)
    (tmp_path / "gate").touch()
    assert one.told()[:2] == ("OK", 2)
    assert base.row() == "2|3"
