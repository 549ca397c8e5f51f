"""The stores under test, each with what its faults need."""

import contextlib
import mmap
import os
import shutil
import subprocess
import tempfile

from harness.fault_proxy import FaultProxy
from harness.redis_server import RedisServer, redis_missing

HERE = os.path.dirname(os.path.abspath(__file__))


class Skip(Exception):
    """Cannot be done here; the text says why."""


class SqliteStore:
    """A file; for disk_full on a tmpfs of its own."""

    name = "sqlite"

    def __init__(self, kind, folder):
        self._mounted = ""
        self.folder = os.path.join(folder, "store")
        os.mkdir(self.folder)
        if kind == "disk_full":
            self._mount()
        self.url = f"sqlite:{self.folder}/locks.db"

    def _mount(self):
        if os.geteuid() != 0:
            raise Skip("disk_full needs a tmpfs, and that root")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", self.folder],
            stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise Skip(f"no tmpfs: {done.stderr.strip()}")
        self._mounted = self.folder

    @contextlib.contextmanager
    def full(self):
        path = os.path.join(self.folder, "ballast")
        with contextlib.suppress(OSError), open(path, "wb", 0) as file:
            while file.write(b"x" * 4096) > 0:
                pass
        yield
        os.unlink(path)

    def problems(self):
        return []

    @property
    def direct_url(self):
        return self.url

    def close(self):
        if self._mounted:
            subprocess.run(["umount", "-l", self._mounted], check=False)


class RedisStore:
    """A server, with the fault proxy before it, and a clock that steps."""

    name = "redis"

    def __init__(self, kind, folder):
        if redis_missing():
            raise Skip(redis_missing())
        config = []
        if kind in ("restart_kept", "mixed"):
            config = ["appendonly yes", "appendfsync always"]
        self._clock, self._shim = None, {}
        if kind in ("clock_forward", "clock_back"):
            self._shim_clock(folder)
        os.environ.update(self._shim)
        try:
            self.server = RedisServer(config)
        finally:
            for key in self._shim:
                del os.environ[key]
        self.proxy = FaultProxy(self.server.address)
        self.url, self.direct_url = self.proxy.url, self.server.url

    def _shim_clock(self, folder):
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise Skip("no C compiler for the clock shim")
        shim = os.path.join(folder, "clock_shim.so")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", shim,
                        os.path.join(HERE, "clock_shim.c")], check=True)
        path = os.path.join(folder, "clock")
        with open(path, "w+b") as file:
            file.write(bytes(4096))
            file.flush()
            self._clock = mmap.mmap(file.fileno(), 4096)
        self._shim = {"LD_PRELOAD": shim, "CLOCK_SHIM": path}

    def step_clock(self, milliseconds):
        ahead = int.from_bytes(self._clock[:8], "little", signed=True)
        self._clock[:8] = (ahead + milliseconds).to_bytes(
            8, "little", signed=True)

    def problems(self):
        """P9: nothing without a time to live."""
        return [f"{key!r} has no time to live"
                for key, left in self.server.keys("snib:*").items() if left < 0]

    def close(self):
        self.proxy.close()
        self.server.close()


STORES = {"sqlite": SqliteStore, "redis": RedisStore}


def scratch():
    return tempfile.mkdtemp(prefix="snib-campaign-")
