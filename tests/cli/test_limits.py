"""A wait ends at its limit, whatever the store does meanwhile, and says which
of the two it was: the lock or the store."""

import re
import signal
import subprocess
import time

import pytest

from conftest import eventually, keeper_of, slack, stat_of

DEAD = {"SNIB_URL": "redis://127.0.0.1:1"}


def timed(snib, *args, **more):
    began = time.monotonic()
    done = snib.run(*args, **more)
    return done, time.monotonic() - began


@pytest.mark.parametrize("quiet", [(), ("-q",), ("--no-progress",)], ids=str)
@pytest.mark.parametrize("args", [
    ("run", "-w", "500ms", "a", "--", "true"), ("acquire", "-w", "500ms", "a"),
    ("wait", "-w", "500ms", "a")], ids=lambda a: a[0])
def test_nothing_listens(mapped, args, quiet):
    done, took = timed(mapped, args[0], *quiet, *args[1:], env=DEAD)
    assert done.returncode == 69, done.stderr
    assert took < 0.5 + slack()
    assert "onnection refused" in done.stderr


def in_the_queue(redis, limit, *options):
    """A run that waits behind another; it and the time it began."""
    redis.hold("a", "-t", "1m")
    began = time.monotonic()
    p = redis.start("run", "-w", "%ds" % limit, *options, "a", "--", "true")
    eventually(lambda: redis.waiters("a") == 1, "in the queue")
    return p, began


def break_off(redis, how):
    server = redis.server
    if how == "killed":
        server.kill()
    elif how == "frozen":
        server.freeze()
    elif how == "read-only":
        server.command("REPLICAOF", "127.0.0.1", "1")


@pytest.mark.parametrize("quiet", [(), ("-q",)], ids=str)
@pytest.mark.parametrize("how", ["killed", "frozen", "read-only"])
def test_the_store_goes_while_it_waits(redis, how, quiet):
    limit = 4 if how == "frozen" else 2  # a request is given up after 2 s
    p, began = in_the_queue(redis, limit, *quiet)
    break_off(redis, how)
    _, said = p.communicate(timeout=30)
    took = time.monotonic() - began
    assert took < limit + slack(), said
    assert p.returncode == 69, said
    assert "not acquired within the wait limit" not in said
    last = said.splitlines()[-1]
    assert re.match(r"snib: a: redis://\S+ (unreachable|not usable) for ", last)


def test_the_waiting_line_of_a_store_that_is_away(redis):
    redis.hold("a", "-t", "1m")
    p = redis.start("run", "a", "--", "true")
    line = p.stderr.readline()
    assert line.startswith("a: held by ")
    redis.server.kill()
    line = p.stderr.readline()
    assert re.match(r"a: redis://\S+ unreachable for \S+ \(.+\); waiting$",
                    line), line
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == 130


def test_the_waiting_line_before_the_first_connection(mapped):
    for sub in (("run", "a", "--", "true"), ("wait", "a")):
        p = mapped.start(*sub, env=DEAD)
        line = p.stderr.readline()
        assert re.match(r"a: redis://127.0.0.1:1 unreachable for \S+ "
                        r"\(connection refused\); waiting$", line), line
        p.send_signal(signal.SIGINT)
        assert p.wait(20) == (130 if sub[0] == "run" else -signal.SIGINT)


@pytest.mark.parametrize("args", [("run", "a", "--", "true"), ("wait", "a"),
                                  ("acquire", "a")], ids=lambda a: a[0])
def test_a_store_that_comes_later_is_waited_for(redis, args):
    redis.server.stop()
    p = redis.start(*args)
    assert "unreachable for" in p.stderr.readline()
    redis.server.start()
    out, said = p.communicate(timeout=30)
    assert p.returncode == 0, said
    if args[0] == "acquire":
        redis.keepers.append(int(out.split(":")[2].split(".")[0]))


@pytest.mark.parametrize("args", [
    ("run", "a", "--", "true"), ("wait", "a"), ("acquire", "a"), ("try", "a"),
    ("run", "-w", "0", "a", "--", "true")], ids=" ".join)
def test_a_refused_login_ends_at_once(redis, args):
    redis.server.command("CONFIG", "SET", "requirepass", "geheim")
    done, took = timed(redis, *args)
    assert done.returncode == 77, done.stderr
    assert took < slack() + 0.5


def at(moment):
    eventually(lambda: time.monotonic() >= moment)


@pytest.mark.parametrize("quiet", [(), ("-q",)], ids=str)
@pytest.mark.parametrize("sig", [None, signal.SIGINT, signal.SIGTERM], ids=str)
def test_what_a_stalled_store_grants_after_the_wait_is_given_back(
        redis, sig, quiet):
    """A request that the server has not read yet when it stalls is executed
    when it goes on: after the end of the lease, and of the wait."""
    done = redis.run("acquire", "-q", "--detached", "-t", "3s", "a")
    assert done.returncode == 0, done.stderr
    began = time.monotonic()
    p = redis.start("run", *quiet, *(("-w", "3s") if sig is None else ()),
                    "-t", "10m", "a", "--", "echo", "got")
    eventually(lambda: redis.waiters("a") == 1, "in the queue")
    at(began + 2)
    redis.server.freeze()
    if sig is not None:
        at(began + 3.6)
        p.send_signal(sig)
    asked = time.monotonic()
    out, said = p.communicate(timeout=30)
    ended = time.monotonic()
    at(began + 3.8)
    redis.server.thaw()
    if sig is None:
        assert ended - began < 3 + slack(), said
        assert p.returncode in (69, 75), said
    else:
        assert ended - asked < slack(), said
        assert p.returncode == 128 + sig, said
    assert out == ""
    done = redis.run("run", "-q", "-w", "9s", "a", "--", "echo", "mine")
    assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr


def test_a_store_that_was_never_there_keeps_no_process(mapped):
    p = mapped.start("run", "-q", "-w", "500ms", "a", "--", "true", env=DEAD)
    keeper = eventually(lambda: keeper_of(p.pid), "a keeper")
    assert p.wait(20) == 69
    assert stat_of(keeper) is None


# -- what waits otherwise: for a latch, for a barrier ---------------------------------

PASSING = [("latch", "--await", "a"), ("barrier", "-n", "2", "a")]


@pytest.mark.parametrize("args", PASSING, ids=lambda a: a[0])
def test_a_wait_to_pass_shows_that_the_store_is_away(redis, args):
    assert redis.run("latch", "-q", "--set", "1", "a").returncode == 0
    p = redis.start(*args)
    line = p.stderr.readline()
    assert line.startswith("a: a closed latch, 1 step to go"), line
    redis.server.kill()
    line = p.stderr.readline()
    assert re.match(r"a: redis://\S+ unreachable for \S+ \(.+\); waiting$",
                    line), line
    p.send_signal(signal.SIGINT)
    assert p.wait(20) == 130


@pytest.mark.parametrize("quiet", [(), ("-q",)], ids=str)
@pytest.mark.parametrize("args", PASSING, ids=lambda a: a[0])
def test_a_store_that_goes_while_it_waits_to_pass_is_the_cause(redis, args,
                                                               quiet):
    assert redis.run("latch", "-q", "--set", "1", "a").returncode == 0
    began = time.monotonic()
    p = redis.start(*args, "-w", "2s", *quiet)
    eventually(lambda: redis.waiters("a") == 1)
    redis.server.kill()
    _, said = p.communicate(timeout=30)
    assert p.returncode == 69, said
    assert time.monotonic() - began < 2 + slack()
    assert re.match(r"snib: a: redis://\S+ unreachable for ",
                    said.splitlines()[-1]), said


@pytest.fixture
def stand_in_the_way(redis):
    """stand_in_the_way(how): the server answers nobody, or everybody with BUSY."""
    calls = []

    def begin(how):
        if how == "frozen":
            redis.server.freeze()
            return
        redis.server.command("CONFIG", "SET", "busy-reply-threshold", "50")
        calls.append(subprocess.Popen(
            ["redis-cli", "-p", str(redis.server.port), "eval",
             "while true do end", "0"], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL))
        eventually(lambda: "BUSY" in subprocess.run(
            ["redis-cli", "-p", str(redis.server.port), "get", "x"],
            capture_output=True, text=True, timeout=20).stdout, "it is busy")
    yield begin
    redis.server.thaw()
    if calls:
        subprocess.run(["redis-cli", "-p", str(redis.server.port), "script",
                        "kill"], stdout=subprocess.DEVNULL, timeout=20)
    for p in calls:
        p.wait(20)


@pytest.mark.parametrize("more", [(), ("--busy-ok",)], ids=str)
@pytest.mark.parametrize("how", ["frozen", "busy"])
@pytest.mark.parametrize("args", PASSING, ids=lambda a: a[0])
def test_a_wait_to_pass_ends_at_its_limit_without_the_store(
        redis, stand_in_the_way, args, how, more):
    assert redis.run("latch", "-q", "--set", "1", "a").returncode == 0
    began = time.monotonic()
    p = redis.start(*args, "-q", "-w", "3s", *more)
    eventually(lambda: redis.waiters("a") == 1)
    at(began + 1)
    stand_in_the_way(how)  # processes, too: on a crowded machine they take long
    assert time.monotonic() - began < 2.8, "too late to say anything"
    _, said = p.communicate(timeout=30)
    assert time.monotonic() - began < 3 + slack(), said
    if how == "busy":
        assert p.returncode == 69, said
    assert p.returncode in (69, 0 if more else 75), said
    assert p.returncode == 0 or said.startswith("snib: a: "), said


@pytest.mark.parametrize("how", ["frozen", "busy"])
@pytest.mark.parametrize("args", PASSING, ids=lambda a: a[0])
def test_a_wait_to_pass_ends_by_a_signal_without_the_store(
        redis, stand_in_the_way, args, how):
    assert redis.run("latch", "-q", "--set", "1", "a").returncode == 0
    p = redis.start(*args, "-q")
    eventually(lambda: redis.waiters("a") == 1)
    stand_in_the_way(how)
    began = time.monotonic()
    p.send_signal(signal.SIGTERM)
    assert p.wait(20) == 143
    assert time.monotonic() - began < slack()


# -- wait, and several names --------------------------------------------------------


@pytest.mark.parametrize("how", ["frozen", "busy"])
def test_wait_waits_for_a_store_that_does_not_answer(redis, stand_in_the_way,
                                                     how):
    redis.hold("a", "-t", "1m")
    began = time.monotonic()
    p = redis.start("wait", "-w", "4s", "a")
    assert p.stderr.readline().startswith("a: held by ")
    stand_in_the_way(how)
    _, said = p.communicate(timeout=30)
    took = time.monotonic() - began
    assert 4 <= took < 4 + slack(), (took, said)
    assert p.returncode == 69, said
    last = said.splitlines()[-1]
    assert re.match(r"snib: a: redis://\S+ (unreachable|not usable) for ", last)


def test_wait_goes_on_when_a_silent_store_answers_again(redis):
    p = redis.hold("a", "-t", "1m")
    waits = redis.start("wait", "a")
    assert waits.stderr.readline().startswith("a: held by ")
    redis.server.freeze()
    assert "; waiting" in waits.stderr.readline()
    redis.server.thaw()
    p.send_signal(signal.SIGTERM)
    assert p.wait(20) == 143
    _, said = waits.communicate(timeout=30)
    assert waits.returncode == 0, said


@pytest.mark.parametrize("quiet", [(), ("-q",)], ids=str)
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_the_store_goes_while_it_waits_for_several(redis, how, quiet):
    limit = 4 if how == "frozen" else 2
    redis.hold("b", "-t", "1m")
    began = time.monotonic()
    p = redis.start("run", "-w", "%ds" % limit, *quiet, "a", "b", "--", "true")
    eventually(lambda: redis.waiters("b") == 1, "in the queue")
    break_off(redis, how)
    _, said = p.communicate(timeout=30)
    assert time.monotonic() - began < limit + slack(), said
    assert p.returncode == 69, said
    assert re.match(r"snib: b: redis://\S+ unreachable for ",
                    said.splitlines()[-1]), said


@pytest.mark.parametrize("left", [0.05, 0.3])
def test_a_store_falls_silent_just_before_the_limit(redis, left):
    """Nobody can say who holds it, nor twice that it was not acquired."""
    p, began = in_the_queue(redis, 2)
    at(began + 2 - left)
    redis.server.freeze()
    _, said = p.communicate(timeout=30)
    redis.server.thaw()
    assert p.returncode in (69, 75), said
    last = said.splitlines()[-1]
    assert last.startswith("snib: a: ") and last.count("not acquired") <= 1, last


@pytest.mark.parametrize("left", [0.3, 0.8])
def test_a_store_falls_silent_just_before_the_limit_of_several(redis, left):
    """Before the library can know. a is ours: b is what was not to be had."""
    redis.hold("b", "-t", "1m")
    began = time.monotonic()
    p = redis.start("run", "-w", "2s", "a", "b", "--", "echo", "got")
    eventually(lambda: redis.waiters("b") == 1, "in the queue")
    at(began + 2 - left)
    redis.server.freeze()
    out, said = p.communicate(timeout=30)
    took = time.monotonic() - began
    redis.server.thaw()
    assert out == "" and p.returncode in (69, 75), said
    last = said.splitlines()[-1]
    assert last.startswith("snib: b: "), said
    assert took < 2 + slack(), (took, said)
    again = redis.run("run", "-w", "20s", "a", "--", "echo", "mine")
    assert (again.returncode, again.stdout) == (0, "mine\n"), again.stderr
