"""What snib needs before it may take a lock: descriptors, /proc. Where it lacks
something it says so, and holds nothing."""

import os
import signal
import subprocess
import sys

import pytest

from conftest import Snib, eventually, kill
from harness.shim import Shim, build_shim

ROOT = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory):
    return build_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture
def shim(shim_library, tmp_path):
    made = Shim(shim_library, tmp_path / "words")
    yield made
    made.close()


def finish(p, seconds=20):
    """(stdout, stderr); what does not end is killed, with what holds its
    pipes."""
    try:
        return p.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        kill(p.pid, signal.SIGKILL)
        raise AssertionError("it never ended") from None


def end_holders(store, *names):
    for name in names:
        for holder in store.status(name)["holders"]:
            kill(holder["pid"], signal.SIGKILL)


def test_without_its_timer_it_does_not_begin(store, shim):
    """The command's end before the lease's hangs on it."""
    mark = store.path("ran")
    shim.fail_at(1, "timerfd_create")
    done = store.run("run", "a", "--", "touch", mark, env=shim.env)
    assert shim.failed() == "timerfd_create"
    assert done.returncode == 70, "it went on without"
    assert "cannot start" in done.stderr
    assert not os.path.exists(mark) and not store.held("a")


def test_without_its_event_descriptor_it_holds_nothing(redis, shim):
    """A holder of several names that cannot be told of its grants."""
    shim.fail_at(1, "eventfd")
    p = redis.start("run", "--wait", "2s", "a", "b", "--", "true",
                    env=shim.env)
    try:
        out, err = finish(p)
        assert shim.failed() == "eventfd"
        assert p.returncode == 70 and "cannot" in err, err
        assert not redis.held("a") and not redis.held("b")
    finally:
        end_holders(redis, "a", "b")


def test_an_orphan_of_it_does_not_hold_what_it_was_given(redis, shim):
    """… nor goes on alone when its leash is killed."""
    shim.fail_at(1, "eventfd")
    p = redis.start("run", "a", "b", "--", "true", env=shim.env)
    eventually(lambda: p.poll() is not None or redis.held("b"))
    kill(p.pid, signal.SIGKILL)
    try:
        eventually(lambda: not redis.held("a") and not redis.held("b"),
                   "both free", 5)
    finally:
        end_holders(redis, "a", "b")


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_whatever_call_fails_the_end_is_clean(store, shim, names):
    """Each in turn, of all processes: either the command ran, or it is said
    why not; afterwards nothing is held."""
    for nth in range(1, 1000):
        shim.fail_at(nth)
        p = store.start("run", *names, "--", "echo", "ran", env=shim.env)
        try:
            out, err = finish(p)
        except AssertionError as hung:
            raise AssertionError("%s: call %d, %s" % (
                hung, nth, shim.failed())) from None
        what = shim.failed()
        shim.fail_at(0)
        if not what:
            break
        told = "call %d, %s: %d %r %r" % (nth, what, p.returncode, out, err)
        assert p.returncode in (0, 69, 70, 76), told
        assert out == "ran\n" or err != "", told
        assert p.returncode != 0 or out == "ran\n", told
        for name in names:
            eventually(lambda: not store.held(name), told, 5)
    assert nth > 10


def test_a_keeper_that_cannot_let_go_of_stdout_is_not_left(mapped, shim):
    """x=$(snib acquire …) would wait for its end."""
    env = dict(shim.env, SNIB_SHIM_NO_NULL="1")
    p = mapped.start("acquire", "-q", "a", env=env)
    try:
        out, err = finish(p)
        assert p.returncode == 70 and "/dev/null" in err, err
        assert out == "" and not mapped.held("a")
    finally:
        end_holders(mapped, "a")


# -- /proc ---------------------------------------------------------------------

def test_a_pid_namespace_below_the_outer_proc_is_refused(store):
    """The numbers there are others': strangers would be signalled."""
    mark = store.path("ran")
    p = subprocess.Popen(
        ["unshare", *ROOT, "--pid", "--fork", "--kill-child", store.binary,
         "run", "a", "--", "touch", mark], env=store.env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    store.started.append(p)
    out, err = finish(p)
    assert p.returncode == 78, err
    assert "/proc" in err
    assert not os.path.exists(mark) and not store.held("a")


def test_without_proc_nothing_is_run(store):
    """What the command leaves behind could not be found."""
    mark = store.path("ran")
    done = subprocess.run(
        ["unshare", *ROOT, "--mount", "sh", "-c",
         'umount -l /proc && exec "$0" "$@"', store.binary, "run", "a", "--",
         "touch", mark], env=store.env, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 78, done.stderr
    assert "/proc" in done.stderr
    assert not os.path.exists(mark) and not store.held("a")


# -- the other end -------------------------------------------------------------

ADOPT = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
for i in range(20):
    subprocess.run(sys.argv[1:], check=True)
left = 0
for entry in os.listdir("/proc"):
    if entry.isdigit():
        try:
            with open("/proc/%s/stat" % entry) as f:
                rest = f.read().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        left += int(rest[1]) == os.getpid()
print(left)
"""


def test_no_process_is_left_to_who_adopts_it(store):
    """In a container nobody may reap it."""
    done = subprocess.run(
        [sys.executable, "-c", ADOPT, store.binary, "run", "a", "--", "true"],
        env=store.env, stdout=subprocess.PIPE, text=True, timeout=120)
    assert done.stdout == "0\n"


def test_a_refused_run_inside_leaves_nothing_behind(store):
    """Its keeper looked like a process of the outer command's."""
    inner = 'for i in 1 2 3 4 5 6 7 8; do "$0" run -q a -- true; done; exit 5'
    for _ in range(4):
        done = store.run("run", "a", "--", "sh", "-c", inner, store.binary)
        assert done.returncode == 5
        assert "already held" in done.stderr
        assert "left processes behind" not in done.stderr
