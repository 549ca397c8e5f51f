#!/usr/bin/env python3
"""Every call of libc fails once: in each command, in each of its processes, the
n-th call of a function, in each way that fits (calls.tsv). A run has to end in
time, with its effect or with a told error, and leave nothing: the lock can be
had at once, no process and no file is left. What is only interrupted, or done
in pieces, must not be noticed at all.

  exhaust.py [--store file|redis] [--workload NAME …] [--call NAME …]
             [--how NAME …] [--role N] [--one-in N [--salt TEXT]] [--most N]
             [--seconds S] [--share K/N] [--jobs N] [--point P]
             [--stop-after N] [--list] [--quiet]

--call, --how, --role: only failures of these functions, of this kind, in this
process (0 was started, 1 is its first child, …). --point NAME@ROLE:N:HOW does
one again and shows what was said. --one-in draws by the name of the point, the
same ones each time. --most: so many calls of a function in a process, from the
first. --share: each N-th point from the K-th; --jobs: all N shares, beside
each other. --seconds: then a store's part ends. Without --store: on both.
"""

import argparse
import collections
import ctypes
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

from faultpoints import Point, Table, line_of, points  # noqa: E402
from harness.redis_server import RedisServer, redis_missing  # noqa: E402
from harness.shim import build_shim  # noqa: E402
from harness.wait import patience, wait_until  # noqa: E402
from workloads import (ALL, TTL_S, WAITS, Wrong, need)  # noqa: E402

LIMIT_S = 20       # no run takes longer than its own limits and a lease
LINGER_S = 11      # a wait that ended while a server was silent (snib-run(1))
SETTLE_S = 1.0     # a process whose work is done ends within that


class Done:
    command = ""

    def __init__(self, code, out, err, fd3=""):
        self.code, self.out, self.err, self.fd3 = code, out, err, fd3


class Box:
    """A scratch folder with a store, and snib."""

    def __init__(self, binary, library, url, folder):
        self.binary, self.library, self.dir = binary, library, folder
        self.url = url or "file:%s/store/locks.db" % folder
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("SNIB_", "LD_PRELOAD"))}
        self.env.update(SNIB_URL=self.url, SNIB_EXE=binary, TMPDIR=folder,
                        HOME=folder, XDG_RUNTIME_DIR=folder,
                        XDG_STATE_HOME=folder)
        self.work = os.path.join(folder, "work")
        self.table = Table(os.path.join(folder, "table"))
        self.keep = set()  # processes of the runner itself
        self.begin(True)

    def begin(self, fresh):
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)
        if fresh:
            store = os.path.join(self.dir, "store")
            shutil.rmtree(store, ignore_errors=True)
            os.mkdir(store, 0o700)
        self.table.clear()
        self.started, self.grant, self.said = None, None, ""
        self.faulted_holder = False

    # -- looking

    def path(self, name):
        return os.path.join(self.work, name)

    def there(self, name):
        return os.path.exists(self.path(name))

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def until(self, fact, what):
        wait_until(fact, 5, what)

    # -- running

    def start(self, *args, env=None, argv=None, out="started", **more):
        with open(self.path(out + ".out"), "wb") as to, \
                open(self.path(out + ".err"), "wb") as err:
            return subprocess.Popen(
                argv or [self.binary, *args], cwd=self.work, stdout=to,
                stderr=err, stdin=subprocess.DEVNULL, env=env or self.env,
                **more)

    def finish(self, child, out, limit=LIMIT_S):
        try:
            code = child.wait(timeout=patience(limit))
        except subprocess.TimeoutExpired:
            raise Wrong("does not end within %g s; said: %s" % (
                limit, self.read(out + ".err"))) from None
        return Done(code, self.read(out + ".out"), self.read(out + ".err"),
                    self.read("fd3"))

    def run(self, *args):
        done = self.finish(self.start(*args, out="plain"), "plain")
        done.command = args[0]
        return done

    def good(self, *args):
        done = self.run(*args)
        need(done.code == 0, "without a failure: %s: %d %s" % (
            " ".join(args), done.code, done.err))
        return done

    def status(self, name):
        import json
        return json.loads(self.good("status", "--json", name).out)

    def faulted(self, work, point):
        env = dict(self.env, LD_PRELOAD=self.library,
                   SNIB_FAULT_TABLE=self.table.path)
        if point:
            env["SNIB_FAULT"] = point.env()
        known = {"GRANT": self.grant, "URL": self.url}
        argv = [work.program or self.binary,
                *(known.get(a, a) for a in work.args)]
        if work.program:  # has them built in
            del env["LD_PRELOAD"]
        if getattr(work, "shell", None):
            argv = ["sh", "-c", work.shell, *argv]
        if work.fd3:
            argv = ["sh", "-c", 'exec "$@" 3>fd3', "sh", *argv]
        self.faulted_holder = bool(point and point.role)
        done = self.finish(self.start(env=env, argv=argv, out="told"), "told")
        done.command = work.args[0]
        if "--sh" in work.args:
            done.command += " --sh"
        return done

    # -- afterwards

    def left_processes(self):
        """Those that we have inherited and that still run."""
        found = set()
        for path in glob.glob("/proc/self/task/*/children"):
            with open(path, encoding="ascii") as file:
                found |= {int(pid) for pid in file.read().split()}
        left = set()
        for pid in found - self.keep:
            if self.started is not None and pid == self.started.pid:
                self.started.poll()
                continue
            try:
                if os.waitpid(pid, os.WNOHANG) == (0, 0):
                    left.add(pid)
            except ChildProcessError:
                pass
        return left

    def no_process_is_left(self, seconds):
        end = time.monotonic() + patience(seconds)
        while True:
            left = self.left_processes()
            if not left:
                return
            if time.monotonic() > end:
                raise Wrong("processes are left: " + ", ".join(
                    self.command_line(pid) for pid in left))
            time.sleep(0.002)

    @staticmethod
    def command_line(pid):
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as file:
                return "%d %s" % (pid, file.read().replace(
                    b"\0", b" ").decode(errors="replace")[:80])
        except OSError:
            return str(pid)

    def files(self):
        found = set()
        for folder, _, names in os.walk(self.dir):
            for name in names:
                if folder != self.work:
                    found.add(os.path.relpath(
                        os.path.join(folder, name), self.dir))
        return found

    def kill_all(self):
        for pid in self.left_processes():
            os.kill(pid, signal.SIGKILL)
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass
        if self.started is not None and self.started.poll() is None:
            self.started.kill()
            self.started.wait()


def words(text):
    """Without what is another in each run: times, processes."""
    return re.sub(r"[0-9]+m?s?", "N", text)


class Runner:
    def __init__(self, box, out=print):
        self.box, self.out = box, out
        self.count = collections.Counter()
        self.failed, self.late = [], []
        self.plain_err, self.plain_files = {}, None

    def one(self, work, point):
        """Done; raises Wrong."""
        box = self.box
        box.begin(work.fresh)
        work.prepare(box)
        done = box.faulted(work, point)
        state, self.address = box.table.fired() if point else (0, 0)
        self.done = done
        if point is None:
            work.plain(box, done)
        elif state != 1:
            self.count["could not fail so" if state else "not reached"] += 1
        work.judge(box, done)
        if point and point.invisible():
            same = done.code == self.plain_code[work.name]
            need(same, "%s is noticed: exit code %d" % (point.how, done.code))
            need(words(done.err) == self.plain_err[work.name],
                 "%s is noticed: %r" % (point.how, done.err))
        self.afterwards(work, point, done)
        return state

    plain_code = {}

    def afterwards(self, work, point, done):
        box = self.box
        if box.started is not None:
            box.finish(box.started, "started")
        lingers = done.code in (69, 70, 75)
        if work.good_for_s:
            box.no_process_is_left(
                SETTLE_S + (work.good_for_s if done.code else 0))
        for name in work.names:
            if box.run("try", "-q", name).code == 0:
                continue
            said = done.err + box.said
            need(any(word in said for word in WAITS),
                 "%s is left held, and nobody said so" % name)
            self.late.append(said.strip())
            end = time.monotonic() + patience(TTL_S + 1)
            while box.run("try", "-q", name).code != 0:
                need(time.monotonic() < end, "%s is left held" % name)
                time.sleep(0.05)
        box.no_process_is_left(LINGER_S if lingers else SETTLE_S)
        # (One that could not be removed goes with the next who cleans.)
        left = box.files() - (self.plain_files or set())
        need(not left or self.plain_files is None or box.started is not None or
             (point and point.call in ("unlink", "unlinkat", "rmdir")),
             "files are left: %s" % ", ".join(sorted(left)))

    def begin(self, work):
        """The run without a failure: its calls."""
        done, self.plain_files = None, None
        self.plain_code = dict(self.plain_code)
        for _ in range(2):  # the second has a store already
            self.one(work, None)
            done = self.done
            self.box.no_process_is_left(SETTLE_S)
        counts = self.box.table.counts()
        self.plain_code[work.name] = done.code
        self.plain_err[work.name] = words(done.err)
        self.plain_files = self.box.files()
        return counts

    def point(self, work, point):
        try:
            state = self.one(work, point)
        except (Wrong, AssertionError, ValueError, KeyError) as why:
            self.tell(work, point, why)
            self.box.kill_all()
            self.box.begin(True)
            return False
        finally:
            self.box.kill_all()
        if state == 1:
            self.count["failures"] += 1
            self.count["of " + point.how] += 1
        return True

    def tell(self, work, point, why):
        self.failed.append((work.name, str(point)))
        said = self.box.read("told.err").strip()
        self.out("FAILED %s %s (%s): %s%s" % (
            work.name, point,
            line_of(work.program or self.box.binary, self.address),
            why, "\n    said: " + said if said else ""))


def subreaper():
    """Whoever outlives a command becomes our child."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(36, 1, 0, 0, 0) == 0


def chosen(args, work, counts):
    share, shares = (int(n) for n in args.share.split("/"))
    n = 0
    for point in points(counts, args.most):
        if args.call and point.call not in args.call:
            continue
        if args.how and point.how not in args.how:
            continue
        if args.role is not None and point.role != args.role:
            continue
        if args.one_in > 1 and not point.drawn(
                args.one_in, args.salt + work.name):
            continue
        n += 1
        if n % shares == share % shares:
            yield point


def options(argv):
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("--store", choices=["file", "redis"])
    p.add_argument("--workload", nargs="+", default=[])
    p.add_argument("--call", nargs="+", default=[])
    p.add_argument("--how", nargs="+", default=[])
    p.add_argument("--role", type=int, default=None)
    p.add_argument("--one-in", type=int, default=1)
    p.add_argument("--salt", default="", help="draws others")
    p.add_argument("--most", type=int, default=None)
    p.add_argument("--seconds", type=float, default=None)
    p.add_argument("--share", default="0/1")
    p.add_argument("--point")
    p.add_argument("--stop-after", type=int, default=None)
    p.add_argument("--list", action="store_true")
    p.add_argument("--quiet", action="store_true")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--shim", help="faults.c, compiled already")
    p.add_argument("--snib", default=os.environ.get("SNIB_BIN"))
    return p.parse_args(argv)


def say(*words):
    print(*words, flush=True)


def run(args, box):
    runner = Runner(box, say)
    end = time.monotonic() + args.seconds if args.seconds else None
    began = time.monotonic()
    for make in ALL:
        work = make()
        if args.workload and work.name not in args.workload:
            continue
        if work.store and work.store != args.store:
            continue
        try:
            counts = runner.begin(work)
        except (Wrong, AssertionError) as why:
            runner.failed.append((work.name, "without a failure"))
            say("FAILED %s without a failure: %s" % (work.name, why))
            continue
        box.kill_all()
        here, bad, since = 0, len(runner.failed), time.monotonic()
        todo = [Point.read(args.point)] if args.point else \
            chosen(args, work, counts)
        for point in todo:
            if args.list:
                say(work.name, point)
                continue
            runner.point(work, point)
            here += 1
            if args.point:
                say(runner.box.table.fired(), vars(runner.done))
            if end and time.monotonic() > end:
                break
            if args.stop_after and len(runner.failed) >= args.stop_after:
                break
        if not args.quiet:
            say("%s %s: %d runs, %d failed, %.1f s" % (
                args.store, work.name, here, len(runner.failed) - bad,
                time.monotonic() - since))
        if end and time.monotonic() > end:
            say("the time is over")
            break
    for text in sorted(set(runner.late)):
        say("free after a lease, as told:", text)
    say("%s: %s; %d failed; %.0f s" % (args.store, ", ".join(
        "%d %s" % (n, what) for what, n in sorted(runner.count.items())),
        len(runner.failed), time.monotonic() - began))
    return runner


def main(argv):
    args = options(argv)
    if not args.snib:
        sys.exit("exhaust: SNIB_BIN does not name the program")
    if args.jobs > 1:
        jobs = [subprocess.Popen(
            [sys.executable, __file__, *argv, "--jobs", "1", "--share",
             "%d/%d" % (k, args.jobs)]) for k in range(args.jobs)]
        return max([job.wait() for job in jobs])
    subreaper()
    bad = 0
    for store in [args.store] if args.store else ["file", "redis"]:
        args.store = store
        bad += one_store(args)
    return 1 if bad else 0


def one_store(args):
    """How many runs ended wrongly."""
    folder = tempfile.mkdtemp(prefix="snib-exhaust-")
    server = None
    try:
        library = args.shim or build_shim(folder, "faults.c")
        if args.store == "redis":
            if redis_missing():
                sys.exit("exhaust: " + redis_missing())
            server = RedisServer()
        box = Box(os.path.abspath(args.snib), library,
                  server.url if server else None, folder)
        if server:
            box.keep.add(server.child.pid)
        runner = run(args, box)
    finally:
        if server:
            server.close()
        shutil.rmtree(folder, ignore_errors=True)
    return len(runner.failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
