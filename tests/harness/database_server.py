"""What real database servers of the tests share: a scratch directory, a user of
the system who is not root, and ways to end them.

The machine's own servers and their data are never touched.
"""

import atexit
import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile

from . import process
from .ports import free_port
from .wait import wait_until


def user(*names):
    """Options of Popen: as whom a server runs that refuses root; the first of
    these users whom the machine has."""
    if os.getuid() != 0:
        return {}
    for name in names:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid,
                "extra_groups": []}
    raise AssertionError(f"no user to run it as: {names}")


MEMORY = "/dev/shm"


def quick_disk():
    """Where a commit takes no longer because others write, too: in memory, if
    there is room for some servers; None: where all scratch directories are."""
    try:
        room = os.statvfs(MEMORY)
    except OSError:
        return None
    enough = room.f_bavail * room.f_frsize > 2 << 30
    return MEMORY if enough and os.access(MEMORY, os.W_OK) else None


def scratch(prefix, who):
    """A directory that the server's user may work in."""
    path = tempfile.mkdtemp(prefix=prefix, dir=quick_disk())
    os.chmod(path, 0o755)
    if who:
        os.chown(path, who["user"], who["group"])
    return path


def run(argv, **options):
    done = subprocess.run(argv, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)
    assert done.returncode == 0, done.stdout
    return done.stdout


class DatabaseServer:
    """A server has `dir`, and spawns a child. Start in the constructor or by
    `with`; stop() is safe at any time.

    A kind of server has: made(), the data as they are made once a run; make(),
    users and a database for the tests; spawn(), which starts self.child;
    answers(); the names `what`, `users`.
    """
    stop_signal = signal.SIGINT

    def __init__(self, config=(), start=True):
        self.config = list(config)
        self.dir = scratch(f"snib-{self.what}-", self.who())
        self.data = os.path.join(self.dir, "data")
        self.log_path = os.path.join(self.dir, "log")
        self.port = 0
        self.child = self.env = None  # env: of its process; None: ours
        atexit.register(self.close)
        run(["cp", "-a", self.made(), self.data])
        if start:
            try:
                self.start()
                self.make()
            except BaseException:
                self.close()
                raise

    @classmethod
    def who(cls):
        return user(*cls.users)

    # -- life -----------------------------------------------------------------

    def start(self, wait=True):
        """Start it; the port stays the same over restarts."""
        chosen = self.port != 0
        for _ in range(5):
            if not chosen:
                self.port = free_port()
            with open(self.log_path, "ab") as log:
                self.child = process.spawn(
                    self.command(), cwd=self.dir, env=self.env,
                    stdin=subprocess.DEVNULL,
                    stdout=log, stderr=subprocess.STDOUT, **self.who())
            if not wait:
                return self
            wait_until(lambda: self.child.poll() is not None or self.answers(),
                       60, f"{self.what} is ready")
            if self.child.poll() is None:
                return self
            if chosen:
                break
        raise AssertionError(
            f"{self.what} ended at once:\n{self.log()[-2000:]}")

    def pids(self):
        """The server's process and its children."""
        found = [self.child.pid]
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path, "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == self.child.pid:
                found.append(int(path.split("/")[2]))
        return found

    def kill(self):
        """kill -9 of all its processes: what was not on disk is lost. None is
        left: one that was being made would hold the memory that they share."""
        if self.child.poll() is not None:
            return
        process.freeze(self.child)
        pids = self.pids()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.kill(self.child)
        wait_until(lambda: all(process.state_of(pid) in ("", "Z") for pid in pids), 10,
                   f"{self.what} is dead")

    def stop(self, how=None):
        """End it in order."""
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(how or self.stop_signal)
            self.child.wait(timeout=60)

    def freeze(self):
        """The one that makes the others first: none is made meanwhile."""
        process.freeze(self.child)
        self._signal(signal.SIGSTOP)

    def thaw(self):
        self._signal(signal.SIGCONT)

    def _signal(self, number):
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def close(self):
        if self.child is not None:
            if self.child.poll() is None:
                self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # -- look -----------------------------------------------------------------

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()
