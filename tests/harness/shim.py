"""Other clocks, and a failing system call, for one process: see shim.c."""

import mmap
import os
import shutil
import struct
import subprocess

__all__ = ["Shim", "ShimMissing", "build_shim"]

HERE = os.path.dirname(os.path.abspath(__file__))
SECOND = 1_000_000_000
WORDS = 6
NAMES = ["", "socket", "connect", "send", "recv", "poll", "epoll_create1",
         "epoll_ctl", "epoll_wait", "timerfd_create", "eventfd", "setsockopt",
         "getaddrinfo", "pthread_create"]


class ShimMissing(Exception):
    """It cannot be built here; the text says why."""


def build_shim(folder, source="shim.c"):
    """Path of the library, made in the folder. (A second is what it takes:
    once a session is enough.)"""
    compiler = (shutil.which("cc") or shutil.which("gcc")
                or shutil.which("clang"))
    if compiler is None:
        raise ShimMissing("no C compiler for the shims (cc)")
    made = os.path.join(str(folder), source[:-1] + "so")
    done = subprocess.run(
        [compiler, "-O1", "-w", "-shared", "-fPIC", "-o", made,
         os.path.join(HERE, source), "-ldl"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise ShimMissing(
            source + " does not compile: " + done.stdout[-300:])
    return made


class Shim:
    """The clocks and the failing call of each process that is started with
    .env. The file at path must not be there before."""

    def __init__(self, library, path):
        with open(path, "x+b") as file:
            file.write(bytes(8 * WORDS))
            file.flush()
            self._map = mmap.mmap(file.fileno(), 8 * WORDS)
        self.env = {"LD_PRELOAD": library, "SNIB_SHIM": str(path)}

    def _put(self, at, value):
        self._map[8 * at:8 * at + 8] = struct.pack("=q", value)

    def _get(self, at):
        return struct.unpack("=q", self._map[8 * at:8 * at + 8])[0]

    def step_real(self, seconds):
        """The wall clock; what was stepped before stays."""
        self._put(0, self._get(0) + int(seconds * SECOND))

    def step_boot(self, seconds):
        """CLOCK_BOOTTIME, as a suspend does."""
        self._put(1, self._get(1) + int(seconds * SECOND))

    def fail_at(self, nth, only=""):
        """The nth hooked call from now fails, or the nth of those of that
        name; 0: none."""
        self._put(2, 0)
        self._put(5, NAMES.index(only))
        self._put(3, 0)
        self._put(4, 0)
        self._put(2, nth)

    def failed(self):
        """Which call has failed; "" when it was not reached."""
        return NAMES[self._get(4)]

    def close(self):
        self._map.close()
