"""A real PostgreSQL server in a scratch directory, on a free port.

The machine's own cluster is never touched: this one has a directory, a port and
a user of the system of its own. `initdb` refuses root, so as root it runs as
the user postgres (Debian's package makes it), else nobody.
"""

import atexit
import functools
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile

from . import process
from .redis_server import free_port
from .wait import wait_until

CONFIG = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{dir}'
max_connections = 200
shared_buffers = 16MB
log_line_prefix = '%m %p %q%u@%d '
log_min_messages = notice
"""
# Who has a password must give it; everybody else is trusted.
HBA = """
{more}
host all +locked 127.0.0.1/32 scram-sha-256
local all all trust
host all all 127.0.0.1/32 trust
"""


@functools.lru_cache(maxsize=None)
def programs():
    """The folder of initdb and postgres, the newest; None: there is none."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    found += [path for path in [shutil.which("initdb")] if path]
    found = [os.path.dirname(path) for path in found
             if os.path.exists(os.path.join(os.path.dirname(path), "postgres"))]
    return max(found, key=lambda path: [int(part) for part in path.split("/")
                                        if part.isdigit()], default=None)


def postgres_missing():
    """Why tests with a real server cannot run here; "" when they can."""
    if programs() is None or shutil.which("psql") is None:
        return ("PostgreSQL is not installed (Debian: apt install"
                " postgresql-15)")
    return ""


def _user():
    """Options of Popen: as whom the server runs."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid,
                "extra_groups": []}
    raise AssertionError("no user to run PostgreSQL as")


def _scratch(prefix):
    """A directory that the server's user may work in."""
    path = tempfile.mkdtemp(prefix=prefix)
    os.chmod(path, 0o755)
    if _user():
        os.chown(path, _user()["user"], _user()["group"])
    return path


def _run(argv, **options):
    done = subprocess.run(argv, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **options)
    assert done.returncode == 0, done.stdout
    return done.stdout


@functools.lru_cache(maxsize=None)
def _made():
    """A cluster as initdb makes it, once a run; servers begin with a copy."""
    path = _scratch("snib-postgres-made-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    _run([os.path.join(programs(), "initdb"), "-D", path + "/data", "-U",
          "admin", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"],
         cwd=path, **_user())
    return path + "/data"


class PostgresServer:
    """Start in the constructor or by `with`; stop() is safe at any time.

    config: lines added to CONFIG; hba: lines in front of HBA.
    """

    def __init__(self, config=(), hba=(), start=True):
        self.config, self.hba = list(config), list(hba)
        self.dir = _scratch("snib-postgres-")
        self.data = os.path.join(self.dir, "data")
        self.log_path = os.path.join(self.dir, "log")
        self.port = 0
        self.child = None
        atexit.register(self.close)
        _run(["cp", "-a", _made(), self.data])
        if start:
            try:
                self.start()
                self.make()
            except BaseException:
                self.close()
                raise

    # -- life -----------------------------------------------------------------

    def start(self, wait=True):
        """Start it; the port stays the same over restarts."""
        chosen = self.port != 0
        for _ in range(5):
            if not chosen:
                self.port = free_port()
            self._spawn()
            if not wait:
                return self
            wait_until(lambda: self.child.poll() is not None or self.answers(),
                       30, "PostgreSQL is ready")
            if self.child.poll() is None:
                return self
            if chosen:
                break
        raise AssertionError(f"postgres ended at once:\n{self.log()[-2000:]}")

    def make(self):
        """A user and a database for the tests."""
        self.psql("CREATE ROLE locked", "CREATE ROLE snib LOGIN",
                  "CREATE DATABASE snib OWNER snib", database="postgres")

    def _spawn(self):
        with open(self.data + "/postgresql.conf", "w", encoding="utf-8") as file:
            file.write(CONFIG.format(port=self.port, dir=self.dir))
            file.writelines(line + "\n" for line in self.config)
        with open(self.data + "/pg_hba.conf", "w", encoding="utf-8") as file:
            file.write(HBA.format(more="\n".join(self.hba)))
        with open(self.log_path, "ab") as log:
            self.child = process.spawn(
                [os.path.join(programs(), "postgres"), "-D", self.data],
                cwd=self.dir, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, **_user())

    def answers(self):
        return subprocess.run(
            [os.path.join(programs(), "pg_isready"), "-q", "-h", self.dir, "-p",
             str(self.port)], check=False).returncode == 0

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
        """kill -9 of all its processes: what was not on disk is lost."""
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        process.kill(self.child)

    def stop(self, how=signal.SIGINT):
        """End it in order (fast; SIGQUIT: without writing anything)."""
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(how)
            self.child.wait(timeout=30)

    def freeze(self):
        for pid in self.pids():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self):
        for pid in self.pids():
            os.kill(pid, signal.SIGCONT)

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

    @property
    def url(self):
        return f"postgres://snib@127.0.0.1:{self.port}/snib"

    @property
    def unix_url(self):
        return (f"postgres://snib@/snib?socket={self.dir}&port={self.port}")

    def psql(self, *statements, database="snib", user="admin", check=True):
        """What they answer, a line a row, '|' between columns."""
        argv = ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-h", self.dir, "-p",
                str(self.port), "-U", user, "-d", database]
        for one in statements:
            argv += ["-c", one]
        done = subprocess.run(argv, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0 or not check, done.stdout
        return done.stdout.strip()

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()
