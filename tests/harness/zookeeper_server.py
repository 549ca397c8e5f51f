"""A real ZooKeeper in a scratch directory, on free ports: one server or several.

Ticks are short, so that sessions may be: the server takes two of them at least.
"""

import os
import shutil
import socket
import struct

from .database_server import user
from .ensemble import Ensemble, Member
from .ports import free_port

JARS = "/usr/share/java/zookeeper.jar"
TICK_MS = 500
USERS = ("zookeeper", "nobody")


def zookeeper_missing():
    """Why tests with a real server cannot run here; "" when they can."""
    if os.environ.get("SNIB_QUICK"):
        return "not in a quick run, where PostgreSQL stands for the others"
    if not shutil.which("java") or not os.path.exists(JARS):
        return "ZooKeeper is not installed (Debian: apt install zookeeper " \
               "default-jre-headless)"
    return ""


class ZookeeperMember(Member):
    """One process."""

    def __init__(self, number, config=(), options=()):
        super().__init__("snib-zookeeper-", user(*USERS))
        self.number, self.config = number, list(config)
        self.options = list(options)
        self.peer_port, self.vote_port = free_port(), free_port()

    def write(self, members):
        data = os.path.join(self.dir, "data")
        os.makedirs(data, exist_ok=True)
        lines = [f"tickTime={TICK_MS}", "initLimit=20", "syncLimit=6",
                 "maxSessionTimeout=60000", f"dataDir={data}",
                 "clientPortAddress=127.0.0.1", f"clientPort={self.port}",
                 "admin.enableServer=false", "maxClientCnxns=0",
                 "4lw.commands.whitelist=*", *self.config]
        if len(members) > 1:
            lines += [f"server.{m.number}=127.0.0.1:{m.peer_port}:{m.vote_port}"
                      for m in members]
            with open(os.path.join(data, "myid"), "w", encoding="ascii") as f:
                f.write(f"{self.number}\n")
        with open(os.path.join(self.dir, "zoo.cfg"), "w",
                  encoding="ascii") as f:
            f.write("\n".join(lines) + "\n")
        with open(os.path.join(self.dir, "log4j.properties"), "w",
                  encoding="ascii") as f:
            f.write("log4j.rootLogger=WARN, C\n"
                    "log4j.appender.C=org.apache.log4j.ConsoleAppender\n"
                    "log4j.appender.C.layout=org.apache.log4j.PatternLayout\n"
                    "log4j.appender.C.layout.ConversionPattern="
                    "%d{ISO8601} %p %c{1} %m%n\n")
        if self.who:
            os.chown(data, self.who["user"], self.who["group"])

    def start(self, members):
        self.write(members)
        self.spawn(["java", "-Xmx128m", "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1", "-Xshare:auto",
                    "-Dzookeeper.skipACL=no",
                    f"-Dlog4j.configuration=file:{self.dir}/log4j.properties",
                    *self.options, "-cp", JARS,
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                    os.path.join(self.dir, "zoo.cfg")])

    def four_letters(self, word, timeout=3):
        """What the server answers to one of its words; "" when nothing."""
        try:
            with socket.create_connection(self.address, timeout) as s:
                s.settimeout(timeout)
                s.sendall(word.encode())
                got = b""
                while (piece := s.recv(65536)):
                    got += piece
                return got.decode(errors="replace")
        except OSError:
            return ""

    def serves(self):
        return "Mode: " in self.four_letters("srvr")

    def leads(self):
        said = self.four_letters("srvr", 1)
        return "Mode: leader" in said or "Mode: standalone" in said


class ZookeeperServer(Ensemble):
    """An ensemble of so many servers; with one, its ways are here, too."""
    PRODUCT, STARTS_S, scheme = "ZooKeeper", 120, "zookeeper"

    def __init__(self, members=1, config=(), options=()):
        super().__init__([ZookeeperMember(i + 1, config, options)
                          for i in range(members)])

    def answers(self, member):
        return member.serves()

    def leader(self):
        """The server that leads; None: none does."""
        return next((one for one in self.members if one.leads()), None)

    def led_by_others(self, lost):
        """Do the others have a leader?"""
        return any(one.leads() for one in self.members if one is not lost)

    def client(self, **more):
        return ZookeeperClient(self.members[0].address, **more)


class ZookeeperError(Exception):
    """An error number of the protocol."""

    def __init__(self, number):
        super().__init__(f"ZooKeeper says {number}")
        self.number = number


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack(">i", len(data)) + data


class ZookeeperClient:
    """A client for tests, which knows a handful of requests and no library."""

    def __init__(self, address, session_ms=4000, login=""):
        self.sock = socket.create_connection(address, 10)
        self.sock.settimeout(10)
        self.xid = 0
        self._send(struct.pack(">iqiq", 0, 0, session_ms, 0) + text(b"\0" * 16)
                   + b"\0")
        _, self.timeout_ms, self.session = struct.unpack_from(
            ">iiq", self._recv())
        if login:
            self._send(struct.pack(">ii", -4, 100) + struct.pack(">i", 0) +
                       text("digest") + text(login))
            self._recv()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()

    def _send(self, data):
        self.sock.sendall(struct.pack(">i", len(data)) + data)

    def _exactly(self, count):
        got = b""
        while len(got) < count:
            piece = self.sock.recv(count - len(got))
            if not piece:
                raise ConnectionError("ZooKeeper has closed the connection")
            got += piece
        return got

    def _recv(self):
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def ask(self, op, body):
        self.xid += 1
        self._send(struct.pack(">ii", self.xid, op) + body)
        while True:
            reply = self._recv()
            xid, _, error = struct.unpack_from(">iqi", reply)
            if xid == self.xid:
                break
        if error:
            raise ZookeeperError(error)
        return reply[16:]

    def children(self, path):
        try:
            reply = self.ask(8, text(path) + b"\0")
        except ZookeeperError as e:
            if e.number == -101:
                return []
            raise
        count, at, found = struct.unpack_from(">i", reply)[0], 4, []
        for _ in range(count):
            size = struct.unpack_from(">i", reply, at)[0]
            found.append(reply[at + 4:at + 4 + size].decode())
            at += 4 + size
        return sorted(found)

    def create(self, path, data=b"", flags=0):
        acl = struct.pack(">ii", 1, 31) + text("world") + text("anyone")
        reply = self.ask(1, text(path) + text(data) + acl +
                         struct.pack(">i", flags))
        return reply[4:].decode()

    def only_read(self, path):
        """Nobody may make anything in it any more."""
        self.ask(7, text(path) + struct.pack(">ii", 1, 1) + text("world") +
                 text("anyone") + struct.pack(">i", -1))

    def delete(self, path):
        self.ask(2, text(path) + struct.pack(">i", -1))

    def data(self, path):
        reply = self.ask(4, text(path) + b"\0")
        size = struct.unpack_from(">i", reply)[0]
        return reply[4:4 + size]


__all__ = ["ZookeeperClient", "ZookeeperError", "ZookeeperMember",
           "ZookeeperServer", "zookeeper_missing"]
