"""Servers that are not there, without one being run: one that takes a connection
and never says a word, a host that nobody knows, a port that nobody listens at.
A limit is kept to, the answer is "unreachable", and no process stays behind."""

import os
import socket
import time

import pytest

from conftest import Snib, eventually, slack

URLS = {
    "postgres": "postgres://u@{}/x?tls=no",
    "mysql": "mysql://u@{}/x?tls=no",
    "redis": "redis://{}",
    "etcd": "etcd://{}",
    "zookeeper": "zookeeper://{}",
    "rabbitmq": "amqp://{}",
}
NOWHERE = "no-such-host.invalid"


@pytest.fixture(params=URLS)
def at(request, snib_bin, tmp_path):
    """at(where) is snib with a store there."""
    made = []

    def of(where):
        url = URLS[request.param].format(where)
        made.append(Snib(snib_bin, url, str(tmp_path)))
        return made[-1]
    done = of("127.0.0.1:1").run("try", "n")
    if done.returncode == 78:
        pytest.skip(f"{request.param} is not in this build")
    yield of
    for one in made:
        one.end()


@pytest.fixture
def silent():
    """HOST:PORT where the kernel takes connections and nobody looks at them."""
    with socket.create_server(("127.0.0.1", 0)) as ear:
        yield "127.0.0.1:%d" % ear.getsockname()[1]


def processes_with(words):
    """Those that have this in their environment."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if entry.isdigit() and words.encode() in file.read():
                    found.append(int(entry))
        except (OSError, ValueError):
            continue
    return found


LIMITS = [["-w", "300ms"], ["-w", "1s"], ["-w", "300ms", "--busy-ok"],
          ["-w", "1500ms", "-q"]]


@pytest.mark.parametrize("options", LIMITS, ids=" ".join)
def test_a_silent_server_is_unreachable_at_the_limit(at, silent, options):
    snib = at(silent)
    start = time.monotonic()
    done = snib.run("run", *options, "n", "--", "true")
    took = time.monotonic() - start
    assert done.returncode == 69, done.stderr
    assert "no answer" in done.stderr or "no connection" in done.stderr
    assert "did not answer" not in done.stderr, "the holder missed the limit"
    assert took < 1.5 + slack()
    eventually(lambda: not processes_with(silent),
               "none of its processes is left", limit=3)


def test_that_it_is_away_is_said_once(at, silent):
    """Then again after ten seconds."""
    done = at(silent).run("run", "-w", "4s", "n", "--", "true")
    assert done.returncode == 69
    lines = done.stderr.splitlines()
    assert sum("; waiting" in line for line in lines) == 1, done.stderr


def test_several_names_at_a_silent_server_are_unreachable(at, silent):
    done = at(silent).run("run", "-w", "500ms", "a", "b", "c", "--", "true")
    assert done.returncode == 69, done.stderr
    eventually(lambda: not processes_with(silent),
               "none of its processes is left", limit=3)


def test_a_try_at_a_silent_server_is_unreachable(at, silent):
    for command in ([], ["--", "true"]):
        done = at(silent).run("try", "--busy-ok", "n", *command)
        assert done.returncode == 69, done.stderr


def test_nobody_lingers_where_nobody_listens(at):
    nobody = "127.0.0.1:1"
    snib = at(nobody)
    done = snib.run("run", "-w", "500ms", "n", "--", "true",
                    env={"MARK_OF_THIS": "refused-connection"})
    assert done.returncode == 69 and "127.0.0.1:1" in done.stderr
    eventually(lambda: not processes_with("MARK_OF_THIS=refused-connection"),
               "none of its processes is left", limit=3)


def nobody_knows(name):
    try:
        socket.getaddrinfo(name, 1)
    except socket.gaierror as why:
        return why.errno in (socket.EAI_NONAME, socket.EAI_NODATA)
    return False


@pytest.mark.skipif(not nobody_knows(NOWHERE),
                    reason="no resolver that says which hosts do not exist")
def test_a_host_that_does_not_exist_is_not_waited_for(at):
    snib = at(NOWHERE)
    done = snib.run("run", "n", "--", "true", timeout=30)
    assert done.returncode == 69, done.stderr
    assert NOWHERE in done.stderr


@pytest.mark.parametrize("where", ["127.0.0.1:1", "silent"])
def test_the_check_up_of_what_does_not_answer(at, silent, where):
    """What was not seen is not praised."""
    snib = at(silent if where == "silent" else where)
    done = snib.run("doctor")
    assert done.returncode == 69, done.stdout + done.stderr
    assert "fail  reachable" in done.stdout
    assert "\nok " not in done.stdout
    snib.env["SNIB_URL"] = snib.url.replace("tls=no", "tls=verify")
    done = snib.run("doctor")
    assert done.returncode == 69 and "verified" not in done.stdout
