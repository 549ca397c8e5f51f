"""The second judge of a history: judge/, a Go program upon porcupine.

It shares nothing with checker.py but the file. Module and program are fetched
and built once, into build/judge of the source tree; where there is no Go, or
the module can't be had, Missing says why.
"""

import fcntl
import functools
import json
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCE = os.path.join(HERE, "judge")
PLACE = os.path.join(ROOT, "build", "judge")
BUILD_S, LIMIT_S = 120, 20


class Missing(Exception):
    """It can't be built here; the text says why."""


class Opinion:
    """What it says of one history."""

    def __init__(self, line):
        self.word, self.text = line["verdict"], line["text"]
        self.operations = line["operations"]

    @property
    def ok(self):
        """Not decided in time is not good."""
        return self.word == "good"

    def __str__(self):
        return f"second judge: {self.word}{': ' * bool(self.text)}{self.text}"


def _find_go():
    """A Go that is new enough for go.mod."""
    with open(os.path.join(SOURCE, "go.mod"), encoding="utf-8") as file:
        need = re.search(r"^go 1\.(\d+)", file.read(), re.M)[1]
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        raise Missing("no Go (Debian: apt install golang-go)")
    said = subprocess.run([go, "version"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False).stdout
    found = re.search(r"go1\.(\d+)", said)
    if not found or int(found[1]) < int(need):
        raise Missing(f"no Go of 1.{need} or later: {said.strip()[:80]}")
    return go


def _go(go, *words):
    """All that Go writes stays in build/; nothing but go.sum's is taken."""
    env = {**os.environ, "GOPATH": os.path.join(PLACE, "path"),
           "GOCACHE": os.path.join(PLACE, "cache"), "GOTOOLCHAIN": "local",
           "GOFLAGS": "-modcacherw", "CGO_ENABLED": "0",
           "GOWORK": "off", "GO111MODULE": "on"}
    try:
        done = subprocess.run(
            [go, *words], cwd=SOURCE, env=env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=BUILD_S, check=False)
    except subprocess.TimeoutExpired:
        return f"go {words[0]}: not within {BUILD_S} s"
    return done.stdout.strip() if done.returncode else ""


@functools.lru_cache(maxsize=None)
def build():
    """Path of the program. A source that doesn't compile is an error."""
    go = _find_go()
    os.makedirs(PLACE, exist_ok=True)
    with open(os.path.join(PLACE, "lock"), "a", encoding="utf-8") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        said = _go(go, "mod", "download")
        assert "SECURITY" not in said, said  # it is there, and another one
        if said:
            raise Missing(f"its module can't be had: {said[-300:]}")
        path = os.path.join(PLACE, "judge")
        said = _go(go, "build", "-buildvcs=false", "-o", path, ".")
        assert not said, said
    return path


def missing():
    """Why it can't judge here; "" when it can."""
    try:
        build()
    except Missing as why:
        return str(why)
    return ""


def judge(*paths):
    """An Opinion of each history."""
    done = subprocess.run(
        [build(), "-limit", f"{LIMIT_S}s", *paths], text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode in (0, 1), done.stderr[-1000:]
    return [Opinion(json.loads(line)) for line in done.stdout.splitlines()]
