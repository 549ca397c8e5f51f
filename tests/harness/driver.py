"""The library in a process of its own: Python side of tests/driver/driver.c.

    holder = Driver()
    holder.open(redis.url)
    holder.lock("n", lease_ms=1000)
    grant = holder.acquire("n")              # raises LockError when refused
    waiting = holder.start_acquire("n", on="second")
    …
    waiting.wait().token

Each command runs on one of the driver's threads, named by `on`; a lock that a
thread acquired is released by the same thread unless the test says otherwise.
"""

import itertools
import json
import os
import shutil
import signal
import subprocess
import threading
import time
import urllib.parse

from . import process
from .resp import to_bytes
from .wait import patience, wait_until

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(TESTS)


def find_driver():
    """Path of the program: $SNIB_TEST_DRIVER, else the newest one built."""
    given = os.environ.get("SNIB_TEST_DRIVER")
    if given:
        return given
    found = []
    for top in (os.path.join(ROOT, "build"), os.path.join(ROOT, "out")):
        for path, _, files in os.walk(top):
            if "snib-test-driver" in files:
                found.append(os.path.join(path, "snib-test-driver"))
    return max(found, key=os.path.getmtime, default="")


def driver_missing():
    """Why tests with the driver cannot run here; "" when they can."""
    path = find_driver()
    if not path or not shutil.which(path):
        return ("the driver program is not built (cmake --build; or set"
                " SNIB_TEST_DRIVER)")
    return ""


class Answer(dict):
    """What a command answered; keys are attributes too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no {name} in {dict(self)}") from None

    @property
    def ok(self):
        return self["err"] == "OK"

    @property
    def took_ms(self):
        return (self["ended"] - self["began"]) / 1e6


class LockError(Exception):
    """A command's error; .answer has all of it, .err its name."""

    def __init__(self, what, answer):
        super().__init__(f"{what}: {answer['err']}: {answer.get('text', '')}"
                         f" ({answer.took_ms:.1f} ms)")
        self.answer = answer
        self.err = answer["err"]


class DriverDied(Exception):
    """The process ended (or said something that is no JSON)."""


class Pending:
    """A command under way."""

    def __init__(self, driver, tag, what, grant=None):
        self.driver, self.tag, self.what, self.grant = driver, tag, what, grant

    def done(self):
        return self.driver._answer(self.tag) is not None

    def answer(self, timeout=15.0):
        """Wait for the Answer, whatever it says."""
        return self.driver._wait_answer(self.tag, timeout, self.what)

    def wait(self, timeout=15.0):
        """Wait for success; LockError otherwise."""
        answer = self.answer(timeout)
        if not answer.ok:
            raise LockError(self.what, answer)
        if self.grant is not None:
            self.grant.answer = answer
            return self.grant
        return answer


class Grant:
    """A grant in the driver, by the driver's id of it."""

    def __init__(self, driver, name, on):
        self.driver, self.id, self.on = driver, name, on
        self.answer = None

    @property
    def token(self):
        return self.answer["token"]

    @property
    def ticket(self):
        return self.answer["ticket"]

    @property
    def began(self):
        return self.answer["began"]

    @property
    def ended(self):
        """When the acquire returned: CLOCK_BOOTTIME ns."""
        return self.answer["ended"]

    def start_release(self, on=None):
        return self.driver.start("release", id=self.id, on=on or self.on)

    def release(self, on=None, timeout=15.0):
        return self.start_release(on).wait(timeout)

    def renew(self, lease_ms=0, on=None):
        return self.driver.call("renew", id=self.id, lease_ms=lease_ms,
                                on=on or self.on)

    def start_status(self, **more):
        return self.driver.start("status", id=self.id, on="look", **more)

    def status(self, **more):
        return self.start_status(**more).wait()

    def wait_state(self, state, timeout=10.0):
        """Poll the status until it is `state`."""
        return wait_until(
            lambda: (lambda s: s if s.state == state else None)(self.status()),
            timeout, f"{self.id} is {state}")

    def changes(self):
        """State changes that the callback told, oldest first."""
        return self.driver.events("change", ticket=self.ticket)


class Driver:
    """One process. Ends with the test; close() for sure."""

    def __init__(self, path=None, env=None):
        self._stderr = []
        self.child = process.spawn(
            [path or find_driver()], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})})
        self._changed = threading.Condition()
        self._write_lock = threading.Lock()
        self._answers = {}
        self._events = []
        self._ended = False
        self._tags = itertools.count(1)
        self._ids = itertools.count(1)
        self._locks = {}
        self._threads = [threading.Thread(target=target, daemon=True)
                         for target in (self._read, self._read_errors)]
        for thread in self._threads:
            thread.start()

    # -- lines ----------------------------------------------------------------

    def _read(self):
        for text in self.child.stdout:
            try:
                line = json.loads(text)
            except ValueError:
                self._stderr.append(f"no JSON: {text!r}")
                break
            with self._changed:
                if "tag" in line:
                    self._answers[line["tag"]] = Answer(line)
                else:
                    self._events.append(Answer(line))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _read_errors(self):
        for text in self.child.stderr:
            self._stderr.append(text.decode("utf-8", "replace"))

    def _answer(self, tag):
        with self._changed:
            return self._answers.get(tag)

    def _wait_answer(self, tag, timeout, what):
        deadline = time.monotonic() + patience(timeout)
        with self._changed:
            while tag not in self._answers:
                if self._ended:
                    raise DriverDied(
                        f"{what}: exit {self.child.poll()}: {self.stderr}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"not within {timeout:g} s: {what}")
                self._changed.wait(left)
            return self._answers[tag]

    @property
    def stderr(self):
        return "".join(self._stderr)[-3000:]

    def start(self, verb, grant=None, **args):
        """Send a command; the Pending is waited for later."""
        tag = str(next(self._tags))
        words = [tag, verb]
        for key, value in args.items():
            if value is None:
                continue
            if isinstance(value, bool):
                value = int(value)
            words.append(f"{key}={urllib.parse.quote(to_bytes(value), safe='/')}")
        line = " ".join(words)
        with self._write_lock:
            try:
                self.child.stdin.write(line.encode() + b"\n")
                self.child.stdin.flush()
            except OSError as error:
                raise DriverDied(f"{line}: {error}: {self.stderr}") from None
        return Pending(self, tag, line, grant)

    def call(self, verb, timeout=15.0, **args):
        """Send and wait for success."""
        return self.start(verb, **args).wait(timeout)

    def ask(self, verb, timeout=15.0, **args):
        """Send and wait for the Answer, whatever it says."""
        return self.start(verb, **args).answer(timeout)

    # -- verbs ----------------------------------------------------------------

    def open(self, url, id="c", **options):
        return self.call("open", id=id, url=url, **options)

    def lock(self, name, id=None, client="c", **options):
        """Make the lock object `id` (the name itself when missing)."""
        id = id or urllib.parse.quote(to_bytes(name))
        self._locks[id] = name
        self.call("lock", id=id, client=client, name=name, **options)
        return id

    def start_acquire(self, lock, on="main", **options):
        grant = Grant(self, f"g{next(self._ids)}", on)
        return self.start("acquire", grant=grant, id=grant.id, lock=lock,
                          on=on, **options)

    def acquire(self, lock, on="main", timeout=15.0, **options):
        """Acquire and wait; LockError when it is not granted."""
        return self.start_acquire(lock, on, **options).wait(timeout)

    def try_acquire(self, lock, on="main", **options):
        """The Answer of one try."""
        return self.start_acquire(lock, on, wait_ms=0, **options).answer()

    # -- events ---------------------------------------------------------------

    def events(self, event=None, **fields):
        with self._changed:
            found = list(self._events)
        return [line for line in found
                if (event is None or line["event"] == event)
                and all(line.get(key) == value
                        for key, value in fields.items())]

    def wait_event(self, event, timeout=10.0, **fields):
        """The first such event."""
        found = wait_until(lambda: self.events(event, **fields), timeout,
                           f"event {event} {fields}")
        return found[0]

    def logs(self):
        return [line["line"] for line in self.events("log")]

    # -- the process ----------------------------------------------------------

    @property
    def pid(self):
        return self.child.pid

    def freeze(self):
        process.freeze(self.child)

    def thaw(self):
        process.thaw(self.child)

    def kill(self):
        """kill -9."""
        process.kill(self.child)

    def quit(self, timeout=15.0):
        """End by exit(): atexit handlers and sanitizers have their say."""
        try:
            self.start("quit")
        except DriverDied:
            pass
        self.child.wait(timeout)
        return self.child.returncode

    def alive(self):
        return self.child.poll() is None

    def close(self):
        if self.alive():
            self.child.send_signal(signal.SIGCONT)
        self.kill()
        for thread in self._threads:
            thread.join(5)
        for pipe in (self.child.stdin, self.child.stdout, self.child.stderr):
            try:
                pipe.close()
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
