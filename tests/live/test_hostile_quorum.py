"""Servers of a quorum that lie, stay silent or are away: the client's callers
hear it in time, the rest of the process goes on."""

import socket
import time

import pytest

from harness.hostile import SILENCE, HostileRedis, clock_ms, reply
from harness.pulse import late_ms


def queued(_):
    """A place in the queue, for who never asked for one."""
    return reply([2, clock_ms(), 1, 0])


@pytest.fixture
def servers():
    """servers(on, …) starts a hostile one for each."""
    made = []

    def start(*behaviours):
        made.extend(HostileRedis(on=on) for on in behaviours)
        return made
    yield start
    for server in made:
        server.close()


def nobody():
    """An address where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def url_of(servers, *ports):
    ports = [server.port for server in servers] + list(ports)
    return "redlock://" + ",".join(f"127.0.0.1:{port}" for port in ports)


@pytest.mark.parametrize("lies", [
    [{"acquire": queued}, {"acquire": SILENCE}],
    [{"acquire": queued}, {"acquire": queued}],
], ids=["queued-silent", "queued-queued"])
def test_places_in_queues_hang_nobody(drivers, servers, lies):
    driver = drivers(url_of(servers(*lies), nobody()), request_ms=1000)
    locks = [driver.lock(f"n{i}") for i in range(10)]
    began = time.monotonic()
    for _ in range(2):
        asked = [driver.start_acquire(lock, on=f"t{i}", wait_ms=300)
                 for i, lock in enumerate(locks)]
        for one in asked:
            answer = one.answer(timeout=5)
            assert answer.err in ("UNREACHABLE", "STORE", "UNKNOWN",
                                  "TIMEOUT"), answer
            assert answer.took_ms < 300 + 1500 + late_ms()
    assert time.monotonic() - began < 30
    # Nobody holds the client's mutex for ever.
    assert driver.ask("list", client="c", timeout=5).err != "OK"
    driver.start("quit")
    assert driver.child.wait(10) == 0


def test_one_liar_of_three_costs_no_lock(drivers, redis_with, servers):
    liar, = servers({"acquire": queued, "cancel": reply([1])})
    url = url_of([], *(s.address[1] for s in (redis_with(), redis_with())),
                 liar.port)
    driver = drivers(url, request_ms=1000)
    last = 0
    for _ in range(5):
        grant = driver.acquire(driver.lock("n"), wait_ms=3000)
        assert grant.token > last
        last = grant.token
        grant.release()
    assert "acquire" in liar.heard
