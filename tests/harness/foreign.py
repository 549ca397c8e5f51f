"""Locks of others, by their own clients: a program in Go (etcd's
concurrency.Mutex), programs in Java (Curator, ShedLock,
Spring Integration).

Each is fetched and built once, into build/foreign of the source tree: pinned
versions, with checksums. What go and Maven keep of them for all trees stays where
they keep it. Where it cannot be had, Missing says why. All speak the same lines:
what is to be done on stdin, what was done on stdout.

    lock | unlock | read | unread     locked | unlocked | …, or: error TEXT
    count FILE N [read]               counted N: each adds one to the file, by
                                      reading, a pause, writing, under the lock

What else one of them knows, its source says.
"""

import fcntl
import functools
import hashlib
import os
import re
import select
import shutil
import signal
import subprocess

from . import process

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCE = os.path.join(HERE, "foreign")
FOLDER = os.path.join(ROOT, "build", "foreign")
BUILD_S = 300
GO_MINOR = 19  # of foreign/go/go.mod
# Many of them at once, for a few seconds each.
QUICK_START = ("-Xmx128m", "-XX:TieredStopAtLevel=1")


class Missing(Exception):
    """It can't be had here; the text says why."""


def _tool(name, package):
    found = shutil.which(name) or shutil.which(f"/usr/local/go/bin/{name}")
    if not found:
        raise Missing(f"no {name} (Debian: apt install {package})")
    return found


def _run(words, cwd, env=None):
    """What it says when it fails; "" when it does not."""
    try:
        done = subprocess.run(words, cwd=cwd, env={**os.environ, **(env or {})},
                              text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=BUILD_S, check=False)
    except subprocess.TimeoutExpired:
        return f"{words[0]}: not within {BUILD_S} s"
    said = done.stdout.strip()
    return (said or "failed without a word") if done.returncode else ""


def _line(text):
    """Its beginning, as one line."""
    return " ".join(text.split())[:300]


def _copy(name):
    """A copy of the sources, in which no two build at once."""
    folder = os.path.join(FOLDER, name)
    shutil.copytree(os.path.join(SOURCE, name), folder, dirs_exist_ok=True)
    return folder


def _alone(name):
    os.makedirs(FOLDER, exist_ok=True)
    file = open(os.path.join(FOLDER, name + ".lock"), "a",  # pylint: disable=R1732
                encoding="utf-8")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


@functools.lru_cache(maxsize=None)
def go_mutex():
    """The command of etcd's concurrency.Mutex: it takes ENDPOINT and NAME."""
    go = _tool("go", "golang-go")
    said = subprocess.run([go, "version"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False).stdout
    found = re.search(r"go1\.(\d+)", said)
    if not found or int(found[1]) < GO_MINOR:
        raise Missing(f"too old a Go: {said.strip()[:80]}")
    with _alone("go"):
        folder = _copy("go")
        env = {"GOFLAGS": "-modcacherw", "CGO_ENABLED": "0",
               "GOTOOLCHAIN": "local", "GOWORK": "off", "GO111MODULE": "on"}
        said = _run([go, "mod", "download"], folder, env)
        assert "SECURITY" not in said, said  # it is there, and another one
        if said:
            raise Missing(f"etcd's Go client can't be had: {_line(said)}")
        program = os.path.join(folder, "mutex")
        said = _run([go, "build", "-mod=readonly", "-buildvcs=false", "-o",
                     program, "."], folder, env)
        assert not said, said
        return (program,)


def _sums(folder):
    found = {}
    for name in sorted(os.listdir(folder) if os.path.isdir(folder) else ()):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


def _jars(mvn, folder, whose):
    lib = os.path.join(folder, "lib")
    with open(os.path.join(folder, "jars.sha256"), encoding="ascii") as file:
        known = {name: sha for sha, name in map(str.split, file)}
    if _sums(lib) != known:
        shutil.rmtree(lib, ignore_errors=True)
        said = _run([mvn, "-q", "-B", "dependency:copy-dependencies",
                     "-DoutputDirectory=lib"], folder)
        if said:
            raise Missing(f"{whose} jars can't be had: {_line(said)}")
    found = _sums(lib)
    for name in sorted({*known, *found}):
        assert known.get(name) == found.get(name), f"{name} is not what it was"


def _java(name, program, whose, options=QUICK_START):
    """The command of a program in Java, foreign/NAME/PROGRAM.java."""
    mvn, javac = _tool("mvn", "maven"), _tool("javac", "default-jdk-headless")
    java = _tool("java", "default-jre-headless")
    with _alone(name):
        folder = _copy(name)
        _jars(mvn, folder, whose)
        said = _run([javac, "-cp", "lib/*", "-d", ".", f"{program}.java"],
                    folder)
        assert not said, said
        return (java, *options, "-cp", f"{folder}:{folder}/lib/*", program)


@functools.lru_cache(maxsize=None)
def curator():
    """The command of Curator's locks: it takes HOST:PORT, PATH and mutex or
    rw."""
    return _java("curator", "Locks", "Curator's")


@functools.lru_cache(maxsize=None)
def curator_sections():
    """The command that counts sections of Curator's mutex, for the benchmark: it
    takes HOST:PORT, PATH and how many clients it is."""
    return _java("curator", "Sections", "Curator's", ("-Xmx256m",))


@functools.lru_cache(maxsize=None)
def shedlock():
    """The command of ShedLock's own client: it takes a JDBC URL, USER, NAME and
    how many ms a lock lasts at most."""
    return _java("shedlock", "ShedLocks", "ShedLock's")


@functools.lru_cache(maxsize=None)
def spring():
    """The command of Spring Integration's JdbcLockRegistry: it takes a JDBC URL,
    USER, NAME and for how many ms a lock stands."""
    return _java("spring", "SpringLocks", "Spring's")


@functools.lru_cache(maxsize=None)
def missing(what):
    """Why it can't be had here; "" when it can. Nobody tries twice."""
    try:
        what()
    except Missing as why:
        return str(why)
    return ""


class Lines:
    """A process that is told lines, and says lines."""

    def __init__(self, command):
        self.child = process.spawn(command, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        self.buffer = b""

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

    def says_nothing(self):
        ready, _, _ = select.select([self.child.stdout], [], [], 0)
        return not ready and not self.buffer

    def do(self, line, timeout=60):
        self.say(line)
        return self.line(timeout)

    def freeze(self):
        self.child.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.child.send_signal(signal.SIGCONT)

    def close(self):
        process.kill(self.child)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class Foreign(Lines):
    """One such process, with one lock."""

    def __init__(self, command, *args):
        super().__init__([*command, *map(str, args)])
        assert self.line(60) == "ready"

    def lock(self):
        assert self.do("lock") == "locked"

    def unlock(self):
        assert self.do("unlock") == "unlocked"
