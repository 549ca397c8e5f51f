"""Half-open TCP as only a network can make it: the peer is gone, nothing says
so, and what was sent is never acknowledged (F-016, F-051, F-062).

Two network namespaces, a veth pair between them: the server and the waiter in
one, the holder in the other. Needs root; a userspace proxy cannot do this,
because its kernel acknowledges what it has read.
"""

import os
import shutil
import subprocess

import pytest

from harness import process
from harness.driver import Driver, LockError, driver_missing, find_driver
from harness.redis_server import redis_missing
from harness.wait import boot_ns, wait_until

LEASE_MS = 1200
# A callback is seen through a pipe, on a machine that does other things, too.
SEEN_MS = 400
SERVER, CLIENT = "10.214.77.1", "10.214.77.2"


def ip(*words, ns=None):
    argv = ["ip", *(["-n", ns] if ns else []), *words]
    done = subprocess.run(argv, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(argv)}: {done.stdout.strip()}")


def reason_to_skip():
    if driver_missing() or redis_missing():
        return driver_missing() or redis_missing()
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "no ip program (Debian: apt install iproute2)"
    return ""


pytestmark = pytest.mark.skipif(bool(reason_to_skip()),
                                reason=reason_to_skip())


class Net:
    """snib-s-PID (server, waiter) and snib-c-PID (holder), one wire."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.server_ns = f"snib-s-{os.getpid()}"
        self.client_ns = f"snib-c-{os.getpid()}"
        self.redis, self.drivers = None, []
        self.url = f"redis://{SERVER}:6379"

    def up(self):
        for ns in (self.server_ns, self.client_ns):
            ip("netns", "add", ns)
            ip("link", "set", "lo", "up", ns=ns)
        ip("link", "add", "wire", "type", "veth", "peer", "name", "wire",
           "netns", self.client_ns, ns=self.server_ns)
        for ns, address in ((self.server_ns, SERVER),
                            (self.client_ns, CLIENT)):
            ip("addr", "add", f"{address}/24", "dev", "wire", ns=ns)
            ip("link", "set", "wire", "up", ns=ns)
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.redis = process.spawn(
                ["ip", "netns", "exec", self.server_ns, "redis-server",
                 "--bind", SERVER, "--protected-mode", "no", "--save", "",
                 "--dir", self.folder], stdout=log, stderr=log)
        wait_until(lambda: b"Ready to accept" in self._log(), 10,
                   "redis-server is ready")

    def _log(self):
        with open(os.path.join(self.folder, "log"), "rb") as log:
            return log.read()

    def driver(self, ns):
        """A driver in there; `ip netns exec` becomes it, so its pid is its."""
        path = os.path.join(self.folder, f"driver-{ns}")
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec ip netns exec"
                       f" {ns} '{find_driver()}'\n")
        os.chmod(path, 0o700)
        driver = Driver(path)
        self.drivers.append(driver)
        driver.open(self.url, request_ms=600)
        driver.lock("n", lease_ms=LEASE_MS)
        driver.lock("long", lease_ms=8000)
        return driver

    def cut(self, how):
        if how == "link down":
            ip("link", "set", "wire", "down", ns=self.client_ns)
        elif how == "client blackhole":
            ip("route", "add", "blackhole", f"{SERVER}/32", ns=self.client_ns)
        else:
            ip("route", "add", "blackhole", f"{CLIENT}/32", ns=self.server_ns)

    def heal(self, how):
        if how == "link down":
            ip("link", "set", "wire", "up", ns=self.client_ns)
        elif how == "client blackhole":
            ip("route", "del", "blackhole", f"{SERVER}/32", ns=self.client_ns)
        else:
            ip("route", "del", "blackhole", f"{CLIENT}/32", ns=self.server_ns)

    def down(self):
        for driver in self.drivers:
            driver.close()
        process.kill(self.redis)
        for ns in (self.server_ns, self.client_ns):
            subprocess.run(["ip", "netns", "del", ns], check=False,
                           stderr=subprocess.DEVNULL)


@pytest.fixture
def net(tmp_path):
    made = Net(tmp_path)
    try:
        try:
            made.up()
        except OSError as why:
            pytest.skip(f"no network namespace here: {why}")
        yield made
    finally:
        made.down()


CUTS = ["link down", "client blackhole", "server blackhole"]


@pytest.mark.parametrize("how", CUTS)
def test_half_open_loss_is_told_by_the_deadline_and_the_waiter_takes_over(
        net, how):
    holder, waiter = net.driver(net.client_ns), net.driver(net.server_ns)
    held = holder.acquire("n", wait_ms=3000)
    waiting = waiter.start_acquire("n", wait_ms=15000)
    wait_until(lambda: holder.call("inspect", client="c", name="n").waiters,
               5, "the waiter queues")
    net.cut(how)
    cut_at = boot_ns()
    # The deadline that the library itself named last, until it says lost.
    deadline = 0

    def lost():
        nonlocal deadline
        status = held.status()
        if status.held:
            deadline = max(deadline, status.began + status.left_ms * 1_000_000)
        return status.state == "lost"
    wait_until(lost, LEASE_MS / 1000 + 5, "the loss")
    told = holder.wait_event("change", timeout=SEEN_MS / 1000, state="lost",
                             token=held.token)
    assert told.at - cut_at <= (LEASE_MS + SEEN_MS) * 1_000_000
    assert deadline <= cut_at + LEASE_MS * 1_000_000
    # A dead holder delays by its lease (a late renewal of it may have got
    # through one way), then the waiter's next poll finds out.
    taken = waiting.wait(timeout=2 * LEASE_MS / 1000 + 5)
    assert taken.ended >= deadline, "both held"
    assert taken.token > held.token
    # No call of the cut-off client outlives its limit by tcp_retries2.
    answer = holder.start_acquire("n", on="other", wait_ms=800).answer(10)
    assert not answer.ok and answer.took_ms <= 800 + SEEN_MS
    net.heal(how)
    answer = held.start_release().answer(10)
    assert answer.err == "LOST"
    again = holder.start_acquire("n", wait_ms=20000)
    assert not again.done() and taken.status().held
    taken.release()
    assert again.wait(timeout=20).token > taken.token
    again.grant.release()


@pytest.mark.parametrize("how", CUTS)
def test_half_open_shorter_than_the_lease_keeps_the_lock(net, how):
    holder = net.driver(net.client_ns)
    held = holder.acquire("long", wait_ms=3000)
    net.cut(how)
    with pytest.raises(LockError):  # nothing comes back: not done
        held.renew()
    net.heal(how)
    begun = boot_ns()

    def renewed():
        status = held.status()
        assert status.held, f"{status.state}: {status.reason}"
        return (status.began + status.left_ms * 1_000_000
                > begun + 7_000 * 1_000_000)
    wait_until(renewed, 7, "a renewal after the wire is back")
    assert held.status().token == held.token
    # The callers' line may still rest between two retransmissions: the answer
    # may be "unknown", and the release arrives all the same, at once.
    assert held.start_release().answer(10).err in ("OK", "UNKNOWN")
    other = net.driver(net.server_ns)
    other.acquire("long", wait_ms=4000).release()


def test_a_waiter_cut_off_for_good_lets_the_next_one_have_its_turn(net):
    """However many waiters vanish without a word."""
    gone, next_one = net.driver(net.client_ns), net.driver(net.server_ns)
    holder = net.driver(net.server_ns)
    held = holder.acquire("n", wait_ms=3000)

    def waiters():
        return len(holder.call("inspect", client="c", name="n").waiters)
    gone.start_acquire("n", wait_ms=-1)
    wait_until(lambda: waiters() == 1, 5, "the one that vanishes queues first")
    waiting = next_one.start_acquire("n", wait_ms=15000)
    wait_until(lambda: waiters() == 2, 5, "the next one queues")
    net.cut("link down")
    held.release()
    # Alive window, push lease, poll: 3 + min(lease, 3) + 1 s.
    bound_ms = 3000 + LEASE_MS + 1500
    released = boot_ns()
    taken = waiting.wait(timeout=bound_ms / 1000 + 5)
    assert taken.ended - released <= (bound_ms + SEEN_MS) * 1_000_000
    taken.release()
