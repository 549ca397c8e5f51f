"""What a client says of the server that it talks to, and that it hears when
another one answers."""

import re

import pytest

from harness.redis_server import redis_missing
from harness.wait import wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


def server(driver):
    return driver.call("server", id="c", on="look")


def version_of(redis):
    return re.search(r"redis_version:(\S+)",
                     redis.command("INFO", "server").decode())[1]


def test_server_is_named_with_its_version_and_role(drivers, redis):
    one = drivers(redis.url)
    address = f"127.0.0.1:{redis.port}"
    before = server(one)
    assert (before.address, before.product, before.connected_ms) == (
        address, "", -1)
    grant = one.acquire(one.lock("n"))
    now = server(one)
    assert (now.address, now.product, now.version, now.role) == (
        address, "redis", version_of(redis), "primary")
    assert (now.reachable, now.why, now.said) == (True, "OK", "")
    assert 0 <= now.connected_ms < 10000
    redis.kill()
    gone = one.start_acquire(one.lock("m"), on="two", wait_ms=300).answer()
    assert gone.err == "UNREACHABLE"
    now = server(one)
    assert (now.reachable, now.connected_ms, now.product) == (
        False, -1, "redis")
    assert now.said == "connection refused"
    redis.start()
    grant.start_release().answer()


def test_replica_says_what_it_is(drivers, redis, redis_with):
    replica = redis_with(f"replicaof 127.0.0.1 {redis.port}")
    one = drivers(replica.url)
    assert one.try_acquire(one.lock("n")).err == "UNREACHABLE"
    now = server(one)
    assert (now.role, now.reachable) == ("replica", False)
    assert "is a replica" in now.said


def test_quorum_names_each_server(drivers, redis_with):
    nodes = [redis_with() for _ in range(3)]
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    one = drivers(f"redlock://{hosts}")
    one.acquire(one.lock("n"), wait_ms=5000).release()
    def all_known():
        now = server(one)
        return now if all("primary 1" in now[f"server{k}"]
                          for k in range(3)) else None
    now = wait_until(all_known, 5, "all servers are known")
    assert (now.address, now.servers, now.reachable) == (hosts, 3, True)
    for k, node in enumerate(nodes):
        assert now[f"server{k}"].startswith(
            f"127.0.0.1:{node.port} redis {version_of(node)} primary 1")
