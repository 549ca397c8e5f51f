"""Fixtures for the suites; a conftest.py imports them all.

    from harness.fixtures import *  # noqa: F401,F403
"""

import pytest

from .driver import Driver
from .fault_proxy import FaultProxy
from .mysql_server import MysqlServer, mysql_missing
from .postgres_server import PostgresServer, postgres_missing
from .redis_server import RedisServer, redis_missing
from .sentinel import Watched

__all__ = ["by_script", "mysql_with", "postgres", "postgres_shared", "postgres_with", "proxy",
           "redis", "redis_with", "watched"]


def _need_redis():
    reason = redis_missing()
    if reason:
        pytest.skip(reason)


@pytest.fixture
def by_script(monkeypatch):
    """Locks that nobody hands over go by script from the first acquire to the
    last release: for what is to happen to a script. (A free mutex goes by plain
    commands else; live/test_redis_packets.py.)"""
    lock = Driver.lock
    monkeypatch.setattr(
        Driver, "lock", lambda self, name, **options: lock(
            self, name, **{"no_local_pass": True, **options}))


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
def watched():
    """A primary, a replica and three Sentinels, for this test (some seconds)."""
    _need_redis()
    with Watched() as made:
        yield made


@pytest.fixture
def proxy(redis):
    """A fault proxy in front of `redis`."""
    with FaultProxy(redis.address) as made:
        yield made


@pytest.fixture
def postgres_with():
    """postgres_with("fsync = off", …) starts a server for this test."""
    if postgres_missing():
        pytest.skip(postgres_missing())
    servers = []

    def start(*config, **options):
        servers.append(PostgresServer(config, **options))
        return servers[-1]
    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def postgres_shared():
    """A server for all tests of a run that do it no harm."""
    if postgres_missing():
        pytest.skip(postgres_missing())
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres(postgres_with):
    """A fresh server, for this test only (about a second)."""
    return postgres_with()


@pytest.fixture
def mysql_with():
    """mysql_with("--read-only", …) starts a server for this test."""
    if mysql_missing():
        pytest.skip(mysql_missing())
    servers = []

    def start(*config, **options):
        servers.append(MysqlServer(config, **options))
        return servers[-1]
    yield start
    for server in servers:
        server.close()
