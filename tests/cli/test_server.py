"""What a Redis server is like, told in words by each command and by doctor:
real servers, set up as people set them up."""

import pytest

from conftest import Snib
from harness.redis_server import RedisServer, redis_missing

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
