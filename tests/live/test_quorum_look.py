"""Looking at the locks of a quorum of which one server takes what it is asked
and says nothing."""

import os
import subprocess

import pytest

from harness.redis_server import redis_missing

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


@pytest.fixture
def servers(redis_with):
    return [redis_with() for _ in range(3)]


@pytest.fixture
def silent(servers):
    """silent(): one of them stops."""
    stopped = []

    def stop():
        servers[2].freeze()
        stopped.append(servers[2])
    yield stop
    for server in stopped:
        server.thaw()


@pytest.fixture
def snib(servers):
    """snib("status", "n"): the command on that quorum."""
    program = os.environ.get("SNIB_BIN", "")
    if not os.access(program, os.X_OK):
        pytest.skip("the command snib is not built")
    url = "redlock://" + ",".join(
        f"127.0.0.1:{server.address[1]}" for server in servers)

    def run(*words):
        return subprocess.run(
            [program, *words], capture_output=True, text=True, timeout=30,
            env={**os.environ, "SNIB_URL": url})
    return run


def test_wait_tells_of_the_lock_while_one_server_is_silent(snib, silent):
    """A majority knows: held is 75, free is 0. Neither is a store that is
    away."""
    done = snib("acquire", "--detached", "-q", "-t", "60s", "n")
    assert done.returncode == 0, done.stderr
    silent()
    done = snib("wait", "-w", "1s", "n")
    assert done.returncode == 75, done.stderr
    assert "unreachable" not in done.stderr
    done = snib("wait", "-w", "1s", "another")
    assert (done.returncode, done.stderr) == (0, "")


def test_status_shows_the_holder_while_one_server_is_silent(snib, silent):
    done = snib("acquire", "--detached", "-q", "-t", "60s", "n")
    assert done.returncode == 0, done.stderr
    silent()
    for words in (("status", "n"), ("list",)):
        done = snib(*words)
        assert done.returncode == 0, done.stderr
        assert "held" in done.stdout or "detached" in done.stdout, done.stdout


def test_a_list_says_what_a_majority_cannot_show(snib, servers):
    servers[0].command("LPUSH", "snib:{n}", "x")
    done = snib("list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    servers[1].command("LPUSH", "snib:{n}", "x")
    done = snib("list")
    assert done.returncode == 69, done
    assert "n: a key of this lock is of another type" in done.stderr
    assert snib("why", "n").returncode == 69
