"""ShedLock's own client, by a program in Java: locks in its table.

Its jars are fetched once, into build/foreign of the source tree: pinned versions,
with checksums. Where they cannot be had, Missing says why. The program
(foreign/shedlock/ShedLocks.java) says what it speaks.
"""

import fcntl
import functools
import hashlib
import os
import select
import shutil
import signal
import subprocess

from . import process

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCE = os.path.join(HERE, "foreign", "shedlock")
PLACE = os.path.join(ROOT, "build", "foreign", "shedlock")
BUILD_S = 300


class Missing(Exception):
    """It can't be had here; the text says why."""


def _tool(name, package):
    found = shutil.which(name)
    if not found:
        raise Missing(f"no {name} (Debian: apt install {package})")
    return found


def _run(words, cwd):
    """What it says when it fails; "" when it does not."""
    try:
        done = subprocess.run(words, cwd=cwd, text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=BUILD_S)
    except subprocess.TimeoutExpired:
        return f"{words[0]}: not within {BUILD_S} s"
    said = done.stdout.strip()
    return (said or "failed without a word") if done.returncode else ""


def _sums(folder):
    found = {}
    for name in sorted(os.listdir(folder) if os.path.isdir(folder) else ()):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


def _jars(mvn):
    lib = os.path.join(PLACE, "lib")
    with open(os.path.join(PLACE, "jars.sha256"), encoding="ascii") as file:
        known = {name: sha for sha, name in map(str.split, file)}
    if _sums(lib) != known:
        shutil.rmtree(lib, ignore_errors=True)
        said = _run([mvn, "-q", "-B", "dependency:copy-dependencies",
                     "-DoutputDirectory=lib"], PLACE)
        if said:
            raise Missing(f"ShedLock's jars can't be had: {said[-300:]}")
    found = _sums(lib)
    for name in sorted({*known, *found}):
        assert known.get(name) == found.get(name), f"{name} is not what it was"
    return lib


@functools.lru_cache(maxsize=None)
def command():
    """The command of the program, built in a folder in which no two build at
    once."""
    mvn, javac = _tool("mvn", "maven"), _tool("javac", "default-jdk-headless")
    java = _tool("java", "default-jre-headless")
    os.makedirs(os.path.dirname(PLACE), exist_ok=True)
    with open(PLACE + ".lock", "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        shutil.copytree(SOURCE, PLACE, dirs_exist_ok=True)
        lib = _jars(mvn)
        said = _run([javac, "-cp", "lib/*", "-d", ".", "ShedLocks.java"], PLACE)
        assert not said, said
    return (java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp",
            f"{PLACE}:{lib}/*", "ShedLocks")


def missing():
    """Why it can't be had here; "" when it can."""
    try:
        command()
    except Missing as why:
        return str(why)
    return ""


class ShedLock:
    """One such process, with one lock."""

    def __init__(self, url, user, name, most_ms=60000):
        self.child = process.spawn(
            [*command(), url, user, name, str(most_ms)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.buffer = b""
        assert self.line(60) == "ready"

    def say(self, line):
        self.child.stdin.write((line + "\n").encode())
        self.child.stdin.flush()

    def line(self, timeout=30):
        """What it says next."""
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.child.stdout], [], [], timeout)
            assert ready, "it says nothing"
            piece = os.read(self.child.stdout.fileno(), 65536)
            assert piece, "it has ended"
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def do(self, line, timeout=60):
        self.say(line)
        return self.line(timeout)

    def freeze(self):
        self.child.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.child.send_signal(signal.SIGCONT)

    def close(self):
        process.kill(self.child)
