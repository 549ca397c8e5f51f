"""A lock file that another program wrote into: bytes that cannot be ours are
skipped or refused in words; nothing crashes, hangs, or is believed for ever."""

import json
import os
import random
import struct

import pytest

from harness.mapped_file import (CLAIM_UNTIL_AT, HEAD, UNIT, MappedFile)

HOSTILE = [0, 1, (1 << 64) - 1, 1 << 63, (1 << 63) - 1, 1 << 53, 1 << 32,
           0xffffffff, 0x5b1b5b1b5b1b5b1b, 4096]


def file_of(store):
    return MappedFile(store.path("locks.db"))


def spoil(file, dice):
    """Some numbers of the records there are, and some of anything behind the
    constant part of the head."""
    data = file.read()
    for at, used in file.buckets(data):
        for _ in range(3):
            file.number(at + 4 * dice.randrange(max(1, used // 4 - 1)),
                        dice.choice(HOSTILE))
    top = struct.unpack_from("<Q", data, 256)[0] * UNIT
    for _ in range(20):
        file.number(HEAD + 8 * dice.randrange((top - HEAD) // 8),
                    dice.choice(HOSTILE))
    file.number(320 + 8 * dice.randrange(60), dice.choice(HOSTILE))


def is_told(done):
    """An exit code of ours, no signal, no assertion, no sanitizer."""
    said = done.stdout + done.stderr
    assert 0 <= done.returncode < 128, (done.returncode, said)
    assert "Sanitizer" not in said and "runtime error" not in said, said
    assert "ssert" not in said, said
    assert "\x1b" not in said, repr(said)
    return done


LOOKS = [("status", "n"), ("list",), ("why", "n"), ("status", "--json", "n"),
         ("list", "--json"), ("doctor",)]
CHANGES = [("try", "n"), ("run", "-w", "200ms", "n", "--", "true"),
           ("try", "other", "--", "true"), ("semaphore", "n"),
           ("latch", "n"), ("force-release", "--yes", "--reason", "x", "n")]


@pytest.mark.parametrize("seed", range(12))
def test_bytes_that_no_program_of_ours_wrote(mapped, seed):
    dice = random.Random(seed)
    assert mapped.run("try", "n").returncode == 0
    mapped.acquire("-t", "20s", "n")
    for _ in range(3):
        spoil(file_of(mapped), dice)
        for args in dice.sample(LOOKS, 2) + dice.sample(CHANGES, 2):
            is_told(mapped.run(*args, timeout=20))


@pytest.mark.parametrize("text", [b"not a lock file\n" * 1000, b"x"])
def test_a_file_that_is_no_lock_file_is_refused(mapped, text):
    with open(mapped.path("locks.db"), "wb") as file:
        file.write(text)
    os.chmod(mapped.path("locks.db"), 0o600)
    done = is_told(mapped.run("try", "n"))
    assert done.returncode == 78
    assert "locks.db is not a lock file of snib" in done.stderr
    with open(mapped.path("locks.db"), "rb") as file:
        assert file.read() == text


@pytest.mark.parametrize("size", [4096, 100_000, 1_500_000])
def test_a_torn_file_is_refused(mapped, size):
    assert mapped.run("try", "n").returncode == 0
    os.truncate(mapped.path("locks.db"), size)
    done = is_told(mapped.run("try", "n"))
    assert done.returncode == 78
    assert "locks.db is damaged (it was cut off)" in done.stderr


def test_a_claim_of_the_far_future_says_so_in_json(mapped):
    """Whatever the numbers are, what is printed is JSON."""
    mapped.hold("n")
    file = file_of(mapped)
    _, (claim,) = file.locks()["n"]
    file.number(claim + CLAIM_UNTIL_AT, 2 ** 63 - 1)
    done = is_told(mapped.run("status", "--json", "n"))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["held"] and said["holders"][0]["left_ms"] > 0, said
