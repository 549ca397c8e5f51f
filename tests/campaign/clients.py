"""Who wants the lock: callers of driver processes, and `snib run`."""

import contextlib
import os
import subprocess
import threading
import time

from harness import process
from harness.driver import Driver, DriverDied
from harness.wait import wait_until

from history import boot_ns

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
HANG_S = 40.0


class DriverClient:
    """One process after the other; one thread here for each of its callers.

    A caller acquires, enters the resource, works, writes, releases; sometimes
    it re-enters, releases twice, or writes although it knows that the lock is
    lost: the fence has to see to that.
    """

    LEASE_MS = 600

    def __init__(self, world, index, callers):
        self.world, self.index = world, index
        self._lock = threading.Lock()
        self._count = 0
        self.driver, self.p = None, ""
        self._start()
        self.threads = [
            threading.Thread(target=self._caller, args=(f"l{caller}", seed),
                             daemon=True)
            for caller, seed in ((caller, world.random.getrandbits(64))
                               for caller in range(callers))]

    def _start(self):
        driver = Driver()
        world = self.world
        driver.open(world.url_of(self.index), request_ms=world.request_ms)
        driver.lock(world.lock, id="n", lease_ms=world.lease_ms)
        with self._lock:
            self._count += 1
            self.driver, self.p = driver, f"d{self.index}.{self._count}"

    def current(self):
        with self._lock:
            return self.driver, self.p

    # -- nemesis --------------------------------------------------------------

    @contextlib.contextmanager
    def frozen(self):
        """Inside, the process stands still."""
        driver, p = self.current()
        begun = boot_ns()
        driver.freeze()
        try:
            yield driver
        finally:
            driver.thaw()
            self.world.history("frozen", t=begun, p=p, until=boot_ns())

    def freeze(self, seconds):
        with self.frozen():
            self.world.pause(seconds)

    def kill(self):
        driver, p = self.current()
        self.world.history("killed", p=p)
        driver.kill()
        self._retire(driver, p)
        self._start()

    def _retire(self, driver, p):
        """What the callbacks told goes into the history when all is read."""
        driver.close()
        for line in driver.events("change"):
            self.world.history("told", t=line.at, p=p, token=line.token,
                               ticket=f"{line.lock}/{line.ticket}",
                               state=line.state, reason=line.reason)
        if driver.stderr:
            self.world.history("broken", p=p, text=driver.stderr)

    def close(self):
        driver, p = self.current()
        self.world.history("killed", p=p)
        self._retire(driver, p)

    # -- work -----------------------------------------------------------------

    def _caller(self, caller, seed):
        random = self.world.new_random(seed)
        while not self.world.over():
            driver, p = self.current()
            try:
                Caller(self.world, driver, p, caller, random).section()
            except (DriverDied, ValueError):  # its pipe is closed already
                wait_until(lambda: self.current()[0] is not driver
                           or self.world.over(), 20, "a new process")
            except AssertionError as error:
                self.world.history("hang", p=p, text=str(error))
                return


class Caller:
    """One caller of one process: operations that leave lines."""

    def __init__(self, world, driver, p, caller, random):
        self.world, self.driver, self.p = world, driver, p
        self.caller, self.random = caller, random
        self.who = {"p": p, "owner": f"{p}/{caller}",
                    "lock": world.lock}

    def _end(self, op, ident, answer, **more):
        verdict = ("ok" if answer.ok else
                   "unknown" if answer.err == "UNKNOWN" else "fail")
        self.world.history(op, e=verdict, id=ident, began=answer.began,
                           ended=answer.ended, err=answer.err, **self.who,
                           **more)
        return answer.ok

    def acquire(self, wait_ms):
        """The Grant, or None."""
        ident = self.world.history.new_id()
        # A try is bounded by request_ms.
        self.world.history("acquire", e="invoke", id=ident, limit_ms=max(
            wait_ms, self.world.request_ms), **self.who)
        pending = self.driver.start_acquire("n", on=self.caller, wait_ms=wait_ms)
        grant, answer = pending.grant, pending.answer(HANG_S)
        grant.answer = answer
        more = {}
        if answer.ok:
            more = {"token": answer.token, "holds": answer.holds,
                    "lease_ms": self.world.lease_ms,
                    "grant": f"{self.p}.{grant.id}"}
        return grant if self._end("acquire", ident, answer, **more) else None

    def release(self, grant):
        ident = self.world.history.new_id()
        name = f"{self.p}.{grant.id}"
        self.world.history("release", e="invoke", id=ident, grant=name,
                           limit_ms=2 * self.world.request_ms, **self.who)
        answer = grant.start_release().answer(HANG_S)
        return self._end("release", ident, answer, grant=name)

    def probe(self, grant):
        answer = grant.start_status().answer(HANG_S)
        self.world.history("probe", p=self.p, grant=f"{self.p}.{grant.id}",
                           began=answer.began, ended=answer.ended,
                           held=answer.held, state=answer.state,
                           left_ms=answer.left_ms)
        return answer.held

    def section(self):
        random = self.random
        grant = self.acquire(random.choice(self.world.waits_ms))
        if grant is None:
            self.world.pause(random.uniform(0.005, 0.05))
            return
        held = self.probe(grant)
        inner = self.acquire(300) if random.random() < 0.2 else None
        self._protected(grant, held)
        if inner is not None:
            self.release(inner)
            self.probe(grant)
        self.release(grant)
        if random.random() < 0.15:
            self.release(grant)  # it is not ours any more: refused
        # Else the same one, in possession of the processor, wins each time.
        self.world.pause(random.uniform(0.0, 0.03))

    def _protected(self, grant, held):
        """Add an element, in 1 of 16 cases for as long as the world says:
        longer than the lease."""
        random, token = self.random, grant.token
        element = self.world.history.new_id()
        line = {"element": element, "token": token, "p": self.p}
        self.world.history("write", e="invoke", **line)
        found = self.world.resource.enter(token)
        self.world.granted.append("")
        self.world.holder = self.world.inside = self.p
        hold = (self.world.long_hold_s if random.random() < 1 / 16
                else random.choice([0, 0, 0.02, 0.05, 0.1, 0.2]))
        until = time.monotonic() + hold
        while held and (time.monotonic() < until or self.world.stay):
            self.world.pause(0.025)
            held = self.probe(grant)
        stubborn = random.random() < 0.5
        written = (found is not None and (held or stubborn)
                   and self.world.resource.write(
                       token, found[0] + 1, found[1] + [[token, element]]))
        self.world.history("write", e="ok" if written else "fail", **line)
        self.probe(grant)  # was it held to the end?
        if self.world.inside == self.p:
            self.world.inside = ""


def snib_binary():
    """Path of the command line tool; "" when it is not there."""
    given = os.environ.get("SNIB_BIN", "")
    if given:
        return given
    build = os.environ.get("SNIB_BUILD_DIR", "")
    for top, _, files in os.walk(build) if build else ():
        if "snib" in files and os.access(os.path.join(top, "snib"), os.X_OK):
            return os.path.join(top, "snib")
    return ""


class CliClient:
    """`snib run n -- section.py …`, again and again."""

    def __init__(self, world, index):
        self.world, self.index = world, index
        self.child = None
        self.said = world.path(f"cli{index}.err")
        self.threads = [threading.Thread(
            target=self._loop, args=(world.random.getrandbits(64),),
            daemon=True)]

    def _loop(self, seed):
        random = self.world.new_random(seed)
        env = {key: value for key, value in os.environ.items()
               if not key.startswith("SNIB_")}
        env["SNIB_URL"] = self.world.url_of(self.index)
        count = 0
        while not self.world.over():
            count += 1
            p = f"c{self.index}.{count}"
            hold = 1300 if random.random() < 0.1 else random.choice(
                [0, 20, 100, 300])
            argv = [snib_binary(), "run", "-q", "-t", "1s", "-w",
                    f"{max(self.world.waits_ms)}ms", self.world.lock, "--",
                    PYTHON, "-S", "-E",
                    os.path.join(HERE, "section.py"),
                    self.world.history.path, self.world.resource.path, p,
                    str(self.world.history.new_id()), str(hold),
                    str(boot_ns())]
            with open(self.said, "w+b") as said:
                self.child = process.spawn(
                    argv, env=env, stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=said)
                try:
                    code = self.child.wait(HANG_S)
                except subprocess.TimeoutExpired:
                    self.world.history("hang", p=p, text="snib run")
                    process.kill(self.child)
                    return
                said.seek(0)
                text = said.read().decode("utf-8", "replace")[-600:]
            self.world.history("run", p=p, exit=code, text=text)
            self.world.pause(random.uniform(0.0, 0.05))

    def targets(self):
        """Leash, keeper, command: whoever of them runs just now."""
        child = self.child
        if child is None or child.poll() is not None:
            return []
        return [child.pid, *children_of(child.pid)]

    def close(self):
        process.kill(self.child)


def children_of(parent):
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                rest = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(rest[1]) == parent and rest[0] not in (b"Z", b"X"):
            found.append(int(entry))
    return found
