"""What another program wrote into the lock file in the place of a token: it is
told by what it is, nobody is granted a token below the last one by it, and
force-release mends it."""

import json

import pytest

from conftest import eventually
from harness.mapped_file import (CLAIM_FLOOR_AT, FLOOR, STATE_AT, TOKEN_AT,
                                 MappedFile)

END = 1 << 53


def file_of(store):
    return MappedFile(store.path("locks.db"))


def write_token(store, number):
    file = file_of(store)
    file.number(file.locks()["a"][0] + TOKEN_AT, number)


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


def mend(store, name="a", ended=0):
    done = store.run("force-release", "--yes", "--reason", "x", name)
    assert done.returncode == 0, done.stderr
    said = (f"{ended} grant{'s' * (ended > 1)} ended, and " if ended else "")
    assert done.stderr == (
        f"snib: {name}: its state at the store is damaged\n"
        f"snib: {name}: {said}what was damaged is cleared\n")


NUMBERS = pytest.mark.parametrize(
    "number", [17, END - 1, (1 << 63) - 1, -(1 << 63)])


@NUMBERS
def test_a_last_token_that_is_none(mapped, number):
    before = token_of(mapped)
    write_token(mapped, number)
    expect_told(mapped)
    mend(mapped)
    after = token_of(mapped)
    assert before < after < END
    assert token_of(mapped) > after


@NUMBERS
def test_a_last_token_that_is_none_while_it_is_held(mapped, number):
    """The holder goes on, and its end is no obstacle; the next token is above
    its own."""
    mapped.hold("a")
    held = mapped.status("a")["token"]
    write_token(mapped, number)
    expect_told(mapped, ("status", "a"))
    assert mapped.run("try", "a", "--", "true").returncode == 75
    mend(mapped, ended=1)
    assert token_of(mapped) > held


@pytest.mark.parametrize("number", [END - 1, (1 << 63) - 1, (1 << 64) - 1])
def test_a_floor_that_is_none(mapped, number):
    """It is what names begin with that are not in the file."""
    token_of(mapped, "other")
    file_of(mapped).number(FLOOR, number)
    expect_told(mapped)
    assert token_of(mapped, "other") < END
    mend(mapped)
    assert token_of(mapped) < END
    assert token_of(mapped, "new") < END


def test_a_floor_of_a_waiter_that_is_none(mapped):
    holder = mapped.hold("a")
    waiter = mapped.start("run", "-q", "-w", "20s", "a", "true")
    eventually(lambda: mapped.waiters("a") == 1)
    file = file_of(mapped)
    data, (_, claims) = file.read(), file.locks()["a"]
    waiting, = [claim for claim in claims if data[claim + STATE_AT] == 0]
    file.number(waiting + CLAIM_FLOOR_AT, (1 << 63) - 1)
    expect_told(mapped, ("status", "a"))
    mend(mapped, ended=1)
    assert holder.wait(20) == 76
    assert waiter.wait(20) == 0, "it took another place by its poll"
    assert token_of(mapped) < END


@pytest.mark.parametrize("glob", [[], ["b*"]])
def test_a_list_says_that_a_part_cannot_be_read(mapped, glob):
    """It left out the locks there, in silence, and ended with 0."""
    mapped.hold("a")
    mapped.hold("b")
    file = file_of(mapped)
    record = file.locks()["a"][0]
    assert mapped.run("list").returncode == 0
    file.write(record, b"\xff" * 4)  # its size
    done = mapped.run("list", *glob)
    assert done.returncode == 69
    assert done.stdout.startswith("b: held by ") and "\na:" not in done.stdout
    assert done.stderr.startswith(f"snib: lock file {file.path} is damaged: the "
                                  "locks in 1 of its ")
    assert done.stderr.endswith(" parts cannot be shown; move it away when "
                                "nobody holds a lock\n")
    told = json.loads(mapped.run("list", "--json", *glob).stdout)["locks"]
    assert [one["name"] for one in told if "damage" in one] == [""]
    assert [one["name"] for one in told if "damage" not in one] == ["b"]
