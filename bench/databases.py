"""Database servers of their own for the benchmark: bench/databases.py FILE

FILE gets a line "option URL" for each, when all answer; they live until this
process is ended. Their data are where FILE is, on its disk: what a commit costs
belongs to the figures."""
import os
import pathlib
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from harness import database_server  # noqa: E402
from harness.mysql_server import MysqlServer, mysql_missing  # noqa: E402
from harness.postgres_server import (  # noqa: E402
    PostgresServer, postgres_missing)

signal.signal(signal.SIGTERM, lambda *_: sys.exit())
database_server.MEMORY = ""
servers = []
with open(sys.argv[1] + ".new", "w") as file:
    for option, server, missing in (
            ("--postgres", PostgresServer, postgres_missing()),
            ("--mysql", MysqlServer, mysql_missing())):
        if not missing:
            servers.append(server())
            print(option, servers[-1].url, file=file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
signal.pause()
