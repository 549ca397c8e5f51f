"""What the suites assert again and again about a store and its resources."""

import os
import urllib.parse

from .wait import wait_until

# :t lives until a day after the later of now and the token's own time.
TOKEN_TTL_MAX_MS = 86_400_000 + 60_000
# Tombstones: until not_after, at most 10 s ahead. The rank counter of an empty
# queue: longer than any waiter lives without a poll.
SHORT_TTL_MAX_MS = 30_000
# The number of the layout, for a year; the mark, whose ids are tokens, for two
# days. Of no lock.
LAYOUT = b"snib:layout"
MARK = b"snib:m"


def lock_key(name):
    """Key of the holders of lock `name` (bytes or text)."""
    if isinstance(name, str):
        name = name.encode()
    encoded = "".join(
        chr(byte) if 0x20 <= byte <= 0x7e and byte not in b"{}%" else
        f"%{byte:02X}" for byte in name)
    return f"snib:{{{encoded}}}".encode()


def residue(server, dead_waiters=False):
    """What is in the store and should not be, as texts; [] is clean.

    Clean: nobody holds, nobody waits, the token memory lives about a day at
    most, whatever else there is (tombstones, the hash that stands as long as
    they do, the rank counter of an empty queue) ends within seconds.
    dead_waiters: the places of waiters that were killed may still be there;
    they end within seconds, too.
    """
    found = []
    for key, left in server.keys().items():
        suffix = key.rpartition(b"}")[2]
        if key in (LAYOUT, MARK) and left >= 0:
            continue
        if left < 0:
            found.append(f"{key!r} has no time to live")
        elif (suffix == b"" and held_at(server, key)) or (
                suffix in (b":q", b":a") and not dead_waiters):
            found.append(f"{key!r} is still there ({left} ms)")
        elif (suffix == b":w" and not dead_waiters
              and server.command("HLEN", key) > 1):
            found.append(f"{key!r} still has waiters ({left} ms)")
        elif left > (TOKEN_TTL_MAX_MS if suffix == b":t"
                     else SHORT_TTL_MAX_MS):
            found.append(f"{key!r} lives too long ({left} ms)")
    return found


def assert_ttls(server):
    """At any time: each key has a time to live."""
    for key, left in server.keys().items():
        assert left >= 0, f"{key!r} has no time to live"


def assert_no_residue(server, timeout=3.0, dead_waiters=False):
    """After everybody has let go. What the library ends in the
    background (a cancel after a lost reply) may take until `timeout`."""
    state = {}

    def clean():
        state["found"] = residue(server, dead_waiters)
        return not state["found"]
    try:
        wait_until(clean, timeout, "a clean store")
    except AssertionError:
        raise AssertionError(f"left behind: {state['found']}") from None


def holders(server, name):
    """How many holders the store shows for a lock (0 when it is free).

    By the library's own record only: that a key exists does not mean that a
    holder's lease still runs.
    """
    return held_at(server, lock_key(name))


def held_at(server, key):
    """How many holders stand at that key: one as a string, or each in a field
    of a hash, which has one more where it outlives them."""
    if server.command("TYPE", key) == b"string":
        return 1
    return sum(field != b"~" for field in server.command("HKEYS", key))


class Rising:
    """Tokens must rise strictly, whoever gets them."""

    def __init__(self):
        self.last = 0

    def __call__(self, token):
        assert 0 < token < 2 ** 53, f"token out of range: {token}"
        assert token > self.last, f"token fell: {token} after {self.last}"
        self.last = token
        return token


def next_millisecond(server):
    """Wait until the server's clock shows another millisecond.

    A grant, a FLUSHALL and the next client's grant within one millisecond
    would get the same token: tokens count in milliseconds once all memory of
    earlier tokens is gone. No operator is that quick; a test is.
    """
    def read():
        seconds, micros = server.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000
    begun = read()
    wait_until(lambda: read() > begun, what="the next millisecond")


class Fence:
    """A resource that refuses stale owners (P2): the mark is raised before
    the first read of a section, and compared at each write."""

    def __init__(self, path):
        self._path = path
        self.mark = 0

    def begin(self, token):
        if token < self.mark:
            return False
        self.mark = token
        return True

    def write(self, token, text):
        if token < self.mark:
            return False
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(text + "\n")
        return True

    def lines(self):
        if not os.path.exists(self._path):
            return []
        with open(self._path, encoding="utf-8") as file:
            return file.read().split()


def with_login(url, user, password):
    """redis://host -> redis://user:password@host"""
    scheme, rest = url.split("://", 1)
    quoted = ":".join(urllib.parse.quote(part, safe="")
                      for part in (user, password))
    return f"{scheme}://{quoted}@{rest}"


def read_tally(path):
    """(count, last token) that the driver's `count` left in its file."""
    with open(path, "rb") as file:
        data = file.read()
    if not data:
        return 0, 0  # made, and nothing counted yet
    assert len(data) == 16, f"{path}: {len(data)} bytes"
    return (int.from_bytes(data[:8], "little"),
            int.from_bytes(data[8:], "little"))
