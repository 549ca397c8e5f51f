"""Locks in a PostgreSQL database: what stands in its tables, and what becomes of
them when answers, connections, the server or a client are lost.

What every store does is in tests/conformance.
"""

import os
import re
import subprocess

import pytest

from harness.driver import LockError
from harness.postgres_server import PostgresServer, postgres_missing
from harness.stream_proxy import StreamProxy
from harness.wait import boot_ns, stays, wait_until

pytestmark = pytest.mark.skipif(bool(postgres_missing()),
                                reason=postgres_missing())

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
# Words by which a statement is known on the way.
ACQUIRE, RENEW, RELEASE = "h_token=greatest", "h_until=greatest", "h_stamp=NULL"
WRITE, NEXT = "h_request=CASE", "claims=claims"
LOST = ["rst", "silence"]
# A waiter polls at least each second, with jitter.
POLL_S = 1.5


BUILT_IN = []


@pytest.fixture(autouse=True)
def built_in(drivers):
    if not BUILT_IN:
        said = drivers().ask("open", id="x", url="postgres://127.0.0.1:1/x")
        BUILT_IN.append(said.err != "UNSUPPORTED")
    if not BUILT_IN[0]:
        pytest.skip("the store postgres: is not built in")


@pytest.fixture(scope="module")
def kept():
    """One server for these tests, whatever they do to it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres(kept):
    """The server without anything that another test has made."""
    if kept.child.poll() is not None:
        kept.start()
    kept.psql("DROP SCHEMA IF EXISTS snib CASCADE",
              "DROP SCHEMA IF EXISTS other_one CASCADE",
              "DROP SCHEMA public CASCADE", "CREATE SCHEMA public",
              "GRANT USAGE ON SCHEMA public TO PUBLIC",
              "DROP DATABASE IF EXISTS app", "DROP ROLE IF EXISTS app",
              "DROP ROLE IF EXISTS hidden")
    return kept


@pytest.fixture
def wire(postgres):
    with StreamProxy(postgres.address) as proxy:
        yield proxy


@pytest.fixture
def holder(drivers, postgres, wire):
    """A process behind the proxy; quick to find a silent server dead."""
    return drivers(wire.url(postgres), request_ms=700)


@pytest.fixture
def other(drivers, postgres):
    return drivers(postgres.url)


def warm_up(driver):
    """Connect, make the tables, prepare the statements; the name has a row."""
    lock = driver.lock("n")
    for _ in range(2):
        driver.acquire(lock, wait_ms=5000).release()
    return lock


def held(server, name="n"):
    return server.psql("SELECT h_token FROM snib.lock WHERE name='%s' AND "
                       "h_request IS NOT NULL" % name)


def claims(server, state):
    return int(server.psql("SELECT count(*) FROM snib.claim WHERE state=%d"
                           % state))


# -- what is there ------------------------------------------------------------


def test_a_holder_stands_in_the_row_of_its_lock_and_leaves_nothing(
        postgres, other):
    grant = other.acquire(other.lock("n"))
    assert held(postgres) == str(grant.token)
    grant.release()
    assert held(postgres) == "" and postgres.psql(
        "SELECT count(*) FROM snib.claim") == "0"


def test_the_page_shows_who_holds_and_who_waits(postgres, other, drivers):
    page = open(os.path.join(ROOT, "docs", "POSTGRES.md"),
                encoding="utf-8").read()
    text = re.search(r"<!-- run: look -->\n```sql\n(.*?)```", page, re.S)[1]
    grant = other.acquire(other.lock("n"))
    two = drivers(postgres.url)
    pending = two.start_acquire(two.lock("n"), wait_ms=20000)
    wait_until(lambda: claims(postgres, 0) == 1, what="a waiter")
    first, second = [postgres.psql(one) for one in text.split(";")[:2]]
    assert first.startswith(f"n|{grant.token}|host=")
    assert second.startswith("n|0|0|0|1|host=")
    grant.release()
    pending.wait().release()


def test_the_rights_of_the_page_are_enough_and_needed(postgres, drivers):
    page = open(os.path.join(ROOT, "docs", "POSTGRES.md"),
                encoding="utf-8").read()
    text = re.search(r"<!-- run: rights -->\n```sql\n(.*?)```", page, re.S)[1]
    postgres.psql("CREATE ROLE app LOGIN", "CREATE DATABASE app",
                  database="postgres")
    url = postgres.url.replace("snib@", "app@").replace("/snib", "/app")
    app = drivers(url)
    said = app.try_acquire(app.lock("n"))
    assert said.err == "CONFIG" and "doctor --schema" in said.text
    own = drivers(url.replace("app@", "admin@"))
    own.acquire(own.lock("m")).release()
    wait_until(lambda: app.try_acquire("n").err == "DENIED", what="no rights")
    postgres.psql(*[line + ";" for line in text.strip().split(";")[:-1]],
                  database="app")
    grant = wait_until(lambda: app.start_acquire(
        "n", wait_ms=3000).answer().ok, what="rights")
    assert grant
    two = drivers(url)
    pending = two.start_acquire(two.lock("n"), wait_ms=20000)
    wait_until(lambda: postgres.psql(
        "SELECT count(*) FROM snib.claim WHERE state=0", database="app") == "1")
    app.kill()
    postgres.psql("UPDATE snib.lock SET h_until=0", database="app")
    pending.wait().release()


# -- others in between --------------------------------------------------------


def test_two_that_queue_at_once_have_numbers_of_their_own(
        postgres, other, drivers, wire):
    patient = drivers(wire.url(postgres), request_ms=20000)
    lock = warm_up(patient)
    grant = other.acquire(other.lock("n"))
    two = drivers(postgres.url)
    two.lock("n")
    rule = wire.hold(WRITE)
    first = patient.start_acquire(lock, wait_ms=20000)
    wait_until(lambda: rule.fired, what="its write is on the way")
    second = two.start_acquire("n", wait_ms=20000)
    wait_until(lambda: claims(postgres, 0) == 1, what="the other is there")
    rule.go_on.set()
    wait_until(lambda: claims(postgres, 0) == 2, what="both are there")
    assert postgres.psql("SELECT string_agg(id::text, ',' ORDER BY id) FROM "
                         "snib.claim") == "1,2"
    grant.release()
    got = second.wait()
    assert not first.done()
    got.release()
    first.wait().release()


def test_who_queues_while_the_lock_is_released_is_granted_it(
        postgres, holder, other, wire):
    lock = warm_up(holder)
    grant = other.acquire(other.lock("n"))
    rule = wire.hold(WRITE)
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
        postgres, other, kind, over):
    grant = other.acquire(other.lock("n", kind=kind), wait_ms=5000)
    postgres.psql(over)
    assert other.ask("renew", id=grant.id).err == "LOST"


# -- lost answers -------------------------------------------------------------


@pytest.mark.parametrize("then", LOST)
def test_an_acquire_whose_answer_is_lost_is_granted_once(
        postgres, holder, wire, then):
    lock = warm_up(holder)
    rule = wire.lose_answers(ACQUIRE, then=then)
    grant = holder.acquire(lock, wait_ms=8000)
    assert rule.fired == 1 and held(postgres) == str(grant.token)
    grant.release()
    assert held(postgres) == ""


@pytest.mark.parametrize("then", LOST)
def test_a_place_whose_answer_is_lost_is_one_place(
        postgres, holder, other, wire, then):
    lock = warm_up(holder)
    grant = other.acquire(other.lock("n"))
    rule = wire.lose_answers(NEXT, then=then)
    pending = holder.start_acquire(lock, wait_ms=20000)
    wait_until(lambda: rule.fired and claims(postgres, 0) == 1, 10, "a place")
    stays(lambda: claims(postgres, 0) == 1, 1, "one place")
    grant.release()
    pending.wait().release()
    assert held(postgres) == ""


@pytest.mark.parametrize("then", LOST)
def test_a_release_whose_answer_is_lost_is_done_once(
        postgres, holder, other, wire, then):
    lock = warm_up(holder)
    grant = holder.acquire(lock, wait_ms=5000)
    rule = wire.lose_answers(RELEASE, then=then)
    said = grant.start_release().answer()
    # A server that is silent for as long as an answer may take leaves no time.
    assert said.ok or (said.err == "UNKNOWN" and then == "silence")
    assert rule.fired == 1
    wait_until(lambda: held(postgres) == "", what="it is free")
    next_one = other.acquire(other.lock("n"), wait_ms=5000)
    assert next_one.token > grant.token
    next_one.release()


def test_a_hand_over_whose_answer_is_lost_reaches_the_next_one(
        postgres, holder, other, wire):
    lock = warm_up(holder)
    grant = holder.acquire(lock, wait_ms=5000)
    pending = other.start_acquire(other.lock("n"), wait_ms=20000)
    wait_until(lambda: claims(postgres, 0) == 1, what="a waiter")
    rule = wire.lose_answers(WRITE)
    grant.release()
    assert rule.fired == 1
    pending.wait().release()


def test_a_renewal_whose_answer_is_lost_is_repeated(
        postgres, holder, wire):
    lock = holder.lock("r", lease_ms=3000)
    for _ in range(2):
        grant = holder.acquire(lock, wait_ms=5000)
        if _ == 0:
            grant.release()
    rule = wire.lose_answers(RENEW)
    wait_until(lambda: rule.fired, 5, "a renewal is lost")
    stays(lambda: grant.status().state in ("held", "risk", "at risk"), 4,
          "the lock is kept")
    grant.release()


def test_a_cancel_whose_answer_is_lost_leaves_nobody(
        postgres, holder, other, wire):
    lock = warm_up(holder)
    grant = other.acquire(other.lock("n"))
    pending = holder.start_acquire(lock, wait_ms=700)
    wait_until(lambda: claims(postgres, 0) == 1, what="a waiter")
    rule = wire.lose_answers("DELETE FROM snib.claim")
    assert pending.answer().err in ("TIMEOUT", "UNKNOWN")
    wait_until(lambda: rule.fired == 1 and claims(postgres, 0) == 0, 10,
               "the place is given up")
    grant.release()
    assert held(postgres) == ""


def test_each_failed_allocation_is_borne(postgres):
    build = os.environ.get("SNIB_BUILD_DIR", os.path.join(ROOT, "build", "dev"))
    program = os.path.join(build, "tests", "live", "postgres_memory")
    if not os.path.exists(program):
        pytest.skip("postgres_memory is not built")
    done = subprocess.run([program, postgres.url], text=True, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    assert done.returncode == 0 and done.stdout.endswith(": ok\n"), done.stdout
    assert held(postgres, "memory") == ""


# -- connections --------------------------------------------------------------


def test_a_waiter_whose_connections_are_cut_is_served(
        postgres, holder, other, wire):
    lock = warm_up(holder)
    grant = other.acquire(other.lock("n"))
    pending = holder.start_acquire(lock, wait_ms=20000)
    wait_until(lambda: claims(postgres, 0) == 1, what="a waiter")
    wire.cut()
    stays(lambda: claims(postgres, 0) == 1, 1, "it keeps its place")
    grant.release()
    pending.wait().release()


def test_a_waiter_whose_notifier_was_ended_polls(postgres, other, drivers):
    grant = other.acquire(other.lock("n"))
    two = drivers(postgres.url)
    pending = two.start_acquire(two.lock("n"), wait_ms=20000)
    wait_until(lambda: claims(postgres, 0) == 1, what="a waiter")
    ended = postgres.psql("SELECT pg_terminate_backend(pid) FROM "
                          "pg_stat_activity WHERE application_name="
                          "'snib: notified'")
    assert "t" in ended
    began = boot_ns()
    grant.release()
    pending.wait().release()
    assert (boot_ns() - began) / 1e9 < 3 * POLL_S


def test_a_notification_wakes_at_once(postgres, other, drivers):
    two = drivers(postgres.url)
    took = []
    two.lock("n")
    other.lock("n")
    for _ in range(5):
        grant = other.acquire("n", wait_ms=5000)
        pending = two.start_acquire("n", wait_ms=20000)
        wait_until(lambda: claims(postgres, 0) == 1, what="a waiter")
        began = boot_ns()
        grant.release()
        got = pending.wait()
        took.append((boot_ns() - began) / 1e6)
        got.release()
    assert min(took) < 200  # a poll would take up to a second


# -- the server ---------------------------------------------------------------


def test_a_grant_outlives_the_crash_of_the_server(postgres, other, drivers):
    grant = other.acquire(other.lock("n"))
    postgres.kill()
    postgres.start()
    assert held(postgres) == str(grant.token)
    two = drivers(postgres.url)
    assert two.try_acquire(two.lock("n")).err == "BUSY"
    wait_until(lambda: other.ask("renew", id=grant.id).ok, what="a renewal")
    grant.release()
    got = two.acquire("n", wait_ms=5000)
    assert got.token > grant.token
    got.release()


def test_a_waiter_outlives_a_restart(postgres, other, drivers):
    grant = other.acquire(other.lock("n"))
    two = drivers(postgres.url)
    pending = two.start_acquire(two.lock("n"), wait_ms=60000)
    wait_until(lambda: claims(postgres, 0) == 1, what="a waiter")
    postgres.stop()
    postgres.start()
    grant.release()
    pending.wait(30).release()


def test_a_server_that_stands_still_keeps_no_caller_and_no_lease(
        postgres, drivers):
    one = drivers(postgres.url, request_ms=600)
    lock = one.lock("n", lease_ms=2000)
    for _ in range(2):
        grant = one.acquire(lock, wait_ms=5000)
        if _ == 0:
            grant.release()
    postgres.freeze()
    try:
        said = one.start_acquire(one.lock("m"), on="two", wait_ms=400).answer()
        assert said.err in ("UNREACHABLE", "UNKNOWN", "TIMEOUT")
        assert said.took_ms < 2000
        grant.wait_state("lost", 10)
    finally:
        postgres.thaw()
    two = drivers(postgres.url)
    got = two.acquire(two.lock("n"), wait_ms=15000)
    assert got.token > grant.token
    got.release()


def test_a_client_that_stands_still_loses_its_lock_and_is_told(
        postgres, other, drivers):
    one = drivers(postgres.url)
    grant = one.acquire(one.lock("n", lease_ms=1500), wait_ms=5000)
    one.freeze()
    got = other.acquire(other.lock("n"), wait_ms=20000)
    assert got.token > grant.token
    one.thaw()
    grant.wait_state("lost", 10)
    got.release()


def test_a_client_that_stands_still_inside_a_step_is_cut_off(
        postgres, holder, other, wire):
    """It has locked the row of a value, and does not come back to write."""
    warm_up(holder)
    first = holder.call("value_put", client="c", name="v", bytes="1")
    rule = wire.lose_answers("FROM snib.value WHERE name=$1 FOR UPDATE",
                             then="silence")
    holder.start("value_put", client="c", name="v", bytes="2", on="two",
                 expected=first.version)
    wait_until(lambda: rule.fired == 1, what="the row is locked")
    began = boot_ns()
    said = other.ask("value_put", client="c", name="v", bytes="3",
                     expected=first.version)
    assert said.ok and (boot_ns() - began) / 1e9 < 8


# -- errors of the database ---------------------------------------------------

FAIL = """
CREATE SEQUENCE public.failures;
GRANT ALL ON SEQUENCE public.failures TO PUBLIC;
CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('public.failures') <= {times} THEN
    RAISE EXCEPTION 'planned' USING ERRCODE = '{state}';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER fail BEFORE UPDATE ON snib.lock FOR EACH ROW
  EXECUTE FUNCTION public.fail()
"""


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03"])
def test_what_the_database_wants_repeated_is_repeated(postgres, other, state):
    lock = warm_up(other)
    postgres.psql(FAIL.format(times=3, state=state))
    grant = other.acquire(lock, wait_ms=5000)
    assert held(postgres) == str(grant.token)
    grant.release()
    assert int(postgres.psql("SELECT last_value FROM failures")) > 3


@pytest.mark.parametrize("state, err, word", [
    ("53100", "STORE", "disk of the server is full"),
    ("42501", "DENIED", "lacks a right"),
    ("25006", "STORE", "standby"),
    ("53200", "STORE", "out of memory"),
])
def test_what_the_database_refuses_is_told_and_passes(
        postgres, other, state, err, word):
    lock = warm_up(other)
    postgres.psql(FAIL.format(times=8, state=state))
    said = other.start_acquire(lock, wait_ms=3000).answer()
    assert said.err == err and word in said.text
    assert held(postgres) == ""
    postgres.psql("DROP TRIGGER fail ON snib.lock")
    other.acquire(lock, wait_ms=5000).release()


@pytest.fixture
def small_disk(postgres_with):
    """A server with a folder on a disk of 1 MB, and that folder."""
    server = postgres_with()
    path = os.path.join(server.dir, "small")
    os.mkdir(path)
    if os.getuid() != 0 or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path],
            check=False, stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("needs root, and to mount")
    entry = os.stat(server.data)
    os.chown(path, entry.st_uid, entry.st_gid)
    yield server, path
    server.kill()
    subprocess.run(["umount", "-l", path], check=True)


def test_a_full_disk_is_named_and_passes(drivers, small_disk):
    server, path = small_disk
    one = drivers(server.url)
    warm_up(one)
    server.psql(f"CREATE TABLESPACE small LOCATION '{path}'")
    server.psql("ALTER TABLE snib.lock SET TABLESPACE small")
    with open(path + "/fill", "wb") as file, pytest.raises(OSError):
        while True:
            os.write(file.fileno(), bytes(4096))
    refused = None
    for i in range(400):
        said = one.try_acquire(one.lock(f"new-{i}"))
        if not said.ok:
            refused = said
            break
    assert refused and refused.err == "STORE", refused
    assert "disk of the server is full" in refused.text
    os.unlink(path + "/fill")
    one.acquire(one.lock("again"), wait_ms=5000).release()


# -- who answers --------------------------------------------------------------


def test_a_standby_is_refused_until_it_is_promoted(postgres_with, drivers):
    primary = postgres_with(hba=["local replication all trust"])
    one = drivers(primary.url)
    one.acquire(one.lock("n"), wait_ms=5000).release()
    standby = postgres_with(start=False)
    subprocess.run(["rm", "-rf", standby.data], check=True)
    from harness import postgres_server
    postgres_server._run(
        [os.path.join(postgres_server.programs(), "pg_basebackup"), "-D",
         standby.data, "-h", primary.dir, "-p", str(primary.port), "-U",
         "admin", "-R", "-X", "stream", "-c", "fast"], cwd=standby.dir,
        **postgres_server._user())
    standby.start()
    two = drivers(standby.url)
    said = two.start_acquire(two.lock("n"), wait_ms=500).answer()
    assert said.err == "STORE" and "standby" in said.text
    primary.kill()
    standby.psql("SELECT pg_promote()")
    two.acquire("n", wait_ms=15000).release()


def test_tables_of_a_later_snib_are_refused(postgres, other, drivers):
    warm_up(other)
    postgres.psql("UPDATE snib.meta SET value=2 WHERE key='schema'")
    two = drivers(postgres.url)
    said = two.try_acquire(two.lock("n"))
    assert said.err == "CONFIG" and "layout 2, this snib knows 1" in said.text


def test_two_clients_that_begin_at_once_make_the_tables_once(
        postgres, drivers):
    made = [drivers(postgres.url) for _ in range(4)]
    pending = [driver.start_acquire(driver.lock(f"n{i}"), wait_ms=10000)
               for i, driver in enumerate(made)]
    for one in pending:
        one.wait(30).release()
    assert postgres.psql("SELECT key, value FROM snib.meta ORDER BY key") == (
        "cleaner|0\nfloor|0\nschema|1\nversion_floor|0")


def test_another_schema_is_another_store(postgres, other, drivers):
    grant = other.acquire(other.lock("n"))
    two = drivers(postgres.url + "?schema=other_one")
    got = two.acquire(two.lock("n"), wait_ms=5000)
    got.release()
    grant.release()
    assert postgres.psql("SELECT count(*) FROM other_one.lock") == "1"


def test_a_socket_of_the_server_is_as_good(postgres, drivers):
    one = drivers(postgres.unix_url)
    grant = one.acquire(one.lock("n"), wait_ms=5000)
    assert held(postgres) == str(grant.token)
    grant.release()


def test_a_client_says_which_server_answers(postgres, other):
    other.acquire(other.lock("n")).release()
    now = other.call("server", id="c", on="look")
    assert (now.address, now.product, now.role, now.reachable) == (
        f"127.0.0.1:{postgres.port}", "postgres", "primary", True)
    assert postgres.psql("SHOW server_version").startswith(now.version)
    assert 0 <= now.connected_ms < 60000
    postgres.stop()
    other.start_acquire("n", wait_ms=300).answer()
    now = other.call("server", id="c", on="look")
    assert (now.reachable, now.connected_ms) == (False, -1)


def test_not_durable_says_so(postgres, drivers):
    one = drivers(postgres.url + "?durable=no")
    grant = one.acquire(one.lock("n"))
    assert held(postgres) == str(grant.token)
    grant.release()


FORGED = {
    "kind": ("UPDATE snib.lock SET h_kind=99", "CORRUPT"),
    "end": ("UPDATE snib.lock SET h_until=9223372036854775807, "
            "h_delay=9223372036854775807", "BUSY"),
    "past": ("UPDATE snib.lock SET h_until=-9223372036854775808, "
             "h_delay=-9223372036854775808", "OK"),
    "token": ("UPDATE snib.lock SET token=-5, h_until=0", "CORRUPT"),
    "claims": ("UPDATE snib.lock SET claims=9", "BUSY"),
    "notifier": ("UPDATE snib.lock SET h_notifier=repeat('x', 5000)", "BUSY"),
    "about": ("UPDATE snib.lock SET h_about=convert_to(repeat('=&%', 90000), "
              "'UTF8')", "BUSY"),
}


@pytest.mark.parametrize("what", FORGED)
def test_what_others_write_into_a_row_breaks_nobody(
        postgres, other, drivers, what):
    text, err = FORGED[what]
    grant = other.acquire(other.lock("n"), wait_ms=5000)
    postgres.psql(text)
    two = drivers(postgres.url)
    said = two.try_acquire(two.lock("n"))
    assert said.err == err, said
    looked = two.ask("inspect", client="c", name="n")
    assert looked.ok or looked.err == "CORRUPT"
    assert two.ask("list", client="c", glob="*").ok
    other.ask("release", id=grant.id)
    postgres.psql("UPDATE snib.lock SET h_kind=0 WHERE h_kind=99")
    two.ask("force_release", client="c", name="n")
    assert wait_until(lambda: two.start_acquire(
        "n", wait_ms=3000).answer().ok, 20, "it begins anew")


# -- what it leaves behind ----------------------------------------------------


def test_the_cleaner_forgets_old_names_and_keeps_the_order_of_tokens(
        postgres, other):
    lock = warm_up(other)
    postgres.psql(
        "UPDATE snib.lock SET token=1000",
        "INSERT INTO snib.lock(name, stamp, token) VALUES ('b', 1, 2000)",
        "INSERT INTO snib.lock(name, stamp, token, size) "
        "VALUES ('keeps', 1, 3000, 5)",
        "INSERT INTO snib.lock(name, stamp, claims) VALUES ('c', 1, 1)",
        "INSERT INTO snib.claim SELECT 'c', gen_random_uuid(), 1, 1, "
        "gen_random_uuid(), 0, 0, 1, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, '', '', "
        "'', 0")
    text = statement("SNIB__SQL_DO_CLEAN")
    postgres.psql("PREPARE c AS " + text, database="snib", check=True)
    postgres.psql("PREPARE c AS " + text + "; EXECUTE c(7, 5000, 100)")
    assert postgres.psql("SELECT convert_from(name, 'UTF8') FROM snib.lock "
                         "ORDER BY name") == "c\nkeeps"
    assert postgres.psql("SELECT count(*) FROM snib.claim") == "0"
    assert postgres.psql("SELECT claims FROM snib.lock WHERE name='c'") == "0"
    assert postgres.psql("SELECT value, stamp FROM snib.meta WHERE "
                         "key='floor'") == "2000|7"
    grant = other.acquire(lock, wait_ms=5000)
    assert grant.token > 2000
    grant.release()


def statement(name):
    """The text of a statement, as the store sends it."""
    path = os.path.join(ROOT, "src", "store", "postgres", "text.c")
    source = open(path, encoding="utf-8").read()
    done = subprocess.run(
        ["gcc", "-fsyntax-only", "-E", "-P", "-I", ROOT + "/src", "-I",
         ROOT + "/include", "-I", "/usr/include/postgresql", "-"],
        input=source, text=True, stdout=subprocess.PIPE, check=True)
    found = re.search(r"\[%s\]\s*=\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+)" % name,
                      done.stdout)
    text = "".join(re.findall(r"\"((?:[^\"\\]|\\.)*)\"", found[1]))
    return text.replace("@", "snib.").replace("~", "snib")


def test_a_refusal_names_no_password(postgres, drivers):
    postgres.psql("CREATE ROLE hidden LOGIN PASSWORD 'right' IN ROLE locked")
    url = postgres.url.replace("snib@", "hidden:wr0ng-secret@")
    one = drivers(url)
    said = one.try_acquire(one.lock("n"))
    assert said.err == "DENIED" and "this password" in said.text
    assert "wr0ng" not in str(said) + str(one.events()) + one.stderr
    with pytest.raises(LockError):
        one.acquire("n", wait_ms=100)
