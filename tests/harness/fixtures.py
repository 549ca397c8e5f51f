"""Fixtures for the suites; a conftest.py imports them all.

    from harness.fixtures import *  # noqa: F401,F403
"""

import pytest

from .fault_proxy import FaultProxy
from .redis_server import RedisServer, redis_missing

__all__ = ["redis", "proxy", "redis_with"]


def _need_redis():
    reason = redis_missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def redis_with():
    """redis_with("maxmemory 3mb", …) starts a server for this test."""
    _need_redis()
    servers = []

    def start(*config, **options):
        servers.append(RedisServer(config, **options))
        return servers[-1]
    yield start
    for server in servers:
        server.close()


@pytest.fixture
def redis(redis_with):
    """A fresh server, for this test only (about 40 ms)."""
    return redis_with()


@pytest.fixture
def proxy(redis):
    """A fault proxy in front of `redis`."""
    with FaultProxy(redis.address) as made:
        yield made
