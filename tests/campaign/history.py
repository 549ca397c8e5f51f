"""What happened, one JSON line each; times are CLOCK_BOOTTIME nanoseconds.

Each line has t (when it was known here), op, and as far as it applies p (one
process, a new name after each kill), owner (p/caller), lock, e (invoke, ok,
fail, unknown), id (of the operation), grant, token, began, ended.

    acquire   e, id, limit_ms | lease_ms, holds, err      of a driver's caller
              kind (read, write, permits; none: mutex), permits, size,
              ticket (handle/number: each client counts its own)
    release   e, id, grant | err
    probe     grant, held, state, left_ms                 a query
    told      token, state, reason                        the callback
    section   token; e: begin, alive, end                 under `snib run`
    write     e, element, token                           to the resource
    fence     e, id, what (enter, write), token, lock     the resource's record
    final     elements [[token, element], …], count       read at the end
    killed    p                         before the signal is sent
    frozen    p, until (null: to the end)
    blackout  began, ended              the store answered nobody in there
    nemesis   kind, lossy, what         a fault; lossy: exclusion may fail
    effect    seen, what                how often it was seen to do what
    kept      p, held                   … through a fault that the store survives
    pulse     gap_ms                    the machine kept a thread waiting
    meta      store, kind, seed, eps_ms, ended
"""

import itertools
import json
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness.wait import boot_ns  # noqa: E402

__all__ = ["History", "append", "boot_ns"]


def append(path, **line):
    """One write(2) to a file opened for appending: whole lines, whoever else
    writes, and whenever somebody is killed."""
    line.setdefault("t", boot_ns())
    data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


class History:
    """The campaign's own end of the file; sections write there, too."""

    def __init__(self, path):
        self.path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def __call__(self, op, **line):
        line.setdefault("t", boot_ns())
        data = json.dumps({"op": op, **line}, separators=(",", ":"))
        os.write(self._fd, data.encode() + b"\n")

    def new_id(self):
        with self._lock:
            return next(self._ids)

    def close(self):
        os.close(self._fd)
