"""Nobody runs beside the next owner: commands under a lock of snib acquire,
and processes that are hard to see when the supervisor is killed."""

import ctypes
import os
import platform
import resource
import shutil
import signal
import struct
import subprocess
import sys

import pytest

from conftest import (eventually, keeper_of, kill, patience, read_pid, runs,
                      stat_of, stopped)

# -- under a lock that has no command of its own ---------------------------------

INNER = """
inner() {
    "$0" run --reentrant -g 1s a -- sh -c \
        'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 1000' "$1"
}
until_it_runs() { until [ -e "$1" ]; do sleep 0.01; done; }
text=$("$0" acquire --sh a) && eval "$text" || exit
"""

ENDS = {
    "the script ends": 'inner "$1" & until_it_runs "$1"',
    "the script is killed": 'inner "$1" & until_it_runs "$1"; kill -9 $$',
    "it is released": 'inner "$1" & until_it_runs "$1"; '
                      '"$0" release -q "$SNIB_GRANT"; echo $? >"$2"; wait',
    "TERM while it runs": '(until_it_runs "$1"; kill -TERM $$) & inner "$1"',
}

# Exit 0: it did not run when this one began. (A zombie does not.)
NEXT = ('grep -q "^State:.[SRDT]" /proc/"$(cat "$0")"/status 2>"$0.said" && '
        'exit 9; exit 0')


@pytest.mark.parametrize("how", ENDS)
def test_a_command_under_the_lock_of_a_script_is_dead_before_the_next(store,
                                                                      how):
    """It ran beside the next owner for the rest of the lease."""
    mark, code = store.path("inner"), store.path("code")
    store.start_shell(INNER + ENDS[how], mark, code)
    inner = read_pid(mark)
    try:
        done = store.run("run", "-w", "20s", "a", "--", "sh", "-c", NEXT, mark)
        assert done.returncode == 0, "beside it"
        assert not runs(inner)
    finally:
        kill(inner, signal.SIGKILL)
    if how == "it is released":
        assert eventually(lambda: os.path.exists(code) and
                          open(code).read()) == "0\n"


def test_release_waits_for_a_command_under_the_lock_and_says_so(store):
    """It said that the lock was free, and the command ran on."""
    mark = store.path("inner")
    grant = store.acquire("a").stdout.strip()
    address = grant.split(":")[1]
    p = store.start("run", "--reentrant", "a", "--", "sh", "-c",
                    'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 1000',
                    mark, env={"SNIB_HELD": "a=" + address})
    inner = read_pid(mark)
    done = store.run("release", grant)
    alive = runs(inner)
    kill(inner, signal.SIGKILL)
    assert (done.returncode, alive) == (0, False)
    assert ("a: is released when the commands of snib run --reentrant that run "
            "under it have ended") in done.stderr
    assert p.wait(patience(10)) == 76
    assert "a: lock lost (the outer lock is released)" in p.stderr.read()
    assert not store.held("a")


def test_a_killed_outer_holder_ends_the_command_under_its_lock(store):
    """It ran on for the rest of the lease, and nobody renewed that."""
    mark = store.path("inner")
    grant = store.acquire("-t", "10m", "a").stdout.strip()
    p = store.start("run", "--reentrant", "a", "--", "sh", "-c",
                    'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 1000',
                    mark, env={"SNIB_HELD": "a=" + grant.split(":")[1]})
    read_pid(mark)
    kill(store.keepers[-1], signal.SIGKILL)
    assert p.wait(patience(20)) == 76
    assert ("a: lock lost (the outer holder process has ended)"
            in p.stderr.read())


def test_a_command_that_a_loss_does_not_stop_is_not_waited_for(mapped):
    """--on-lost ignore: the user wants it to go on."""
    mark = mapped.path("inner")
    grant = mapped.acquire("a").stdout.strip()
    mapped.start("run", "--reentrant", "--on-lost", "ignore", "a", "--", "sh",
                 "-c", 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 1000',
                 mark, env={"SNIB_HELD": "a=" + grant.split(":")[1]})
    inner = read_pid(mark)
    assert mapped.run("release", "-q", grant,
                      timeout=patience(15)).returncode == 0
    assert runs(inner)
    assert not mapped.held("a")


def test_a_run_that_was_killed_whole_is_not_waited_for(mapped):
    mark = mapped.path("inner")
    grant = mapped.acquire("-t", "10m", "a").stdout.strip()
    p = mapped.start("run", "--reentrant", "a", "--", "sh", "-c",
                     'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 1000',
                     mark, env={"SNIB_HELD": "a=" + grant.split(":")[1]})
    inner, keeper = read_pid(mark), keeper_of(p.pid)
    for pid in p.pid, keeper, inner:
        kill(pid, signal.SIGSTOP)
        eventually(lambda: stopped(pid))
    for pid in p.pid, keeper, inner:
        kill(pid, signal.SIGKILL)
    p.wait()
    eventually(lambda: not runs(keeper))
    assert mapped.run("release", grant,
                      timeout=patience(15)).returncode == 0
    assert not mapped.held("a")


def test_release_waits_for_a_run_whose_holder_was_killed(mapped):
    """Its supervisor kills the command, and may be slow."""
    mark = mapped.path("inner")
    grant = mapped.acquire("-t", "10m", "a").stdout.strip()
    p = mapped.start("run", "-q", "--reentrant", "a", "--", "sh", "-c",
                     'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 1000',
                     mark, env={"SNIB_HELD": "a=" + grant.split(":")[1]})
    inner, keeper = read_pid(mark), keeper_of(p.pid)
    kill(p.pid, signal.SIGSTOP)
    eventually(lambda: stopped(p.pid))
    kill(keeper, signal.SIGKILL)
    r = mapped.start("release", grant)
    assert "a: is released when" in r.stderr.readline()
    assert runs(inner) and mapped.held("a")
    kill(p.pid, signal.SIGCONT)
    assert r.wait(patience(20)) == 0
    assert not runs(inner) and not mapped.held("a")
    assert p.wait(patience(10)) == 76


@pytest.mark.parametrize("killed", [False, True])
def test_a_copy_of_snib_elsewhere_is_dead_before_the_next(store, killed):
    """It is not recognised as one that the outer run did not start. Its command
    ran beside the next owner until the old deadline."""
    copy = store.path("snib2")
    shutil.copy(store.binary, copy)
    held, mark = store.path("held"), store.path("inner")
    p = store.start("run", "-t", "20s", "a", "--", "sh", "-c",
                    'echo "$SNIB_HELD" >"$0.new"; mv "$0.new" "$0"; cat', held,
                    stdin=subprocess.PIPE)
    eventually(lambda: os.path.exists(held), "the outer command runs")
    q = subprocess.Popen(
        [copy, "run", "-q", "--reentrant", "a", "--", "sh", "-c",
         'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 1000', mark],
        env=dict(store.env, SNIB_HELD=open(held).read().strip()),
        stdin=subprocess.DEVNULL, cwd=store.tmp)
    store.started.append(q)
    inner = read_pid(mark)
    if killed:
        kill(p.pid, signal.SIGKILL)
    p.stdin.close()
    try:
        done = store.run("run", "-w", "30s", "a", "--", "sh", "-c", NEXT, mark)
        assert done.returncode == 0, "beside it"
    finally:
        kill(inner, signal.SIGKILL)
    # A killed supervisor's holder takes it for one that the command started.
    assert q.wait(patience(10)) == (-signal.SIGKILL if killed else 76)
    if not killed:
        assert ("a: kept until the command of another snib run --reentrant, "
                "which has a copy of SNIB_HELD, has ended") in p.stderr.read()
        assert p.wait(patience(10)) == 0


# -- processes that are hard to see ----------------------------------------------

DAEMON = """
import ctypes, os, signal, sys, threading
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.closerange(0, 1024)
def tell():
    with open(sys.argv[1] + ".n", "w") as f:
        f.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".n", sys.argv[1])
"""
SLEEPS = 'tell()\nos.execve("/bin/sleep", ["sleep", "1000"], {})\n'


def start_daemon(snib, source, *options, then="exec sleep 1000", **more):
    """snib run whose command has started a daemon; .daemon is its pid."""
    mark = snib.path("daemon")
    script = snib.path("daemon.py")
    with open(script, "w") as f:
        f.write(DAEMON + source)
    p = snib.start("run", "-q", *options, "a", "--", "sh", "-c",
                   '"$1" "$2" "$0"; ' + then, mark, sys.executable, script,
                   **more)
    p.daemon = read_pid(mark)
    p.keeper = eventually(lambda: keeper_of(p.pid), "a keeper")
    eventually(lambda: stat_of(p.daemon)[1] == p.pid, "it is adopted")
    return p


def dead_before_free(snib, p):
    """The daemon is dead when the next one holds the lock."""
    try:
        done = snib.run("run", "-w", "30s", "-q", "a", "--", "sh", "-c",
                        'for t in /proc/"$0"/task/*; do '
                        'grep -q "^State:.[SRD]" "$t/status" && exit 9; done; '
                        'exit 0', str(p.daemon), stdin=subprocess.DEVNULL)
        assert done.returncode == 0, "beside it"
    finally:
        kill(p.daemon, signal.SIGKILL)


EXIT = {"x86_64": 60, "aarch64": 93}.get(platform.machine())


@pytest.mark.skipif(EXIT is None, reason="the number of exit(2) is not known")
def test_a_daemon_whose_first_thread_has_ended_is_dead_before_the_next(store):
    """/proc shows it as a zombie."""
    p = start_daemon(store,
                     "import time\n"
                     "threading.Thread(target=time.sleep, args=(100,)).start()"
                     "\ntell()\nctypes.CDLL(None).syscall(%d, 0)\n" % EXIT)
    eventually(lambda: stat_of(p.daemon)[0] == "Z")
    kill(p.pid, signal.SIGKILL)
    p.wait()
    dead_before_free(store, p)


def limit_descriptors(pid, most):
    """The old limit."""
    old, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))
    return old


def test_a_holder_with_all_descriptors_in_use_finds_a_daemon(store):
    """It could not look, and took that for nobody."""
    p = start_daemon(store, SLEEPS)
    most = max(int(fd) for fd in os.listdir("/proc/%d/fd" % p.keeper)) + 1
    limit_descriptors(p.keeper, most)
    kill(p.pid, signal.SIGKILL)
    p.wait()
    dead_before_free(store, p)


def test_a_holder_that_cannot_look_keeps_the_lock_and_tries_again(store):
    p = start_daemon(store, SLEEPS)
    old = limit_descriptors(p.keeper, 3)
    kill(p.pid, signal.SIGKILL)
    p.wait()
    try:
        done = store.run("run", "-w", "1s", "-q", "a", "--", "true")
        assert done.returncode == 75
        assert runs(p.daemon)
    finally:
        limit_descriptors(p.keeper, old)
    dead_before_free(store, p)


def test_a_supervisor_that_cannot_look_keeps_the_lock_and_tries_again(store):
    """The command had ended. It released, and the daemon ran on."""
    p = start_daemon(store, SLEEPS, "-g", "200ms",
                     then='until [ -e "$0.go" ]; do sleep 0.01; done',
                     stderr=subprocess.DEVNULL)
    old = limit_descriptors(p.pid, 3)
    with open(store.path("daemon.go"), "w"):
        pass
    try:
        done = store.run("run", "-w", "2s", "-q", "a", "--", "true")
        assert done.returncode == 75
        assert p.poll() is None
    finally:
        limit_descriptors(p.pid, old)
    dead_before_free(store, p)
    assert p.wait(patience(10)) == 0


def refuse(numbers, error):
    """These system calls fail from here on, as by a container's filter."""
    libc = ctypes.CDLL(None, use_errno=True)

    def instruction(code, jump_true, jump_false, value):
        return struct.pack("HBBI", code, jump_true, jump_false, value)
    program = instruction(0x20, 0, 0, 0)
    for i, number in enumerate(numbers):
        program += instruction(0x15, len(numbers) - i, 0, number)
    program += instruction(0x06, 0, 0, 0x7fff0000)
    program += instruction(0x06, 0, 0, 0x00050000 | error)
    bytes_ = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8,
                         ctypes.addressof(bytes_))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, header):
        os._exit(99)


PIDFD_SEND_SIGNAL, PIDFD_OPEN, CLOSE_RANGE = 424, 434, 436


@pytest.mark.parametrize("error", [1, 38])
@pytest.mark.parametrize("numbers", [[PIDFD_OPEN], [PIDFD_SEND_SIGNAL],
                                     [PIDFD_OPEN, PIDFD_SEND_SIGNAL]])
def test_a_holder_without_pidfds_finds_a_daemon(mapped, numbers, error):
    p = start_daemon(mapped, SLEEPS, preexec_fn=lambda: refuse(numbers, error))
    kill(p.pid, signal.SIGKILL)
    p.wait()
    dead_before_free(mapped, p)


@pytest.mark.parametrize("error", [1, 38])
def test_a_holder_without_close_range_hears_that_its_supervisor_died(mapped,
                                                                     error):
    """It kept the supervisor's end of the socket open, and renewed for ever."""
    p = start_daemon(mapped, SLEEPS,
                     preexec_fn=lambda: refuse([CLOSE_RANGE], error))
    kill(p.pid, signal.SIGKILL)
    p.wait()
    dead_before_free(mapped, p)
    eventually(lambda: not runs(p.keeper))


def test_a_holder_without_close_range_keeps_no_pipe_open(mapped):
    ours, theirs = os.pipe()
    p = mapped.start("acquire", "-q", "a", pass_fds=[theirs],
                     preexec_fn=lambda: refuse([CLOSE_RANGE], 38))
    os.close(theirs)
    grant = p.communicate(timeout=patience(20))[0].strip()
    mapped.keepers.append(int(grant.split(":")[2].split(".")[0]))
    os.set_blocking(ours, False)
    try:
        assert os.read(ours, 1) == b"", "the end"
    finally:
        os.close(ours)


# Each link forks the next one and ends, some thousand times a second.
CHAIN = 'f() { f & }; f'


def pids_with(text):
    """The processes with that in their command line."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open("/proc/%d/cmdline" % int(entry)) as f:
                if text in f.read():
                    found.append(int(entry))
        except (ValueError, FileNotFoundError, ProcessLookupError):
            pass
    return found


@pytest.mark.parametrize("again", range(4))
def test_a_daemon_that_forks_on_and_on_is_dead_before_the_next(mapped, again):
    """Two scans in a row that met none of it were believed."""
    mark = mapped.path("daemon")
    p = mapped.start("run", "-q", "a", "--", "sh", "-c",
                     'setsid sh -c "$1" "$0.links" <&- >&- 2>&-; echo $$ >"$0"; '
                     'exec sleep 1000', mark, CHAIN)
    read_pid(mark)
    kill(p.pid, signal.SIGKILL)
    p.wait()
    mapped.hold("a")
    met = [pid for _ in range(100) for pid in pids_with(mark + ".links")]
    while left := pids_with(mark + ".links"):
        for pid in left:
            kill(pid, signal.SIGKILL)
    assert met == [], "beside it"
