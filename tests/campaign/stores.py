"""The stores under test, each with what its faults need."""

import contextlib
import os
import subprocess
import tempfile

from harness.fault_proxy import FaultProxy
from harness.redis_server import RedisServer, redis_missing
from harness.shim import Shim, ShimMissing, build_shim


class Skip(Exception):
    """Cannot be done here; the text says why."""


class FileStore:
    """A file; for disk_full on a tmpfs of its own."""

    name = "file"

    def __init__(self, kind, folder):
        self._mounted = ""
        self.folder = os.path.join(folder, "store")
        os.mkdir(self.folder)
        if kind == "disk_full":
            self._mount()
        self.url = f"file:{self.folder}/locks.db"

    def _mount(self):
        if os.geteuid() != 0:
            raise Skip("disk_full needs a tmpfs, and that root")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.folder],
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
    majority = 1

    def __init__(self, kind, folder):
        if redis_missing():
            raise Skip(redis_missing())
        config = []
        if kind in ("restart_kept", "mixed"):
            config = ["appendonly yes", "appendfsync always"]
        self._shim = None
        if kind in ("clock_forward", "clock_back"):
            try:
                self._shim = Shim(build_shim(folder),
                                  os.path.join(folder, "clock"))
            except ShimMissing as why:
                raise Skip(str(why)) from None
        self.server = RedisServer(
            config, env=self._shim.env if self._shim else None)
        self.proxy = FaultProxy(self.server.address)
        self.url, self.direct_url = self.proxy.url, self.server.url

    def node(self, random):
        del random
        return self

    def step_clock(self, milliseconds):
        self._shim.step_real(milliseconds / 1000)

    def problems(self):
        """Nothing stays without a time to live."""
        return [f"{key!r} has no time to live"
                for key, left in self.server.keys("snib:*").items() if left < 0]

    def close(self):
        self.proxy.close()
        self.server.close()
        if self._shim:
            self._shim.close()


class QuorumStore:
    """Three servers that know nothing of each other."""

    name = "quorum"
    majority = 2

    def __init__(self, kind, folder):
        self.nodes = []
        try:
            for _ in range(3):
                self.nodes.append(RedisStore(kind, folder))
        except BaseException:
            self.close()
            raise
        self.url = self._url(node.proxy.address for node in self.nodes)
        self.direct_url = self._url(node.server.address
                                    for node in self.nodes)

    @staticmethod
    def _url(addresses):
        """The patience for a node is a quarter of the clients' lease: all the
        proxies are one Python process."""
        return "redlock://" + ",".join(
            f"{host}:{port}" for host, port in addresses) + "?node_ms=150"

    def node(self, random):
        return random.choice(self.nodes)

    def problems(self):
        return [text for node in self.nodes for text in node.problems()]

    def close(self):
        for node in self.nodes:
            node.close()


class MemoryStore:
    """The locks of one process; for clients that share it."""

    name = "memory"

    def __init__(self, kind, folder):
        del kind, folder
        self.url = self.direct_url = "memory:campaign"

    def problems(self):
        return []

    def close(self):
        pass


STORES = {"file": FileStore, "redis": RedisStore, "quorum": QuorumStore,
          "memory": MemoryStore}


def scratch():
    return tempfile.mkdtemp(prefix="snib-campaign-")
