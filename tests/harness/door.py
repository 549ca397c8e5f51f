"""The way to a Redis server, for all who come to it: it knows clients, Sentinels and
replicas apart, and can keep back what some of them send or hear.

    door = Door(); server = RedisServer([*door.announced()]); door.target = …
    door.shut("sentinel", "replica")       # both ways
    door.shut("client", ways=("server",))  # answers alone
    door.shut("replica:7001")              # the replica that is known by 7001
    door.open()                            # then it comes late
"""

import re
import threading

from .stream_proxy import StreamProxy

__all__ = ["Door"]

BOTH = ("client", "server")  # what who comes sends, and what he hears
GONE = -1


def kind_of(first):
    """Who begins like this?"""
    if b"sentinel-" in first:
        return "sentinel"
    return "client" if b"HELLO" in first else "replica"


class Door(StreamProxy):
    """port: by which the server is known to all."""

    def __init__(self):
        self._shut = set()
        self._changed = threading.Condition()
        super().__init__(None, True)

    def announced(self):
        """Lines of the server's configuration."""
        return ["replica-announce-ip 127.0.0.1",
                f"replica-announce-port {self.port}"]

    def shut(self, *who, ways=BOTH):
        with self._changed:
            self._shut |= {(one, way) for one in who for way in ways}

    def open(self):
        with self._changed:
            self._shut.clear()
            self._changed.notify_all()

    def _let_through(self, pair, source, data):
        if source == "client":
            self._know(pair, data)
        with self._changed:
            while self._is_shut(pair, source):
                self.kept_back += 1
                self._changed.wait()

    @staticmethod
    def _know(pair, data):
        pair.setdefault("kind", kind_of(data))
        named = re.search(rb"listening-port\r\n\$\d+\r\n(\d+)", data)
        if named:
            pair["name"] = f"replica:{int(named[1])}"

    def _is_shut(self, pair, source):
        return (pair["client"].fileno() != GONE
                and any((pair.get(key), source) in self._shut
                        for key in ("kind", "name")))

    def drop(self, who):
        """What this one was sent and has not got will never come."""
        with self.lock:
            some = [pair for pair in self.pairs
                    if who in (pair.get("kind"), pair.get("name"))]
        for pair in some:
            self._cut(pair)
        with self._changed:
            self._changed.notify_all()

    def cut(self):
        cut = super().cut()
        with self._changed:
            self._changed.notify_all()
        return cut

    def heal(self):
        """StreamProxy's end: nothing waits here any more."""
        super().heal()
        self.open()
