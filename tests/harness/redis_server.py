"""A real redis-server per test (or module), in a scratch directory."""

import atexit
import functools
import os
import re
import shutil
import subprocess
import tempfile

from . import process
from .certs import openssl_missing
from .ports import free_port
from .resp import Client, RedisError
from .wait import wait_until

__all__ = ["RedisServer", "RedisError", "redis_missing",
           "redis_tls_missing", "redis_version"]

BASE_CONFIG = """
bind 127.0.0.1
port {port}
unixsocket {unix}
unixsocketperm 700
dir {dir}
dbfilename dump.rdb
save ""
appendonly no
daemonize no
loglevel notice
"""
# Not known, and not needed, before Redis 7.
SINCE_7 = """enable-debug-command yes
"""


# What has another name before Redis 7, or is not there.
BEFORE_7 = {"busy-reply-threshold": "lua-time-limit", "cluster-port": "",
            "loading-process-events-interval-bytes": ""}


def redis_missing():
    """Why tests with a real server cannot run here; "" when they can."""
    if shutil.which("redis-server") is None:
        return "redis-server is not installed (Debian: apt install redis-server)"
    return ""


@functools.lru_cache(maxsize=None)
def redis_tls_missing():
    """Why tests with TLS cannot run on this server; "" when they can."""
    if openssl_missing():
        return openssl_missing()
    said = subprocess.run(
        ["redis-server", "--port", "0", "--tls-port", str(free_port())],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, timeout=20, check=False).stdout
    # One that has TLS says that it has no certificate.
    without = "Bad directive" in said or "finding TLS support" in said
    return "this redis-server was built without TLS" if without else ""


@functools.lru_cache(maxsize=None)
def redis_version():
    """(major, minor) of the redis-server in PATH, e.g. (6, 2)."""
    said = subprocess.run(["redis-server", "--version"], text=True,
                          stdout=subprocess.PIPE, check=True).stdout
    found = re.search(r"v=(\d+)\.(\d+)", said)
    assert found, said
    return int(found[1]), int(found[2])


def as_known(line):
    """A line of a configuration as this server knows it; "" to leave it out."""
    if redis_version() >= (7, 0):
        return line
    name, _, value = line.partition(" ")
    name = BEFORE_7.get(name, name)
    return f"{name} {value}" if name else ""


class RedisServer:
    """Start in the constructor or by `with`; stop() is safe at any time.

    config: lines added to BASE_CONFIG (a later line wins in Redis).
    env: variables added to its environment, at each start.
    mode: "--sentinel" for a Sentinel (sentinel.py).
    """

    def __init__(self, config=(), start=True, env=None, mode=""):
        self.config = list(config)
        self.mode = [mode] if mode else []
        self.env = dict(env or {})
        self.dir = tempfile.mkdtemp(prefix="snib-redis-")
        self.unix_path = os.path.join(self.dir, "redis.sock")
        self.log_path = os.path.join(self.dir, "redis.log")
        self.port = 0
        self.child = None
        self._client = None
        self._auth = {}
        atexit.register(self.close)
        if start:
            try:
                self.start()
            except BaseException:
                self.close()
                raise

    # -- life -----------------------------------------------------------------

    def start(self, wait=True):
        """Start it; the port stays the same over restarts.

        wait=False returns as soon as the process exists (to look at LOADING).
        """
        assert self.child is None or self.child.poll() is not None
        chosen = self.port != 0
        for _ in range(5):
            if not chosen:
                self.port = free_port()
            self._spawn()
            if not wait:
                return self
            try:
                wait_until(self._ready_or_dead, 20, "redis-server is ready")
            except AssertionError:
                raise AssertionError(f"{self.log()[-2000:]}") from None
            if self.child.poll() is None:
                return self
            # Somebody took the port between the look and the bind.
            if chosen or "Address already in use" not in self.log():
                break
        raise AssertionError(f"redis-server ended at once:\n{self.log()[-2000:]}")

    def _spawn(self):
        path = os.path.join(self.dir, "redis.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(BASE_CONFIG.format(
                port=self.port, unix=self.unix_path, dir=self.dir))
            if redis_version() >= (7, 0) and not self.mode:
                file.write(SINCE_7)
            file.writelines(line + "\n" for line in map(as_known, self.config)
                            if line)
        with open(self.log_path, "ab") as log:
            self.child = process.spawn(
                ["redis-server", path, *self.mode], cwd=self.dir, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, **self.env})

    def _ready_or_dead(self):
        return self.child.poll() is not None or self.answers()

    def answers(self, timeout=1.0):
        """Does it answer PING (an answer like NOAUTH is one, LOADING not)?"""
        try:
            with Client(self.address, timeout) as client:
                client.command("PING")
        except RedisError as error:
            return error.word != "LOADING"
        except OSError:
            return False
        return True

    def stop(self):
        """SIGTERM, as an operator does it."""
        self._forget()
        if self.child is not None and self.child.poll() is None:
            process.thaw(self.child)
            self.child.terminate()
            try:
                self.child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill(self.child)

    def kill(self):
        """kill -9: nothing is saved, sockets are closed by the kernel."""
        self._forget()
        process.kill(self.child)

    def restart(self, data, wait=True):
        """kill -9 and start again; data is "kept" or "lost".

        kept: an RDB is written first, unless the server has an AOF.
        """
        assert data in ("kept", "lost")
        if data == "kept" and self.command("CONFIG", "GET", "appendonly")[1] == b"no":
            self.command("SAVE")
        self.kill()
        if data == "lost":
            self.drop_files()
        return self.start(wait)

    def drop_files(self):
        """Remove what it has saved; only while it is down."""
        for name in os.listdir(self.dir):
            path = os.path.join(self.dir, name)
            if name.endswith((".rdb", ".aof")):
                os.unlink(path)
            elif os.path.isdir(path):
                shutil.rmtree(path)

    def freeze(self):
        """SIGSTOP: connections stay open, nothing is answered."""
        process.freeze(self.child)

    def thaw(self):
        process.thaw(self.child)

    def close(self):
        """kill -9 and leave nothing on disk."""
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)
        atexit.unregister(self.close)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    # -- talk -----------------------------------------------------------------

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def login(self, password, user=None):
        """Use this login for command() from now on."""
        self._forget()
        self._auth = {"password": password, "user": user}

    def client(self, timeout=5.0, **login):
        """A connection of its own; the caller closes it (`with`)."""
        return Client(self.address, timeout, **(login or self._auth))

    def command(self, *args):
        """One command over a kept connection; RedisError for an error."""
        if self._client is not None:
            try:
                return self._client.command(*args)
            except OSError:  # a restart, CLIENT KILL: once more, afresh
                self._forget()
        self._client = self.client()
        return self._client.command(*args)

    def _forget(self):
        if self._client is not None:
            self._client.close()
            self._client = None

    def wait_for(self, fact, timeout=5.0, what="a state of the server"):
        """fact(self) until true; RedisError counts as "not yet"."""
        def look():
            try:
                return fact(self)
            except (RedisError, OSError):
                return None
        return wait_until(look, timeout, what)

    # -- look -----------------------------------------------------------------

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def keys(self, pattern="*"):
        """{key: milliseconds to live, -1 for none}."""
        found = {}
        cursor = b"0"
        while True:
            cursor, names = self.command(
                "SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
            for name in names:
                left = self.command("PTTL", name)
                if left != -2:  # ended between SCAN and PTTL
                    found[name] = left
            if cursor == b"0":
                return found

    def clients(self):
        """CLIENT LIST as dictionaries of text."""
        lines = self.command("CLIENT", "LIST").decode().splitlines()
        return [dict(field.split("=", 1) for field in line.split())
                for line in lines]

    def connections(self, channels=False):
        """How many are connected; with channels=True: only subscribers."""
        return sum(1 for client in self.clients()
                   if client["cmd"] not in ("client|list", "client")
                   and (not channels or client["sub"] != "0"))
