"""The programs that count a stock down by a version column of their own table:
several at once sell each piece once."""

import re
import subprocess

import pytest

from conftest import built
from harness.mysql_server import MysqlServer, mysql_missing
from harness.postgres_server import PostgresServer, postgres_missing


def sold_by_three(name, *args):
    """How many pieces each of three programs has sold."""
    path = built(name)
    runs = [subprocess.Popen([path, *map(str, args)], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for _ in range(3)]
    said = [run.communicate(timeout=120)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], said
    return [int(re.fullmatch(r"sold (\d+), in \d+ attempts\n", one)[1])
            for one in said]


def test_three_sell_each_piece_of_an_sqlite_table_once(tmp_path):
    assert sum(sold_by_three("version_sqlite", tmp_path / "stock.db")) == 50
    assert sold_by_three("version_sqlite", tmp_path / "stock.db") == [0, 0, 0]


@pytest.mark.skipif(bool(postgres_missing()), reason=postgres_missing())
def test_three_sell_each_piece_of_a_postgresql_table_once():
    with PostgresServer() as server:
        server.psql("GRANT ALL ON SCHEMA public TO snib")
        assert sum(sold_by_three(
            "version_postgres",
            f"host=127.0.0.1 port={server.port} user=snib dbname=snib")) == 50
        assert server.psql("SELECT stock, version FROM example_item") == "0|51"


@pytest.mark.skipif(bool(mysql_missing()), reason=mysql_missing())
def test_three_sell_each_piece_of_a_mariadb_table_once():
    with MysqlServer() as server:
        assert sum(sold_by_three("version_mysql", "127.0.0.1", server.port,
                                 "snib", "snib")) == 50
        assert server.sql("SELECT stock, version FROM example_item") == "0|51"


@pytest.mark.parametrize("name", ["version_sqlite", "version_mysql"])
def test_without_arguments_they_say_what_they_want(name):
    done = subprocess.run([built(name)], capture_output=True, text=True)
    assert done.returncode and name in done.stderr
