"""snib run --reentrant under a lock that is lost: the inner command never
runs under what is another's, and a loss is told to the inner run, too."""

import ctypes
import json
import os
import pty
import re
import signal
import subprocess

import pytest

from conftest import (eventually, keeper_of, kill, patience, read_pid,
                      stat_of)

PR_SET_CHILD_SUBREAPER = 36

# As a command's: its pid into the file $0, then what follows.
AS_INNER = 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec "$@"'


def outer(store, *command, ttl="30s"):
    """`snib run A -- COMMAND`, which a loss does not stop; .inner: its pid."""
    mark = store.path("inner")
    with open(store.path("said"), "w") as said:
        p = store.start("run", "-t", ttl, "--on-lost", "ignore", "A", "--",
                        "sh", "-c", AS_INNER, mark, *command, stderr=said)
    p.inner = read_pid(mark)
    return p


def losses(store):
    """How many runs have told one."""
    with open(store.path("said")) as f:
        return f.read().count("A: lock lost")


def revoke(store):
    """Force-release A; back when the outer run has told the loss."""
    done = store.run("force-release", "--yes", "--reason", "x", "A")
    assert done.returncode == 0, done.stderr
    eventually(lambda: losses(store) > 0, "the outer run tells it")


@pytest.fixture
def terminal():
    """A terminal, on which a run says each second whom it waits for."""
    ours, theirs = pty.openpty()
    yield ours, os.ttyname(theirs)
    os.close(ours)
    os.close(theirs)


def read_until(fd, text, count):
    said = ""
    os.set_blocking(fd, False)

    def there():
        nonlocal said
        try:
            said += os.read(fd, 10000).decode()
        except BlockingIOError:
            pass
        return said.count(text) >= count
    eventually(there, text)


@pytest.mark.parametrize("names", ["A B", "A B C"])
def test_a_lock_lost_up_the_tree_during_a_wait_is_acquired(
        store, terminal, names):
    """The command ran while a third one held A, and nobody was told."""
    ran = store.path("ran")
    busy = store.hold("B")
    p = outer(store, "sh", "-c",
              'TERM=xterm exec "$0" run --reentrant %s -- sh -c \'"$0" status '
              '--json A >"$1.new"; echo "$SNIB_OWNER" >>"$1.new"; '
              'mv "$1.new" "$1"\' "$0" "$1" 2>"$2"' % names,
              store.binary, ran, terminal[1])
    eventually(lambda: store.waiters("B") == 1)
    revoke(store)
    third = store.hold("A")
    read_until(terminal[0], "B: held by", 3)  # the wait went on meanwhile
    kill(busy.pid, signal.SIGTERM)
    eventually(lambda: os.path.exists(ran) or store.waiters("A") == 1)
    assert not os.path.exists(ran), "it ran under the lock of another"
    kill(third.pid, signal.SIGTERM)
    assert p.wait(timeout=30) == 0
    with open(ran) as f:
        status, owner = f.read().splitlines()
    holder, = json.loads(status)["holders"]
    assert owner == "%s:%d" % (holder["client"], holder["owner"])
    for name in names.split():
        assert not store.held(name) and store.waiters(name) == 0


def test_a_loss_up_the_tree_is_told_soon(store):
    """The command went on under the lock of another for most of the lease."""
    p = outer(store, store.binary, "run", "-q", "-t", "3s", "--reentrant", "A",
              "--", "sleep", "1000", ttl="10m")
    revoke(store)
    assert p.wait(timeout=patience(10)) == 76
    assert losses(store) == 2
    with open(store.path("said")) as said:
        causes = re.findall(r"A: lock lost \((.*?)\)", said.read())
    assert len(causes) == 2
    for cause in causes:  # of the inner run, too: it said "expired"
        assert re.fullmatch("revoked by .* on .*: x", cause), causes


def test_what_was_held_together_with_a_lost_lock_is_told_so(store):
    """It was told of A who had revoked B, as if that had been A."""
    p = store.start(
        "run", "-q", "--on-lost", "ignore", "A", "B", "--", store.binary, "run",
        "-q", "-t", "3s", "--reentrant", "A", "--", "sleep", "1000")
    eventually(lambda: store.held("B"))
    inner = store.path("inner")
    done = store.run("force-release", "--yes", "--reason", "x", "B")
    assert done.returncode == 0, done.stderr
    said = p.communicate(timeout=patience(20))[1]
    assert p.returncode == 76
    assert re.search(r"A: lock lost \(held with B, which was lost: "
                     r"revoked by .* on .*: x\)", said), said


def test_a_loss_up_the_tree_is_told_at_the_end_at_the_latest(store):
    """A command that ended between two looks ended with 0."""
    told = store.path("told")
    with open(told, "w") as stderr:
        p = store.start(
            "run", "--on-lost", "ignore", "A", "--", "sh", "-c",
            '"$0" run --reentrant A -- sh -c \'"$0" force-release -q --yes '
            '--reason x A; until grep -q "lock lost" "$1"; do sleep 0.01; '
            'done\' "$0" "$1" 2>&1; echo "inner $?"', store.binary, told,
            stderr=stderr)
        out = p.communicate(timeout=30)[0]
    assert "snib: A: lock lost" in out and out.endswith("inner 76\n"), out


@pytest.mark.parametrize("names", ["A", "A B"])
def test_a_shorter_lease_up_the_tree_is_time_enough(store, names):
    """With less than the time to stop a command in, by the ttl asked for here,
    the grant was refused and asked for again without a pause, or the command
    was stopped, under a lease that was renewed all the time."""
    done = store.run(
        "run", "-t", "3s", "A", "--", "sh", "-c",
        'exec "$0" run -w 3s --reentrant %s -- sh -c \'sleep 4; "$0" check; '
        'echo "$SNIB_TTL_MS $?"\' "$0"' % names, store.binary)
    assert done.stdout == "3000 0\n" and done.stderr == ""
    assert done.returncode == 0


def test_the_grace_is_at_most_a_third_of_the_lease_up_the_tree(mapped):
    """Half of one's own ttl may be all of that one."""
    done = mapped.run("run", "-t", "3s", "A", "--", mapped.binary, "run",
                      "-w", "3s", "-t", "10s", "-g", "5s", "--reentrant", "A",
                      "--", "echo", "ran")
    assert (done.stdout, done.stderr) == ("ran\n", "")
    assert done.returncode == 0


AT_RISK = """
kill -STOP "$1"
while left=$("$0" check --margin 0 --json | sed 's/.*left_ms":\\([0-9]*\\).*/\\1/')
    [ "$left" -gt 3000 ]
do sleep 0.05; done
"$0" run -w 1s --reentrant A -- echo ran
echo "$?"
times
kill -CONT "$1"
"""


def test_a_lease_up_the_tree_that_nears_its_end_is_awaited_in_peace(
        redis):
    """It was refused and asked for again without a pause, and at the limit the
    run's own holder process, which was all ears, had "not answered"."""
    done = redis.run("run", "-t", "9s", "--on-lost", "ignore", "A", "--", "sh",
                     "-c", AT_RISK, redis.binary, str(redis.server.child.pid),
                     timeout=patience(60))
    assert "not acquired: an outer snib run holds it, but that lease " in done.stderr
    assert "did not answer" not in done.stderr
    code, *times = done.stdout.split()
    assert code == "75"
    minutes, seconds = times[3].rstrip("s").split("m")  # of the kernel, for it
    assert float(minutes) * 60 + float(seconds) < 0.5, times


@pytest.fixture
def subreaper():
    """Orphans become children of this process, which learns how they end."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


def test_a_holder_that_has_nothing_of_its_own_to_release_ends_well(
        store, subreaper):
    """It died of SIGSEGV: it released the lock up the tree as its own."""
    p = outer(store, store.binary, "run", "--on-lost", "ignore", "--reentrant",
              "A", "--", "sleep", "1000")
    holder = eventually(lambda: keeper_of(p.inner))
    outer_holder = keeper_of(p.pid)
    revoke(store)
    eventually(lambda: losses(store) == 2, "the inner run tells it, too")
    kill(p.pid, signal.SIGKILL)  # the inner one dies with it
    for pid in holder, outer_holder:
        eventually(lambda: stat_of(pid)[1] == os.getpid(), "an orphan")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("option", [["--reentrant"], []])
def test_a_copy_of_the_environment_elsewhere_is_not_inside(store, option):
    """Its command would go on beside the next holder's."""
    mark = store.path("held")
    p = store.start("run", "A", "--", "sh", "-c",
                    'echo "$SNIB_HELD" >"$0.new"; mv "$0.new" "$0"; cat',
                    mark, stdin=subprocess.PIPE)
    eventually(lambda: os.path.exists(mark), "the outer command runs")
    env = {"SNIB_HELD": open(mark).read().strip()}
    done = store.run("run", *option, "-w", "0", "A", "--", "echo", "ran",
                     env=env)
    assert (done.returncode, done.stdout) == (75, ""), done
    assert "A: not acquired: held by" in done.stderr
    assert ("A: SNIB_HELD names a snib run (holder process %d) that did not "
            "start this command" % keeper_of(p.pid)) in done.stderr
    p.stdin.close()
    assert p.wait(30) == 0
    done = store.run("run", *option, "-w", "0", "A", "--", "echo", "ran",
                     env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
