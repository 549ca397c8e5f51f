"""What snib run says of a lock that is at risk or lost: the cause, in words."""

import json
import os
import pty

import pytest

from conftest import read_all, read_pid
from harness.fault_proxy import FaultProxy
from harness.pulse import late_ms


def lines(text):
    """The words, and the cause in the status line."""
    at = text.index("{")
    return text[:at], json.loads(text[at:]).get("cause")


def hold(store, *options):
    mark = store.path("pid")
    p = store.start("run", "--status-fd", "2", *options, "a", "--", "sh", "-c",
                    'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 1000',
                    mark)
    p.command = read_pid(mark)
    return p


def test_a_dead_server_is_the_cause_not_the_lease(redis):
    p = hold(redis, "-t", "3s", "--grace", "100ms")
    redis.server.stop()
    assert p.wait(20) == 76
    words, cause = lines(p.stderr.read())
    assert cause == "unreachable"
    assert "a: at risk (" in words
    assert words.index("efused); the lease still runs") < words.index(
        "a: lock lost (unreachable: "), words


def test_a_server_that_does_not_answer_is_the_cause(redis):
    # With the default grace the holder had 0.3 s to tell of the risk before the
    # command was stopped: not enough for a busy machine. Now it has 1.2 s.
    p = hold(redis, "-t", "3s", "--grace", "100ms")
    redis.server.freeze()
    assert p.wait(20) == 76
    redis.server.thaw()
    words, cause = lines(p.stderr.read())
    assert cause == "unreachable"
    assert "a: at risk (" in words
    assert "a: lock lost (unreachable: " in words


def test_who_revoked_it_and_why_is_told(store):
    p = hold(store, "-t", "3s")
    done = store.run("force-release", "--yes", "--reason", "release 4.2 is bad",
                     "a")
    assert done.returncode == 0, done.stderr
    assert p.wait(20) == 76
    words, cause = lines(p.stderr.read())
    assert cause == "revoked"
    assert "a: lock lost (revoked by " in words, words
    assert "release 4.2 is bad); the command is stopped" in words


def test_a_server_that_forgot_is_the_cause_not_the_lease(redis):
    """It ends between two renewals: only the release hears of that."""
    p = redis.run("run", "--status-fd", "2", "a", "--", "redis-cli", "-p",
                  str(redis.server.port), "flushall")
    assert p.returncode == 76
    words, cause = lines(p.stderr)
    assert cause == "stolen"
    assert words == ("snib: a: lock lost (stolen: the store does not know the "
                     "grant any more)\n")


def test_a_server_that_forgot_and_is_used_with_recovery(redis):
    """Nobody was let in since: so nobody has stolen it."""
    url = redis.server.url + "?recovery=2s"
    assert redis.run("store", "ready", "--yes", url).returncode == 0
    p = redis.run("run", "-s", url, "-t", "2s", "--status-fd", "2", "a", "--",
                  "redis-cli", "-p", str(redis.server.port), "flushall")
    assert p.returncode == 76, p.stderr
    words, cause = lines(p.stderr)
    assert cause == "forgotten"
    assert words == ("snib: a: lock lost (forgotten: the store does not know "
                     "the grant any more, and may have lost its data)\n")


def test_several_names_of_a_server_that_forgot(redis):
    p = redis.run("run", "--status-fd", "2", "a", "b", "--", "redis-cli", "-p",
                  str(redis.server.port), "flushall")
    assert p.returncode == 76
    words, cause = lines(p.stderr)
    assert cause == "stolen"
    assert "lock lost (stolen: the store does not know the grant" in words


def test_who_held_nothing_is_told_no_token(mapped):
    mapped.hold("a")
    done = mapped.run("run", "-v", "-w", "0", "a", "--", "true")
    assert done.returncode == 75
    assert "exit 75 by snib (" in done.stderr
    assert "), no token, waited " in done.stderr


# -- quiet: what went wrong is told all the same -----------------------------------

@pytest.mark.parametrize("args", [
    ("run", "-w", "0", "a", "--", "true"),
    ("run", "-w", "1s", "a", "--", "true"),
    ("run", "-w", "1s", "b", "a", "--", "true"),
    ("try", "a", "--", "true"), ("acquire", "-w", "1s", "a"),
    ("elect", "--once", "-w", "1s", "a", "--", "true")], ids=" ".join)
def test_quiet_tells_that_nothing_ran(store, args):
    """A job that was left out is what a mail of cron is for."""
    store.hold("a", "--reason", "release 4.2")
    done = store.run(args[0], "-q", *args[1:])
    assert (done.returncode, done.stdout) == (75, "")
    assert done.stderr.count("\n") == 1
    if "1s" in args and done.stderr.startswith(
            "snib: a: not acquired within the wait limit") and late_ms() > 60:
        return  # who holds is said if the store tells within 100 ms
    assert done.stderr.startswith("snib: a: not acquired: held by ")
    assert '"release 4.2"' in done.stderr


@pytest.mark.parametrize("args", [
    ("run", "-w", "0", "a", "--", "true"), ("try", "a", "--", "true"),
    ("try", "a")], ids=" ".join)
def test_a_single_attempt_at_a_server_far_away_says_who_holds(redis, args):
    redis.hold("a", "--reason", "release 4.2")
    with FaultProxy(redis.server.address) as proxy:
        proxy.delay_reply(0.12)
        done = redis.run(*args, env={
            "SNIB_URL": "redis://127.0.0.1:%d" % proxy.address[1]})
    assert done.returncode == 75, done.stderr
    assert '"release 4.2"' in done.stderr


@pytest.mark.parametrize("args", [("run", "-w", "0", "--busy-ok", "a", "true"),
                                  ("try", "--busy-ok", "a", "true")],
                         ids=" ".join)
def test_busy_ok_is_silent(mapped, args):
    mapped.hold("a")
    for quiet in ((), ("-q",)):
        done = mapped.run(args[0], *quiet, *args[1:])
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("args, code", [
    (("latch", "--await", "-w", "200ms", "l"), 75),
    (("barrier", "-n", "2", "-w", "200ms", "b"), 75)], ids=lambda a: str(a))
def test_quiet_tells_that_it_did_not_come_to_that(mapped, args, code):
    assert mapped.run("latch", "-q", "--set", "2", "l").returncode == 0
    done = mapped.run(args[0], "-q", *args[1:])
    assert done.returncode == code
    assert "not passed in time" in done.stderr


def test_quiet_leaves_the_answer_of_a_question_to_the_status(mapped):
    """As grep -q does."""
    mapped.hold("a")
    for args, code in ((("try", "a"), 75), (("wait", "-w", "0", "a"), 75),
                       (("check", "-m", "1h"), 76)):
        env = {"SNIB_HELD": "a=0.0123456789abcdef"}
        done = mapped.run(args[0], "-q", *args[1:], env=env)
        assert (done.returncode, done.stderr) == (code, ""), args


@pytest.mark.parametrize("sub", ["release", "renew"])
def test_quiet_tells_of_a_grant_that_is_no_more(mapped, sub):
    grant = mapped.acquire("a").stdout.strip()
    assert mapped.run("release", grant).returncode == 0
    done = mapped.run(sub, "-q", grant)
    assert done.returncode == 76
    assert done.stderr.startswith("snib: a: the grant had ended before, says ")


@pytest.mark.parametrize("size, options, told", [
    (128, (), False), (129, (), True), (300, ("-q",), False)])
def test_a_reason_that_others_will_not_see_whole_is_told(
        mapped, size, options, told):
    """To a person: a script was tried before."""
    ours, terminal = pty.openpty()
    run = mapped.start("run", *options, "--reason", "x" * size, "a", "--",
                       "true", stderr=terminal)
    os.close(terminal)
    assert run.wait(30) == 0
    said = read_all(ours).decode()
    os.close(ours)
    assert (f"its first 128 bytes of {size}" in said) is told, said
    done = mapped.run("run", "--reason", "x" * size, "a", "--", "true")
    assert (done.returncode, done.stderr) == (0, "")
