"""Fault rows of the catalogue as tests: test_F_071_… is row F-071, test_A_15_…
case A-15. docs/PROOF.md has the whole table with what other suites show."""

import mmap
import os
import resource
import shutil
import struct
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import process  # noqa: E402
from harness import redis_server  # noqa: E402
from harness.driver import Driver, driver_missing  # noqa: E402
from harness.wait import boot_ns, wait_until  # noqa: E402
from live.conftest import *  # noqa: E402,F401,F403

HERE = os.path.dirname(os.path.abspath(__file__))
SECOND = 1_000_000_000
NAMES = ["", "socket", "connect", "send", "recv", "poll", "epoll_create1",
         "epoll_ctl", "epoll_wait", "timerfd_create", "eventfd", "setsockopt",
         "getaddrinfo", "pthread_create"]


def ms_since(start_ns, end_ns=None):
    return ((end_ns or boot_ns()) - start_ns) / 1e6


def late_ms():
    """What a busy machine may add to a time that is measured from outside:
    50 ms, and 50 ms for each runnable process beyond one a CPU."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return 50 + 50 * min(max(load - 1, 0), 40)


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which(
        "clang")
    if not compiler:
        pytest.skip("no C compiler for the clock shim (cc)")
    made = str(tmp_path_factory.mktemp("shim") / "shim.so")
    done = subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", made,
         os.path.join(HERE, "shim.c"), "-ldl"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        pytest.skip("the clock shim does not compile: " + done.stdout[-300:])
    return made


class Shim:
    """The clocks and the failing call of one process; see shim.c."""

    def __init__(self, library, path):
        with open(path, "wb") as file:
            file.write(bytes(40))
        self.env = {"LD_PRELOAD": library, "SNIB_SHIM": str(path)}
        self._file = open(path, "r+b")
        self._map = mmap.mmap(self._file.fileno(), 40)

    def _put(self, at, value):
        self._map[8 * at:8 * at + 8] = struct.pack("=q", value)

    def _get(self, at):
        return struct.unpack("=q", self._map[8 * at:8 * at + 8])[0]

    def step_real(self, seconds):
        self._put(0, self._get(0) + int(seconds * SECOND))

    def step_boot(self, seconds):
        self._put(1, self._get(1) + int(seconds * SECOND))

    def fail_at(self, nth):
        """The nth hooked call from now fails; 0: none."""
        self._put(2, 0)
        self._put(3, 0)
        self._put(4, 0)
        self._put(2, nth)

    def failed(self):
        """Which call has failed; "" when it was not reached."""
        return NAMES[self._get(4)]

    def close(self):
        self._map.close()
        self._file.close()


@pytest.fixture
def shims(shim_library, tmp_path):
    """shims() makes the clocks of one more process."""
    made = []

    def make():
        made.append(Shim(shim_library, tmp_path / f"shim{len(made)}"))
        return made[-1]
    yield make
    for shim in made:
        shim.close()


@pytest.fixture
def driver_with(tmp_path):
    """driver_with(url, env=…, words=["prlimit", …]): a special process."""
    reason = driver_missing()
    if reason:
        pytest.skip(reason)
    made = []

    def start(url, env=None, words=(), **options):
        path = None
        if words:
            path = str(tmp_path / f"driver{len(made)}.sh")
            from harness.driver import find_driver
            with open(path, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\nexec %s '%s'\n"
                           % (" ".join(words), find_driver()))
            os.chmod(path, 0o700)
        driver = Driver(path, env)
        made.append(driver)
        driver.open(url, **options)
        return driver
    yield start
    for driver in made:
        driver.close()


@pytest.fixture
def clocked(redis_with, shims, monkeypatch):
    """A server whose wall clock the test steps: (server, shim)."""
    shim = shims()
    spawn = process.spawn

    def with_shim(argv, **options):
        return spawn(argv, env={**os.environ, **shim.env}, **options)
    monkeypatch.setattr(redis_server.process, "spawn", with_shim)
    try:
        server = redis_with()
    finally:
        monkeypatch.setattr(redis_server.process, "spawn", spawn)
    before = int(server.command("TIME")[0])
    shim.step_real(1000)
    if int(server.command("TIME")[0]) - before < 900:
        pytest.skip("redis-server does not take its time through libc")
    shim.step_real(-1000)
    return server, shim


def wait_renewed(grant, timeout=3):
    """Until more is left of the lease than at the look before."""
    seen = [grant.status().left_ms]

    def longer():
        seen.append(grant.status().left_ms)
        return seen[-1] > seen[-2]
    wait_until(longer, timeout, "renewed")


class Resource:
    """A value behind a fence (docs/FENCING.md): the mark is raised before
    the first read of a section and compared at each write."""

    def __init__(self):
        self.mark = self.value = self.accepted = self.refused = 0

    def begin(self, token):
        """Enter; what was read, None when refused."""
        if token < self.mark:
            self.refused += 1
            return None
        self.mark = token
        return self.value

    def write(self, token, value):
        if token != self.mark:
            self.refused += 1
            return False
        self.value = value
        self.accepted += 1
        return True


def show_two_holders(one, first, read, second, fence):
    """The store has forgotten `first`, a fixed lease: both hold, exclusion
    has failed as documented. The fence serves the second only, and the first
    is told when it asks the store. (`one`: the driver of `first`, which had
    read `read`.)"""
    assert first.status().held and second.status().held
    assert second.token > first.token
    again = fence.begin(second.token)
    assert not fence.write(first.token, read + 1)
    assert fence.write(second.token, again + 1)
    assert one.ask("renew", id=first.id, on=first.on).err == "LOST"
    assert first.status().state == "lost"
    assert first.start_release().answer().err == "LOST"
    assert second.status().held
    second.release()


@pytest.fixture
def fence():
    """At the end no accepted write was lost."""
    made = Resource()
    yield made
    assert made.value == made.accepted


def limit_descriptors(pid, number):
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (number, hard))
