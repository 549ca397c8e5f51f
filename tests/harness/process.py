"""Child processes that cannot outlive the test process.

PR_SET_PDEATHSIG names the *thread* that forked as the parent: a child made by
a short-lived thread would be killed when that thread ends. So one thread,
which lives as long as the process, makes all children. That covers kill -9 of
the tests; atexit and context managers cover everything else.
"""

import atexit
import ctypes
import os
import queue
import signal
import subprocess
import threading
import weakref

from .wait import wait_until

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_live = weakref.WeakSet()
_jobs = queue.SimpleQueue()
_spawner = None
_spawner_lock = threading.Lock()


def _spawn_loop():
    while True:
        job, done = _jobs.get()
        try:
            done.put((job(), None))
        except BaseException as error:  # handed to the caller below
            done.put((None, error))


def _run_in_spawner(job):
    global _spawner
    with _spawner_lock:
        if _spawner is None:
            _spawner = threading.Thread(
                target=_spawn_loop, name="spawner", daemon=True)
            _spawner.start()
    done = queue.SimpleQueue()
    _jobs.put((job, done))
    result, error = done.get()
    if error is not None:
        raise error
    return result


def spawn(argv, **options):
    """subprocess.Popen, killed with -9 when the test process ends."""
    parent = os.getpid()

    def before_exec():
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before prctl
            os._exit(1)

    child = _run_in_spawner(
        lambda: subprocess.Popen(argv, preexec_fn=before_exec, **options))
    _live.add(child)
    return child


def kill(child):
    """kill -9 and reap; fine when it is gone, frozen or None."""
    if child is None:
        return
    if child.poll() is None:
        child.kill()
    child.wait(timeout=10)


def state_of(pid):
    """One letter of /proc/PID/stat (R, S, T, Z, …); '' when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def freeze(child):
    """SIGSTOP, and wait until the kernel says that it has stopped."""
    os.kill(child.pid, signal.SIGSTOP)
    wait_until(lambda: _all_stopped(child.pid), what="process stopped")


def _all_stopped(pid):
    """Each thread stops by itself: one may still run when the first stands."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return True
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/stat", "rb") as file:
                letter = file.read().rpartition(b")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if letter not in (b"T", b"t", b"Z", b"X"):
            return False
    return True


def thaw(child):
    os.kill(child.pid, signal.SIGCONT)


@atexit.register
def _end_all():
    for child in list(_live):
        try:
            kill(child)
        except Exception:  # the rest must be ended, too
            pass
