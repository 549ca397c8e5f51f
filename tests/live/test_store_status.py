"""How a client says its store is: reachable, since when, and why not. It asks
nothing for the answer: a store that is gone does not delay it.
"""

import pytest

from harness.pulse import late_ms
from harness.redis_server import redis_missing
from harness.wait import wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


def status(driver):
    return driver.call("store_status", id="c", on="look")


def wait_status(driver, timeout=5.0, **fields):
    """The first status that says so."""
    def look():
        now = status(driver)
        if all(now[key] == value for key, value in fields.items()):
            return now
        return None
    return wait_until(look, timeout, f"the store is said to be {fields}")


def test_store_that_was_never_asked_is_neither_reachable_nor_not(
        drivers, redis):
    now = status(drivers(redis.url))
    assert (now.reachable, now.why, now.said) == (False, "OK", "not asked yet")
    assert now.nodes == 1


def test_server_that_goes_and_comes_back(drivers, redis):
    one = drivers(redis.url, request_ms=500)
    grant = one.acquire(one.lock("n", lease_ms=20000))
    now = status(one)
    assert (now.reachable, now.why, now.said) == (True, "OK", "")
    assert now.nodes_reachable == 1
    redis.kill()
    waiting = one.start_acquire(one.lock("m"), on="other", wait_ms=20000)
    gone = wait_status(one, reachable=False)
    assert gone.why == "UNREACHABLE"
    assert gone.said in ("connection refused", "the connection was closed")
    refused = wait_status(one, said="connection refused")
    later = wait_until(lambda: (lambda s: s if s.for_ms > refused.for_ms + 300
                                else None)(status(one)), 5, "time goes by")
    assert not later.reachable, "and is counted from the same beginning"
    assert status(one).took_ms < 200 + late_ms()
    redis.start()
    back = wait_status(one, reachable=True)
    assert (back.why, back.said) == ("OK", "")
    assert back.for_ms < later.for_ms
    waiting.wait().release(on="other")
    grant.start_release().answer()


def test_server_that_is_silent(drivers, redis):
    one = drivers(redis.url, request_ms=300)
    one.acquire(one.lock("n")).release()
    redis.freeze()
    one.start_acquire(one.lock("n"), on="other", wait_ms=20000)
    gone = wait_status(one, reachable=False)
    assert (gone.why, gone.said) == ("UNREACHABLE", "no answer")
    gone = wait_status(one, said="the server does not answer")
    assert gone.for_ms >= 290, "since it was asked in vain"


def test_refused_login_is_told_without_the_password(drivers, redis):
    redis.command("ACL", "SETUSER", "anna", "on", ">right", "~*", "+@all")
    host = redis.url.removeprefix("redis://")
    one = drivers(f"redis://anna:secret-w0rd@{host}")
    assert one.try_acquire(one.lock("n")).err == "DENIED"
    now = status(one)
    assert (now.reachable, now.why) == (False, "DENIED")
    assert now.said.startswith("WRONGPASS")
    assert "secret-w0rd" not in now.said


def test_server_that_refuses_to_work(drivers, redis):
    one = drivers(redis.url, request_ms=500)
    one.acquire(one.lock("n")).release()
    redis.command("CONFIG", "SET", "min-replicas-to-write", "1")
    assert one.try_acquire(one.lock("n")).err == "STORE"
    now = status(one)
    assert (now.reachable, now.why) == (False, "STORE")
    assert now.said.startswith("NOREPLICAS")
    redis.command("CONFIG", "SET", "min-replicas-to-write", "0")
    one.acquire(one.lock("n")).release()
    assert status(one).reachable


@pytest.mark.usefixtures("by_script")
def test_the_words_of_an_older_server_are_the_same(drivers, redis, proxy):
    """Before Redis 7 the error of a command in a script came wrapped."""
    one = drivers(proxy.url, request_ms=500)
    one.acquire(one.lock("n")).release()
    for inner in ("-NOREPLICAS Not enough good replicas to write.",
                  "@user_script: 9: -NOREPLICAS Not enough"):
        with proxy.inject_error("ERR Error running script (call to f_6ea): "
                                f"@user_script:9: {inner}", script="acquire"):
            assert one.try_acquire(one.lock("n")).err == "STORE"
        now = status(one)
        assert (now.reachable, now.why) == (False, "STORE")
        assert now.said == ("NOREPLICAS: the server takes no writes because "
                            "fewer replicas are connected than its "
                            "min-replicas-to-write")


def test_quorum_counts_its_servers(drivers, redis_with):
    nodes = [redis_with() for _ in range(3)]
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    one = drivers(f"redlock://{hosts}", request_ms=500)
    assert status(one).said == "no answer yet"
    one.acquire(one.lock("n"), wait_ms=2000).release()
    now = wait_status(one, nodes_reachable=3)
    assert (now.reachable, now.nodes, now.said) == (True, 3, "")
    nodes[2].kill()
    one.start_acquire(one.lock("n", lease_ms=60000), on="two", wait_ms=9000)
    now = wait_status(one, nodes_reachable=2)
    assert now.reachable and now.why == "OK"
    assert f"127.0.0.1:{nodes[2].port}" in now.said
    nodes[1].kill()
    one.start_acquire(one.lock("m"), on="three", wait_ms=9000)
    now = wait_status(one, reachable=False)
    assert (now.why, now.nodes_reachable) == ("UNREACHABLE", 1)
    assert now.said.startswith("1 of 3 servers reachable, 2 needed; 127.0.0.1:")


def test_embedded_store_says_that_its_file_is_gone(drivers, tmp_path):
    path = tmp_path / "locks.db"
    one = drivers(f"file:{path}")
    assert one.try_acquire(one.lock("n")).ok
    now = status(one)
    assert (now.reachable, now.why, now.said) == (True, "OK", "")
    path.unlink()
    one.start_acquire(one.lock("m"), on="two", wait_ms=20000)
    now = wait_status(one, reachable=False)
    assert now.why == "STORE"
    assert "was removed or replaced while in use" in now.said
