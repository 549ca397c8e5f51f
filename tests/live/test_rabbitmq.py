"""Locks in RabbitMQ: what lies in their queues, and what becomes of them when
answers, connections, the broker or a client are lost.

What every store does is in tests/conformance.
"""

import os
import subprocess
import threading
import time

import pytest

from harness.driver import LockError
from harness.rabbitmq_server import RabbitmqServer, rabbitmq_missing
from harness.stream_proxy import StreamProxy
from harness.wait import wait_until

pytestmark = pytest.mark.skipif(bool(rabbitmq_missing()),
                                reason=rabbitmq_missing())
BUILT_IN = []
SNIB = os.environ.get("SNIB_BIN", "")
BEAT = "?heartbeat_s=1"
# A queue that is younger when its broker is killed may have no leader afterwards, and
# nobody gets that lock (docs/RABBITMQ.md).
AGE_S = 5


@pytest.fixture(autouse=True)
def built_in(drivers):
    if not BUILT_IN:
        said = drivers().ask("open", id="x", url="amqp://127.0.0.1:1")
        BUILT_IN.append(said.err != "UNSUPPORTED")
    if not BUILT_IN[0]:
        pytest.skip("the store amqp: is not built in")


@pytest.fixture(scope="module")
def kept():
    """One broker for these tests, whatever they do to it."""
    with RabbitmqServer() as server:
        yield server


@pytest.fixture
def one(kept):
    if kept.child.poll() is not None:
        kept.start()
    return kept


@pytest.fixture
def look(one):
    with one.client() as client:
        yield client


NUMBER = iter(range(10**6))


@pytest.fixture
def name():
    return f"n{next(NUMBER)}"


class Wire(StreamProxy):
    """A proxy that is deaf from the n-th piece on that a client sends."""

    def __init__(self, server):
        super().__init__(server.address, words_of_texts=True)
        self.pieces = 0
        self.cut_at = self.then = None

    def _look(self, pair, data):
        self.pieces += 1
        if self.pieces == self.cut_at:
            pair["deaf"] = self.then
        super()._look(pair, data)

    @property
    def at(self):
        return f"amqp://127.0.0.1:{self.port}{BEAT}"


@pytest.fixture
def wire(one):
    with Wire(one) as proxy:
        yield proxy


def lying(one, name):
    """What nobody has been delivered, read and put back."""
    with one.client() as client:
        client.consume(f"snib.l.{name}")
        return [text for _, _, text in client.deliveries(0.3)]


def closes_all(one):
    one.ctl("close_all_connections", "by hand")


# -- what is there ---------------------------------------------------------------


def test_a_holder_has_all_messages_and_leaves_one(one, drivers, look, name):
    holder = drivers(one.url + BEAT)
    grant = holder.acquire(holder.lock(name, lease_ms=4000))
    assert look.counts(f"snib.l.{name}") == (0, 1)
    grant.release()
    wait_until(lambda: look.counts(f"snib.l.{name}") == (1, 0), 5, "it is free")
    left = lying(one, name)
    assert len(left) == 1 and left[0].startswith("snib1 free ")
    assert f" {grant.token} " in left[0]


def test_a_virtual_host_is_a_store_of_its_own(one, drivers):
    one.ctl("add_vhost", "team")
    one.ctl("set_permissions", "-p", "team", "guest", ".*", ".*", ".*")
    a, b = drivers(one.url), drivers(one.url + "/team")
    first = a.acquire(a.lock("n"))
    b.acquire(b.lock("n"), wait_ms=2000).release()
    first.release()


def test_tokens_rise_and_do_so_when_the_queue_was_removed(one, drivers, look,
                                                          name):
    a, b = drivers(one.url), drivers(one.url)
    tokens = []
    for client in (a, b, a):
        grant = client.acquire(client.lock(name))
        tokens.append(grant.token)
        grant.release()
    look.delete(f"snib.l.{name}")
    grant = b.acquire(b.lock(name), wait_ms=5000)
    tokens.append(grant.token)
    grant.release()
    assert tokens == sorted(set(tokens)) and tokens[0] > 0


def test_a_release_wakes_the_next_and_they_go_in_order(one, drivers, name):
    holder = drivers(one.url + BEAT)
    grant = holder.acquire(holder.lock(name))
    waits = []
    watcher = drivers(one.url + BEAT)
    for i in range(4):
        client = drivers(one.url + BEAT)
        waits.append(client.start_acquire(client.lock(name), wait_ms=30000))
        wait_until(lambda n=i: len(watcher.call(
            "inspect", client="c", name=name).waiters) == n + 1, 10, "it waits")
    took = []
    for pending in waits:
        began = time.monotonic()
        grant.release()
        grant = pending.wait()
        took.append(time.monotonic() - began)
    grant.release()
    assert min(took) < 0.3, took  # not by a poll


def test_what_waiters_send_to_be_heard_does_not_stay(one, drivers, look, name):
    holder = drivers(one.url)
    for _ in range(2):  # the next one's channel is kept, and bound
        holder.acquire(holder.lock(name), wait_ms=5000).release()
    # Its renewals, which take all that lies there, come later than that.
    grant = holder.acquire(holder.lock(name, lease_ms=120000), wait_ms=5000)
    waiter = drivers(one.url)
    pending = waiter.start_acquire(waiter.lock(name), wait_ms=30000)
    wait_until(lambda: look.counts(f"snib.l.{name}")[0] == 1, 5, "it is there")
    wait_until(lambda: look.counts(f"snib.l.{name}")[0] == 0, 8, "it is gone")
    grant.release()
    pending.wait().release()


def test_a_long_name_is_a_lock_of_its_own(one, drivers):
    holder, other = drivers(one.url), drivers(one.url)
    grant = holder.acquire(holder.lock("x" * 400, id="long"))
    assert not other.try_acquire(other.lock("x" * 400, id="same")).ok
    assert other.try_acquire(other.lock("x" * 399 + "y", id="other")).ok
    grant.release()


# -- by hand ---------------------------------------------------------------------------


def test_a_queue_that_is_removed_is_a_forced_release(one, drivers, look, name):
    holder, other = drivers(one.url + BEAT), drivers(one.url + BEAT)
    grant = holder.acquire(holder.lock(name, lease_ms=20000))
    look.delete(f"snib.l.{name}")
    grant.wait_state("lost", 5)
    other.acquire(other.lock(name), wait_ms=5000).release()


def test_an_emptied_queue_is_found_out(one, drivers, look, name):
    holder, other = drivers(one.url + BEAT), drivers(one.url + BEAT)
    grant = holder.acquire(holder.lock(name))
    waits = other.start_acquire(other.lock(name), wait_ms=30000)
    time.sleep(0.5)
    grant.release()
    waits.wait(5).release()
    wait_until(lambda: look.counts(f"snib.l.{name}")[0] == 1, 5, "it is free")
    look.purge(f"snib.l.{name}")
    holder.acquire(holder.lock(name), wait_ms=5000).release()


# -- holders that go -----------------------------------------------------------------------


def test_a_killed_holder_delays_by_its_lease_and_not_less(one, drivers, name):
    holder, other = drivers(one.url + BEAT), drivers(one.url + BEAT)
    holder.acquire(holder.lock(name, lease_ms=2000))
    waits = other.start_acquire(other.lock(name), wait_ms=20000)
    time.sleep(0.3)
    holder.kill()
    began = time.monotonic()
    waits.wait(20).release()
    took = time.monotonic() - began
    assert 1.95 <= took < 3.5, took


def test_a_connection_that_is_closed_by_hand_lets_nobody_in_for_a_lease(
        one, drivers, name):
    holder, other = drivers(one.url + BEAT), drivers(one.url + BEAT)
    grant = holder.acquire(holder.lock(name, lease_ms=3000))
    # on a busy machine it takes the hand a minute
    waits = other.start_acquire(other.lock(name), wait_ms=90000)
    time.sleep(0.3)
    began = time.monotonic()
    closes_all(one)
    grant.wait_state("lost", 3)
    waits.wait(20).release()
    assert time.monotonic() - began > 2.9


def test_a_frozen_holder_is_lost_when_it_wakes(one, drivers, name):
    holder, other = drivers(one.url + BEAT), drivers(one.url + BEAT)
    grant = holder.acquire(holder.lock(name, lease_ms=1500))
    holder.freeze()
    got = other.acquire(other.lock(name), wait_ms=20000, timeout=25)
    holder.thaw()
    assert holder.ask("renew", id=grant.id).err == "LOST"
    assert got.renew().ok
    got.release()


def test_a_release_after_a_cut_lets_others_in_at_once(one, drivers, wire, name):
    holder, other = drivers(wire.at), drivers(one.url + BEAT)
    grant = holder.acquire(holder.lock(name, lease_ms=20000))
    wire.cut()
    holder.ask("release", id=grant.id)
    began = time.monotonic()
    other.acquire(other.lock(name), wait_ms=25000).release()
    assert time.monotonic() - began < 5


def test_tries_get_in_when_a_dead_grant_is_over(one, drivers, name):
    """Nobody ever waits: the broker says in the queue that it is over."""
    holder, other = drivers(one.url + BEAT), drivers(one.url + BEAT)
    holder.acquire(holder.lock(name, lease_ms=3000))
    holder.kill()
    lock = other.lock(name)
    began = time.monotonic()
    assert not other.try_acquire(lock).ok
    wait_until(lambda: other.try_acquire(lock).ok, 10, "a try is granted")
    assert time.monotonic() - began > 2.9


def test_waits_that_are_shorter_than_a_dead_grants_lease_get_in(one, drivers,
                                                               name):
    """Each comes to be the one that is served, and gives up before the lease is
    over: it leaves word of how long that is."""
    holder = drivers(one.url + BEAT)
    holder.acquire(holder.lock(name, lease_ms=6000))
    holder.kill()
    began, waits = time.monotonic(), {}
    for other in (drivers(one.url + BEAT), drivers(one.url + BEAT)):
        other.lock(name)
        waits[other] = other.start_acquire(name, wait_ms=2500)
    while not any(pending.done() and pending.answer().ok
                  for pending in waits.values()):
        assert time.monotonic() - began < 15, "nobody gets in"
        for other, pending in waits.items():
            if pending.done():
                waits[other] = other.start_acquire(name, wait_ms=2500)
        time.sleep(0.01)
    assert time.monotonic() - began > 5.95


# -- lost answers ------------------------------------------------------------------


@pytest.mark.parametrize("then", ["rst", "silence"])
def test_the_connection_is_lost_at_each_message(one, drivers, then):
    """Whatever the message was: at no time two hold, and afterwards the lock can
    be had."""
    other = drivers(one.url + BEAT)
    cut = 0
    for at in range(1, 15, 1 if then == "rst" else 3):
        name = f"cut-{then}-{at}"
        theirs = other.lock(name)
        with Wire(one) as proxy:
            proxy.cut_at, proxy.then = at, then
            holder = drivers(proxy.at, request_ms=500)
            lock = holder.lock(name, lease_ms=1000)
            try:
                grant = holder.acquire(lock, wait_ms=2000)
                assert not other.try_acquire(theirs).ok
                grant.renew()
                grant.release()
            except LockError as error:
                assert error.err in ("UNKNOWN", "UNREACHABLE", "TIMEOUT",
                                     "LOST", "BUSY"), error
            cut += proxy.pieces >= at
            holder.kill()  # it may hold, if only a renewal was in vain
            other.acquire(theirs, wait_ms=15000).release()
    assert cut > (6 if then == "rst" else 2)


# -- the broker ------------------------------------------------------------------------


def test_a_broker_that_comes_back_has_the_lock(one, drivers, name):
    """What it had confirmed is there; who held has lost it, and others wait."""
    holder, other = drivers(one.url + BEAT), drivers(one.url + BEAT)
    grant = holder.acquire(holder.lock(name, lease_ms=60000))
    time.sleep(AGE_S)
    one.kill()
    one.start()
    grant.wait_state("lost", 10)
    assert other.try_acquire(other.lock(name)).err == "BUSY"
    holder.ask("release", id=grant.id)


BODY = """
exec 9> "$1/mutex"
flock -n 9 || { echo overlap >> "$1/overlaps"; exit 1; }
sleep 0.02
echo "$SNIB_TOKEN" >> "$1/tokens"
"""


class Crowd:
    """Processes that take one lock again and again, and look whether they are
    alone: flock(2) refuses a second one."""

    def __init__(self, url, folder, count=4):
        self.url, self.folder, self.stop = url, str(folder), False
        self.said = []
        (folder / "tokens").touch()
        self.threads = [threading.Thread(target=self._run)
                        for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self):
        while not self.stop:
            made = subprocess.run(
                [SNIB, "run", "--ttl", "2s", "--wait", "60s", "crowd", "--",
                 "sh", "-c", BODY, "sh", self.folder], text=True,
                env={**os.environ, "SNIB_URL": self.url},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                check=False)
            if made.returncode:
                self.said.append(made.stdout)

    def tokens(self):
        with open(self.folder + "/tokens", encoding="ascii") as file:
            return [int(line) for line in file if line.strip()]

    def end(self):
        self.stop = True
        for thread in self.threads:
            thread.join()
        assert not os.path.exists(self.folder + "/overlaps")
        tokens = self.tokens()
        assert tokens == sorted(set(tokens))
        return len(tokens)


def more_than(crowd, count):
    return lambda: len(crowd.tokens()) > count


@pytest.mark.parametrize("what", ["kill", "freeze", "close"])
def test_there_is_one_owner_whatever_becomes_of_the_broker(one, tmp_path, what):
    crowd = Crowd(one.url + BEAT, tmp_path)
    try:
        wait_until(more_than(crowd, 10), 30, "the crowd works")
        time.sleep(AGE_S)
        for _ in range(3):
            if what == "kill":
                one.kill()
                one.start()
            elif what == "freeze":
                one.freeze()
                time.sleep(5)
                one.thaw()
            else:
                closes_all(one)
            before = len(crowd.tokens())
            wait_until(more_than(crowd, before + 10), 60, "it goes on")
    finally:
        if one.child.poll() is None:
            one.thaw()
        count = crowd.end()
    assert count > 40


def test_an_alarm_of_the_broker_is_told(one, drivers, name):
    holder = drivers(one.url + BEAT, request_ms=1000)
    holder.acquire(holder.lock(name)).release()
    one.ctl("set_vm_memory_high_watermark", "0.0001")
    try:
        said = holder.ask("acquire", lock=holder.lock(f"{name}-2"), id="g",
                          wait_ms=3000)
        assert said.err in ("UNREACHABLE", "UNKNOWN", "TIMEOUT"), said
    finally:
        one.ctl("set_vm_memory_high_watermark", "absolute", "1500MB")
    holder.acquire(holder.lock(f"{name}-3"), wait_ms=20000).release()
