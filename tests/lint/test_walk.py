"""tools/lint/walk.py: the way of one acquire, and what counts as turning back."""

import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "lint"))

import walk  # noqa: E402


def test_one_acquire_walks_through_no_more_files_than_are_allowed():
    done = subprocess.run(
        [sys.executable, os.path.join(ROOT, "tools/lint/walk.py"), "--limits"],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        check=False)
    if done.returncode == 69:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout
    assert "src/api/acquire.c: snib_acquire " in done.stdout
    assert "snib__packet_granted" in done.stdout


def test_a_climb_is_a_call_into_a_file_from_before():
    down = [(0, "a", "a.c"), (1, "b", "b.c"), (2, "c", "c.c"), (1, "d", "c.c")]
    assert walk.climbs_of(down) == []
    up = [(0, "a", "a.c"), (1, "b", "b.c"), (2, "c", "c.c"), (3, "e", "b.c"),
          (3, "e", "b.c")]
    assert walk.climbs_of(up) == [("c", "e")]
    # To return and call the next is no climb; a header's function is no file.
    flat = [(0, "a", "a.c"), (1, "b", "b.c"), (1, "c", "c.c"),
            (2, "h", "h.h"), (1, "b2", "b.c")]
    assert walk.climbs_of(flat) == []
