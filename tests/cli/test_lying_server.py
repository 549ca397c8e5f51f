"""A Redis server that lies, against the command: a clean error in time, never
a crash, a hang, or a word of the server that a terminal would obey."""

import json
import re
import time

import pytest

from conftest import Snib, eventually
from harness.hostile import HostileRedis, clock_ms, granted, purpose, reply


@pytest.fixture
def lying(snib_bin, tmp_path):
    """lying(on={…}) is a Snib whose server answers so."""
    servers = []

    def start(on=None, **more):
        servers.append(HostileRedis(on=on, **more))
        made = Snib(snib_bin, servers[-1].url, str(tmp_path))
        made.server = servers[-1]
        return made
    yield start
    for server in servers:
        server.close()


def never_ending(first):
    def said(_):
        yield first
        while True:
            yield b"1" * 65536
    return said


NO_REPLIES = {
    "a line without end": never_ending(b":"),
    "an error without end": never_ending(b"-ERR "),
    "a list of a milliard": b"*1000000000\r\n",
    "a text of 2^63-1 bytes": b"$9223372036854775807\r\nabc",
    "a list 100,000 deep": b"*1\r\n" * 100_000,
    "a push of RESP3": b">3\r\n+message\r\n+b\r\n+c\r\n",
    "a map of RESP3": b"%1\r\n+a\r\n:1\r\n",
    "a list of -2": b"*-2\r\n",
    "nothing": b"$-1\r\n",
    "a web server": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "zeros": b"\0" * 4096,
}


def printable(text):
    return all(c == "\n" or 0x20 <= ord(c) < 0x7f for c in text)


def is_clean(done, seconds):
    assert done.returncode == 69, (done.returncode, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("snib: ") and printable(done.stderr)
    assert len(done.stderr) < 600
    assert seconds < 12


@pytest.mark.parametrize("said", NO_REPLIES.values(), ids=NO_REPLIES.keys())
@pytest.mark.parametrize("asked, args", [
    ("inspect", ("status", "n")), ("SCAN", ("list",))])
def test_what_is_no_reply_is_an_error_of_a_look(lying, said, asked, args):
    snib = lying({asked: said})
    began = time.monotonic()
    is_clean(snib.run(*args, timeout=30), time.monotonic() - began)
    assert asked in snib.server.heard


@pytest.mark.parametrize("what", [
    "a line without end", "a text of 2^63-1 bytes", "a push of RESP3",
    "nothing"])
def test_what_is_no_reply_is_no_grant(lying, what):
    snib = lying({"acquire": NO_REPLIES[what]})
    mark = snib.path("ran")
    began = time.monotonic()
    done = snib.run("try", "n", "--", "touch", mark, timeout=30)
    is_clean(done, time.monotonic() - began)
    with pytest.raises(FileNotFoundError):
        open(mark, encoding="utf-8").close()


@pytest.mark.parametrize("what", ["a line without end", "a web server"])
def test_a_greeting_that_is_none(lying, what):
    said = NO_REPLIES[what]
    snib = lying({"TIME": said, "HELLO": said})
    began = time.monotonic()
    is_clean(snib.run("try", "n", timeout=30), time.monotonic() - began)


def test_replies_in_threes_are_replies(lying):
    snib = lying(pieces=3)
    assert snib.run("try", "n", "--", "true").returncode == 0


def test_a_token_below_zero_is_no_grant(lying):
    is_clean(lying({"acquire": lambda c: granted(c, token=-5)})
             .run("try", "n", timeout=30), 0)


def test_a_token_of_more_than_53_bits_is_no_grant(lying):
    is_clean(lying({"acquire": lambda c: granted(c, token=2 ** 53)})
             .run("try", "n", timeout=30), 0)


def test_a_clock_at_the_end_of_time_hurts_nobody(lying):
    snib = lying({"acquire": lambda c: granted(c, clock=2 ** 63 - 1)})
    for _ in range(2):
        assert snib.run("try", "n", "--", "true").returncode == 0


def test_a_lease_longer_than_asked_is_not_believed(lying):
    snib = lying({"acquire": lambda c: granted(c, lease=990_000_000)})
    done = snib.run("run", "-t", "3s", "n", "--", snib.binary, "check",
                    "--json", "-m", "0")
    assert done.returncode == 0, done.stderr
    assert 0 < json.loads(done.stdout)["left_ms"] <= 3000


def test_a_place_in_a_queue_that_nobody_asked_for_is_no_answer(lying):
    snib = lying({"acquire": lambda _: reply([2, clock_ms(), 1, 0])})
    began = time.monotonic()
    is_clean(snib.run("try", "n", timeout=30), time.monotonic() - began)


@pytest.mark.parametrize("keys", [[], [b"snib:{a}"]], ids=["nothing", "one"])
def test_a_scan_without_end_ends(lying, keys):
    snib = lying({"SCAN": reply([b"17", keys])})
    began = time.monotonic()
    done = snib.run("list", timeout=60)
    assert done.returncode == 70 and done.stdout == ""
    assert "so many keys that a list of the locks was not complete" \
        in done.stderr
    assert 19 < time.monotonic() - began < 19 + 12


# -- answers that cannot be understood ------------------------------------------------

SHAPES = {"a text": reply("OK"), "no code of ours": reply([99, clock_ms()]),
          "too few": reply([1, clock_ms()]), "lists": reply([[1], [2]])}


@pytest.mark.parametrize("said", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize("args", [
    ("try", "n"), ("run", "-w", "2s", "n", "--", "true"),
    ("acquire", "-w", "2s", "n")], ids=lambda args: args[0])
def test_what_is_not_understood_is_repeated_calmly_and_told(lying, said, args):
    """It may have been applied: repeats, and a cancel at the end, settle it."""
    snib = lying({"acquire": said})
    began = time.monotonic()
    done = snib.run(*args, timeout=30)
    assert time.monotonic() - began < 12
    assert done.returncode == 69 and printable(done.stderr)
    assert "the server's answer is not one of our scripts'" in done.stderr
    assert "no answer" not in done.stderr
    assert 2 <= snib.server.heard.count("acquire") <= 20
    eventually(lambda: "cancel" in snib.server.heard)


def test_an_end_that_is_not_understood_is_repeated_calmly(lying):
    snib = lying({"release": reply("OK")})
    done = snib.run("run", "-t", "2s", "n", "--", "true", timeout=30)
    assert done.returncode in (0, 69), done.stderr
    assert 2 <= snib.server.heard.count("release") <= 30


def look_with(*holders, waiters=()):
    return lambda _: reply([clock_ms(), 5031, len(waiters) // 3,
                            list(holders), list(waiters), [-1, -1]])


LISTS = {"owner": look_with([1, 2], "x"), "record": look_with("abc", [1, 1]),
         "waiter": look_with(waiters=("r", str(clock_ms() + 3000), [1, 1]))}


@pytest.mark.parametrize("said", LISTS.values(), ids=LISTS.keys())
def test_lists_where_texts_are_due(lying, said):
    done = lying({"inspect": said}).run("status", "n", timeout=30)
    is_clean(done, 0)
    assert "not one of our scripts'" in done.stderr


# -- words for terminals ------------------------------------------------------------

# ESC, OSC, C1 (as one character and as one byte), right-to-left, a new line.
WORDS = ["\x1b[31mred", "\x1b]0;title\x07", "\u009b31m", "\u202egnp.exe",
         "two\nlines", "\x7f", "\x1b[2J\x1b[H"]
HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def about_of(word):
    code = "".join("%%%02X" % b for b in word.encode())
    return "&".join(f"{key}={code}"
                    for key in ("host", "user", "program", "reason"))


def holder_record(word):
    return "%032x %d %d 0 1 1 31 %s" % (7, 5000, clock_ms() + 20_000,
                                       about_of(word))


def waiter_record(word):
    return "%032x snib:abc 1 1 30000 0 0 0 1 %s" % (9, about_of(word))


@pytest.mark.parametrize("word", WORDS, ids=repr)
@pytest.mark.parametrize("args", [("status", "n"), ("list",), ("why", "n")])
def test_words_of_others_are_no_commands_to_a_terminal(lying, word, args):
    snib = lying({
        "inspect": look_with("%032x" % 5, holder_record(word), waiters=(
            "%032x" % 8, str(clock_ms() + 3000), waiter_record(word))),
        "SCAN": reply([b"0", [b"snib:{n}"]]),
        "terms": reply([1, clock_ms(), -1, 1, -1, 0])})
    done = snib.run(*args, timeout=30)
    assert done.returncode == 0, done.stderr
    assert not HARMFUL.search(done.stdout), repr(done.stdout)
    assert done.stdout.count("\n") == len(done.stdout.splitlines())


@pytest.mark.parametrize("word", WORDS, ids=repr)
def test_error_texts_of_a_server_are_printable(lying, word):
    error = "ERR " + word.replace("\n", "\r") + " end"
    for asked, args in (("inspect", ("status", "n")), ("TIME", ("try", "n"))):
        done = lying({asked: b"-" + error.encode() + b"\r\n"}).run(*args)
        assert done.returncode == 69
        assert printable(done.stderr), repr(done.stderr)


def test_doctor_shows_a_servers_words_in_printable_characters(lying):
    evil = "\x1b[31m"
    snib = lying({
        "INFO": reply(f"redis_version:7{evil}\r\nrole:{evil}\r\n"),
        "CONFIG": reply(["maxmemory-policy", "all" + evil]),
        "probe": reply([["EVAL" + evil, "NOPERM " + evil], 0])})
    done = snib.run("doctor", timeout=30)
    assert "maxmemory-policy is all" in done.stdout
    assert not HARMFUL.search(done.stdout + done.stderr), repr(done.stdout)


def test_what_is_asked_is_told_apart():
    """The hostile server itself: what a script is for, by its shape."""
    script = [b"EVALSHA", b"x" * 40]
    assert purpose(script + [b"7"] + [b""] * 23) == "acquire"
    assert purpose(script + [b"2"] + [b""] * 6) == "renew"
    assert purpose([b"scan", b"0"]) == "SCAN"
