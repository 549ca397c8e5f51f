"""snib_version_update with the ready step of snib/steps/libmariadb.h, on a real
MariaDB server."""

import pytest

from harness.mysql_server import MysqlServer, mysql_missing
from harness.wait import wait_until
from versions import *  # noqa: F401,F403
from versions import Rows

pytestmark = pytest.mark.skipif(bool(mysql_missing()), reason=mysql_missing())


class Mysql(Rows):
    program, DEADLOCK = "version_mysql", "1213: Deadlock found"
    QUICK = "SET SESSION innodb_lock_wait_timeout = 1"

    def sql(self, *statements):
        return self.server.sql(*statements)

    def fresh(self):
        self.sql("DROP TABLE IF EXISTS item",
                 "CREATE TABLE item(id int PRIMARY KEY, n int, version bigint,"
                 " attempt char(32)) ENGINE=InnoDB",
                 "INSERT INTO item VALUES(1, 0, 1, NULL), (2, 0, 1, NULL)")


@pytest.fixture(scope="module")
def kept():
    """One server for these tests, whatever they do to it."""
    with MysqlServer() as server:
        yield Mysql(server)


@pytest.fixture
def base(kept):
    return kept.again()


FAIL = """
CREATE TRIGGER fail BEFORE UPDATE ON item FOR EACH ROW
  SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'planned'
"""


@pytest.mark.parametrize("number", [1020, 1205, 1213, 1317, 1969, 3024, 3572])
def test_what_the_database_wants_repeated_is_repeated(base, run, number):
    base.sql(FAIL.format(number=number))
    one = run(attempts=3)
    assert one.told() == (
        "BUSY", 3, 0, f"3 attempts in vain; the last: {number}: planned")
    assert one.again == [f"{number}: planned"] * 3
    assert base.row() == "0|1"


@pytest.mark.parametrize("number, error", [
    (1044, "DENIED"), (1045, "DENIED"), (1142, "DENIED"), (1143, "DENIED"),
    (1227, "DENIED"), (1698, "DENIED"), (1037, "NOMEM"), (1062, "STORE"),
    (1114, "STORE"), (1290, "STORE")])
def test_any_other_error_ends_it(base, run, number, error):
    base.sql(FAIL.format(number=number))
    assert run().told() == (error, 1, 0, f"{number}: planned")
    assert base.row() == "0|1"


CLUSTER = ("SHOW VARIABLES WHERE Variable_name IN "
           "('wsrep_on', 'group_replication_group_name')")


@pytest.mark.parametrize("name, value", [
    ("wsrep_on", "ON"), ("group_replication_group_name", "8a94f357-aab4")])
def test_in_a_cluster_a_lost_commit_is_unknown(base, run, wire, name, value):
    """Another server may not have got it yet."""
    wire.lose_answers("COMMIT")
    rule = wire.put_instead(CLUSTER, f"SELECT '{name}', '{value}'")
    error, attempts, _, text = run(wire.port, wait=60000).told()
    assert rule.fired and (error, attempts) == ("UNKNOWN", 1)
    assert text == ("the commit of attempt 1 was not answered, nor whether it "
                    "stands: this server is of a cluster, and may not have got "
                    f"the commit yet: {name}")
    assert base.row() == "1|2"


def test_a_server_of_none_says_so(base, run, wire):
    wire.lose_answers("COMMIT")
    rule = wire.put_instead(
        CLUSTER, "SELECT 'wsrep_on', 'OFF' UNION SELECT 'group_', ''")
    assert run(wire.port).told() == ("OK", 1, 0, "") and rule.fired


def test_a_server_that_ends_the_session_at_the_commit_is_asked(
        base, run, wire):
    rule = wire.hold("COMMIT")
    one = run(wire.port)
    wait_until(lambda: rule.fired, what="it commits")
    number = base.sql("SELECT id FROM information_schema.processlist WHERE"
                      " user='snib' AND db='snib' AND command='Sleep'")
    base.sql(f"KILL {number}")
    rule.go_on.set()
    assert one.told()[:2] == ("OK", 2)
    assert base.row() == "1|2"
