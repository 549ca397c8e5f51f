"""The commands that are run with a failure in them, and what each has to be
afterwards: done, with its effect at the store, or told."""

import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
TTL_S = 3
TTL = "%ds" % TTL_S
OWN = 7  # the exit code of what is run


def promised():
    """{command: the exit codes of its manual page}, from tests/told.tsv."""
    codes = {}
    with open(os.path.join(HERE, "..", "told.tsv"), encoding="utf-8") as file:
        for line in file:
            of, code = (line.split("\t") + [""])[:2]
            if of.startswith("snib ") and code.isdigit():
                codes.setdefault(of[5:], set()).add(int(code))
    # The shell that evaluates what acquire --sh prints ends with either's.
    codes["acquire --sh"] = codes["acquire"] | codes["renew"]
    return codes


CODES = promised()
NOTHING_RAN = {64, 69, 75, 77, 78, 126, 127}
# Who says this has told that others may have to wait for the end of a lease.
WAITS = ("lease", "not known", "unknown", "did not answer", "no answer",
         "UNKNOWN", "UNREACHABLE", "LOST")

WITNESS = """unset LD_PRELOAD SNIB_FAULT SNIB_FAULT_TABLE
echo "$SNIB_TOKEN" >>token
"$SNIB_EXE" status --json n >seen 2>seen.err
exit 7"""


class Wrong(Exception):
    """What the run said is not what is."""


def need(fact, text):
    if not fact:
        raise Wrong(text)


def told(done):
    """What was not done was said: with words, and a code of ours."""
    need(done.code in CODES[done.command],
         "exit code %d is none of %s's" % (done.code, done.command))
    need(done.code != 0, "exit code 0")
    need(done.err.strip(), "exit code %d without a word" % done.code)


class Workload:
    """args: of snib. store: both, or the only one."""
    name = ""
    args = ()
    store = None
    names = ()         # the locks that nobody may hold afterwards
    fresh = False      # begins without a store
    data = None        # JSON keys that a success shows
    fd3 = False
    good_for_s = 0     # held so long when it fails, says its manual page
    program = None     # else snib

    def prepare(self, box):
        """What is there before, by runs without a failure."""

    def judge(self, box, done):
        """Raise Wrong when the result is not true."""
        if done.code != 0:
            told(done)

    def plain(self, box, done):
        """The run without a failure has to go like this."""
        need(done.code == 0, "exit code %d, not 0" % done.code)


class Run(Workload):
    name, names, fd3 = "run", ("n",), True
    args = ("run", "-t", TTL, "-w", "8s", "--status-fd", "3", "n", "--",
            "sh", "-c", WITNESS)

    def plain(self, box, done):
        need(done.code == OWN, "exit code %d, not 7" % done.code)

    def judge(self, box, done):
        tokens = box.read("token").split()
        need(len(tokens) <= 1, "the command ran %d times" % len(tokens))
        if done.code == OWN:
            need(tokens, "7 is the command's, which did not run")
            self.seen(box, tokens[0])
        else:
            told(done)
            need(not (tokens and done.code in NOTHING_RAN),
                 "exit code %d, and the command ran" % done.code)
            if tokens and box.read("seen"):
                self.seen(box, tokens[0])
        self.status(done, bool(tokens))

    def seen(self, box, token):
        text = box.read("seen")
        need(text, "the witness saw nothing: " + box.read("seen.err"))
        view = json.loads(text)
        need(view["held"] and str(view["token"]) in token.split(":"),
             "ran while the lock was not its own: " + text)

    def status(self, done, ran):
        if not done.fd3:
            return
        line = json.loads(done.fd3.splitlines()[-1])  # elect: one a term
        need(line["exit"] == done.code, "status-fd: " + done.fd3)
        need(line["ran"] == ran or not ran, "status-fd: " + done.fd3)
        need(line["by"] == ("command" if done.code == OWN else "snib"),
             "status-fd: " + done.fd3)


class RunFresh(Run):
    name, fresh = "run-fresh", True


class RunSeveral(Run):
    name, names = "run-several", ("m", "n")
    args = ("run", "-t", TTL, "-w", "8s", "--status-fd", "3", "n", "m", "--",
            "sh", "-c", WITNESS)


class RunQueued(Run):
    """Another holds it for a moment more."""
    name = "run-queued"
    args = ("run", "-q", *Run.args[1:])

    def prepare(self, box):
        box.started = box.start(
            "run", "-q", "-t", TTL, "n", "--", "sh", "-c",
            "echo >held; exec sleep 0.15")
        box.until(lambda: box.there("held"), "the other holds")


class RunRead(Run):
    name = "run-permit"
    args = ("run", "-t", TTL, "-w", "8s", "--status-fd", "3", "--kind",
            "semaphore", "--capacity", "1", "n", "--", "sh", "-c", WITNESS)


class RunRenewed(Run):
    """Long enough for a renewal: after a third of the lease."""
    name = "run-renewed"
    args = ("run", "-t", "1600ms", "-w", "8s", "--status-fd", "3", "n", "--",
            "sh", "-c", "sleep 0.6; " + WITNESS)

    def judge(self, box, done):
        if done.code == 76:  # stopped in time: whether it began, who knows
            told(done)
            return
        super().judge(box, done)


class Elect(Run):
    name = "elect"
    args = ("elect", "--once", "-t", TTL, "-w", "8s", "--status-fd", "3", "n",
            "--", "sh", "-c", WITNESS)


class Try(Run):
    name = "try"
    args = ("try", "-t", TTL, "--status-fd", "3", "n", "--", "sh", "-c",
            WITNESS)


class TryNothing(Workload):
    name, names = "try-nothing", ("n",)
    args = ("try", "-t", TTL, "n")


class Acquire(Workload):
    """And its holder, until it is asked to release."""
    name, names = "acquire", ("n",)
    args = ("acquire", "-q", "-t", TTL, "-w", "8s", "n")
    checked = True

    def grant(self, box, done):
        return done.out.strip()

    def judge(self, box, done):
        grant = self.grant(box, done)
        if done.code != 0:
            told(done)  # what may have been printed before holds nothing
            return
        need(grant, "exit code 0 without a grant")
        view = box.status("n")
        need(view["held"], "exit code 0, and nobody holds")
        need(str(view["token"]) in grant + box.read("grant"),
             "another grant's token: %s %s" % (view["token"], grant))
        check = box.run("check", "-m", "0", grant)
        release = box.run("release", grant)
        if release.code != 0:
            told(release)
            need(box.faulted_holder, "release: %d %s" % (
                release.code, release.err))
            box.said += release.err
        if check.code != 0:
            told(check)
            box.said += check.err


class AcquireFile(Acquire):
    name = "acquire-file"
    args = ("acquire", "-q", "-t", TTL, "-w", "8s", "--token-file", "grant",
            "n")

    def grant(self, box, done):
        return "grant" if box.there("grant") else ""

    def judge(self, box, done):
        need(done.code == 0 or not box.there("grant"),
             "exit code %d, and a file" % done.code)
        super().judge(box, done)


class AcquireSh(Workload):
    """Evaluated by a shell; the release is by its end."""
    name, names, good_for_s = "acquire-sh", ("n",), 10
    args = ("acquire", "-q", "--sh", "-t", TTL, "-w", "8s", "n")
    shell = """text=$("$SNIB_EXE" "$@"); first=$?
unset LD_PRELOAD SNIB_FAULT SNIB_FAULT_TABLE
eval "$text"; second=$?
echo "$first $second" >codes
"$SNIB_EXE" status --json n >seen 2>seen.err
exit $second"""

    def judge(self, box, done):
        codes = box.read("codes").split()
        need(codes and codes[0] in ("0", codes[1]), "codes: %s" % codes)
        view = json.loads(box.read("seen"))
        if done.code != 0:
            told(done)
        else:
            need(view["held"], "evaluated with 0, and nobody holds")


class Detached(Acquire):
    name = "acquire-detached"
    args = ("acquire", "-q", "--detached", "-t", TTL, "-w", "8s", "n")


class Held(Workload):
    """Something on the grant of an acquire."""
    names, how = ("n",), ()

    def prepare(self, box):
        box.grant = box.good("acquire", "-q", "-t", TTL, *self.how,
                             "n").out.strip()

    def after(self, box):
        """The store's own truth."""
        return box.status("n")["held"]


class Release(Held):
    name = "release"
    args = ("release", "GRANT")

    def judge(self, box, done):
        if done.code == 0:
            need(not self.after(box), "exit code 0, and it is held")
            return
        told(done)
        again = box.run("release", box.grant)
        if again.code != 0:
            told(again)
        box.said += again.err


class ReleaseDetached(Release):
    name, how = "release-detached", ("--detached",)


class Renew(Held):
    name = "renew"
    args = ("renew", "GRANT")

    def judge(self, box, done):
        held = self.after(box)
        if done.code == 0:
            need(held, "exit code 0, and it is not held")
        else:
            told(done)
        again = box.run("release", box.grant)
        if again.code != 0:
            told(again)
            need(not held or done.code != 0, "release: " + again.err)
            box.said += again.err


class RenewDetached(Renew):
    name, how = "renew-detached", ("--detached",)


class Check(Renew):
    name = "check"
    args = ("check", "-m", "0", "GRANT")


class CheckDetached(Check):
    name, how = "check-detached", ("--detached",)


class Force(Held):
    name = "force-release"
    args = ("force-release", "--yes", "--reason", "x", "n")
    how = ("--detached",)

    def judge(self, box, done):
        held = self.after(box)
        if done.code == 0:
            need(not held, "exit code 0, and it is held")
        else:
            told(done)
        if held:
            box.good("release", box.grant)


class Look(Held):
    """Shows what there is, or says that it cannot."""
    how = ("--detached",)

    def judge(self, box, done):
        if done.code == 0:
            self.shows(box, done)
        else:
            told(done)
        box.good("release", box.grant)

    def shows(self, box, done):
        token = int(box.grant.split(":")[5])  # detached: the sixth
        need(token in self.tokens(json.loads(done.out)),
             "does not show the holder: " + done.out)


class Status(Look):
    name = "status"
    args = ("status", "--json", "n")

    def tokens(self, view):
        return [h["token"] for h in view["holders"]]


class List(Look):
    name = "list"
    args = ("list", "--json")

    def tokens(self, view):
        return [h["token"] for lock in view["locks"]
                for h in lock["holders"]]


class StatusText(Look):
    name = "status-text"
    args = ("status", "n")

    def shows(self, box, done):
        need("held by" in done.out and "token" in done.out, done.out)


class Why(StatusText):
    name = "why"
    args = ("why", "n")

    def shows(self, box, done):
        need("held by" in done.out, done.out)


class Doctor(Workload):
    name = "doctor"
    args = ("doctor", "--json")

    def judge(self, box, done):
        if done.out:
            checks = json.loads(done.out)
            need(checks, done.out)
            if done.code == 78:
                return  # what failed stands in the table
        if done.code != 0:
            told(done)


class Deadlocks(Workload):
    name = "deadlocks"
    args = ("deadlocks",)

    def judge(self, box, done):
        need(done.code != 1, "a deadlock that is none: " + done.out)
        super().judge(box, done)


class Wait(Workload):
    """Until another has let go."""
    name, names = "wait", ("n",)
    args = ("wait", "-q", "-w", "8s", "n")
    prepare = RunQueued.prepare

    def judge(self, box, done):
        if done.code == 0:
            need(box.started.poll() is not None or
                 not box.status("n")["held"], "free, and it is held")
        else:
            told(done)


class Semaphore(Workload):
    name = "semaphore"
    args = ("semaphore", "--set", "5", "s")

    def prepare(self, box):
        box.good("semaphore", "--set", "3", "s")

    def size(self, box):
        return json.loads(box.good("semaphore", "--json", "s").out)

    def judge(self, box, done):
        size = self.size(box)["size"]
        need(size in (3, 5), "size: %s" % size)
        if done.code == 0:
            need(size == 5, "exit code 0, and it has %s" % size)
        else:
            told(done)
            if size == 5:
                need(done.code in (69, 70), "told as not done: %d %s"
                     % (done.code, done.err))


class SemaphoreShow(Workload):
    name = "semaphore-show"
    args = ("semaphore", "--json", "s")
    prepare = Semaphore.prepare

    def judge(self, box, done):
        if done.code == 0:
            need(json.loads(done.out)["size"] == 3, done.out)
        else:
            told(done)


class LatchDown(Workload):
    name = "latch-down"
    args = ("latch", "--down", "l")

    def prepare(self, box):
        box.good("latch", "--open", "l")
        box.good("latch", "--set", "2", "l")

    def judge(self, box, done):
        left = json.loads(box.good("latch", "--json", "l").out)["left"]
        need(left in (1, 2), "left: %s" % left)
        if done.code == 0:
            need(left == 1, "exit code 0, and %s are left" % left)
        else:
            told(done)


class LatchAwait(Workload):
    name, names = "latch-await", ()
    args = ("latch", "-q", "--await", "-w", "8s", "l")

    def prepare(self, box):
        box.good("latch", "--open", "l")


class Barrier(Workload):
    """The second of two. (Both limits end before the first one's next poll:
    whose bell is lost hears of the second by the answer to its own cancel.)"""
    name = "barrier"
    args = ("barrier", "-q", "-n", "2", "-w", "1s", "b")

    def prepare(self, box):
        box.started = box.start("barrier", "-n", "2", "-w", "1s", "b")
        box.until(lambda: box.status("b")["waiters"], "one waits")

    def judge(self, box, done):
        other = box.started.wait(timeout=10)
        if done.code == 0:
            need(other == 0, "passed alone: %d" % other)
        else:
            told(done)


class Library(Workload):
    """uses.c, which judges itself."""
    name = "library"
    program = os.path.join(
        os.environ.get("SNIB_BUILD_DIR", "build/dev"), "tests", "exhaust",
        "snib-uses")
    args = ("URL",)

    def judge(self, box, done):
        need(done.code in (0, 3), "exit code %d: %s" % (done.code, done.out))
        need(not done.err, done.err)
        box.said += done.out


class LibraryMemory(Library):
    name, store = "library-memory", "file"
    args = ("memory:exhaust",)


ALL = (Run, RunFresh, RunSeveral, RunQueued, RunRead, RunRenewed, Elect, Try,
       TryNothing, Acquire, AcquireFile, AcquireSh, Detached, Release,
       ReleaseDetached, Renew, RenewDetached, Check, CheckDetached, Force,
       Status, StatusText, List, Why, Doctor, Deadlocks, Wait, Semaphore,
       SemaphoreShow, LatchDown, LatchAwait, Barrier, Library,
       LibraryMemory)
