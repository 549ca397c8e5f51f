"""What a client says of the server that it talks to, and that it hears when
another one answers."""

import re

import pytest

from harness.redis_server import redis_missing
from harness.wait import wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


def server(driver):
    return driver.call("server", id="c", on="look")


def product_of(redis):
    """Its name and version, as it tells itself (Valkey's redis_version is what
    it pretends to be)."""
    info = redis.command("INFO", "server").decode()
    name = "valkey" if "server_name:valkey" in info else "redis"
    return name, re.search(rf"{name}_version:(\S+)", info)[1]


def test_server_is_named_with_its_version_and_role(drivers, redis):
    one = drivers(redis.url)
    address = f"127.0.0.1:{redis.port}"
    before = server(one)
    assert (before.address, before.product, before.connected_ms) == (
        address, "", -1)
    grant = one.acquire(one.lock("n"))
    now = server(one)
    assert (now.address, now.product, now.version, now.role) == (
        address, *product_of(redis), "primary")
    assert (now.reachable, now.why, now.said) == (True, "OK", "")
    assert 0 <= now.connected_ms < 10000
    name = product_of(redis)[0]
    redis.kill()
    # Sent on a connection whose end is not noticed yet, it would be UNKNOWN.
    wait_until(lambda: not server(one).reachable, 5, "its end is noticed")
    gone = one.start_acquire(one.lock("m"), on="two", wait_ms=300).answer()
    assert gone.err == "UNREACHABLE"
    now = server(one)
    assert (now.reachable, now.connected_ms, now.product) == (
        False, -1, name)
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
            "127.0.0.1:{} {} {} primary 1".format(node.port, *product_of(node)))


# -- another server ---------------------------------------------------------------


def changes(driver):
    return driver.events("store changed")


def test_restart_under_a_holder_is_told_with_what_was_forgotten(
        drivers, redis):
    one = drivers(redis.url, store_events=True, request_ms=500)
    grant = one.acquire(one.lock("n", lease_ms=3000))
    was = server(one).run_id
    assert len(was) == 40
    assert was in redis.command("INFO", "server").decode()
    redis.restart(data="lost")
    one.wait_event("store changed")
    lost = one.wait_event("change", ticket=grant.ticket, state="lost")
    assert lost.reason == "forgotten"
    now = server(one)
    assert len(now.run_id) == 40 and now.run_id != was
    again = one.start_acquire(one.lock("m"), on="two")
    again.wait().release(on="two")
    assert len(changes(one)) == 1, "though more connections were made"


def test_restart_that_kept_its_data_is_told_and_nothing_is_lost(
        drivers, redis):
    one = drivers(redis.url, store_events=True, request_ms=500)
    grant = one.acquire(one.lock("n", lease_ms=3000))
    redis.restart(data="kept")
    one.wait_event("store changed")
    wait_until(lambda: grant.status().left_ms > 1800, 10, "it is renewed")
    assert not one.events("change", state="lost")
    grant.release()


def test_broken_connections_are_no_other_server(drivers, redis):
    one = drivers(redis.url, store_events=True)
    grant = one.acquire(one.lock("n", lease_ms=900))
    for _ in range(5):
        redis.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        wait_until(lambda: grant.status().left_ms > 600
                   and grant.status().state == "held", 10, "it is renewed")
    assert not changes(one)
    grant.release()


@pytest.mark.parametrize("may_ask", [True, False])
def test_restart_is_told_to_a_user_of_few_rights(
        drivers, redis_with, may_ask):
    """Who may not ask for the run id is told by numbers that begin anew."""
    rights = "on >pw ~* &* +@all" + ("" if may_ask else " -info")
    redis = redis_with(f"user anna {rights}")
    one = drivers(f"redis://anna:pw@127.0.0.1:{redis.port}",
                  store_events=True, request_ms=500)
    for _ in range(20): # so many connections come before it
        redis.client().close()
    grant = one.acquire(one.lock("n", lease_ms=2000))
    assert bool(server(one).run_id) == may_ask
    redis.restart(data="kept")
    one.wait_event("store changed")
    grant.release()


def test_who_did_not_ask_is_told_nothing(drivers, redis):
    one = drivers(redis.url, request_ms=500)
    one.acquire(one.lock("n")).release()
    assert server(one).run_id == ""
    calls = redis.command("INFO", "commandstats").decode()
    assert "cmdstat_info:" not in calls
    redis.restart(data="lost")
    one.acquire(one.lock("n")).release()
    assert not changes(one)


def test_promoted_replica_is_another_server(drivers, redis_with):
    """A name leads from one server to the other, here: a port does."""
    first = redis_with()
    second = redis_with(f"replicaof 127.0.0.1 {first.port}")
    one = drivers(first.url, store_events=True, request_ms=500)
    grant = one.acquire(one.lock("n", lease_ms=5000))
    second.wait_for(lambda s: b"master_link_status:up" in
                    s.command("INFO", "replication"))
    second.wait_for(lambda s: s.command("DBSIZE") == first.command("DBSIZE"))
    second.command("REPLICAOF", "NO", "ONE")
    first.kill()
    second.command("SAVE")
    second.stop()
    second.config = []  # a primary from now on
    second.port, first.port = first.port, second.port
    second.start()
    one.wait_event("store changed")
    wait_until(lambda: grant.status().left_ms > 3500, 10, "it is renewed")
    assert not one.events("change", state="lost")
    grant.release()
