"""Each command with each exit status that its manual page lists.

Which of them a case shows stands in tests/told.tsv; the parameters are read
from there, so that a line of the list is a run of the command."""

import os
import re
import signal
import subprocess

import pytest

from conftest import Snib, eventually, kill, keeper_of
from harness.redis_server import RedisServer, redis_missing
from harness.shim import Shim, build_shim

HERE = os.path.dirname(os.path.abspath(__file__))
GRANT = "snib1:" + "0" * 32 + ":" + "0" * 32 + ":1"


def rows(case):
    """(command, status) of the lines of that case."""
    with open(os.path.join(HERE, "..", "told.tsv"), encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    found = [(row[0].split(" ", 1)[1], row[1]) for row in lines
             if row[2:] == ["cli.told", case]]
    assert found, case
    return found


def shows(function):
    """One run for each line of the function's."""
    return pytest.mark.parametrize(
        "command, status", rows(function.__name__))(function)


# A call of each that does its work on a store where nobody holds anything.
CALLS = {
    "acquire": ["-q", "--detached", "-t", "1m", "-w", "0", "a"],
    "barrier": ["-w", "2s", "-n", "1", "a"],
    "check": ["GRANT"],
    "deadlocks": [],
    "doctor": [],
    "elect": ["-q", "-w", "0", "--once", "a", "--", "true"],
    "force-release": ["--yes", "--reason", "told", "a"],
    "help": [],
    "latch": ["a"],
    "list": [],
    "release": ["GRANT"],
    "renew": ["GRANT"],
    "run": ["-q", "-w", "0", "a", "--", "true"],
    "semaphore": ["a"],
    "status": ["a"],
    "try": ["-q", "a"],
    "version": [],
    "wait": ["-w", "0", "a"],
    "why": ["a"],
}


def call(snib, command, *options, grant=GRANT, env=None, **more):
    args = [grant if a == "GRANT" else a for a in CALLS[command]]
    return snib.run(command, *options, *args, env=env, **more)


def printed_in_vain(snib, command, *options, grant=GRANT):
    """call(), with a standard output that takes nothing."""
    with open("/dev/full", "w") as full:
        args = [grant if a == "GRANT" else a for a in CALLS[command]]
        p = snib.start(command, *options, *args, stdout=full)
        _, said = p.communicate(timeout=30)
    return subprocess.CompletedProcess(p.args, p.returncode, "", said)


def without_a_thread(snib, command, library, grant=GRANT):
    """call(), and its first thread cannot be started."""
    shim = Shim(library, os.path.join(snib.tmp, "words"))
    try:
        shim.fail_at(1, "pthread_create")
        return call(snib, command, grant=grant, env=shim.env)
    finally:
        shim.close()


def left_behind(snib):
    done = snib.run("acquire", "-q", "--detached", "-t", "1m", "a")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def says(done, status, *words):
    assert done.returncode == int(status), done
    assert all(word in done.stderr for word in words), done.stderr


@shows
def test_what_is_done_is_0(mapped, command, status):
    grant = left_behind(mapped) if "GRANT" in CALLS[command] else GRANT
    says(call(mapped, command, grant=grant), status)


@shows
def test_a_strange_option_is_64(mapped, command, status):
    says(call(mapped, command, "--no-such-option"), status, "--no-such-option")


@shows
def test_a_store_that_is_away_is_69(redis, command, status):
    grant = left_behind(redis) if "GRANT" in CALLS[command] else GRANT
    says(call(redis, command, grant=grant,
              env={"SNIB_URL": "redis://127.0.0.1:1"}), status, "snib: ")


@pytest.fixture(scope="module")
def locked():
    """A server that asks for a login."""
    if redis_missing():
        pytest.skip(redis_missing())
    with RedisServer(["requirepass geheim"]) as server:
        yield server


def without_a_login(server, binary, tmp, command):
    """call(), at a server that asks for a login; nothing stays there."""
    url = server.url.replace("//", "//:geheim@", 1)
    snib = Snib(binary, url, str(tmp))
    grant = left_behind(snib) if "GRANT" in CALLS[command] else GRANT
    done = call(snib, command, grant=grant, env={"SNIB_URL": server.url})
    assert call(snib, "force-release").returncode == 0
    return done


@shows
def test_a_refused_login_is_77(locked, snib_bin, tmp_path, command, status):
    says(without_a_login(locked, snib_bin, tmp_path, command), status,
         "NOAUTH")


@shows
def test_a_store_that_cannot_be_is_78(mapped, command, status):
    grant = left_behind(mapped) if "GRANT" in CALLS[command] else GRANT
    done = call(mapped, command, grant=grant, env={
        "SNIB_URL": "file:/dev/null/locks.db"})
    assert done.returncode == int(status), done
    assert "/dev/null" in done.stdout + done.stderr


IN_TIME = {
    "acquire": ["acquire", "-q", "-w", "0", "a"],
    "barrier": ["barrier", "-w", "50ms", "-n", "2", "b"],
    "elect": CALLS["elect"],
    "latch": ["latch", "--await", "-w", "0", "c"],
    "run": CALLS["run"],
    "try": CALLS["try"],
    "wait": CALLS["wait"],
}


@shows
def test_not_in_time_is_75(mapped, command, status):
    mapped.hold("a")
    assert mapped.run("latch", "--set", "1", "c").returncode == 0
    args = IN_TIME[command]
    args = args if args[0] == command else [command, *args]
    says(mapped.run(*args), status)


@shows
def test_a_command_whose_lock_is_lost_is_76(mapped, command, status):
    mark = mapped.path("runs")
    args = {"elect": ["elect", "-q", "--once"], "run": ["run", "-q"],
            "try": ["try", "-q"]}[command]
    p = mapped.start(*args, "a", "--", "sh", "-c",
                     'touch "$0"; exec sleep 1000', mark)
    eventually(lambda: os.path.exists(mark))
    assert call(mapped, "force-release").returncode == 0
    assert p.wait(30) == int(status)


@shows
def test_a_grant_that_was_ended_is_76(mapped, command, status):
    grant = left_behind(mapped)
    assert call(mapped, "force-release").returncode == 0
    says(call(mapped, command, grant=grant), status)


@pytest.fixture(scope="module")
def shim_library(tmp_path_factory):
    return build_shim(tmp_path_factory.mktemp("shim"))


@shows
def test_what_cannot_begin_is_70(mapped, shim_library, command, status):
    """No timer: the command's end before the lease's hangs on it."""
    shim = Shim(shim_library, os.path.join(mapped.tmp, "words"))
    try:
        shim.fail_at(1, "timerfd_create")
        mark = mapped.path("ran")
        done = mapped.run(command, "-q", "a", "--", "touch", mark,
                          env=shim.env)
        assert shim.failed() == "timerfd_create"
        says(done, status, "cannot")
        assert not os.path.exists(mark)
    finally:
        shim.close()


# To something that each of these prints.
PRINTS = {"check": ["--json"], "renew": ["--json"],
          "force-release": ["--help"]}


@shows
def test_what_cannot_be_printed_is_70(mapped, command, status):
    grant = left_behind(mapped)
    says(printed_in_vain(mapped, command, *PRINTS.get(command, []),
                         grant=grant), status, "cannot write to stdout")


@shows
def test_a_client_that_cannot_begin_is_70(mapped, shim_library, command,
                                          status):
    grant = left_behind(mapped) if "GRANT" in CALLS[command] else GRANT
    says(without_a_thread(mapped, command, shim_library, grant), status,
         "snib: ")


@shows
def test_a_grant_that_cannot_be_written_is_70(mapped, command, status):
    with open("/dev/full", "w") as full:
        p = mapped.start(command, *CALLS[command], stdout=full)
        assert p.wait(20) == int(status)
    eventually(lambda: not mapped.held("a"))


@shows
def test_a_command_that_is_none_is_told(mapped, command, status):
    path = mapped.path("plain")
    with open(path, "w") as file:
        file.write("text\n")
    args = ["--once"] if command == "elect" else []
    says(mapped.run(command, "-q", *args, "a", "--",
                    "/no/such" if status == "127" else path), status)


WAITS = {
    "acquire": ["acquire", "-q", "a"],
    "barrier": ["barrier", "-n", "2", "a"],
    "latch": ["latch", "--await", "a"],
    "run": ["run", "-q", "a", "--", "true"],
    "elect": ["elect", "-q", "a", "--", "true"],
    "wait": ["wait", "a"],
}


@shows
def test_a_signal_while_waiting_is_128_and_its_number(mapped, command, status):
    if command == "latch":
        assert mapped.run("latch", "--set", "1", "a").returncode == 0
    elif command != "barrier":
        mapped.hold("a")
    p = mapped.start(*WAITS[command])
    # `snib wait` stands in no queue, and dies of the signal: a shell says 128+N.
    eventually(lambda: command == "wait" or mapped.waiters("a") == 1)
    kill(p.pid, signal.SIGTERM)
    assert status == "128+N"
    assert p.wait(20) == (-signal.SIGTERM if command == "wait"
                          else 128 + signal.SIGTERM), p.stderr.read()


@shows
def test_a_command_killed_by_a_signal_is_128_and_its_number(
        mapped, command, status):
    args = ["--once"] if command == "elect" else []
    done = mapped.run(command, "-q", *args, "a", "--", "sh", "-c",
                      "kill -KILL $$")
    assert status == "128+N" and done.returncode == 128 + signal.SIGKILL


@shows
def test_a_keeper_killed_while_it_waits_is_70(mapped, command, status):
    mapped.hold("a")
    p = mapped.start(*WAITS[command])
    eventually(lambda: mapped.waiters("a") == 1)
    kill(eventually(lambda: keeper_of(p.pid)), signal.SIGKILL)
    assert p.wait(20) == int(status)


# -- and no other ------------------------------------------------------------------


def listed(command):
    """The exit statuses of its manual page; 0 is the command's own, where a
    command is run."""
    path = os.path.join(HERE, "../../docs/man/snib-%s.1" % command)
    with open(path, encoding="utf-8") as file:
        part = file.read().partition(".Sh EXIT STATUS\n")[2]
    part = part.partition("\n.Sh ")[0]
    own = ["0"] if "the command's own" in part else []
    return own + re.findall(r"^\.It (\S+)$", part, re.M)


AWAY = {"SNIB_URL": "redis://127.0.0.1:1"}
NOWHERE = {"SNIB_URL": "file:/dev/null/locks.db"}
TROUBLES = {
    "none": lambda snib, command, grant, _:
        call(snib, command, grant=grant),
    "strange": lambda snib, command, grant, _:
        call(snib, command, "--no-such-option", grant=grant),
    "away": lambda snib, command, grant, _:
        call(snib, command, grant=grant, env=AWAY),
    "nowhere": lambda snib, command, grant, _:
        call(snib, command, grant=grant, env=NOWHERE),
    "unprinted": lambda snib, command, grant, _:
        printed_in_vain(snib, command, grant=grant),
    "unprinted help": lambda snib, command, grant, _:
        printed_in_vain(snib, command, "--help", grant=grant),
    "no thread": lambda snib, command, grant, library:
        without_a_thread(snib, command, library, grant),
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("command", CALLS)
def test_a_status_that_comes_is_in_the_manual_page(mapped, shim_library,
                                                   command, trouble):
    grant = left_behind(mapped) if "GRANT" in CALLS[command] else GRANT
    done = TROUBLES[trouble](mapped, command, grant, shim_library)
    assert str(done.returncode) in listed(command), done


@pytest.mark.parametrize("command", CALLS)
def test_a_refused_login_is_in_the_manual_page(locked, snib_bin, tmp_path,
                                               command):
    done = without_a_login(locked, snib_bin, tmp_path, command)
    assert str(done.returncode) in listed(command), done
