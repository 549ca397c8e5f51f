"""What a Redis server is like, told in words by each command and by doctor:
real servers, set up as people set them up."""

import time

import pytest

from conftest import Snib, eventually
from harness.redis_server import RedisServer, redis_missing
from harness.shim import Shim, build_shim

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


@pytest.fixture
def server_with(snib_bin, tmp_path):
    """server_with(lines of its configuration) is a Snib on such a server."""
    made = []

    def start(*config):
        made.append(RedisServer(config))
        snib = Snib(snib_bin, made[-1].url, str(tmp_path))
        snib.server = made[-1]
        made.append(snib)
        return snib
    yield start
    for one in reversed(made):
        one.end() if isinstance(one, Snib) else one.close()


# -- errors in words ----------------------------------------------------------------


def test_a_server_that_asks_for_a_login(server_with):
    snib = server_with("requirepass geheim")
    done = snib.run("run", "-w", "3s", "n", "--", "true")
    assert done.returncode == 77, done.stderr
    assert "NOAUTH: the server asks for a login" in done.stderr
    assert "redis://USER:PASSWORD@HOST" in done.stderr
    assert "HELLO" not in done.stderr, "the server's own words"
    assert len(done.stderr) < 300, "one sentence, and not cut"


def test_a_replica_is_not_said_to_be_down(server_with):
    primary = server_with()
    replica = server_with(f"replicaof 127.0.0.1 {primary.server.port}")
    done = replica.run("try", "n")
    assert done.returncode == 69
    assert done.stderr.endswith(
        "locks live on the primary: give its URL, or promote this one\n")


# -- since when ---------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_since_when_somebody_waits_is_not_the_waiters_clock(
        redis, tmp_path, tmp_path_factory, ahead):
    shim = Shim(build_shim(tmp_path_factory.mktemp("shim")),
                tmp_path / "words")
    shim.step_real(ahead)
    redis.hold("n")
    began = time.time()
    redis.start("run", "-q", "n", "true", env=shim.env)
    eventually(lambda: redis.waiters("n") == 1)
    for _ in range(2):  # a poll later it is the same
        waiter, = redis.status("n")["waiters"]
        assert began - 1 < waiter["since_ms"] / 1000 < time.time() + 1
        polled = redis.server.command("HGETALL", "snib:{n}:w")
        eventually(lambda: redis.server.command("HGETALL", "snib:{n}:w") !=
                   polled)
    told = redis.run("why", "n").stdout
    assert "1h" not in told and "59m" not in told and "60m" not in told, told
    shim.close()
