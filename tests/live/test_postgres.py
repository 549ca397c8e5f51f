"""Locks in a PostgreSQL database: what stands in its tables, and what becomes of
them when answers, connections, the server or a client are lost.

What every store does is in tests/conformance.
"""

import os
import re
import subprocess

import pytest

from databases import *  # noqa: F401,F403
from databases import Base, ROOT, claims, held, warm_up
from harness import database_server, postgres_server
from harness.postgres_server import PostgresServer, postgres_missing
from harness.wait import wait_until

pytestmark = pytest.mark.skipif(bool(postgres_missing()),
                                reason=postgres_missing())
NEEDS = "postgres://127.0.0.1:1/x"


class Postgres(Base):
    product, another = "postgres", ("?schema=other_one", "other_one.lock")
    ACQUIRE, RENEW = "h_token=greatest", "h_until=greatest"
    RELEASE, WRITE, NEXT = "h_stamp=NULL", "h_request=CASE", "claims=claims"
    DELETE = "DELETE FROM snib.claim"
    LOCK_VALUE = "FROM snib.value WHERE name=$1 FOR UPDATE"
    VERSION = "SHOW server_version"
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

    def clear(self):
        self.sql("DROP SCHEMA IF EXISTS snib CASCADE",
                 "DROP SCHEMA IF EXISTS other_one CASCADE",
                 "DROP SCHEMA public CASCADE", "CREATE SCHEMA public",
                 "GRANT USAGE ON SCHEMA public TO PUBLIC",
                 "DROP DATABASE IF EXISTS app", "DROP ROLE IF EXISTS app",
                 "DROP ROLE IF EXISTS hidden")

    def sql(self, *statements, **options):
        return self.server.psql(*statements, **options)

    def end_notifiers(self):
        return "t" in self.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
            "application_name='snib: notified'")

    def login(self, user):
        self.sql(f"CREATE ROLE {user} LOGIN PASSWORD 'right' IN ROLE locked")


@pytest.fixture(scope="module")
def kept():
    """One server for these tests, whatever they do to it."""
    with PostgresServer() as server:
        yield Postgres(server)


@pytest.fixture
def base(kept):
    return kept.again()


@pytest.fixture
def postgres(base):
    return base


# -- what is there ------------------------------------------------------------


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
    database_server.run(
        [os.path.join(postgres_server.programs(), "pg_basebackup"), "-D",
         standby.data, "-h", primary.dir, "-p", str(primary.port), "-U",
         "admin", "-R", "-X", "stream", "-c", "fast"], cwd=standby.dir,
        **standby.who())
    standby.start()
    two = drivers(standby.url)
    said = two.start_acquire(two.lock("n"), wait_ms=500).answer()
    assert said.err == "STORE" and "standby" in said.text
    primary.kill()
    standby.psql("SELECT pg_promote()")
    two.acquire("n", wait_ms=15000).release()


def test_not_durable_says_so(postgres, drivers):
    one = drivers(postgres.url + "?durable=no")
    grant = one.acquire(one.lock("n"))
    assert held(postgres) == str(grant.token)
    grant.release()




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


