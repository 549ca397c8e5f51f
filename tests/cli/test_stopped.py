"""Who is stopped while it waits (Ctrl-Z, SIGSTOP) keeps nobody waiting, and who
waits for something that is stopped keeps its limit."""

import os
import signal
import time

import pytest

from conftest import (eventually, idle, keeper_of, kill, read_pid, runs, stopped)
from harness.wait import patience
from test_signals import Terminal

# A grant that is not taken is given back within a second.
BOUND = 1.0


def stop(p):
    kill(p.pid, signal.SIGSTOP)
    eventually(lambda: stopped(p.pid), "stopped")


def waiting(store, name, *options, mark):
    """A waiter that leaves a mark when its command runs."""
    before = store.waiters(name)
    p = store.start("run", "-q", *options, name, "--", "sh", "-c",
                    'echo $$ >"$0.new"; mv "$0.new" "$0"', mark)
    eventually(lambda: store.waiters(name) == before + 1, "it waits")
    return p


def let_go(p):
    """The holder ends; when that was."""
    kill(p.command, signal.SIGKILL)
    p.wait(10)
    return time.monotonic()


def test_a_stopped_waiter_lets_the_next_one_by(store):
    first = store.hold("a")
    mark = store.path("stopped")
    second = waiting(store, "a", mark=mark)
    stop(second)
    third = waiting(store, "a", mark=store.path("third"))
    freed = let_go(first)
    assert third.wait(20) == 0
    assert time.monotonic() - freed < BOUND + patience(2.0)
    assert not os.path.exists(mark) and not store.held("a")
    assert store.waiters("a") == 0, "it does not stand in the way any more"
    kill(second.pid, signal.SIGCONT)
    assert second.wait(20) == 0
    assert os.path.exists(mark) and not store.held("a")


def test_a_stopped_waiter_for_several_names_lets_others_by(store):
    first = store.hold("a")
    second = store.start("run", "-q", "a", "b", "--", "echo", "both")
    eventually(lambda: store.waiters("a") == 1)
    stop(second)
    let_go(first)
    for name in ("a", "b"):
        done = store.run("run", "-q", "-w", "8s", name, "--", "true")
        assert done.returncode == 0, name
    kill(second.pid, signal.SIGCONT)
    assert second.communicate(timeout=20)[0] == "both\n"
    assert second.returncode == 0


def test_a_stopped_standby_does_not_lead(store):
    leader = store.start("elect", "-q", "--once", "a", "--", "sh", "-c",
                         'echo $$ >"$0.new"; mv "$0.new" "$0"; '
                         'exec sleep 1000', store.path("leader"))
    command = read_pid(store.path("leader"))
    lead = 'echo $$ >"$0"; exec sleep 1000'
    standby = store.start("elect", "-q", "a", "--", "sh", "-c", lead,
                          store.path("standby"))
    eventually(lambda: store.waiters("a") == 1)
    stop(standby)
    third = store.start("elect", "-q", "a", "--", "sh", "-c", lead,
                        store.path("third"))
    eventually(lambda: store.waiters("a") == 2)
    kill(command, signal.SIGKILL)
    leader.wait(10)
    assert runs(read_pid(store.path("third")))
    assert not os.path.exists(store.path("standby"))
    kill(third.pid, signal.SIGTERM)
    third.wait(20)
    kill(standby.pid, signal.SIGCONT)
    assert runs(read_pid(store.path("standby"))), "it leads now"


def test_ctrl_z_on_a_waiter_passes_its_turn_on_and_leaves_the_terminal(mapped):
    first = mapped.hold("a")
    t = Terminal(mapped, "run", "a", "--", "echo", "my turn")
    eventually(lambda: mapped.waiters("a") == 1)
    t.read_until(b"held by")
    t.type(b"\x1a")
    eventually(lambda: stopped(t.pid), "stopped")
    # Its last word is the wiping of its line.
    eventually(lambda: t.drain().endswith(b"\r\033[K"), "a wiped line", 5)
    end = time.monotonic() + 2.5  # two paintings more, if it went on
    while time.monotonic() < end:
        assert t.drain().endswith(b"\r\033[K"), t.seen
    third = waiting(mapped, "a", mark=mapped.path("third"))
    freed = let_go(first)
    assert third.wait(20) == 0
    assert time.monotonic() - freed < BOUND + patience(2.0)
    assert b"my turn" not in t.seen
    os.kill(t.pid, signal.SIGCONT)
    t.read_until(b"my turn")
    assert t.wait() == 0


def test_one_that_is_continued_before_its_turn_has_kept_its_place(mapped):
    first = mapped.hold("a")
    order = mapped.path("order")
    line = 'echo %s >>"$0"'
    second = mapped.start("run", "-q", "a", "--", "sh", "-c", line % 2, order)
    eventually(lambda: mapped.waiters("a") == 1)
    kill(second.pid, signal.SIGTSTP)
    eventually(lambda: stopped(second.pid), "stopped")
    third = mapped.start("run", "-q", "a", "--", "sh", "-c", line % 3, order)
    eventually(lambda: mapped.waiters("a") == 2)
    kill(second.pid, signal.SIGCONT)
    eventually(lambda: idle(second.pid), "continued, and has said so")
    eventually(lambda: idle(keeper_of(second.pid)), "its keeper heard it")
    let_go(first)
    assert second.wait(20) == 0 and third.wait(20) == 0
    assert open(order).read().split() == ["2", "3"]


def test_a_wait_limit_ends_though_the_waiter_was_stopped_meanwhile(store):
    store.hold("a")
    mark = store.path("never")
    p = waiting(store, "a", "-w", "1s", mark=mark)
    stop(p)
    eventually(lambda: store.waiters("a") == 0, "its limit")
    kill(p.pid, signal.SIGCONT)
    assert p.wait(10) == 75
    assert not os.path.exists(mark)


def test_a_limit_that_ends_during_ctrl_z_is_told_as_one(store):
    store.hold("a")
    p = waiting(store, "a", "-w", "1s", mark=store.path("never"))
    holder = eventually(lambda: keeper_of(p.pid))
    kill(p.pid, signal.SIGTSTP)
    eventually(lambda: stopped(p.pid), "stopped")
    eventually(lambda: not runs(holder), "the holder has said it, and ended")
    kill(p.pid, signal.SIGCONT)
    said = p.communicate(timeout=10)[1]
    assert p.returncode == 75, said
    assert "not acquired" in said and "died" not in said


def test_what_the_holder_said_while_we_were_stopped_is_the_status(mapped):
    """Also when our own limit, a little later than its, is over by then."""
    began = time.monotonic()
    p = mapped.start("run", "-s", "redis://127.0.0.1:1", "-w", "1s", "a", "--",
                     "true")
    holder = eventually(lambda: keeper_of(p.pid))
    stop(p)
    eventually(lambda: not runs(holder), "the holder has said it, and ended")
    eventually(lambda: time.monotonic() - began > 1.5, "our own limit")
    kill(p.pid, signal.SIGCONT)
    said = p.communicate(timeout=10)[1]
    assert p.returncode == 69, said
    assert "unreachable" in said and "did not answer" not in said


@pytest.mark.parametrize("names, said_of", [
    (["a"], "a: "), (["0", "a"], "the locks were ")], ids=["one", "several"])
def test_a_keeper_that_is_stopped_does_not_keep_us_past_the_limit(
        store, names, said_of):
    """Which of several was not to be had it can't say: one may be ours."""
    store.hold("a")
    began = time.monotonic()
    p = store.start("run", "-w", "2s", "--status-fd", "2", *names, "--",
                    "true")
    eventually(lambda: store.waiters("a") == 1)
    keeper = eventually(lambda: keeper_of(p.pid))
    kill(keeper, signal.SIGSTOP)
    assert p.wait(20) == 75
    assert time.monotonic() - began < 2 + patience(1.0)
    kill(keeper, signal.SIGCONT)  # it has stderr, too
    said = p.stderr.read()
    assert f"snib: {said_of}not acquired within the wait limit" in said
    assert '"cause":"timeout"' in said
    eventually(lambda: store.waiters("a") == 0, "its place is given up")


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_a_keeper_that_is_killed_while_it_waits_is_told(store, names):
    store.hold("a")
    p = store.start("run", "-q", *names, "--", "true")
    eventually(lambda: store.waiters("a") == 1)
    kill(eventually(lambda: keeper_of(p.pid)), signal.SIGKILL)
    assert p.wait(10) == 70, "not 69: the store is there"
    assert "died while it waited for the lock; nothing ran" in p.stderr.read()


def test_a_waiting_line_does_not_cost_the_limit(mapped):
    """To look who is in the way takes long when the store does not answer."""
    took = []
    for option in ("-q", "--verbose"):
        began = time.monotonic()
        done = mapped.run("run", option, "-s", "redis://127.0.0.1:1", "-w",
                          "500ms", "a", "--", "true")
        took.append(time.monotonic() - began)
        assert done.returncode == 69, done.stderr
        assert "refused" in done.stderr
    assert took[1] < took[0] + 1.0


def test_a_last_word_that_has_come_counts_though_the_patience_is_over(store):
    """The lock is taken away by force while the command ends; only the release
    tells of it, while the supervisor is stopped, longer than it would wait."""
    mark = store.path("pid")
    p = store.start("run", "-q", "a", "--", "sh", "-c",
                    'echo $$ >"$0.new"; mv "$0.new" "$0"; '
                    'while [ ! -e "$0.end" ]; do sleep 0.01; done; exit 3',
                    mark)
    command = read_pid(mark)
    holder = eventually(lambda: keeper_of(p.pid))
    kill(holder, signal.SIGSTOP)
    eventually(lambda: stopped(holder), "the holder is stopped")
    open(mark + ".end", "w").close()
    eventually(lambda: not os.path.exists(f"/proc/{command}") and idle(p.pid),
               "it is reaped, and the holder asked to release")
    asked = time.monotonic()
    stop(p)
    assert store.run("force-release", "--yes", "--reason", "x",
                     "a").returncode == 0
    kill(holder, signal.SIGCONT)
    eventually(lambda: not runs(holder), "the holder has said it, and ended")
    eventually(lambda: time.monotonic() - asked > 3.2, "the patience")
    kill(p.pid, signal.SIGCONT)
    said = p.communicate(timeout=10)[1]
    assert p.returncode == 76, said
    assert "lock lost (revoked" in said and "not confirmed" not in said
