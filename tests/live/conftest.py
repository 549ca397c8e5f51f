"""Real library, real server, real faults."""

import os
import re
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness.checks import assert_no_residue  # noqa: E402
from harness.driver import ROOT, Driver, driver_missing  # noqa: E402
from harness.fault_proxy import FaultProxy  # noqa: E402
from harness.fixtures import *  # noqa: E402,F401,F403
from harness.wait import wait_until  # noqa: E402

SOURCE = os.environ.get("SNIB_SOURCE_DIR", ROOT)
SCRIPTS = os.path.join(SOURCE, "src", "store", "redis", "scripts")


def _words(text):
    """A script without comments and space, to compare texts by."""
    return re.sub(r"\s+", "", re.sub(r"(?m)^\s*--[^\n]*", "", text))


def classify_script(text):
    """Label of a script that the library sends: the name of the .lua file
    that it begins and ends like (what is included stands in between)."""
    sent = _words(text)
    for name in sorted(os.listdir(SCRIPTS)):
        with open(os.path.join(SCRIPTS, name), encoding="utf-8") as file:
            parts = re.split(r"(?m)^-- @include .*$", file.read())
        if (sent.startswith(_words(parts[0]))
                and sent.endswith(_words(parts[-1]))):
            return name.removesuffix(".lua")
    return ""


@pytest.fixture
def drivers():
    """drivers() starts one more process with the library."""
    reason = driver_missing()
    if reason:
        pytest.skip(reason)
    made = []

    def start(url=None, **options):
        driver = Driver()
        made.append(driver)
        if url is not None:
            driver.open(url, **options)
        return driver
    yield start
    for driver in made:
        driver.close()
    # What a sanitizer says, or a broken invariant on its way to abort().
    said = "".join(driver.stderr for driver in made)
    assert "Sanitizer" not in said and "assert" not in said.lower(), said


BUILT_IN = {}


@pytest.fixture(autouse=True)
def built_in(request):
    """A module whose tests are of one store alone has a URL of it: NEEDS."""
    url = getattr(request.module, "NEEDS", None)
    if url and url not in BUILT_IN:
        said = request.getfixturevalue("drivers")().ask("open", id="x", url=url)
        BUILT_IN[url] = said.err != "UNSUPPORTED"
    if url and not BUILT_IN[url]:
        pytest.skip(f"the store {url.partition('//')[0]} is not built in")


@pytest.fixture
def proxy(redis):
    """A fault proxy in front of `redis` that knows the library's scripts."""
    with FaultProxy(redis.address, classify=classify_script) as made:
        yield made


@pytest.fixture
def clean(redis):
    """Nothing may be left in `redis` when the test has passed."""
    yield
    assert_no_residue(redis)


@pytest.fixture
def expires(redis):
    """As clean, when waiters were killed: their places end by themselves."""
    yield
    assert_no_residue(redis, dead_waiters=True)


@pytest.fixture
def look(drivers):
    """look(url) inspects locks through a process that no fault touches."""
    made = {}

    def of(url):
        if url not in made:
            made[url] = Look(drivers(url))
        return made[url]
    return of


class Look:
    """Who holds and who waits, in the library's own words."""

    def __init__(self, driver):
        self.driver = driver

    def view(self, name):
        return self.driver.call("inspect", client="c", name=name)

    def holders(self, name):
        return len(self.view(name).holders)

    def waiters(self, name):
        return len(self.view(name).waiters)

    def wait_waiters(self, name, count, timeout=5.0):
        wait_until(lambda: self.waiters(name) == count, timeout,
                   f"{count} waiters at {name}")

    def wait_free(self, name, timeout=5.0):
        wait_until(lambda: self.holders(name) == 0, timeout, f"{name} is free")
