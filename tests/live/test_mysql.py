"""Locks in a MariaDB database: what stands in its tables, and what becomes of them
when answers, connections, the server or a client are lost.

What every store does is in tests/conformance.
"""

import os
import re
import subprocess
import threading
from urllib.parse import unquote

import pytest

from databases import *  # noqa: F401,F403
from databases import Base, ROOT, claims, held, warm_up
from harness.mysql_server import MysqlServer, mysql_missing
from harness.stream_proxy import StreamProxy
from harness.wait import boot_ns, stays, wait_until

pytestmark = pytest.mark.skipif(bool(mysql_missing()), reason=mysql_missing())
NEEDS = "mysql://127.0.0.1:1/x"


class Mysql(Base):
    product, another = "mysql", ("?prefix=other_one", "other_one_lock")
    words_of_texts = True
    ACQUIRE, RENEW = "h_token=LAST_INSERT_ID", "h_until=GREATEST"
    RELEASE, WRITE, NEXT = "h_stamp=NULL", "h_request=IF(", "claims=claims"
    DELETE = "DELETE FROM snib_claim"
    LOCK_VALUE = "stamp,until,record FROM snib_value"
    VERSION = "SELECT VERSION()"
    FORGED = {
        "kind": ("UPDATE snib.lock SET h_kind=99", "CORRUPT"),
        "end": ("UPDATE snib.lock SET h_until=9223372036854775807, "
                "h_delay=9223372036854775807", "BUSY"),
        "past": ("UPDATE snib.lock SET h_until=-9223372036854775808, "
                 "h_delay=-9223372036854775808", "OK"),
        "token": ("UPDATE snib.lock SET token=-5, h_until=0", "CORRUPT"),
        "claims": ("UPDATE snib.lock SET claims=9", "BUSY"),
        "notifier": ("UPDATE snib.lock SET h_notifier=REPEAT('x', 40)", "BUSY"),
        "about": ("UPDATE snib.lock SET h_about=REPEAT('=&%', 20000)", "BUSY"),
    }

    def clear(self):
        tables = self.server.sql(
            "SELECT table_name FROM information_schema.tables WHERE "
            "table_schema='snib'").split()
        self.server.sql(*[f"DROP TABLE {table}" for table in tables],
                        "DROP USER IF EXISTS app, hidden",
                        "DROP DATABASE IF EXISTS app")

    def sql(self, *statements, **options):
        return self.server.sql(*[re.sub(r"\bsnib\.(meta|lock|claim|value)\b",
                                        r"snib_\1", one)
                                 for one in statements], **options)

    def end_notifiers(self):
        ids = self.sql("SELECT id FROM information_schema.processlist WHERE "
                       "info LIKE 'SELECT IF(GET_LOCK(%'").split()
        if ids:
            self.sql(*[f"KILL {one}" for one in ids])
        return ids

    def login(self, user):
        self.sql(f"CREATE USER {user} IDENTIFIED BY 'right'")


@pytest.fixture(scope="module")
def kept():
    """One server for these tests, whatever they do to it."""
    with MysqlServer() as server:
        yield Mysql(server)


@pytest.fixture
def base(kept):
    return kept.again()


def page():
    with open(os.path.join(ROOT, "docs", "MYSQL.md"), encoding="utf-8") as file:
        return file.read()


def block(name):
    """The statements of an example of the page."""
    text = re.search(r"<!-- run: %s -->\n```sql\n(.*?)```" % name, page(),
                     re.S)[1]
    return [one.strip() for one in text.split(";") if one.strip()]


# -- what is there ------------------------------------------------------------


def test_the_page_shows_who_holds_and_who_waits(base, other, drivers):
    grant = other.acquire(other.lock("n"))
    two = drivers(base.url)
    pending = two.start_acquire(two.lock("n"), wait_ms=20000)
    wait_until(lambda: claims(base, 0) == 1, what="a waiter")
    first, second = [base.sql(one) for one in block("look")]
    assert first.startswith(f"n|{grant.token}|host=")
    assert second.startswith("n|0|0|0|1|host=")
    grant.release()
    pending.wait().release()


def test_the_rights_of_the_page_are_enough_and_needed(base, drivers):
    base.sql("CREATE DATABASE app", "CREATE USER app@'%'")
    url = base.url.replace("snib@", "app@").replace("/snib", "/app")
    app = drivers(url)
    said = app.try_acquire(app.lock("n"))
    assert said.err == "DENIED" and "this database" in said.text
    base.sql("GRANT SELECT ON app.* TO app@'%'")
    said = wait_until(lambda: (lambda one: one.err == "CONFIG" and one)(
        app.try_acquire("n")), what="no right to make tables")
    assert "doctor --schema" in said.text
    base.sql("REVOKE SELECT ON app.* FROM app@'%'",
             "GRANT ALL ON app.* TO snib@'%'")
    own = drivers(url.replace("app@", "snib@"))
    own.acquire(own.lock("m")).release()
    base.sql("GRANT SELECT ON app.snib_meta TO app@'%'")
    wait_until(lambda: app.try_acquire("n").err == "DENIED", what="no rights")
    base.sql(*block("rights"))
    wait_until(lambda: app.start_acquire("n", wait_ms=3000).answer().ok,
               what="rights")
    two = drivers(url)
    pending = two.start_acquire(two.lock("n"), wait_ms=20000)
    wait_until(lambda: base.sql("SELECT COUNT(*) FROM snib_claim WHERE state=0",
                                database="app") == "1")
    app.kill()
    base.sql("UPDATE snib_lock SET h_until=0", database="app")
    pending.wait().release()


def test_names_differ_by_each_byte(base, other):
    names = ["a", "A", "a ", "a  ", "á", "ä", "a%00", "%00", "a%00%00"]
    grants = [other.acquire(other.lock(unquote(name), id=f"l{i}"))
              for i, name in enumerate(names)]
    assert len({grant.token for grant in grants}) == len(names)
    assert base.sql("SELECT COUNT(*) FROM snib.lock WHERE h_request IS NOT "
                    "NULL") == str(len(names))


def test_what_a_server_has_by_default_changes_nothing(mysql_with, drivers):
    """After a COMMIT with completion_type=CHAIN a transaction is open: what is
    answered behind it would be undone when its connection ends."""
    server = mysql_with(
        "--completion-type=CHAIN", "--max-statement-time=1",
        "--autocommit=0", "--transaction-isolation=SERIALIZABLE",
        "--sql-mode=ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH,NO_UNSIGNED_SUBTRACTION",
        "--init-connect=SET sql_select_limit=1,sql_safe_updates=1,"
        "sql_big_selects=0,max_join_size=10")
    one, two, three = [drivers(server.url) for _ in range(3)]
    for i in range(3):
        grant = one.acquire(one.lock(f"n{i}"), wait_ms=5000)
        assert server.sql("SELECT h_token FROM snib_lock WHERE name='n%d'"
                          % i) == str(grant.token)
    readers = [each.acquire(each.lock("r", kind="read"))
               for each in (one, three)]
    pending = two.start_acquire(two.lock("n2"), wait_ms=20000)
    listener = wait_until(lambda: server.sql(
        "SELECT id FROM information_schema.processlist WHERE info LIKE "
        "'SELECT IF(GET_LOCK(%'"),
        what="somebody listens")
    stays(lambda: not pending.done(), 4, "it waits")
    assert server.sql("SELECT id FROM information_schema.processlist WHERE id "
                      f"IN ({','.join(listener.split())})") == listener
    grant.release()
    pending.wait(10).release()
    assert two.try_acquire(two.lock("r", kind="write")).err == "BUSY"
    for grant in readers:
        grant.release()
    two.acquire("r", wait_ms=5000).release()


# -- being notified -----------------------------------------------------------


def test_one_account_cannot_wake_another_which_then_polls(base, drivers):
    base.sql("CREATE USER app@'%'", "GRANT ALL ON snib.* TO app@'%'")
    one = drivers(base.url)
    two = drivers(base.url.replace("snib@", "app@"))
    grant = one.acquire(one.lock("n"), wait_ms=5000)
    pending = two.start_acquire(two.lock("n"), wait_ms=20000)
    wait_until(lambda: claims(base, 0) == 1, what="a waiter")
    grant.release()
    pending.wait(10).release()


def test_a_query_of_somebody_else_is_not_ended(base, other, drivers):
    """The notifier of a claim that nobody listens by is not a connection's
    number that may be another's by now."""
    grant = other.acquire(other.lock("n"))
    two = drivers(base.url)
    pending = two.start_acquire(two.lock("n"), wait_ms=20000)
    wait_until(lambda: claims(base, 0) == 1, what="a waiter")
    base.end_notifiers()
    said = []
    sleeper = threading.Thread(target=lambda: said.append(
        base.sql("SELECT SLEEP(2)", user="snib")))
    sleeper.start()
    grant.release()
    pending.wait().release()
    sleeper.join()
    assert said == ["0"]


def test_many_waits_of_one_client_wake_each_by_itself(base, other, drivers):
    two = drivers(base.url)
    grants, pending = {}, {}
    for i in range(12):
        grants[i] = other.acquire(other.lock(f"w{i}"), wait_ms=5000)
        pending[i] = two.start_acquire(two.lock(f"w{i}"), on=f"t{i}",
                                       wait_ms=30000)
    wait_until(lambda: claims(base, 0) == 12, what="all wait")
    for i in (7, 0, 11):
        grants[i].release()
        pending[i].wait(10).release()
    assert claims(base, 0) == 9


# -- errors of the database ---------------------------------------------------

FAIL = """
CREATE TABLE failures(n INT) ENGINE=MyISAM;
INSERT INTO failures VALUES (0);
DELIMITER //
CREATE TRIGGER fail BEFORE UPDATE ON snib_lock FOR EACH ROW
BEGIN
  UPDATE failures SET n=n+1;
  IF (SELECT n FROM failures) <= {times} THEN
    SIGNAL SQLSTATE '{state}' SET MYSQL_ERRNO={code}, MESSAGE_TEXT='planned';
  END IF;
END//
DELIMITER """


def plan(base, times, code, state="HY000"):
    base.sql(FAIL.format(times=times, code=code, state=state))


@pytest.mark.parametrize("code", [1213, 1205, 1020, 1317, 1969])
def test_what_the_database_wants_repeated_is_repeated(base, other, code):
    lock = warm_up(other)
    plan(base, 3, code)
    grant = other.acquire(lock, wait_ms=5000)
    assert held(base) == str(grant.token)
    grant.release()
    assert int(base.sql("SELECT n FROM failures")) > 3


@pytest.mark.parametrize("code, err, word", [
    (1114, "STORE", "disk of the server is full"),
    (1142, "DENIED", "lacks a right"),
    (1290, "STORE", "read-only"),
    (1041, "STORE", "out of memory"),
    (1665, "CONFIG", "binlog_format"),
])
def test_what_the_database_refuses_is_told_and_passes(
        base, other, code, err, word):
    lock = warm_up(other)
    plan(base, 8, code)
    said = other.start_acquire(lock, wait_ms=3000).answer()
    assert said.err == err and word in said.text
    assert held(base) == ""
    base.sql("DROP TRIGGER fail")
    other.acquire(lock, wait_ms=5000).release()


def test_a_row_that_others_lock_ends_as_unreachable_at_the_limit(base, other):
    """Each attempt waits a second, innodb_lock_wait_timeout."""
    lock = warm_up(other)
    blocker = subprocess.Popen(
        ["mariadb", "--no-defaults", "-S", base.socket, "-u", "root", "snib"],
        stdin=subprocess.PIPE, text=True)
    blocker.stdin.write("START TRANSACTION; UPDATE snib_lock SET stamp=stamp+1;"
                        " SELECT SLEEP(30);\n")
    blocker.stdin.flush()
    wait_until(lambda: "SLEEP(30)" in base.sql("SHOW PROCESSLIST"),
               what="the row is locked")
    began = boot_ns()
    said = other.start_acquire(lock, wait_ms=2500).answer()
    assert said.err in ("UNREACHABLE", "UNKNOWN"), said
    assert (boot_ns() - began) / 1e9 < 6
    blocker.kill()
    blocker.wait()
    base.sql(*[f"KILL {one}" for one in base.sql(
        "SELECT id FROM information_schema.processlist WHERE info LIKE "
        "'SELECT SLEEP(30)%'").split()] or ["DO 1"])
    wait_until(lambda: other.start_acquire("n", wait_ms=3000).answer().ok, 20,
               "it is free")


@pytest.fixture
def small_disk(mysql_with):
    """A server with a folder on a disk of 1 MB, and that folder."""
    server = mysql_with(start=False)
    path = os.path.join(server.dir, "small")
    os.mkdir(path)
    if os.getuid() != 0 or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path],
            check=False, stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("needs root, and to mount")
    entry = os.stat(server.data)
    os.chown(path, entry.st_uid, entry.st_gid)
    server.start()
    server.make()
    yield server, path
    server.kill()
    subprocess.run(["umount", "-l", path], check=True)


def test_a_full_disk_is_named_and_passes(drivers, small_disk):
    server, path = small_disk
    one = drivers(server.url)
    warm_up(one)
    create = server.sql("SHOW CREATE TABLE snib_lock").split("|", 1)[1].replace(
        "\\n", "\n").replace("`snib_lock`", "`there`")
    server.sql(create + f" DATA DIRECTORY='{path}'",
               "INSERT INTO there SELECT * FROM snib_lock",
               "DROP TABLE snib_lock", "RENAME TABLE there TO snib_lock")
    with open(path + "/fill", "wb") as file, pytest.raises(OSError):
        while True:
            os.write(file.fileno(), bytes(4096))
    refused = None
    for i in range(2000):
        said = one.try_acquire(one.lock(f"new-{i}-" + "x" * 30))
        if not said.ok:
            refused = said
            break
    assert refused and refused.err == "STORE", refused
    assert "disk of the server is full" in refused.text
    os.unlink(path + "/fill")
    wait_until(lambda: one.start_acquire(
        one.lock("again"), wait_ms=5000).answer().ok, 20, "there is room")


# -- who answers --------------------------------------------------------------


def test_a_read_only_server_is_refused_until_it_is_not(base, other, drivers):
    warm_up(other)
    base.sql("SET GLOBAL read_only=1")
    try:
        two = drivers(base.url)
        said = two.start_acquire(two.lock("n"), wait_ms=500).answer()
        assert said.err == "STORE" and "read-only" in said.text
        said = other.start_acquire("n", wait_ms=500).answer()
        assert said.err == "STORE" and "read-only" in said.text
    finally:
        base.sql("SET GLOBAL read_only=0")
    two.acquire("n", wait_ms=15000).release()
    other.acquire("n", wait_ms=15000).release()


def test_a_replica_is_refused_until_it_is_promoted(mysql_with, drivers):
    primary = mysql_with("--log-bin", "--server-id=1", "--binlog-format=ROW")
    replica = mysql_with("--server-id=2", "--read-only")
    primary.sql("CREATE USER copy@'%'",
                "GRANT REPLICATION SLAVE ON *.* TO copy@'%'")
    replica.sql(f"CHANGE MASTER TO master_host='127.0.0.1', "
                f"master_port={primary.port}, master_user='copy', "
                "master_use_gtid=slave_pos", "SET GLOBAL gtid_slave_pos='" +
                primary.sql("SELECT @@gtid_binlog_pos") + "'", "START SLAVE")
    one = drivers(primary.url)
    grant = one.acquire(one.lock("n"), wait_ms=5000)
    wait_until(lambda: replica.sql(
        "SELECT h_token FROM snib_lock", check=False) == str(grant.token), 20,
        "the grant is copied")
    two = drivers(replica.url)
    said = two.start_acquire(two.lock("n"), wait_ms=500).answer()
    assert said.err == "STORE" and "replica" in said.text
    primary.kill()
    replica.sql("STOP SLAVE", "SET GLOBAL read_only=0")
    said = wait_until(lambda: (lambda one: one.err == "BUSY" and one)(
        two.try_acquire("n")), 15, "it is the primary")
    assert said


def test_a_primary_that_is_one_no_longer_is_left_for_the_next(
        base, mysql_with, drivers):
    """Behind one address, as a virtual one is, another server answers."""
    second = mysql_with()
    with StreamProxy(base.address, True) as wire:
        one = drivers(wire.url(base))
        one.acquire(one.lock("n"), wait_ms=5000).release()
        base.sql("SET GLOBAL read_only=1")
        wire.target = second.address
        try:
            wait_until(lambda: one.start_acquire(
                "n", wait_ms=3000).answer().ok, 20, "the second one answers")
            assert second.sql("SELECT COUNT(*) FROM snib_lock") == "1"
        finally:
            base.sql("SET GLOBAL read_only=0")


def test_a_binary_log_of_statements_is_refused_with_the_reason(
        mysql_with, drivers):
    server = mysql_with("--log-bin", "--server-id=1",
                        "--binlog-format=STATEMENT")
    one = drivers(server.url)
    said = one.start_acquire(one.lock("n"), wait_ms=2000).answer()
    assert said.err == "CONFIG" and "binlog_format" in said.text


def test_a_password_is_read_from_a_file_at_each_login(base, drivers, tmp_path):
    base.login("hidden")
    base.sql("GRANT ALL ON snib.* TO hidden")
    path = tmp_path / "password"
    path.write_text("wrong\n")
    url = base.url.replace("snib@", "hidden@") + f"?password_file={path}"
    one = drivers(url)
    said = one.try_acquire(one.lock("n"))
    assert said.err == "DENIED"
    path.write_text("right\nmore")
    wait_until(lambda: one.start_acquire("n", wait_ms=3000).answer().ok,
               what="the new password")
    path.unlink()
    two = drivers(url)
    said = two.try_acquire(two.lock("m"))
    assert said.err == "CONFIG" and "No such file" in said.text


# -- what it leaves behind ----------------------------------------------------


def test_the_cleaner_forgets_old_names_and_keeps_the_order_of_tokens(
        base, other):
    lock = warm_up(other)
    empty = "x'" + 32 * "0" + "'"
    base.sql(
        "UPDATE snib.lock SET token=1000",
        "INSERT INTO snib.lock(name, stamp, token) VALUES ('b', 1, 2000)",
        "INSERT INTO snib.lock(name, stamp, token, size) "
        "VALUES ('keeps', 1, 3000, 5)",
        "INSERT INTO snib.lock(name, stamp, claims) VALUES ('c', 1, 1)",
        "INSERT INTO snib.lock(name, stamp, token, claims) "
        "VALUES ('d', 1, 9000, 1)",
        *[f"INSERT INTO snib.claim VALUES ('{name}', {empty}, 1, 1, {empty}, 0, "
          "0, 1, 0, 0, 0, 0, 0, NULL, 0, 0, 0, 0, '', '', '')"
          for name in "cd"])
    text = statement("SNIB__SQL_DO_CLEAN")
    for number, value in ((3, 100), (2, 5000), (1, 7)):
        text = text.replace(f"${number}", str(value))
    base.sql("SET time_zone='+00:00'", *text.split(";"))
    assert base.sql("SELECT name FROM snib.lock ORDER BY name") == "d\nkeeps"
    assert base.sql("SELECT COUNT(*) FROM snib.claim") == "0"
    assert base.sql("SELECT claims, stamp FROM snib.lock WHERE name='d'") == "0|7"
    assert base.sql("SELECT value, stamp FROM snib.meta WHERE "
                    "`key`='floor'") == "2000|7"
    grant = other.acquire(lock, wait_ms=5000)
    assert grant.token > 2000
    grant.release()


SLOW = """
DELIMITER //
CREATE TRIGGER slow BEFORE UPDATE ON snib_lock FOR EACH ROW
IF OLD.name='a' THEN
  DO SLEEP(3);
END IF//
DELIMITER """


def test_the_cleaner_counts_what_was_made_meanwhile(base, other, drivers):
    """It stands still at the first name, whose count is wrong, when another
    client comes with a name that stands behind it."""
    warm_up(other)
    base.sql("INSERT INTO snib.lock(name, stamp, claims) VALUES ('a', 1, 1), "
             "('z', 1, 0)",
             SLOW)
    text = statement("SNIB__SQL_DO_CLEAN")
    for number, value in ((3, 100), (2, 50), (1, 7)):
        text = text.replace(f"${number}", str(value))
    cleaner = threading.Thread(target=lambda: base.sql(
        "SET time_zone='+00:00'",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "START TRANSACTION", *text.split(";"), "COMMIT"))
    cleaner.start()
    wait_until(lambda: "User sleep" in base.sql("SHOW PROCESSLIST"),
               what="it is at the first name")
    grant = other.acquire(other.lock("made", kind="read"))
    assert cleaner.is_alive()
    cleaner.join()
    base.sql("DROP TRIGGER slow")
    assert base.sql("SELECT claims FROM snib.lock WHERE name='made'") == "1"
    two = drivers(base.url)
    assert two.try_acquire(two.lock("made", kind="write")).err == "BUSY"
    grant.release()


def statement(name):
    """The text of a statement, as the store sends it."""
    path = os.path.join(ROOT, "src", "store", "mysql", "text.c")
    with open(path, encoding="utf-8") as file:
        source = file.read()
    done = subprocess.run(
        ["gcc", "-fsyntax-only", "-E", "-P", "-I", ROOT + "/src", "-I",
         ROOT + "/include", "-I", "/usr/include/mariadb", "-"],
        input=source, text=True, stdout=subprocess.PIPE, check=True)
    found = re.search(r"\[%s\]\s*=\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+)" % name,
                      done.stdout)
    return "".join(re.findall(r"\"((?:[^\"\\]|\\.)*)\"", found[1])).replace(
        "#", "snib_")
