"""What is the same in each SQL database, as tests that the module of a store takes
over: what stands in its tables, and what becomes of them when answers,
connections, the server or a client are lost.

That module has a fixture `base`: a server without anything that another test has
made, with what is said of Base below.
"""

import os
import subprocess

import pytest

from harness.driver import LockError
from harness.stream_proxy import StreamProxy
from harness.wait import boot_ns, stays, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
LOST = ["rst", "silence"]
# A waiter polls at least each second, with jitter.
POLL_S = 1.5


class Base:
    """A server and its database. Besides what is here it has
        product         the store's scheme
        another         what makes another store of its URL, and a table of that
        ACQUIRE …       words by which a statement is known on the way
        VERSION         a statement that tells the server's version
        FORGED          what others may write, and what is said then
        clear()         forget all tables and users of tests
        sql(…)          what statements answer; tables are snib.lock, …
        end_notifiers() end the connections of those who listen
        login(user)     make a user with the password "right"
    and what a DatabaseServer has."""
    words_of_texts = False  # the statements stand in what is sent

    def __init__(self, server):
        self.server = server

    def __getattr__(self, name):
        return getattr(self.server, name)

    def again(self):
        """The same for the next test."""
        if self.child.poll() is not None:
            self.start()
        self.clear()
        return self


@pytest.fixture
def wire(base):
    with StreamProxy(base.address, base.words_of_texts) as proxy:
        yield proxy


@pytest.fixture
def holder(drivers, base, wire):
    """A process behind the proxy; quick to find a silent server dead."""
    return drivers(wire.url(base), request_ms=700)


@pytest.fixture
def other(drivers, base):
    return drivers(base.url)


def warm_up(driver):
    """Connect, make the tables, prepare the statements; the name has a row."""
    lock = driver.lock("n")
    for _ in range(2):
        driver.acquire(lock, wait_ms=5000).release()
    return lock


def held(server, name="n"):
    return server.sql("SELECT h_token FROM snib.lock WHERE name='%s' AND "
                      "h_request IS NOT NULL" % name)


def claims(server, state):
    return int(server.sql("SELECT count(*) FROM snib.claim WHERE state=%d"
                          % state))


# -- what is there ------------------------------------------------------------


def test_a_holder_stands_in_the_row_of_its_lock_and_leaves_nothing(
        base, other):
    grant = other.acquire(other.lock("n"))
    assert held(base) == str(grant.token)
    grant.release()
    assert held(base) == "" and base.sql(
        "SELECT count(*) FROM snib.claim") == "0"


# -- others in between --------------------------------------------------------


def test_two_that_queue_at_once_have_numbers_of_their_own(
        base, other, drivers, wire):
    patient = drivers(wire.url(base), request_ms=20000)
    lock = warm_up(patient)
    grant = other.acquire(other.lock("n"))
    two = drivers(base.url)
    two.lock("n")
    rule = wire.hold(base.WRITE)
    first = patient.start_acquire(lock, wait_ms=20000)
    wait_until(lambda: rule.fired, what="its write is on the way")
    second = two.start_acquire("n", wait_ms=20000)
    wait_until(lambda: claims(base, 0) == 1, what="the other is there")
    rule.go_on.set()
    wait_until(lambda: claims(base, 0) == 2, what="both are there")
    assert base.sql("SELECT id FROM snib.claim ORDER BY id") == "1\n2"
    grant.release()
    got = second.wait()
    assert not first.done()
    got.release()
    first.wait().release()


def test_who_queues_while_the_lock_is_released_is_granted_it(
        base, holder, other, wire):
    lock = warm_up(holder)
    grant = other.acquire(other.lock("n"))
    rule = wire.hold(base.WRITE)
    pending = holder.start_acquire(lock, wait_ms=20000)
    wait_until(lambda: rule.fired, what="its write is on the way")
    grant.release()
    rule.go_on.set()
    pending.wait(10).release()


@pytest.mark.parametrize("kind, over", [
    ("mutex", "UPDATE snib.lock SET h_until=1"),
    ("read", "UPDATE snib.claim SET until=1"),
])
def test_a_lease_that_is_over_at_the_server_is_not_renewed(
        base, other, kind, over):
    grant = other.acquire(other.lock("n", kind=kind), wait_ms=5000)
    base.sql(over)
    assert other.ask("renew", id=grant.id).err == "LOST"


# -- lost answers -------------------------------------------------------------


@pytest.mark.parametrize("then", LOST)
def test_an_acquire_whose_answer_is_lost_is_granted_once(
        base, holder, wire, then):
    lock = warm_up(holder)
    rule = wire.lose_answers(base.ACQUIRE, then=then)
    grant = holder.acquire(lock, wait_ms=8000)
    assert rule.fired == 1 and held(base) == str(grant.token)
    grant.release()
    assert held(base) == ""


@pytest.mark.parametrize("then", LOST)
def test_a_place_whose_answer_is_lost_is_one_place(
        base, holder, other, wire, then):
    lock = warm_up(holder)
    grant = other.acquire(other.lock("n"))
    rule = wire.lose_answers(base.NEXT, then=then)
    pending = holder.start_acquire(lock, wait_ms=20000)
    wait_until(lambda: rule.fired and claims(base, 0) == 1, 10, "a place")
    stays(lambda: claims(base, 0) == 1, 1, "one place")
    grant.release()
    pending.wait().release()
    assert held(base) == ""


@pytest.mark.parametrize("then", LOST)
def test_a_release_whose_answer_is_lost_is_done_once(
        base, holder, other, wire, then):
    lock = warm_up(holder)
    grant = holder.acquire(lock, wait_ms=5000)
    rule = wire.lose_answers(base.RELEASE, then=then)
    said = grant.start_release().answer()
    # A server that is silent for as long as an answer may take leaves no time.
    assert said.ok or (said.err == "UNKNOWN" and then == "silence")
    assert rule.fired == 1
    wait_until(lambda: held(base) == "", what="it is free")
    next_one = other.acquire(other.lock("n"), wait_ms=5000)
    assert next_one.token > grant.token
    next_one.release()


def test_a_hand_over_whose_answer_is_lost_reaches_the_next_one(
        base, holder, other, wire):
    lock = warm_up(holder)
    grant = holder.acquire(lock, wait_ms=5000)
    pending = other.start_acquire(other.lock("n"), wait_ms=20000)
    wait_until(lambda: claims(base, 0) == 1, what="a waiter")
    rule = wire.lose_answers(base.WRITE)
    grant.release()
    assert rule.fired == 1
    pending.wait().release()


def test_a_renewal_whose_answer_is_lost_is_repeated(
        base, holder, wire):
    lock = holder.lock("r", lease_ms=3000)
    for _ in range(2):
        grant = holder.acquire(lock, wait_ms=5000)
        if _ == 0:
            grant.release()
    rule = wire.lose_answers(base.RENEW)
    wait_until(lambda: rule.fired, 5, "a renewal is lost")
    stays(lambda: grant.status().state in ("held", "risk", "at risk"), 4,
          "the lock is kept")
    grant.release()


def test_a_cancel_whose_answer_is_lost_leaves_nobody(
        base, holder, other, wire):
    lock = warm_up(holder)
    grant = other.acquire(other.lock("n"))
    pending = holder.start_acquire(lock, wait_ms=700)
    wait_until(lambda: claims(base, 0) == 1, what="a waiter")
    rule = wire.lose_answers(base.DELETE)
    assert pending.answer().err in ("TIMEOUT", "UNKNOWN")
    wait_until(lambda: rule.fired == 1 and claims(base, 0) == 0, 10,
               "the place is given up")
    grant.release()
    assert held(base) == ""


def test_each_failed_allocation_is_borne(base):
    build = os.environ.get("SNIB_BUILD_DIR", os.path.join(ROOT, "build", "dev"))
    program = os.path.join(build, "tests", "live", "database_memory")
    if not os.path.exists(program):
        pytest.skip("database_memory is not built")
    done = subprocess.run([program, base.url], text=True, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    assert done.returncode == 0 and done.stdout.endswith(": ok\n"), done.stdout
    assert held(base, "memory") == ""


# -- connections --------------------------------------------------------------


def test_a_waiter_whose_connections_are_cut_is_served(
        base, holder, other, wire):
    lock = warm_up(holder)
    grant = other.acquire(other.lock("n"))
    pending = holder.start_acquire(lock, wait_ms=20000)
    wait_until(lambda: claims(base, 0) == 1, what="a waiter")
    wire.cut()
    stays(lambda: claims(base, 0) == 1, 1, "it keeps its place")
    grant.release()
    pending.wait().release()


def test_a_waiter_whose_notifier_was_ended_polls(base, other, drivers):
    grant = other.acquire(other.lock("n"))
    two = drivers(base.url)
    pending = two.start_acquire(two.lock("n"), wait_ms=20000)
    wait_until(lambda: claims(base, 0) == 1, what="a waiter")
    assert base.end_notifiers()
    began = boot_ns()
    grant.release()
    pending.wait().release()
    assert (boot_ns() - began) / 1e9 < 3 * POLL_S


def test_a_notification_wakes_at_once(base, other, drivers):
    two = drivers(base.url)
    took = []
    two.lock("n")
    other.lock("n")
    for _ in range(5):
        grant = other.acquire("n", wait_ms=5000)
        pending = two.start_acquire("n", wait_ms=20000)
        wait_until(lambda: claims(base, 0) == 1, what="a waiter")
        began = boot_ns()
        grant.release()
        got = pending.wait()
        took.append((boot_ns() - began) / 1e6)
        got.release()
    assert min(took) < 200  # a poll would take up to a second


# -- the server ---------------------------------------------------------------


def test_a_grant_outlives_the_crash_of_the_server(base, other, drivers):
    grant = other.acquire(other.lock("n"))
    base.kill()
    base.start()
    assert held(base) == str(grant.token)
    two = drivers(base.url)
    assert two.try_acquire(two.lock("n")).err == "BUSY"
    wait_until(lambda: other.ask("renew", id=grant.id).ok, what="a renewal")
    grant.release()
    got = two.acquire("n", wait_ms=5000)
    assert got.token > grant.token
    got.release()


def test_a_waiter_outlives_a_restart(base, other, drivers):
    grant = other.acquire(other.lock("n"))
    two = drivers(base.url)
    pending = two.start_acquire(two.lock("n"), wait_ms=60000)
    wait_until(lambda: claims(base, 0) == 1, what="a waiter")
    base.stop()
    base.start()
    grant.release()
    pending.wait(30).release()


def test_a_server_that_stands_still_keeps_no_caller_and_no_lease(
        base, drivers):
    one = drivers(base.url, request_ms=600)
    lock = one.lock("n", lease_ms=2000)
    for _ in range(2):
        grant = one.acquire(lock, wait_ms=5000)
        if _ == 0:
            grant.release()
    base.freeze()
    try:
        said = one.start_acquire(one.lock("m"), on="two", wait_ms=400).answer()
        assert said.err in ("UNREACHABLE", "UNKNOWN", "TIMEOUT")
        assert said.took_ms < 2000
        grant.wait_state("lost", 10)
    finally:
        base.thaw()
    two = drivers(base.url)
    got = two.acquire(two.lock("n"), wait_ms=15000)
    assert got.token > grant.token
    got.release()


def test_a_client_that_stands_still_loses_its_lock_and_is_told(
        base, other, drivers):
    one = drivers(base.url)
    grant = one.acquire(one.lock("n", lease_ms=1500), wait_ms=5000)
    one.freeze()
    got = other.acquire(other.lock("n"), wait_ms=20000)
    assert got.token > grant.token
    one.thaw()
    grant.wait_state("lost", 10)
    got.release()


def test_a_client_that_stands_still_inside_a_step_is_cut_off(
        base, holder, other, wire):
    """It has locked the row of a value, and does not come back to write."""
    warm_up(holder)
    first = holder.call("value_put", client="c", name="v", bytes="1")
    rule = wire.lose_answers(base.LOCK_VALUE, then="silence")
    holder.start("value_put", client="c", name="v", bytes="2", on="two",
                 expected=first.version)
    wait_until(lambda: rule.fired == 1, what="the row is locked")
    began = boot_ns()
    said = other.ask("value_put", client="c", name="v", bytes="3",
                     expected=first.version)
    assert said.ok and (boot_ns() - began) / 1e9 < 8


# -- who answers --------------------------------------------------------------


def test_tables_of_a_later_snib_are_refused(base, other, drivers):
    warm_up(other)
    base.sql("UPDATE snib.meta SET value=2 WHERE value=1")
    two = drivers(base.url)
    said = two.try_acquire(two.lock("n"))
    assert said.err == "CONFIG" and "layout 2, this snib knows 1" in said.text


def test_two_clients_that_begin_at_once_make_the_tables_once(
        base, drivers):
    made = [drivers(base.url) for _ in range(4)]
    pending = [driver.start_acquire(driver.lock(f"n{i}"), wait_ms=10000)
               for i, driver in enumerate(made)]
    for one in pending:
        one.wait(30).release()
    assert base.sql("SELECT value FROM snib.meta ORDER BY value") == (
        "0\n0\n0\n1")


def test_other_tables_are_another_store(base, other, drivers):
    grant = other.acquire(other.lock("n"))
    more, table = base.another
    two = drivers(base.url + more)
    got = two.acquire(two.lock("n"), wait_ms=5000)
    got.release()
    grant.release()
    assert base.sql(f"SELECT count(*) FROM {table}") == "1"


def test_a_socket_of_the_server_is_as_good(base, drivers):
    one = drivers(base.unix_url)
    grant = one.acquire(one.lock("n"), wait_ms=5000)
    assert held(base) == str(grant.token)
    grant.release()


def test_a_client_says_which_server_answers(base, other):
    other.acquire(other.lock("n")).release()
    now = other.call("server", id="c", on="look")
    assert (now.address, now.product, now.role, now.reachable) == (
        f"127.0.0.1:{base.port}", base.product, "primary", True)
    assert base.sql(base.VERSION).startswith(now.version)
    assert 0 <= now.connected_ms < 60000
    base.stop()
    other.start_acquire("n", wait_ms=300).answer()
    now = other.call("server", id="c", on="look")
    assert (now.reachable, now.connected_ms) == (False, -1)


@pytest.mark.parametrize("what", ["kind", "end", "past", "token", "claims",
                                  "notifier", "about"])
def test_what_others_write_into_a_row_breaks_nobody(
        base, other, drivers, what):
    text, err = base.FORGED[what]
    grant = other.acquire(other.lock("n"), wait_ms=5000)
    base.sql(text)
    two = drivers(base.url)
    asked = two.start_acquire(two.lock("n"), wait_ms=0)
    said = asked.answer()
    assert said.err == err, said
    looked = two.ask("inspect", client="c", name="n")
    assert looked.ok or looked.err == "CORRUPT"
    assert two.ask("list", client="c", glob="*").ok
    other.ask("release", id=grant.id)
    base.sql("UPDATE snib.lock SET h_kind=0 WHERE h_kind=99")
    two.ask("force_release", client="c", name="n")
    if said.ok:  # it was ended by force; else what comes next is told so
        two.ask("release", id=asked.grant.id)
    assert wait_until(lambda: two.start_acquire(
        "n", wait_ms=3000).answer().ok, 20, "it begins anew")


def test_a_refusal_names_no_password(base, drivers):
    base.login("hidden")
    url = base.url.replace("snib@", "hidden:wr0ng-secret@")
    one = drivers(url)
    said = one.try_acquire(one.lock("n"))
    assert said.err == "DENIED" and "this password" in said.text
    assert "wr0ng" not in str(said) + str(one.events()) + one.stderr
    with pytest.raises(LockError):
        one.acquire("n", wait_ms=100)
