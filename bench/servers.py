#!/usr/bin/env python3
"""A server for one row of the benchmark: bench/servers.py etcd|zookeeper|rabbitmq

Says "URL PID [PROGRAM]" when the server answers: PID is its process, PROGRAM
another client of it (bench/foreign.c says what is expected of that). Or "missing
WHY". The server lives until stdin ends. Its data are where scratch directories
are, on their disk: what a commit costs belongs to the figures.
"""
import os
import pathlib
import shlex
import signal
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from harness import database_server, foreign  # noqa: E402
from harness.etcd_server import EtcdServer, etcd_missing  # noqa: E402
from harness.rabbitmq_server import (  # noqa: E402
    RabbitmqServer, rabbitmq_missing)
from harness.zookeeper_server import (  # noqa: E402
    ZookeeperServer, zookeeper_missing)


def zookeeper():
    """Compiled as well as Java can: tests have a server that starts soon."""
    return ZookeeperServer(options=["-Xmx512m", "-XX:TieredStopAtLevel=4"])


# What starts it, why it can't be started, what builds the other client.
ROWS = {"etcd": (EtcdServer, etcd_missing, foreign.go_mutex),
        "zookeeper": (zookeeper, zookeeper_missing, foreign.curator_sections),
        "rabbitmq": (RabbitmqServer, rabbitmq_missing, None)}


def built(client):
    """Its command, and ""; or nothing, and why not."""
    try:
        return client(), ""
    except (foreign.Missing, AssertionError) as why:
        return (), " ".join(str(why).split())[:250] or "it can't be built"


def program(folder, command):
    """The command as one program."""
    path = os.path.join(folder, "client")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(command)} "$@" 2>/dev/null\n')
    os.chmod(path, 0o755)
    return path


def main():
    start, missing, client = ROWS[sys.argv[1]]
    command, why = (), missing()
    if client and not why:
        command, why = built(client)
    if why:
        print("missing", why)
        return
    with tempfile.TemporaryDirectory(prefix="snib-bench-") as folder, \
            start() as server:
        pid = getattr(server, "only", server).child.pid
        print(server.url, pid, *([program(folder, command)] if client else []),
              flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    signal.signal(signal.SIGINT, lambda *_: sys.exit())
    database_server.MEMORY = ""
    main()
