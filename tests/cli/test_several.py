"""Several names as one: all or nothing, whoever dies, whatever is lost."""

import json
import os
import re
import signal
import socket

import pytest

from conftest import children_of, eventually, keeper_of, kill
from test_signals import Terminal


@pytest.fixture
def driver(snib_bin):
    """driver(url): one more process with the library."""
    from harness.driver import Driver, driver_missing
    if driver_missing():
        pytest.skip(driver_missing())
    made = []

    def start(url):
        made.append(Driver())
        made[-1].open(url)
        return made[-1]
    yield start
    for d in made:
        d.close()


def free(store, *names):
    return not any(store.held(n) or store.waiters(n) for n in names)


def waiting_for(store, missing, *args, **more):
    """`snib run ARGS`, once it waits in the queue of `missing`."""
    p = store.start("run", *args, **more)
    eventually(lambda: store.waiters(missing) == 1)
    return p


def test_who_waits_leaves_what_stands_behind_to_others(store):
    """a is kept, b is waited for; c, free, is kept from nobody."""
    holder = store.hold("b")
    p = waiting_for(store, "b", "c", "b", "a", "--", "true")
    assert store.held("a") and not store.held("c")
    assert store.run("run", "-q", "-w", "10s", "c", "true").returncode == 0
    kill(holder.pid, signal.SIGTERM)
    assert p.wait(timeout=30) == 0
    assert free(store, "a", "b", "c")


def test_the_waiting_line_names_the_one_that_is_missing(store):
    first = store.hold("b", "--reason", "release 4.2")
    second = store.hold("c", "--reason", "backup")
    p = waiting_for(store, "b", "a", "b", "c", "--", "true")
    line = p.stderr.readline()
    assert line.startswith("b: held by ") and "release 4.2" in line
    assert line.endswith("; you are 1st of 1\n")
    kill(first.pid, signal.SIGTERM)
    eventually(lambda: store.waiters("c") == 1)
    p.terminate()
    assert p.wait(timeout=30) == 128 + signal.SIGTERM
    assert store.held("c") and free(store, "a", "b")
    kill(second.pid, signal.SIGTERM)


def test_a_refusal_names_the_one_that_is_missing_and_leaves_nothing(store):
    store.hold("b", "--reason", "release 4.2")
    for args in (("run", "-w", "300ms", "a", "b", "c", "--", "true"),
                 ("run", "-w", "0", "a", "b", "c", "--", "true"),
                 ("try", "c", "b", "a", "--")):
        if args[0] == "try":
            args = args[:-1] + ("--", "true")
        done = store.run(*args)
        assert done.returncode == 75, done.stderr
        last = done.stderr.splitlines()[-1]
        assert last.startswith("snib: b: not acquired: held by "), last
        assert "release 4.2" in last
        assert free(store, "a", "c")


def test_all_tokens_are_in_the_environment_in_the_order_of_the_names(store):
    done = store.run("run", "-q", "y", "x", "--", "sh", "-c",
                     'echo "$SNIB_NAME $SNIB_TOKEN"; "$0" status --json x; '
                     '"$0" status --json y', store.binary)
    first, x, y = done.stdout.splitlines()
    names, tokens = first.split()
    assert names == "x:y"
    assert [json.loads(v)["holders"][0]["token"] for v in (x, y)] == \
        [int(t) for t in tokens.split(":")]


def test_readers_share_all_names_and_a_writer_waits_for_all(store):
    one = store.start("run", "-q", "--kind", "read", "a", "b", "--",
                      "sleep", "1000")
    two = store.start("run", "-q", "--kind", "read", "b", "a", "--",
                      "sleep", "1000")
    eventually(lambda: len(store.status("a")["holders"]) == 2 and
               len(store.status("b")["holders"]) == 2)
    writer = waiting_for(store, "a", "-q", "--kind", "write", "a", "b", "--",
                         "true")
    kill(one.pid, signal.SIGTERM)
    one.wait(timeout=30)
    assert writer.poll() is None
    kill(two.pid, signal.SIGTERM)
    assert writer.wait(timeout=30) == 0
    assert free(store, "a", "b")


def test_a_higher_priority_goes_first_at_each_name(store):
    holder = store.hold("a")
    log = store.path("log")
    late = waiting_for(store, "a", "-q", "a", "b", "--", "sh", "-c",
                       'echo low >>"$0"', log)
    soon = store.start("run", "-q", "--priority", "5", "b", "a", "--", "sh",
                       "-c", 'echo high >>"$0"', log)
    eventually(lambda: store.waiters("a") == 2)
    kill(holder.pid, signal.SIGTERM)
    assert late.wait(timeout=30) == 0 and soon.wait(timeout=30) == 0
    with open(log) as f:
        assert f.read() == "high\nlow\n"


@pytest.mark.parametrize("victim", ["leash", "keeper"])
def test_a_waiter_that_is_killed_leaves_nothing(store, victim):
    store.hold("b")
    p = waiting_for(store, "b", "-q", "-t", "1s", "a", "b", "c", "--", "true")
    keeper = keeper_of(p.pid)
    kill(p.pid if victim == "leash" else keeper, signal.SIGKILL)
    p.wait(timeout=30)
    # The leash's death gives it back at once, the keeper's when the lease and
    # the place in the queue are over.
    eventually(lambda: free(store, "a", "c") and store.waiters("b") == 0)


def test_a_holder_that_is_killed_frees_all_after_the_lease(store):
    p = store.hold("a", "-t", "1s", "b")
    assert store.held("a") and store.held("b")
    kill(p.keeper, signal.SIGKILL)
    p.wait(timeout=30)
    eventually(lambda: free(store, "a", "b"))


def test_the_lock_delay_keeps_all_names_closed(store):
    p = store.hold("a", "-t", "1s", "--lock-delay", "1000s", "b")
    kill(p.keeper, signal.SIGKILL)
    p.wait(timeout=30)
    eventually(lambda: not store.held("a") and not store.held("b"))
    for name in "ab":
        assert store.run("try", "-q", name).returncode == 75


def test_the_loss_of_one_is_the_loss_of_all(store):
    r, w = os.pipe()
    p = store.start("run", "-t", "2s", "--status-fd", str(w), "a", "b", "c",
                    "--", "sleep", "1000", pass_fds=(w,))
    os.close(w)
    eventually(lambda: store.held("a") and store.held("c") and
               children_of(p.pid))
    assert store.run("force-release", "-y", "--reason", "x", "b"
                     ).returncode == 0
    assert p.wait(timeout=30) == 76
    with os.fdopen(r) as f:
        told = json.loads(f.read())
    assert (told["by"], told["exit"], told["ran"]) == ("snib", 76, True)
    assert told["cause"] == "revoked"
    assert free(store, "a", "b", "c")


def test_one_lost_while_another_is_waited_for_is_acquired_anew(store):
    holder = store.hold("b")
    p = waiting_for(store, "b", "-q", "-t", "1s", "a", "b", "--", "sh", "-c",
                    'for n in a b; do "$0" status --json $n; done; '
                    'echo "$SNIB_TOKEN"', store.binary)
    before = store.status("a")["holders"][0]["token"]
    keeper = keeper_of(p.pid)
    kill(keeper, signal.SIGSTOP)
    eventually(lambda: not store.held("a"))
    kill(holder.pid, signal.SIGTERM)
    eventually(lambda: store.run("try", "-q", "b").returncode == 0)
    kill(keeper, signal.SIGCONT)
    out, err = p.communicate(timeout=30)
    assert p.returncode == 0, err
    a, b, tokens = out.splitlines()
    held = [json.loads(v)["holders"][0]["token"] for v in (a, b)]
    assert held == [int(t) for t in tokens.split(":")]
    assert held[0] > before
    assert free(store, "a", "b")


def test_a_circle_with_a_program_is_refused_with_the_circle(store, driver):
    """The program takes z, then a: not the order of the names."""
    other = driver(store.url)
    for name in "az":
        other.lock(name)
    between = store.hold("m")
    grant = other.acquire("z")
    r, w = os.pipe()
    p = waiting_for(store, "m", "--status-fd", str(w), "z", "m", "a", "--",
                    "true", pass_fds=(w,))
    os.close(w)
    pending = other.start_acquire("a", on="main")
    eventually(lambda: store.waiters("a") == 1)
    kill(between.pid, signal.SIGTERM)
    out, err = p.communicate(timeout=40)
    assert p.returncode == 75
    last = err.splitlines()[-1]
    assert last.startswith("snib: z: not acquired: deadlock: this waits for "
                           "'z' held by "), err
    assert "/%d owner " % other.pid in last
    assert last.endswith("waits for 'a' held by this"), last
    with os.fdopen(r) as f:
        assert json.loads(f.read())["cause"] == "deadlock"
    pending.wait()
    assert free(store, "m")
    assert grant is not None


# -- names that were not meant ---------------------------------------------------

SLIP = ("nightly", "echo", "hi", "--", "true")


@pytest.mark.parametrize("sub", ["run", "try"])
def test_a_terminal_is_told_which_names_are_locks(mapped, sub):
    """Before a -- all are: a command in the wrong place is no error."""
    t = Terminal(mapped, sub, *SLIP)
    assert t.wait() == 0
    assert t.seen == b"snib: 3 locks: echo, hi, nightly; command: true\r\n"


@pytest.mark.parametrize("args", [("run", "-q") + SLIP,
                                  ("run", "a", "--", "true"),
                                  ("run", "a", "echo")], ids=" ".join)
def test_one_name_or_quiet_is_not_told(mapped, args):
    t = Terminal(mapped, *args)
    assert t.wait() == 0 and b"locks" not in t.seen


def test_no_script_is_told(mapped):
    assert mapped.run("run", *SLIP).stderr == ""


def test_a_server_that_says_nothing_is_unreachable_for_several_names_too(
        mapped):
    """No connection has failed yet when the limit is over: that was told as
    a lock that was not free in time."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        url = "redis://127.0.0.1:%d" % server.getsockname()[1]
        for names in (["a"], ["a", "b"]):
            done = mapped.run("run", "-w", "300ms", *names, "--", "true",
                              env={"SNIB_URL": url})
            assert done.returncode == 69, (names, done.stderr)
            assert re.match("snib: a: no (connection to|answer from) .*127.0.0.1"
                            ":.*; does the server run", done.stderr), done.stderr
