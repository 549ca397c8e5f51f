"""A real RabbitMQ in a scratch directory, on free ports, with an epmd of its own.

Erlang's nodes find each other by the daemon epmd of their host. Each broker here
has one of its own, on a port of its own, and a cookie and a HOME of its own, so
that it never meets another broker, nor the package's.
"""

import contextlib
import glob
import os
import shutil
import signal
import socket
import struct
import subprocess

from . import process
from .database_server import scratch, user
from .ports import free_port
from .wait import wait_until

SBIN = next(iter(sorted(glob.glob("/usr/lib/rabbitmq/lib/*/sbin"))), "")
USERS = ("rabbitmq", "nobody")


def rabbitmq_missing():
    """Why tests with a real server cannot run here; "" when they can."""
    if os.environ.get("SNIB_QUICK"):
        return "not in a quick run, where PostgreSQL stands for the others"
    if not SBIN or not shutil.which("erl") or not shutil.which("epmd"):
        return "RabbitMQ is not installed (Debian: apt install rabbitmq-server)"
    return ""


class RabbitmqServer:
    """One broker; its files stay through kill() and start()."""

    def __init__(self, config=(), tls=()):
        """tls: certificate, key, authority: it serves TLS too, at tls_port."""
        self.dir = scratch("snib-rabbitmq-", user(*USERS))
        self.log_path = os.path.join(self.dir, "log")
        self.port, self.tls_port, self.dist_port, self.epmd_port = (
            free_port() for _ in "1234")
        self.node = f"snib{self.port}@localhost"
        self.child = self.epmd = None
        self._write("rabbitmq.conf", "\n".join(
            [*self._listen(tls),
             "disk_free_limit.absolute = 1MB",
             # above it nothing is taken; a suite has some hundred queues
             "vm_memory_high_watermark.absolute = 1500MB",
             "raft.wal_max_size_bytes = 8000000",
             "log.console = true", "log.console.level = info",
             *config]) + "\n")
        self._write("env.conf", "")
        self._write("plugins", "[].\n")
        self._write(".erlang.cookie", os.urandom(16).hex(), 0o400)
        try:
            self._start_epmd()
            self.start()
        except BaseException:
            self.close()
            raise

    def _write(self, name, text, mode=0o644):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, mode)
        who = user(*USERS)
        if who:
            os.chown(path, who["user"], who["group"])

    def _listen(self, tls):
        plain = f"listeners.tcp.1 = 127.0.0.1:{self.port}"
        if not tls:
            return [plain]
        for path, name in zip(tls, ("cert", "key", "ca"), strict=True):
            with open(path, encoding="ascii") as file:
                self._write(name, file.read())
        return [plain, f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}",
                f"ssl_options.certfile = {self._path('cert')}",
                f"ssl_options.keyfile = {self._path('key')}",
                f"ssl_options.cacertfile = {self._path('ca')}",
                "ssl_options.verify = verify_none"]

    def _path(self, name):
        return os.path.join(self.dir, name)

    def _env(self):
        return {"PATH": os.environ["PATH"], "HOME": self.dir, "LANG": "C.UTF-8",
                "ERL_EPMD_PORT": str(self.epmd_port),
                "ERL_EPMD_ADDRESS": "127.0.0.1",
                "RABBITMQ_NODENAME": self.node,
                "RABBITMQ_DIST_PORT": str(self.dist_port),
                "RABBITMQ_CONF_ENV_FILE": self._path("env.conf"),
                "RABBITMQ_CONFIG_FILE": self._path("rabbitmq.conf"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": self._path("plugins"),
                "RABBITMQ_MNESIA_BASE": self._path("data"),
                "RABBITMQ_LOG_BASE": self._path("logs"),
                "RABBITMQ_LOGS": "-",
                "RABBITMQ_PID_FILE": self._path("pid"),
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS":
                    "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none "
                    "-kernel inet_dist_use_interface {127,0,0,1}",
                "RUNNING_UNDER_SYSTEMD": "1"}  # erl is this process itself

    def _spawn(self, command):
        with open(self.log_path, "ab") as log:
            return process.spawn(command, cwd=self.dir, env=self._env(),
                                 stdin=subprocess.DEVNULL, stdout=log,
                                 stderr=subprocess.STDOUT, **user(*USERS))

    def _start_epmd(self):
        self.epmd = self._spawn(["epmd", "-port", str(self.epmd_port),
                                 "-address", "127.0.0.1"])

    def start(self, wait=True):
        self.child = self._spawn([os.path.join(SBIN, "rabbitmq-server")])
        if wait:
            wait_until(lambda: self.child.poll() is not None or self.serves(),
                       120, "RabbitMQ is ready")
            assert self.child.poll() is None, self.log()[-3000:]

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    @property
    def url(self):
        return f"amqp://127.0.0.1:{self.port}"

    def serves(self):
        try:
            with AmqpClient(self.address):
                return True
        except (OSError, AmqpError, struct.error):
            return False

    def client(self, **more):
        return AmqpClient(self.address, **more)

    def ctl(self, *words, timeout=60):
        """rabbitmqctl, on this broker."""
        return subprocess.run(
            [os.path.join(SBIN, "rabbitmqctl"), "-n", self.node, "--quiet",
             *words], env=self._env(), cwd=self.dir, capture_output=True,
            text=True, timeout=timeout, check=True, **user(*USERS)).stdout

    def freeze(self):
        self.child.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.child.send_signal(signal.SIGCONT)

    def kill(self):
        process.kill(self.child)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def close(self):
        for one in (self.child, self.epmd):
            if one is not None and one.poll() is None:
                process.kill(one)
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class AmqpError(Exception):
    """The broker has closed a channel or the connection."""


def short(text):
    data = text.encode()
    return bytes([len(data)]) + data


def table(rows):
    body = b"".join(
        short(key) + (b"t" + bytes([value]) if isinstance(value, bool) else
                      b"I" + struct.pack(">i", value)
                      if isinstance(value, int) else
                      b"S" + struct.pack(">I", len(value)) + value.encode())
        for key, value in rows.items())
    return struct.pack(">I", len(body)) + body


class AmqpClient:
    """A client for tests, which knows a handful of methods and no library; one
    channel."""

    def __init__(self, address, login="guest:guest", vhost="/"):
        name, password = login.split(":")
        self.delivered = []
        self.sock = socket.create_connection(address, 10)
        try:
            self.sock.settimeout(10)
            self.got = b""
            self.sock.sendall(b"AMQP\0\0\x09\x01")
            self.expect(10, 10)
            plain = f"\0{name}\0{password}"
            self.send(0, 10, 11, table({}) + short("PLAIN") +
                      struct.pack(">I", len(plain)) + plain.encode() +
                      short("en_US"))
            most, size, _ = struct.unpack(">HIH", self.expect(10, 30)[:8])
            self.send(0, 10, 31, struct.pack(">HIH", most, size, 0))
            self.send(0, 10, 40, short(vhost) + short("") + b"\0")
            self.expect(10, 41)
            self.ask(20, 10, short(""), 11)
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()

    def frame(self, kind, channel, payload):
        self.sock.sendall(struct.pack(">BHI", kind, channel, len(payload)) +
                          payload + b"\xce")

    def send(self, channel, klass, method, body):
        self.frame(1, channel, struct.pack(">HH", klass, method) + body)

    def _exactly(self, count):
        while len(self.got) < count:
            piece = self.sock.recv(65536)
            if not piece:
                raise AmqpError("the connection is closed")
            self.got += piece
        taken, self.got = self.got[:count], self.got[count:]
        return taken

    def read(self):
        kind, channel, size = struct.unpack(">BHI", self._exactly(7))
        payload = self._exactly(size + 1)[:-1]
        return kind, channel, payload

    def expect(self, klass, method):
        """The arguments of this method; deliveries before it are kept."""
        while True:
            kind, _, payload = self.read()
            if kind != 1:
                continue
            got = struct.unpack(">HH", payload[:4])
            if got == (klass, method):
                return payload[4:]
            if got == (60, 60):
                self.delivered.append(self._delivery(payload[4:]))
            elif got in ((10, 50), (20, 40)):
                code, size = struct.unpack_from(">HB", payload, 4)
                raise AmqpError(f"{code} "
                                f"{payload[7:7 + size].decode()}")

    def _delivery(self, args):
        size = args[0]
        tag, again = struct.unpack_from(">QB", args, 1 + size)
        _, _, head = self.read()
        want, body = struct.unpack_from(">Q", head, 4)[0], b""
        while len(body) < want:
            body += self.read()[2]
        return tag, bool(again), body.decode(errors="replace")

    def ask(self, klass, method, body, answer):
        self.send(1, klass, method, body)
        return self.expect(klass, answer)

    def declare(self, queue, args=None, passive=False):
        """(messages that are ready, consumers)"""
        got = self.ask(50, 10, struct.pack(">H", 0) + short(queue) +
                       bytes([passive | (0 if passive else 2)]) +
                       table(args or {}), 11)
        return struct.unpack_from(">II", got, 1 + got[0])

    def counts(self, queue):
        """As declare; None: there is no such queue."""
        try:
            return self.declare(queue, passive=True)
        except AmqpError as e:
            if "404" not in str(e):
                raise
            self.send(1, 20, 41, b"")
            self.ask(20, 10, short(""), 11)
            return None

    def delete(self, queue):
        self.ask(50, 40, struct.pack(">H", 0) + short(queue) + b"\0", 41)

    def purge(self, queue):
        self.ask(50, 30, struct.pack(">H", 0) + short(queue) + b"\0", 31)

    def publish(self, queue, body):
        data = body.encode()
        self.send(1, 60, 40, struct.pack(">H", 0) + short("") + short(queue) +
                  b"\0")
        self.frame(2, 1, struct.pack(">HHQHB", 60, 0, len(data), 0x1000, 2))
        self.frame(3, 1, data)

    def consume(self, queue, tag="t"):
        self.ask(60, 20, struct.pack(">H", 0) + short(queue) + short(tag) +
                 b"\0" + table({}), 21)

    def ack(self, tag):
        self.send(1, 60, 80, struct.pack(">QB", tag, 0))

    def deliveries(self, wait_s=0.5):
        """What comes within so long."""
        self.sock.settimeout(wait_s)
        with contextlib.suppress(TimeoutError):
            while True:
                self.expect(0, 0)
        self.sock.settimeout(10)
        got, self.delivered = self.delivered, []
        return got


__all__ = ["AmqpClient", "AmqpError", "RabbitmqServer", "rabbitmq_missing"]
