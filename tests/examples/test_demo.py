"""./dev demo: its promises hold, and it leaves nothing behind."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import ROOT


@pytest.fixture(scope="module")
def sale(tmp_path_factory):
    """Output of one run, with another seed than the one people see."""
    build = os.environ.get("SNIB_BUILD_DIR", "")
    if not os.access(f"{build}/demo/snib-demo-sale", os.X_OK):
        pytest.skip("the demo is not built")
    scratch = tmp_path_factory.mktemp("demo")
    result = subprocess.run(
        [f"{ROOT}/demo/run", "--seed", "7", "--requests", "2500"],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "TMPDIR": str(scratch)})
    result.left = os.listdir(scratch)
    return result


def test_every_expectation_is_met(sale):
    assert sale.returncode == 0, sale.stdout + sale.stderr
    assert "FAILED" not in sale.stdout


def test_the_table_shows_the_difference_a_lock_makes(sale):
    rows = {m[1].strip(): [int(n) for n in m[2].split()] for m in re.finditer(
        r"(?m)^([a-z][a-z, ]+?)\s{2,}((?:\d+\s+){5})\d", sale.stdout)}
    with_redis = shutil.which("redis-server") is not None
    assert len(rows) == (5 if with_redis else 3), sale.stdout
    for name, (requests, sold, oversold, duplicates, refused) in rows.items():
        assert requests == 2500
        if name == "no lock":
            assert oversold > 0 and duplicates > 0 and refused == 0
        else:
            assert (sold, oversold, duplicates) == (800, 0, 0), name
            assert (refused > 0) == name.endswith("faults"), name


def test_nothing_is_left_behind(sale):
    assert sale.left == []


def test_the_crowd_comes_from_the_seed(sale):
    program = f"{os.environ['SNIB_BUILD_DIR']}/demo/snib-demo-sale"

    def crowd(seed):
        return subprocess.run([program, "--print", "--seed", seed],
                              capture_output=True, check=True).stdout
    assert crowd("1") == crowd("1") != crowd("2")
    lines = crowd("1").decode().splitlines()
    users = [line.split(",")[1] for line in lines[1:]]
    assert len(lines) == 4001
    assert len(set(users)) < len(users) / 2  # they press the button again
