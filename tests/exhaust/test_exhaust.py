"""Every call of libc fails once, in a sample that is always the same: those
whose name (workload, call, process, number, failure) has a CRC-32 that the
number below divides (of allocations: five times that number). All of them:
./dev exhaust."""

import os
import re
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
import faultpoints  # noqa: E402
from harness.redis_server import redis_missing  # noqa: E402

BINARY = os.environ.get("SNIB_BIN", "")
ONE_IN = {"file": 79, "redis": 53}


def sanitized(binary):
    with open(binary, "rb") as file:
        return b"__asan_init" in file.read() or b"__tsan_init" in file.read()


def exhaust(*args, binary=BINARY):
    return subprocess.run(
        [sys.executable, os.path.join(HERE, "exhaust.py"), "--snib", binary,
         *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=500)


@pytest.mark.parametrize("store", ["file", "redis"])
def test_what_fails_once_is_done_or_told(store, shim):
    if not BINARY:
        pytest.skip("SNIB_BIN does not name the program")
    if sanitized(BINARY):
        pytest.skip("sanitizers have an allocator of their own")
    if store == "redis" and redis_missing():
        pytest.skip(redis_missing())
    done = exhaust("--shim", shim, "--store", store, "--one-in",
                   str(ONE_IN[store]))
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-4000:]
    failures = re.search(r"(\d+) failures", done.stdout)
    assert failures and int(failures[1]) > 50, done.stdout[-1000:]


def test_what_is_not_told_is_seen(tmp_path, shim):
    """A program that hides how it ended, and one that leaves the lock held."""
    if not BINARY:
        pytest.skip("SNIB_BIN does not name the program")
    if sanitized(BINARY):
        pytest.skip("sanitizers have an allocator of their own")
    for lie, seen in (
            ('exec "$0.real" "$@" 2>/dev/null', "without a word"),
            ('"$0.real" "$@"; n=$?; test $n = 70 || exit $n; unset LD_PRELOAD;'
             ' "$0.real" acquire -q --detached -t 20s n; exit $n',
             "left held")):
        program = str(tmp_path / "snib")
        shutil.copy(BINARY, program + ".real")
        with open(program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + lie + "\n")
        os.chmod(program, 0o755)
        done = exhaust("--shim", shim, "--store", "file", "--workload",
                       "run", "--call", "fork", binary=program)
        assert done.returncode == 1 and seen in done.stdout, done.stdout


def imported(path):
    done = subprocess.run(["nm", "-D", "--undefined-only", path],
                          stdout=subprocess.PIPE, text=True, check=True)
    return {re.sub("@.*", "", line.split()[-1])
            for line in done.stdout.splitlines()}


def test_each_call_of_the_product_is_known():
    """A function that the product begins to use has a line, or a reason."""
    if not BINARY:
        pytest.skip("SNIB_BIN does not name the program")
    if sanitized(BINARY):
        pytest.skip("sanitizers put calls of their own in")
    can, cannot = faultpoints.calls()
    known = {name.split(".")[0] for name in can} | set(cannot)
    known |= {"__%s_chk" % name for name in known}
    known |= {name[:-2] + "64" for name in known if name.endswith("64")}
    # What one name stands for in the table.
    known |= {"open64", "fcntl64", "pread64", "pwrite64", "sendto", "syscall"}
    left = {name for name in imported(BINARY) - known
            if not name.startswith(("_ITM_", "__gmon", "__cxa_"))}
    assert not left, "not in calls.tsv: " + " ".join(sorted(left))
