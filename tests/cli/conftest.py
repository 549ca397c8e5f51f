"""What the tests of the command line share: a store of their own, a runner,
facts to wait for.

SNIB_BIN names the program under test (or pytest --snib-bin PATH). Each test
gets a fresh store; those that take `store` run on a mapped file and on Redis
(when tests/harness can start one), those that take `mapped` on a mapped file
only.
Nothing sleeps "to give it time": eventually() waits for a fact."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from harness.pulse import late_ms  # noqa: E402
from harness.wait import patience  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--snib-bin", default=os.environ.get("SNIB_BIN"))


@pytest.fixture(scope="session")
def snib_bin(request):
    path = request.config.getoption("--snib-bin", os.environ.get("SNIB_BIN"))
    if not path:
        pytest.skip("SNIB_BIN does not name the program")
    return os.path.abspath(path)


@pytest.fixture(scope="session", autouse=True)
def default_store():
    """Root's default file lies in a directory of these tests': what the host has
    there is neither used nor in the way. (Others' is in their home; where root
    may not mount it is the host's.)"""
    new_mounts, recursive_private = 0x20000, 0x44000
    libc = ctypes.CDLL(None)
    if (os.geteuid() == 0 and libc.unshare(new_mounts) == 0
            and libc.mount(None, b"/", None, recursive_private, None) == 0):
        os.makedirs("/var/lib/snib", exist_ok=True)
        libc.mount(b"none", b"/var/lib/snib", b"tmpfs", 0, b"mode=755")


def slack():
    """What starting processes may add to a limit, in seconds; limits that were
    missed were missed by a second and more. With more than five that want to run
    on each core they are not told apart."""
    crowd = os.getloadavg()[0] / (os.cpu_count() or 1)
    return (0.9 + late_ms() / 1000) * max(1.0, crowd / 5)


def eventually(fact, what="", limit=15.0):
    """Wait until fact() is true; its value."""
    end = time.monotonic() + patience(limit)
    while True:
        value = fact()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("never came true: %s" % (what or fact))
        time.sleep(0.003)


def stat_of(pid):
    """(state, parent, group, session) or None."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            rest = f.read().rpartition(")")[2].split()
        return rest[0], int(rest[1]), int(rest[2]), int(rest[3])
    except (FileNotFoundError, ProcessLookupError):
        return None


def runs(pid):
    s = stat_of(pid)
    return s is not None and s[0] not in "ZX"


def stopped(pid):
    s = stat_of(pid)
    return s is not None and s[0] == "T"


def read_all(terminal):
    """What was written there; the other end is closed. It comes in pieces."""
    said = b""
    try:
        while piece := os.read(terminal, 100000):
            said += piece
    except OSError:  # EIO: nobody is at the other end
        pass
    return said


def idle(pid):
    """It waits: what it was sent before that, it has heard."""
    s = stat_of(pid)
    return s is not None and s[0] == "S"


def children_of(pid):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            s = stat_of(int(entry))
            if s and s[1] == pid and s[0] not in "ZX":
                found.append(int(entry))
    return found


def name_of(pid):
    try:
        with open("/proc/%d/comm" % pid) as f:
            return f.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def keeper_of(leash):
    """The keeper of a leash, or None."""
    for pid in children_of(leash):
        if name_of(pid) == "snib-keeper":
            return pid
    return None


class Snib:
    """snib on one store."""

    def __init__(self, binary, url, tmp):
        self.binary, self.url, self.tmp = binary, url, tmp
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith("SNIB_")}
        self.env["SNIB_URL"] = url
        self.started = []
        self.keepers = []

    def run(self, *args, env=None, timeout=60, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            [self.binary, *args], env=dict(self.env, **(env or {})),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=timeout, cwd=self.tmp, **more)

    def start(self, *args, env=None, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        p = subprocess.Popen(
            [self.binary, *args], env=dict(self.env, **(env or {})),
            text=True, cwd=self.tmp, **more)
        self.started.append(p)
        return p

    def start_shell(self, script, *args):
        """A shell script; $0 is the program."""
        p = subprocess.Popen(["sh", "-c", script, self.binary, *args],
                             env=self.env, cwd=self.tmp, text=True,
                             stdin=subprocess.DEVNULL)
        self.started.append(p)
        return p

    def path(self, name):
        return os.path.join(self.tmp, name)

    def status(self, name):
        done = self.run("status", "--json", name)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def held(self, name):
        return self.status(name)["held"]

    def waiters(self, name):
        return len(self.status(name)["waiters"])

    def hold(self, name, *options, seconds=1000):
        """A lock held by a sleeping command; returns the leash's Popen, with
        .command and .keeper."""
        mark = self.path("pid.%d" % len(self.started))
        p = self.start("run", "-q", *options, name, "--", "sh", "-c",
                       'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep %d'
                       % seconds, mark)
        p.command = read_pid(mark)
        p.keeper = eventually(lambda: keeper_of(p.pid), "a keeper")
        return p

    def acquire(self, *args, **more):
        done = self.run("acquire", "-q", *args, **more)
        if done.returncode == 0 and done.stdout:
            self.keepers.append(int(done.stdout.split(":")[2].split(".")[0]))
        return done

    def end(self):
        for p in self.started:
            if p.poll() is None:
                for pid in children_of(p.pid):
                    kill(pid, signal.SIGCONT)
                kill(p.pid, signal.SIGCONT)
                kill(p.pid, signal.SIGKILL)
            p.wait()
            for stream in (p.stdout, p.stderr):
                if stream:
                    stream.close()
        for pid in self.keepers:
            if name_of(pid) == "snib-keeper":
                kill(pid, signal.SIGKILL)


class Pid(int):
    """The pid of one process: what is sent to it is sent to no other one that has
    the number later, when this one is over (some thousand programs and threads
    are made a minute, and there are 32,768 numbers)."""

    def __init__(self, pid):
        super().__init__()
        try:
            self.fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self.fd = None

    def __del__(self):
        if self.fd is not None:
            os.close(self.fd)

    def signal(self, sig):
        if self.fd is None:
            raise ProcessLookupError(int(self))
        signal.pidfd_send_signal(self.fd, sig)


def kill(pid, sig):
    try:
        pid.signal(sig) if isinstance(pid, Pid) else os.kill(pid, sig)
    except ProcessLookupError:
        pass


def environment_of(pid):
    """Of a process that may still be within exec, where it has none."""
    def there():
        with open(f"/proc/{pid}/environ") as file:
            return dict(entry.split("=", 1)
                        for entry in file.read().split("\0") if "=" in entry)
    return eventually(there, "an environment of %d" % pid)


def read_pid(path):
    def there():
        try:
            with open(path) as f:
                return Pid(int(f.read()))
        except (FileNotFoundError, ValueError):
            return None
    return eventually(there, "a pid in " + path)


def read_pids(path, count):
    def there():
        try:
            with open(path) as f:
                pids = [Pid(int(line)) for line in f if line.endswith("\n")]
            return pids if len(pids) == count else None
        except FileNotFoundError:
            return None
    return eventually(there, "%d pids in %s" % (count, path))


@pytest.fixture
def mapped(snib_bin, tmp_path):
    s = Snib(snib_bin, "file:%s/locks.db" % tmp_path, str(tmp_path))
    yield s
    s.end()


@pytest.fixture
def redis(snib_bin, tmp_path):
    """A server of its own for each test (40 ms), as .server."""
    try:
        from harness.redis_server import RedisServer, redis_missing
    except ImportError as why:
        pytest.skip("tests/harness: %s" % why)
    if redis_missing():
        pytest.skip(redis_missing())
    with RedisServer() as server:
        s = Snib(snib_bin, server.url, str(tmp_path))
        s.server = server
        if s.run("try", "-q", "probe").returncode == 78:
            pytest.skip("no redis in this build")
        yield s
        s.end()


@pytest.fixture(params=["mapped", "redis"])
def store(request):
    return request.getfixturevalue(request.param)
