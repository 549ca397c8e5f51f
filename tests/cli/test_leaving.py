"""Who is told to end while it waits leaves the queue at once, whatever becomes
of the store's answers."""

import signal
import time

import pytest

from conftest import eventually


def in_the_queue(store, url, *args):
    """A command that waits for `a`, by way of `url`."""
    p = store.start(*args, env={"SNIB_URL": url})
    eventually(lambda: store.waiters("a") == 1, "in the queue")
    return p


@pytest.mark.parametrize("word", [signal.SIGTERM, signal.SIGINT,
                                  signal.SIGHUP], ids=lambda s: s.name)
def test_who_is_told_to_end_is_out_of_the_queue(store, word):
    store.hold("a", "-t", "1m")
    p = in_the_queue(store, store.url, "run", "-q", "a", "--", "true")
    p.send_signal(word)
    assert p.wait(20) == 128 + word
    assert p.stderr.read() == "" == p.stdout.read()
    assert store.waiters("a") == 0  # when it has ended, and not some time later
    assert store.held("a")


@pytest.mark.parametrize("args", [
    ("run", "-q", "a", "--", "true"), ("acquire", "-q", "a")],
    ids=lambda a: a[0])
def test_the_queue_is_left_though_no_answer_comes(redis, args):
    from harness.fault_proxy import FaultProxy
    holder = redis.hold("a", "-t", "1m")
    # The server knows the script by now: no answer is needed to send its text.
    assert redis.run("run", "-q", "-w", "100ms", "a", "true").returncode == 75
    with FaultProxy(redis.server.address) as proxy:
        p = in_the_queue(redis, proxy.url, *args)
        proxy.partition(up=False)
        p.send_signal(signal.SIGTERM)
        began = time.monotonic()
        eventually(lambda: redis.waiters("a") == 0, "nobody waits", limit=2)
        assert p.wait(20) == 143
        assert time.monotonic() - began < 5
        # Nothing of it is granted what comes free now.
        holder.send_signal(signal.SIGTERM)
        assert holder.wait(20) == 143
        done = redis.run("try", "-q", "a", "--", "true")
        assert done.returncode == 0, done.stderr
