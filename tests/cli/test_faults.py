"""The n-th descriptor, process, thread or allocation cannot be had, in any of
the processes of a command: it ends in time with an exit code of ours, and
nobody holds afterwards what nobody owns.

The gate tries a fixed sample; with SNIB_FAULTS=all every n (./dev soak)."""

import json
import os
import resource
import time

import pytest

from conftest import eventually
from harness.shim import build_shim

ALL = os.environ.get("SNIB_FAULTS") == "all"
TTL = "2s"
# As the manual lists them, of the command, and 1: what `false` says.
CODES = {0, 1, 64, 65, 69, 70, 71, 73, 74, 75, 76, 77, 78, 126, 127}


@pytest.fixture(scope="session")
def shim(tmp_path_factory):
    return build_shim(tmp_path_factory.mktemp("shim"), "faults.c")


def sanitized(binary):
    with open(binary, "rb") as file:
        return b"__asan_init" in file.read() or b"__tsan_init" in file.read()


COMMANDS = {
    "try": ("try", "-t", TTL, "n", "--", "true"),
    "run": ("run", "-t", TTL, "-w", "3s", "n", "--", "true"),
    "several": ("run", "-t", TTL, "-w", "2s", "n", "m", "--", "true"),
    # With a limit: one that never has memory to connect waits for ever without.
    "acquire": ("acquire", "-t", TTL, "-w", "3s", "n"),
    "status": ("status", "--json", "n"),
    "list": ("list",),
    "doctor": ("doctor",),
    "why": ("why", "n"),
    "wait": ("wait", "-w", "1s", "n"),
    "semaphore": ("semaphore", "--set", "3", "s"),
    "latch": ("latch", "--await", "-w", "1s", "l"),
    "force": ("force-release", "--yes", "--reason", "x", "n"),
}
SAMPLE = {"fd": range(1, 26, 3), "fork": range(1, 6), "memory":
          [2, 5, 9, 14, 20, 33, 47, 71, 98, 140, 190]}
WHOLE = {"fd": range(1, 41), "fork": range(1, 9), "memory": range(1, 261, 3)}


def faults(kind):
    for n in (WHOLE if ALL else SAMPLE)[kind]:
        yield f"{kind}:{n}"
        if ALL or n % 2:
            yield f"{kind}:{n}+"


def with_fault(snib, shim, fault, args):
    env = {"LD_PRELOAD": shim, "SNIB_FAULT": fault}
    done = snib.run(*args, env=env, timeout=25)
    said = (fault, args[0], done.returncode, done.stderr[-400:])
    assert done.returncode in CODES, said
    assert "ssertion" not in done.stderr, said
    return done


def nobody_holds(snib, name):
    """Within a lease nobody is left who holds what no process owns."""
    eventually(lambda: snib.run("try", "-q", name).returncode == 0,
               f"{name} can be had again", 6)


@pytest.mark.parametrize("kind", ["fd", "fork", "memory"])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_cannot_be_had_is_told(store, shim, command, kind):
    if sanitized(store.binary):
        pytest.skip("sanitizers have an allocator of their own")
    assert store.run("semaphore", "--set", "3", "s").returncode == 0
    args = COMMANDS[command]
    began = time.monotonic()
    for fault in faults(kind):
        if command == "acquire" and kind == "fd" and fault.endswith("+"):
            continue  # a holder without any cannot be asked to release
        done = with_fault(store, shim, fault, args)
        if "--json" in args and done.returncode == 0:
            json.loads(done.stdout)
        if command == "acquire" and done.stdout:
            released = store.run("release", done.stdout.strip())
            assert released.returncode in (0, 76), released.stderr
        if command in ("try", "run", "several", "acquire"):
            nobody_holds(store, "n")
        if ALL is False and time.monotonic() - began > 40:
            pytest.fail("the sample takes too long: %s" % fault)


@pytest.mark.parametrize("n", [4, 5])
def test_a_grant_that_names_no_process_is_none(mapped, shim, n):
    """The files below /proc that tell the boot and the process cannot be
    opened: then there is no grant, and nobody holds."""
    done = with_fault(mapped, shim, f"fd:{n}", COMMANDS["acquire"])
    if done.returncode == 0:
        grant = done.stdout.strip()
        assert mapped.run("check", "-m", "0", grant).returncode == 0
        assert mapped.run("release", grant).returncode == 0
    nobody_holds(mapped, "n")


def test_several_names_leave_no_orphan(store, shim):
    """The thread that gets them wakes the holder through a descriptor."""
    for n in range(1, 31 if ALL else 16):
        with_fault(store, shim, f"fd:{n}", COMMANDS["several"])
        for name in ("n", "m"):
            nobody_holds(store, name)


def few_descriptors(n):
    def limit():
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (n, most))
    return limit


def test_a_holder_without_descriptors_can_be_asked_to_release(store):
    """Either there are too few to acquire, or one is left for who asks."""
    acquired = 0
    for n in range(8, 24):
        done = store.acquire("-t", "3s", "-w", "300ms", "n",
                             preexec_fn=few_descriptors(n))
        if done.returncode != 0:
            assert done.returncode in CODES and done.stderr, (n, done)
            continue
        acquired += 1
        grant = done.stdout.strip()
        checked = store.run("check", "-m", "0", grant)
        assert checked.returncode == 0, (n, checked.stderr)
        released = store.run("release", grant)
        assert released.returncode == 0, (n, released.stderr)
        assert not store.held("n"), n
    assert acquired > 2


@pytest.mark.parametrize("n", range(4, 9))
def test_a_lock_file_without_a_descriptor_left_is_no_wrong_setup(mapped, n):
    """What helps is said: another file would not."""
    assert mapped.run("semaphore", "-q", "--set", "3", "s").returncode == 0
    done = mapped.run("status", "a", preexec_fn=few_descriptors(n))
    if done.returncode == 0:
        assert n > 5, done
        return
    assert done.returncode == 70, done
    assert (f"no descriptor is left of the {n} that this process may have "
            "(ulimit -n)") in done.stderr
    assert "name another" not in done.stderr
