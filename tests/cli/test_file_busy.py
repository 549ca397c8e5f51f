"""Another process is inside a write of the lock file and stays there: each call
ends by its limit all the same, says which process that is, and what only looks
does not wait at all."""

import subprocess
import time

import pytest

from conftest import eventually, slack

# A request is given up after that.
REQUEST = 2
WRITER = """
import sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("begin immediate")
print("inside", flush=True)
sys.stdin.read()
"""


class Writer:
    def __init__(self, path):
        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-c", WRITER, path], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == "inside\n"
        self.pid = str(self.process.pid)

    def end(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def write(sqlite):
    """Begin a write of the file, in another process."""
    assert sqlite.run("try", "a").returncode == 0
    begun = []

    def begin():
        begun.append(Writer(sqlite.path("locks.db")))
        return begun[-1]
    yield begin
    for writer in begun:
        if not writer.process.stdin.closed:
            writer.end()


def timed(snib, *args):
    began = time.monotonic()
    done = snib.run(*args)
    return done, time.monotonic() - began


ONE, TWO, MORE = ("a",), ("a", "b"), ("a", "b", "c")
FORMS = [
    ("run", ("-w", "1s"), ONE, 1), ("run", ("-q", "-w", "0"), ONE, REQUEST),
    ("run", ("-r", "-w", "0"), ONE, REQUEST),
    ("run", ("-q", "-w", "1s"), TWO, 1), ("run", ("-w", "0"), MORE, REQUEST),
    ("run", ("-q", "-w", "3s"), TWO, 3), ("try", ("-q",), ONE, REQUEST),
    ("try", (), TWO, REQUEST), ("acquire", ("-q", "-w", "1s"), ONE, 1),
    ("acquire", ("-w", "0"), ONE, REQUEST),
    ("acquire", ("--detached", "-t", "9s", "-w", "1s"), ONE, 1)]


@pytest.mark.parametrize("sub, options, names, limit", FORMS, ids=str)
def test_who_wants_a_lock_ends_by_the_limit_and_names_the_process(
        sqlite, write, sub, options, names, limit):
    """Not before it either: the file is waited for as a lock is."""
    writer = write()
    command = () if sub == "acquire" else ("--", "true")
    done, took = timed(sqlite, sub, *options, *names, *command)
    assert limit - 0.1 < took < limit + slack(), done.stderr
    assert done.returncode == 69, done.stderr
    assert f"process {writer.pid} " in done.stderr, done.stderr


def test_a_try_without_a_command_too(sqlite, write):
    writer = write()
    done, took = timed(sqlite, "try", "-q", "a")
    assert took < REQUEST + slack()
    assert done.returncode == 69, done.stderr
    assert f"process {writer.pid} " in done.stderr, done.stderr


@pytest.mark.parametrize("names", [ONE, TWO], ids=str)
def test_who_waits_for_ever_gets_it_when_the_write_has_ended(
        sqlite, write, names):
    writer = write()
    p = sqlite.start("run", "-q", *names, "--", "echo", "got")
    began = time.monotonic()
    eventually(lambda: time.monotonic() > began + REQUEST + 0.5)
    assert p.poll() is None, p.stderr.read()
    writer.end()
    out, said = p.communicate(timeout=20)
    assert (p.returncode, out) == (0, "got\n"), said


LOOKS = [("status", "a"), ("list",), ("why", "a"), ("semaphore", "s"),
         ("latch", "l"), ("deadlocks",), ("wait", "a"), ("wait", "-w", "0", "a"),
         ("status", "--json", "a")]


@pytest.mark.parametrize("args", LOOKS, ids=str)
def test_a_look_is_in_nobodys_way(sqlite, write, args):
    write()
    done, took = timed(sqlite, *args)
    assert done.returncode == 0, done.stderr
    assert took < slack(), "the question of a semaphore's size took the lock"


def test_a_look_at_a_semaphore_counts_whom_it_sees(sqlite, write):
    assert sqlite.run("semaphore", "--set", "5", "s").returncode == 0
    sqlite.hold("s", "--kind", "semaphore", "-n", "2")
    sqlite.acquire("--kind", "semaphore", "s")
    write()
    done = sqlite.run("status", "s")
    assert "3 of 5 permits in use" in done.stdout, done.stdout
    assert sqlite.run("semaphore", "s").stdout == \
        "s: 3 of 5 permits in use, 2 available\n"


@pytest.mark.parametrize("detached", [(), ("--detached",)], ids=str)
@pytest.mark.parametrize("sub", ["renew", "release"])
def test_who_has_a_grant_is_told_that_it_is_not_known(
        sqlite, write, sub, detached):
    """Not that it is lost; and a release is tried on by the holder."""
    grant = sqlite.run("acquire", "-q", "-t", "30s", *detached,
                       "a").stdout.strip()
    writer = write()
    done, took = timed(sqlite, sub, grant)
    assert took < REQUEST + slack()
    assert done.returncode == 69, done.stderr
    # the last look at the file may end just before the limit, or be cut by it
    assert "no answer came" in done.stderr or \
        f"process {writer.pid}" in done.stderr, done.stderr
    assert "lock file" in done.stderr, done.stderr
    assert sqlite.run("check", "-m", "0", grant).returncode == \
        (76 if (sub, detached) == ("release", ()) else 0)
    writer.end()
    if sub == "release" and not detached:
        eventually(lambda: not sqlite.held("a"), "the holder released it", 5)
    else:
        assert sqlite.run("release", grant).returncode == 0
