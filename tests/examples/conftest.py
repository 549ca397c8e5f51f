"""Everything under examples/ does what it says."""

import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness.fixtures import *  # noqa: E402,F401,F403

ROOT = os.environ.get("SNIB_SOURCE_DIR") or os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = os.path.join(ROOT, "examples")


def built(name):
    """Path of a program built from examples/; skips when there is none."""
    for build in (os.environ.get("SNIB_BUILD_DIR"),
                  os.path.join(ROOT, "build", "dev"),
                  os.path.join(ROOT, "build", "release")):
        path = build and os.path.join(build, "examples", name)
        if path and os.access(path, os.X_OK):
            return path
    pytest.skip(f"examples/{name} is not built")


@pytest.fixture
def example(tmp_path):
    """example("hello", *args) runs it on a store of its own."""
    def run(name, *args, url=f"file:{tmp_path}/locks.db", **options):
        return subprocess.run(
            [built(name), *map(str, args)], capture_output=True, text=True,
            timeout=60, env={**os.environ, "SNIB_URL": url}, **options)
    return run


@pytest.fixture
def text_of():
    """text_of("fence/enter.lua"): a text from examples/."""
    def read(name):
        with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
            return file.read()
    return read


@pytest.fixture
def snib():
    """The command line tool."""
    path = os.environ.get("SNIB_BIN") or os.path.join(
        os.environ.get("SNIB_BUILD_DIR", ""), "snib")
    if not os.access(path, os.X_OK):
        pytest.skip("the command snib is not built")
    return path
