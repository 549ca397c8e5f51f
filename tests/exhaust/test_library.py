"""Every call of libc fails once in a program that uses the library (uses.c; a
sample, as in test_exhaust.py), and allocations of the library's own hook: with
AddressSanitizer, too.
labels: oom"""

import os
import re
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
BINARY = os.environ.get("SNIB_BIN", "")
USES = os.path.join(os.environ.get("SNIB_BUILD_DIR", ""), "tests", "exhaust",
                    "snib-uses")
ONE_IN = {"library": 11, "library-memory": 3}


@pytest.mark.parametrize("workload", ["library", "library-memory"])
def test_calls_of_libc(workload, shim):
    if not BINARY:
        pytest.skip("SNIB_BIN does not name the program")
    with open(USES, "rb") as file:
        if b"__asan_init" in file.read():
            pytest.skip("sanitizers call libc before we can be in between")
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "exhaust.py"), "--snib", BINARY,
         "--shim", shim, "--workload", workload, "--one-in", str(ONE_IN[workload])],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=500)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-4000:]
    failures = re.search(r"(\d+) failures", done.stdout)
    assert failures and int(failures[1]) > 20, done.stdout[-1000:]


@pytest.mark.parametrize("store", ["memory", "file"])
def test_allocations_of_the_library(store, tmp_path):
    url = "memory:x" if store == "memory" else "file:%s/l.db" % tmp_path
    told, passed, n = 0, 0, 1
    while passed < 3:  # some are absorbed
        done = subprocess.run(
            [USES, url], env=dict(os.environ, SNIB_USES_ALLOC=str(n)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=60)
        assert done.returncode in (0, 3) and not done.stderr, (n, done)
        told += done.returncode == 3
        passed = passed + 1 if done.returncode == 0 else 0
        n += 1 if n < 20 else 7  # unit.oom tries each
    assert told > 10, told
