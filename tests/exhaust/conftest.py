"""faults.c, compiled once for the tests of a file."""

import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from harness.shim import build_shim  # noqa: E402


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    return build_shim(tmp_path_factory.mktemp("shim"), "faults.c")
