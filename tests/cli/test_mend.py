"""What another program wrote into the lock file in the place of a token: it is
told by what it is, nobody is granted a token below the last one by it, and
force-release mends it."""

import contextlib
import sqlite3

import pytest

from conftest import eventually

END = 1 << 53


@contextlib.contextmanager
def file_of(store):
    with contextlib.closing(sqlite3.connect(store.url[len("sqlite:"):],
                                            isolation_level=None)) as db:
        yield db


def write(store, statement, *values):
    with file_of(store) as db:
        assert db.execute(statement, values).rowcount == 1


def token_of(store, name="a"):
    done = store.run("try", name, "--", "printenv", "SNIB_TOKEN")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def expect_told(store, *commands):
    for command in commands or (("try", "a", "--", "true"), ("status", "a")):
        done = store.run(*command)
        assert done.returncode == 69, (command, done.stderr)
        assert "is not a token" in done.stderr
        assert "snib force-release" in done.stderr
        assert "clock" not in done.stderr


def mend(store, name="a"):
    done = store.run("force-release", "--yes", "--reason", "x", name)
    assert done.returncode == 0, done.stderr
    assert f"{name}: its state at the store is damaged" in done.stderr


NUMBERS = pytest.mark.parametrize(
    "number", [END - 1, (1 << 63) - 1, -(1 << 63), "x"])


@NUMBERS
def test_a_last_token_that_is_none(sqlite, number):
    before = token_of(sqlite)
    write(sqlite, "UPDATE lock SET token = ?", number)
    expect_told(sqlite)
    mend(sqlite)
    after = token_of(sqlite)
    assert before < after < END
    assert token_of(sqlite) > after


@NUMBERS
def test_a_last_token_that_is_none_while_it_is_held(sqlite, number):
    """The holder goes on, and its end is no obstacle; the next token is above
    its own."""
    sqlite.hold("a")
    held = sqlite.status("a")["token"]
    write(sqlite, "UPDATE lock SET token = ?", number)
    expect_told(sqlite, ("status", "a"))
    assert sqlite.run("try", "a", "--", "true").returncode == 75
    mend(sqlite)
    assert token_of(sqlite) > held


@NUMBERS
def test_a_floor_that_is_none(sqlite, number):
    """It is what names begin with that are not in the file."""
    token_of(sqlite, "other")
    write(sqlite, "INSERT INTO meta(key, value) VALUES('floor', ?)", number)
    expect_told(sqlite)
    assert token_of(sqlite, "other") < END
    mend(sqlite)
    assert token_of(sqlite) < END
    assert token_of(sqlite, "new") < END


def test_a_floor_of_a_waiter_that_is_none(sqlite):
    holder = sqlite.hold("a")
    waiter = sqlite.start("run", "-q", "-w", "20s", "a", "true")
    eventually(lambda: sqlite.waiters("a") == 1)
    write(sqlite, "UPDATE claim SET floor = ? WHERE state = 0", (1 << 63) - 1)
    expect_told(sqlite, ("status", "a"))
    mend(sqlite)
    assert holder.wait(20) == 76
    assert waiter.wait(20) == 0, "it took another place by its poll"
    assert token_of(sqlite) < END
