"""§4.2: the network (F-050 … F-066), as far as no other suite shows it."""

import socket

import pytest

from harness.pulse import late_ms
from harness.checks import read_tally
from harness.redis_server import redis_missing
from harness.wait import stays, wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


def warm_up(driver):
    driver.acquire(driver.lock("warm"), wait_ms=5000).release()


@pytest.mark.parametrize("delay_ms", [1, 50, 400])
def test_F_050_latency_shortens_what_is_left_and_costs_no_lock(
        redis, proxy, drivers, clean, delay_ms):
    one = drivers(proxy.url)
    warm_up(one)
    proxy.delay_reply(delay_ms / 1000)
    grant = one.acquire(one.lock("n", lease_ms=3000), wait_ms=8000)
    assert grant.status().left_ms <= 3000 - delay_ms
    stays(lambda: grant.status().held, 1.3, "renewed in spite of it")
    grant.release()


@pytest.mark.usefixtures("by_script")
@pytest.mark.parametrize("percent", [5, 30, 50])
def test_F_052_dropped_connections_slow_down_and_lose_nothing(
        redis, proxy, drivers, tmp_path, clean, percent):
    """So many of the replies are lost with their connection."""
    dice = iter(range(1 << 30))
    proxy.drop_reply(where=lambda _: next(dice) * 37 % 100 < percent,
                     then="rst", script="acquire")
    one, rounds = drivers(proxy.url), 12
    mark = proxy.mark()
    job = one.start("count", lock=one.lock("n", lease_ms=5000),
                    path=tmp_path / "tally", rounds=rounds)
    assert job.wait(30).done == rounds
    assert read_tally(tmp_path / "tally")[0] == rounds
    assert proxy.count("open", since=mark) <= 6 * rounds


@pytest.mark.usefixtures("by_script")
def test_F_055_slow_drip_ends_by_the_limit(redis, proxy, drivers, clean):
    """One byte each 50 ms: the line is never silent."""
    one = drivers(proxy.url)
    warm_up(one)
    drip = proxy.split_replies(size=1, pause=0.05, script="acquire")
    answer = one.start_acquire(one.lock("n"), wait_ms=400).answer()
    assert answer.err in ("UNKNOWN", "TIMEOUT"), answer
    # 400, and a fifth of request_ms for the answer to its cancel
    assert answer.took_ms < 800 + late_ms()
    drip.remove()
    one.acquire("n", wait_ms=8000).release()


def test_F_057_connect_that_hangs_ends_by_the_limit(drivers, clean_socket):
    """A listener whose queue is full: SYNs are dropped."""
    one = drivers(f"redis://127.0.0.1:{clean_socket}")
    answer = one.start_acquire(one.lock("n"), wait_ms=300).answer()
    assert answer.err == "UNREACHABLE" and answer.exit == 69
    assert f"127.0.0.1:{clean_socket}" in answer.text, answer.text
    assert answer.took_ms < 450 + late_ms()


@pytest.fixture
def clean_socket():
    """Port of a listener that takes no connection any more."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        full = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
            full.append(one)
        yield listener.getsockname()[1]
        for one in full:
            one.close()


def test_F_059_second_address_is_tried_when_the_first_is_dead(
        redis, drivers, clean):
    """localhost is ::1 and 127.0.0.1; only the second answers."""
    found = {a[4][0] for a in socket.getaddrinfo("localhost", redis.port,
                                                 type=socket.SOCK_STREAM)}
    if found != {"::1", "127.0.0.1"}:
        pytest.skip(f"localhost is {found} here")
    one = drivers(f"redis://localhost:{redis.port}")
    one.acquire(one.lock("n"), wait_ms=3000).release()


def test_F_059_unknown_host_is_unreachable_by_the_limit(drivers):
    """The error says which host, what was expected and what to do, whether
    the resolver answers in time or not."""
    one = drivers("redis://no-such-host.invalid:6379")
    lock = one.lock("n")
    answer = one.start_acquire(lock, wait_ms=400).answer()
    assert answer.err == "UNREACHABLE"
    assert "no-such-host.invalid:6379" in answer.text, answer.text
    assert answer.took_ms < 850 + late_ms()

    def told():
        """Once the resolver has answered, each error has its words."""
        text = one.start_acquire(lock, wait_ms=400).answer().text
        assert "no-such-host.invalid:6379" in text, text
        return text if "host name that DNS or /etc/hosts knows" in text else ""
    assert "check the URL" in wait_until(told, 30, "the resolver's answer")


def test_nobody_listens_is_told_with_the_address(drivers):
    one = drivers("redis://127.0.0.1:1")
    answer = one.start_acquire(one.lock("n"), wait_ms=400).answer()
    assert answer.err == "UNREACHABLE"
    assert "127.0.0.1:1: Connection refused" in answer.text, answer.text
