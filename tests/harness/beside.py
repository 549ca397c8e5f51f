"""Databases whose table ours and others lock by: a PostgreSQL and a MariaDB server,
seen alike."""

import os
import subprocess
import sys

from . import mysql_server, postgres_server
from .foreign import SOURCE
from .mysql_server import MysqlServer
from .postgres_server import PostgresServer

PYTHON = sys.executable


class Postgres:
    words_of_texts = False
    missing = staticmethod(postgres_server.postgres_missing)
    page = "POSTGRES.md"
    needs = "postgres://127.0.0.1:1/x"

    def __init__(self):
        self.server = PostgresServer()
        self.sql = self.server.psql
        self.jdbc = f"jdbc:postgresql://127.0.0.1:{self.server.port}/snib"

    def clear(self):
        self.sql("DROP SCHEMA IF EXISTS other CASCADE",
                 "DROP SCHEMA public CASCADE", "CREATE SCHEMA public",
                 "GRANT ALL ON SCHEMA public TO PUBLIC")

    def own(self, table):
        self.sql(f"ALTER TABLE {table} OWNER TO snib")


class Mysql:
    words_of_texts = True
    missing = staticmethod(mysql_server.mysql_missing)
    page = "MYSQL.md"
    needs = "mysql://127.0.0.1:1/x"

    def __init__(self):
        self.server = MysqlServer()
        self.sql = self.server.sql
        self.jdbc = f"jdbc:mariadb://127.0.0.1:{self.server.port}/snib"

    def clear(self):
        self.sql("DROP DATABASE snib", "CREATE DATABASE snib",
                 "SET GLOBAL time_zone='SYSTEM'", database="mysql")

    def own(self, table):
        pass


def bare_clients(base):
    """By what they are written in: the command of a session that is told a statement
    a line and says the first value of each answer; a str: why there is none."""
    port = str(base.port)
    kind = "mysql" if isinstance(base, MysqlServer) else "postgres"
    module = {"mysql": "pymysql", "postgres": "psycopg2"}[kind]
    program = os.path.join(os.environ.get("SNIB_BUILD_DIR", ""), "tests/live",
                           f"bare_{kind}")
    found = subprocess.run([PYTHON, "-c", f"import {module}"], check=False,
                           stderr=subprocess.DEVNULL).returncode == 0
    return {
        "C": [program, port] if os.path.isfile(program)
        else f"bare_{kind} is not built",
        "Python": [PYTHON, os.path.join(SOURCE, "python", "bare.py"), kind,
                   port] if found else f"no Python module {module}"}


def snib_at(where, *words):
    return subprocess.run([os.environ.get("SNIB_BIN", ""), *words], timeout=60,
                          check=False, text=True,
                          env={**os.environ, "SNIB_URL": where},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
