"""examples/quorum.c, with all servers and without a majority."""

import re

from harness.redis_server import redis_missing
import pytest

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


def test_it_holds_with_a_majority_and_says_when_there_is_none(
        example, redis_with):
    servers = [redis_with() for _ in range(3)]
    url = "redlock://" + ",".join(f"127.0.0.1:{s.port}" for s in servers)
    servers[0].kill()
    done = example("quorum", url=url)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"mine on a majority, with token \d+\n", done.stdout)
    servers[1].kill()
    done = example("quorum", url=url)
    assert done.returncode == 69
    assert "no majority: 1 of 3 servers answered, 2 must agree" in done.stderr
