"""A server that speaks RESP and means harm.

It greets like a Redis server and answers scripts as a test likes: `on` maps
what is asked to what is said. What is asked is a command's name (TIME, PING,
SCAN …) or, of a script, what it is for, seen by how many keys and arguments
it has: acquire, several, renew, keep, release, cancel, force, inspect, probe,
terms, value.

What is said is raw bytes, a function of the command that gives them, SILENCE
(nothing, for ever), or CLOSE.

    with HostileRedis(on={"acquire": reply([2, clock_ms(), 1, 0])}) as server:
        run("try", "n", store=server.url)
"""

import socket
import threading
import time

from .resp import None_, ProtocolError, Reader, encode

SILENCE = object()
CLOSE = object()


def clock_ms():
    return time.time_ns() // 1_000_000


def reply(value):
    """The bytes of a reply: int, str/bytes, list, None, or an Exception."""
    if isinstance(value, bool) or value is None:
        return b"$-1\r\n" if value is None else b":%d\r\n" % value
    if isinstance(value, int):
        return b":%d\r\n" % value
    if isinstance(value, Exception):
        return b"-%s\r\n" % str(value).encode()
    if isinstance(value, (list, tuple)):
        return (b"*%d\r\n" % len(value)) + b"".join(map(reply, value))
    data = value.encode() if isinstance(value, str) else value
    return b"$%d\r\n%s\r\n" % (len(data), data)


# (keys, arguments) -> what the script is for
SHAPES = {(7, 16): "acquire", (7, 5): "release", (8, 5): "release",
          (7, 4): "cancel", (7, 1): "force", (6, 2): "inspect",
          (4, 1): "probe"}


def purpose(command):
    """What a command is for, see above."""
    word = command[0].decode("latin-1").upper()
    if word not in ("EVAL", "EVALSHA"):
        return word
    keys = int(command[2])
    args = len(command) - 3 - keys
    if keys and command[2 + keys] == b"snib:m":
        keys -= 1
    elif keys and command[2 + keys] == b"snib:epoch":  # and what goes with it
        keys, args = keys - 1, args - 1
    if (keys, args) == (7, 5) and command[-3].isalpha():
        return "terms"
    if (keys, args) in SHAPES:
        return SHAPES[keys, args]
    if keys and keys == args:
        return "drop"
    if keys and keys % 2 == 0 and args == 1 + 3 * (keys // 2):
        return "renew"
    if keys and keys % 7 == 0 and args == 1 + 16 * (keys // 7):
        return "several"
    return "script"


def _time(_):
    now = time.time_ns() // 1000
    return reply([str(now // 1_000_000), str(now % 1_000_000)])


def _subscribe(command):
    return reply([b"subscribe", command[1], 1])


def _hello(_):
    return reply([b"server", b"redis", b"version", b"7.0.15", b"proto", 2,
                  b"id", 1, b"mode", b"standalone", b"role", b"master",
                  b"modules", []])


def _sizes(_):
    return reply([[], 0])


GREETING = {"TIME": _time, "SUBSCRIBE": _subscribe, "HELLO": _hello,
            "AUTH": b"+OK\r\n", "SELECT": b"+OK\r\n", "PING": b"+PONG\r\n",
            "SET": b"+OK\r\n", "GET": reply("2"),
            "UNSUBSCRIBE": b"", "probe": _sizes,
            "INFO": reply("redis_version:7.0.15\r\nrole:master\r\n"),
            "CONFIG": reply(["x", "noeviction"]),
            "acquire": lambda c: granted(c), "release": reply([1]),
            "cancel": reply([1]), "renew": lambda c: renewed(c)}


def granted(command, token=None, lease=None, clock=None):
    """acquire.lua's "granted", with lies where they are wanted."""
    now = clock_ms()
    asked = int(command[3 + int(command[2]) + 2])
    return reply([1, clock or now, token or now * 1024, 31, lease or asked, 1])


def renewed(command):
    return reply([clock_ms()] + [1] * (int(command[2]) // 2))


class HostileRedis:
    """`on` overrides the well-behaved answers; host is 127.0.0.1."""

    def __init__(self, on=None, pieces=0):
        self.on = {**GREETING, **(on or {})}
        self.pieces = pieces  # send so many bytes at a time
        self.heard = []       # purposes, in order
        self._ended = False
        self._sockets = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self.address = ("127.0.0.1", self.port)
        self.url = f"redis://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while not self._ended:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._sockets.add(peer)
            threading.Thread(target=self._serve, args=(peer,),
                             daemon=True).start()

    def _serve(self, peer):
        reader = Reader()
        try:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := peer.recv(65536):
                reader.feed(data)
                while found := reader.next():
                    if not self._answer(peer, found[0]):
                        return
        except (OSError, ProtocolError):
            pass
        finally:
            with self._lock:
                self._sockets.discard(peer)
            peer.close()

    def _answer(self, peer, command):
        if command is None_ or not isinstance(command, list):
            return False
        what = purpose(command)
        self.heard.append(what)
        said = self.on.get(what, self.on.get("*", b"-ERR unknown command\r\n"))
        if callable(said):
            said = said(command)
        if said is CLOSE:
            return False
        if said is SILENCE:
            return True
        if hasattr(said, "__next__"):  # bytes without end
            for part in said:
                peer.sendall(part)
            return True
        step = self.pieces or len(said) or 1
        for at in range(0, len(said), step):
            peer.sendall(said[at:at + step])
        return True

    def tell(self, channel, text):
        """Bytes to everybody who is connected, as a pushed message."""
        with self._lock:
            peers = list(self._sockets)
        for peer in peers:
            peer.sendall(reply([b"message", channel, text]))

    def close(self):
        self._ended = True
        self._listener.close()
        with self._lock:
            peers = list(self._sockets)
        for peer in peers:
            try:
                peer.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


__all__ = ["CLOSE", "SILENCE", "HostileRedis", "clock_ms", "encode", "granted",
           "purpose", "renewed", "reply"]
