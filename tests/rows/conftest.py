"""Fault rows of the catalogue as tests: test_F_071_… is row F-071, test_A_15_…
case A-15. docs/PROOF.md has the whole table with what other suites show."""

import os
import resource
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness.driver import Driver, driver_missing  # noqa: E402
from harness.shim import Shim, ShimMissing, build_shim  # noqa: E402
from harness.wait import boot_ns, wait_until  # noqa: E402
from live.conftest import *  # noqa: E402,F401,F403


def ms_since(start_ns, end_ns=None):
    return ((end_ns or boot_ns()) - start_ns) / 1e6


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory):
    try:
        return build_shim(tmp_path_factory.mktemp("shim"))
    except ShimMissing as why:
        pytest.skip(str(why))


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
def clocked(redis_with, shims):
    """A server whose wall clock the test steps: (server, shim)."""
    shim = shims()
    server = redis_with(env=shim.env)
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
