"""bench/peers/peers.py: what it says of peers that cannot be had, and of bad
words. What it measures is no test."""
import importlib.util
import pathlib
import subprocess
import sys

import pytest

from harness.redis_server import RedisServer, redis_missing

PROGRAM = (pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"
           / "peers.py")


@pytest.fixture
def peers(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("peers", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PLACE", tmp_path / "peers")
    return module


@pytest.mark.parametrize("args, said", [
    (["each-9"], "each-9 is no row and no peer; there are each-1 "),
    (["--rounds", "0"], "--rounds and --seconds are above 0"),
    (["--rounds", "x"], "argument --rounds: invalid int value"),
    (["--nonsense"], "unrecognized arguments: --nonsense")])
def test_bad_words_are_64(args, said):
    done = subprocess.run([sys.executable, PROGRAM, *args], text=True,
                          check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    assert done.returncode == 64
    assert done.stderr.startswith("./dev bench --peers: " + said)
    assert done.stdout == ""


def test_a_tool_that_is_not_there_is_a_reason(peers, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    commands, missing = peers.build(["redsync", "rslock", "redlock", "redisson"])
    assert commands == {}
    assert missing == {"redsync": "go is not installed",
                       "rslock": "cargo is not installed",
                       "redlock": "npm is not installed",
                       "redisson": "mvn is not installed"}


def test_a_build_that_fails_says_its_last_line(peers, monkeypatch, tmp_path):
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho one\necho 'no such proxy' >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert peers.build(["redsync"]) == ({}, {
        "redsync": "go build: no such proxy"})


def test_a_jar_that_was_changed_is_not_used(peers, monkeypatch, tmp_path):
    mvn = tmp_path / "mvn"
    mvn.write_text("#!/bin/sh\nmkdir lib\necho x >lib/$(sed -n "
                   "'1s/.* //p' jars.sha256)\n")
    mvn.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    commands, missing = peers.build(["redisson"])
    assert commands == {}
    assert missing["redisson"].endswith(".jar is not what it was")


def test_a_jar_that_nobody_knows_is_not_used(peers, monkeypatch, tmp_path):
    mvn = tmp_path / "mvn"
    mvn.write_text("#!/bin/sh\nmkdir lib\necho x >lib/aaa.jar\n")
    mvn.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert peers.build(["redisson"]) == ({}, {
        "redisson": "aaa.jar is not what it was"})


SECTION = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(50):
    s.sendall(b"SET a b NX PX 1000\\r\\nEVAL 'redis.call(\\"del\\",\\"a\\")' 0\\r\\n")
    while not s.recv(100):
        pass
print(50, flush=True)
"""


@pytest.mark.skipif(redis_missing() != "", reason=redis_missing())
def test_a_turn_counts_sections_and_the_servers_work(peers):
    peers.PLACE.mkdir()
    with RedisServer() as redis:
        told = peers.turn(redis, "setnx", [sys.executable, "-c", SECTION],
                          "each-8", 0.5)
        alone = peers.turn(redis, "snib", [sys.executable, "-c", SECTION],
                           "each-1", 0.5)
    assert told["sections"] == alone["sections"] == 50 / 0.5
    assert told["server"] > 0
    assert told["executing"] > 0
    assert alone["executing"] > 0
