"""Which calls a run makes, and which of them can fail how: see
tests/harness/faults.c and calls.tsv."""

import errno
import os
import socket
import struct
import subprocess
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
ROLES, CALLS, NAME = 32, 160, 24
HEAD = struct.Struct("=qqq")
ROW = struct.Struct("=%ds%dq" % (NAME, ROLES))
SIZE = HEAD.size + CALLS * ROW.size
# What nobody may notice: the call is simply made again.
RETRIED = ("EINTR", "short")
MOVES = ("read.", "write.", "send.", "recv.")


def calls():
    """{name: [failures]}, and {name: why there are none}."""
    can, cannot = {}, {}
    with open(os.path.join(HERE, "calls.tsv"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                name, hows, *why = line.rstrip("\n").split("\t")
                if hows == "-":
                    cannot.update(dict.fromkeys(name.split(), why[0]))
                else:
                    can[name] = hows.split()
    return can, cannot


def number(how):
    if how == "short":
        return 0
    return getattr(socket if how.startswith("EAI_") else errno, how)


class Point:
    """The nth call of a function in one process fails so."""

    def __init__(self, call, role, nth, how):
        self.call, self.role, self.nth, self.how = call, role, nth, how

    def __str__(self):
        return "%s@%d:%d:%s" % (self.call, self.role, self.nth, self.how)

    @classmethod
    def read(cls, text):
        call, _, rest = text.partition("@")
        role, nth, how = rest.split(":")
        return cls(call, int(role), int(nth), how)

    def env(self):
        return "%s@%d:%d:%d" % (self.call, self.role, self.nth,
                                number(self.how))

    def invisible(self):
        return self.how in RETRIED or (
            # (A packet that does not fit is not sent; that is told.)
            self.how == "EAGAIN" and self.call.startswith(MOVES) and
            self.call != "send.packet")

    def drawn(self, of, workload):
        """Is it in the sample of one in so many? (Of allocations, of which
        there are thousands at a few places: one in five times as many.)"""
        text = "%s %s" % (workload, self)
        many = of * (5 if self.call.endswith("alloc") else 1)
        return zlib.crc32(text.encode()) % many == 0


class Table:
    """What the processes of one run have in common with us."""

    def __init__(self, path):
        self.path = path
        self.clear()

    def clear(self):
        with open(self.path, "wb") as file:
            file.truncate(SIZE)

    def _read(self):
        with open(self.path, "rb") as file:
            return file.read()

    def counts(self):
        """{(call, role): how often}"""
        data, found = self._read(), {}
        for name, *counts in ROW.iter_unpack(data[HEAD.size:]):
            text = name.rstrip(b"\0").decode()
            for role, count in enumerate(counts):
                if count:
                    found[text, role] = count
        return found

    def fired(self):
        """(0 not reached, 1 failed, 2 cannot fail so here), address."""
        state, _, address = HEAD.unpack_from(self._read())
        return state, address


def points(counts, most=None):
    """Each failure of each call that was counted, at most so many calls of a
    function in a process; what calls.tsv does not know is told by itself."""
    can, _ = calls()
    for (call, role), count in sorted(counts.items()):
        for how in can[call]:
            for nth in range(1, min(count, most or count) + 1):
                yield Point(call, role, nth, how)


def line_of(binary, address):
    """Where in the source the failed call stands."""
    done = subprocess.run(
        ["addr2line", "-s", "-f", "-e", binary, hex(max(address - 1, 0))],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return " ".join(done.stdout.split()) or hex(address)
