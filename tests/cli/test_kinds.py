"""Readers, writers and permits by run, try, acquire and wait; what status,
list and force-release say of them."""

import json
import os
import re
import signal
import time

import pytest

from conftest import eventually, keeper_of, kill, read_pid, runs
from harness.fault_proxy import FaultProxy

READ = ("--kind", "read")
WRITE = ("--kind", "write")


def permits(n=1, capacity=None):
    more = () if capacity is None else ("--capacity", str(capacity))
    return ("--kind", "semaphore", "-n", str(n)) + more


def holders(snib, name):
    return snib.status(name)["holders"]


def end(process):
    process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 143


# -- readers and writers ------------------------------------------------------

def test_two_readers_run_at_once_and_no_writer(store):
    store.hold("a", *READ)
    store.hold("a", *READ)
    told = holders(store, "a")
    assert [h["kind"] for h in told] == ["read", "read"]
    assert told[0]["token"] == told[1]["token"]
    for kind in (WRITE, ()):
        done = store.run("run", "-w0", *kind, "a", "true")
        assert done.returncode == 75
        assert "held by 2 readers, longest by " in done.stderr
    assert store.run("try", *READ, "a").returncode == 0
    assert len(holders(store, "a")) == 2


def test_a_writer_keeps_readers_out(store):
    store.hold("a", *WRITE)
    done = store.run("try", *READ, "a")
    assert done.returncode == 75
    assert "held by the writer " in done.stderr
    assert store.run("try", *WRITE, "a").returncode == 75
    assert store.run("try", "a").returncode == 75


def test_readers_behind_a_waiting_writer_come_after_it(store):
    first = store.hold("a", *READ)
    log = store.path("order")
    line = []
    for i, kind in enumerate((WRITE, READ, READ, WRITE)):
        line.append(store.start("run", "-q", *kind, "a", "--", "sh", "-c",
                                'echo %d >>"$0"' % i, log))
        eventually(lambda: store.waiters("a") == i + 1)
    end(first)
    assert [p.wait(20) for p in line] == [0] * 4
    order = open(log).read().split()
    assert order[0] == "0" and sorted(order[1:3]) == ["1", "2"]
    assert order[3] == "3"


def test_a_writers_token_rises_and_its_readers_show_it(store):
    def token(*kind):
        done = store.run("run", *kind, "a", "--", "printenv", "SNIB_TOKEN")
        assert done.returncode == 0, done.stderr
        return int(done.stdout)
    first = token(*WRITE)
    eras = [token(*READ), token(*READ)]
    if store.url.startswith("redis"):  # between the writers' tokens
        assert first <= eras[0] <= eras[1]
    else:
        assert eras == [first, first]
    assert token(*WRITE) > eras[1]


def test_a_dead_reader_keeps_the_writer_out_for_its_lease(store):
    dead = store.hold("a", *READ, "-t", "2s")
    store.hold("b", *READ)  # another lock's is nobody's business
    kill(dead.pid, signal.SIGSTOP)
    kill(dead.keeper, signal.SIGKILL)
    killed = time.monotonic()
    kill(dead.command, signal.SIGKILL)
    assert store.run("try", *WRITE, "a").returncode == 75
    assert store.run("try", *READ, "a").returncode == 0
    assert store.run("run", "-q", "-w", "20s", *WRITE, "a", "true") \
        .returncode == 0
    assert 1.2 < time.monotonic() - killed < 10  # renewed each third
    kill(dead.pid, signal.SIGCONT)


def test_a_lost_read_lock_stops_its_command_only(store):
    lost = store.hold("a", *READ, "-t", "1s")
    kept = store.hold("a", *READ)
    kill(lost.keeper, signal.SIGSTOP)
    assert lost.wait(10) == 76
    assert not runs(lost.command)
    assert kept.poll() is None and runs(kept.command)


def test_priority_goes_ahead_of_who_waits(store):
    first = store.hold("a")
    log = store.path("order")
    line = []
    for i, rank in enumerate(("0", "7", "7", "100")):
        line.append(store.start("run", "-q", "--priority", rank, "a", "--",
                                "sh", "-c", 'echo %d >>"$0"' % i, log))
        eventually(lambda: store.waiters("a") == i + 1)
    end(first)
    assert [p.wait(20) for p in line] == [0] * 4
    assert open(log).read().split() == ["3", "1", "2", "0"]


def test_lock_delay_keeps_the_lock_closed_after_a_death(store):
    dead = store.hold("a", "-t", "1s", "--lock-delay", "2s")
    kill(dead.pid, signal.SIGSTOP)
    killed = time.monotonic()
    kill(dead.keeper, signal.SIGKILL)
    kill(dead.command, signal.SIGKILL)
    assert store.run("run", "-w", "20s", "-q", "a", "true").returncode == 0
    assert time.monotonic() - killed >= 1.9
    kill(dead.pid, signal.SIGCONT)


def test_a_grant_that_came_behind_its_lease_leaves_no_lock_delay(redis):
    """Nobody was told of it: it is ended, and the acquire asks again."""
    held = ("acquire", "-q", "--detached", "-t", "250ms", "--lock-delay", "1m")
    assert redis.run(*held, "b").returncode == 0  # the server has the script
    with FaultProxy(redis.server.address) as proxy:
        rule = proxy.delay_reply(0.6, command="EVALSHA", nth=1)
        done = redis.run(*held, "-w", "20s", "a", env={
            "SNIB_URL": "redis://127.0.0.1:%d" % proxy.address[1]})
    assert rule.fired == 1
    assert done.returncode == 0, done.stderr


# Not less: who looks shall see it held before it ends.
DELAYED = ("--detached", "-t", "1500ms", "--lock-delay", "1m")


def test_a_lock_in_its_delay_says_so_to_who_waits(store):
    store.run("acquire", "-q", *DELAYED, "a")
    eventually(lambda: not store.held("a"))
    p = store.start("run", "-w", "30s", "a", "true")
    assert re.search(r"closed for \S+ more, the lock-delay of \S+/\d+ .*, which "
                     "ended without a release", p.stderr.readline())
    p.send_signal(signal.SIGTERM)
    assert p.wait(10) == 143


def test_a_lock_in_its_delay_is_closed_to_all_who_look(store):
    told = json.loads(store.run("acquire", "--json", *DELAYED, "a").stdout)
    eventually(lambda: not store.held("a"))
    before = time.time() * 1000 - 1  # they are told in whole milliseconds
    seen = json.loads(store.run("status", "--json", "a").stdout)
    assert not seen["held"] and seen["holders"] == []
    closed = seen["closed"]
    assert 30000 < closed["left_ms"] <= 60000
    assert before < closed["until_ms"] - closed["left_ms"] < before + 10000
    assert closed["until"].endswith("Z")
    assert [p["token"] for p in closed["by"]] == [told["token"]]
    assert closed["by"][0]["left_ms"] == closed["left_ms"]
    text = store.run("status", "a").stdout
    assert "a: closed for " in text and f"{told['token']}\n" in text
    assert re.search(r"until +\d{4}-\d\d-\d\dT\S+Z, in \d+", text)
    assert "a: closed for " in store.run("list").stdout
    assert "closed by the lock-delay of " in store.run("why", "a").stdout
    for kind in ("mutex", "read", "write"):
        assert store.run("wait", "-w0", "--kind", kind, "a").returncode == 75
    done = store.run("try", "a", "true")
    assert done.returncode == 75 and "closed for " in done.stderr


def test_wait_ends_when_the_lock_delay_does(store):
    store.run("acquire", "-q", *DELAYED[:-1], "1500ms", "a")
    begun = time.monotonic()
    eventually(lambda: not store.held("a"))
    assert store.run("wait", "-w", "20s", "a").returncode == 0
    assert time.monotonic() - begun >= 1.2
    assert "closed" not in json.loads(
        store.run("status", "--json", "a").stdout)
    assert store.run("status", "a").stdout == "a: free\n"


def test_a_reader_in_its_delay_keeps_writers_out_only(store):
    store.run("acquire", "-q", *DELAYED, *READ, "a")
    eventually(lambda: not store.held("a"))
    assert store.run("wait", "-w0", *READ, "a").returncode == 0
    assert store.run("wait", "-w0", *WRITE, "a").returncode == 75
    store.hold("a", *READ)
    assert re.search("held by 1 reader: .*; to requests that do not fit "
                     "with them closed for ", store.run("status", "a").stdout)


def test_force_release_opens_a_lock_in_its_delay(store):
    store.run("acquire", "-q", *DELAYED, "a")
    eventually(lambda: not store.held("a"))
    done = store.run("force-release", "--yes", "--reason", "it is gone", "a")
    assert done.returncode == 0 and "closed for " in done.stderr
    assert store.run("try", "a", "true").returncode == 0


def test_a_release_opens_a_lock_with_a_delay_at_once(store):
    assert store.run("run", "--lock-delay", "1m", "a", "true").returncode == 0
    assert store.run("run", "-w", "5s", "a", "true").returncode == 0


# -- permits ------------------------------------------------------------------

RUN = ('exec 9<"$0"; flock 9; n=$(($(cat "$0.now") + 1)); echo $n >"$0.now"; '
       'echo $n >>"$0.log"; flock -u 9; '
       'until [ -e "$0.go.$1" ]; do sleep 0.02; done; '
       'flock 9; echo $(($(cat "$0.now") - 1)) >"$0.now"')


def test_a_semaphore_of_2_runs_4_commands_never_more_than_2_at_once(store):
    mark = store.path("count")
    open(mark, "w").close()
    with open(mark + ".now", "w") as f:
        f.write("0\n")
    jobs = [store.start("run", "-q", *permits(1, 2), "s", "--", "sh", "-c",
                        RUN, mark, str(i)) for i in range(4)]
    eventually(lambda: os.path.exists(mark + ".log")
               and len(open(mark + ".log").readlines()) == 2)
    eventually(lambda: store.waiters("s") == 2)
    assert len(open(mark + ".log").readlines()) == 2
    for i in range(4):
        open(mark + ".go.%d" % i, "w").close()
    assert [j.wait(20) for j in jobs] == [0] * 4
    seen = [int(n) for n in open(mark + ".log")]
    assert len(seen) == 4 and max(seen) <= 2
    assert not store.held("s")


def test_a_large_lot_is_not_overtaken(store):
    store.hold("s", *permits(2, 3))
    large = store.start("run", "-q", *permits(3), "s", "true")
    eventually(lambda: store.waiters("s") == 1)
    assert store.run("try", *permits(1), "s").returncode == 75
    large.send_signal(signal.SIGTERM)
    assert large.wait(10) == 143
    eventually(lambda: store.waiters("s") == 0)
    assert store.run("try", *permits(1), "s").returncode == 0


def test_permits_in_use_are_said_in_words_and_json(store):
    store.hold("s", *permits(2, 5))
    words = store.run("status", "s").stdout
    assert words.startswith("s: 2 of 5 permits in use by ")
    assert ", 2 permits, slot 0\n" in words
    store.hold("s", *permits(3))
    assert store.run("list").stdout.startswith("s: 5 of 5 permits in use, ")
    view = store.status("s")
    assert view["semaphore"] == {"size": 5, "used": 5, "available": 0}
    assert sorted(h["permits"] for h in view["holders"]) == [2, 3]
    p = store.start("run", *permits(1), "s", "true")
    line = p.stderr.readline()
    assert line.startswith("s: 5 of 5 permits in use, longest by ")
    assert line.endswith("; you are 1st of 1\n")
    eventually(lambda: store.waiters("s") == 1)
    waiter, = store.status("s")["waiters"]
    assert (waiter["kind"], waiter["permits"]) == ("semaphore", 1)


def test_a_semaphore_without_a_size_is_78_and_says_what_to_do(store):
    for args in (("run", "--kind", "semaphore", "s", "true"),
                 ("try", "--kind", "semaphore", "s"),
                 ("acquire", "--kind", "semaphore", "s")):
        done = store.run(*args)
        assert done.returncode == 78, done.stderr
        assert "--capacity N" in done.stderr
        assert "set it by snib semaphore --set N s\n" in done.stderr
    done = store.run("try", "--kind", "semaphore", "--name=-s")
    assert "set it by snib semaphore --set N --name=-s\n" in done.stderr
    assert not store.held("s")


def test_more_permits_than_there_are_is_75_and_nothing_runs(store):
    assert store.run("semaphore", "--set", "2", "s").returncode == 0
    mark = store.path("ran")
    done = store.run("run", *permits(3), "s", "--", "touch", mark)
    assert done.returncode == 75
    assert "3 permits were asked for" in done.stderr and "2 in all" in \
        done.stderr
    assert not os.path.exists(mark)


def test_a_capacity_counts_only_the_first_time(store):
    assert store.run("try", *permits(1, 2), "s").returncode == 0
    assert store.run("try", *permits(1, 9), "s").returncode == 0
    assert store.run("try", *permits(3, 9), "s").returncode == 75


def test_several_semaphores_are_taken_together_or_not_at_all(store):
    store.hold("y", *permits(1, 1))
    done = store.run("run", "-w", "300ms", *permits(1, 1), "x", "y", "--",
                     "true")
    assert done.returncode == 75
    assert not store.held("x")
    assert store.run("run", *permits(1, 1), "x", "z", "--", "true") \
        .returncode == 0


def test_a_killed_permit_holder_gives_it_back(store):
    dead = store.hold("s", *permits(1, 1), "-t", "1s")
    kill(dead.pid, signal.SIGKILL)  # the keeper ends the command, releases
    assert store.run("run", "-w", "20s", *permits(1), "s", "true") \
        .returncode == 0
    eventually(lambda: not runs(dead.command))


@pytest.mark.parametrize("kind", [READ, WRITE, permits(1, 1)])
def test_a_signal_while_waiting_leaves_the_queue(store, kind):
    store.hold("a", *(permits(1, 1) if kind[1] == "semaphore" else ()))
    p = store.start("run", "-q", *kind, "a", "true")
    eventually(lambda: store.waiters("a") == 1)
    p.send_signal(signal.SIGINT)
    assert p.wait(10) == 130
    eventually(lambda: store.waiters("a") == 0)


@pytest.mark.parametrize("refused", [
    ("try", *READ), ("run", "-w", "0", *READ), ("run", "-w", "300ms", *READ),
    ("acquire", "-w", "0", *READ)], ids=" ".join)
def test_a_reader_refused_for_a_writer_that_waits_is_told_so(store, refused):
    """It was told of the reader that holds, beside which it would fit."""
    store.hold("a", *READ)
    p = store.start("run", "-q", *WRITE, "--reason", "nightly", "a", "true")
    eventually(lambda: store.waiters("a") == 1)
    done = store.run(*refused, "a", *(["true"] if refused[0] == "run" else []))
    assert done.returncode == 75
    writer = keeper_of(p.pid)
    assert re.search(r"^snib: a: not acquired: a writer waits before it: "
                     r"\S+/%d \(\w+, \"nightly\"\); held by 1 reader: " % writer,
                     done.stderr, re.M), done.stderr


# -- nested -------------------------------------------------------------------

@pytest.mark.parametrize("outer, inner, code", [
    (READ, READ, 0),
    (WRITE, READ, 0),
    ((), READ, 0),
    (READ, WRITE, 64),
    (READ, (), 64),
    (permits(2, 3), permits(2), 0),
    (permits(1, 3), permits(2), 64),
    (permits(1, 3), READ, 64),
])
def test_a_nested_run_needs_reentrant_and_a_lease_that_covers_it(
        store, outer, inner, code):
    done = store.run("run", *outer, "a", "--", store.binary, "run", *inner,
                     "a", "--", "true")
    assert done.returncode == 64
    assert "already held: this command runs inside" in done.stderr
    done = store.run("run", *outer, "a", "--", store.binary, "run",
                     "--reentrant", *inner, "a", "--", "true")
    assert done.returncode == code, done.stderr
    assert ("does not cover" in done.stderr) == (code == 64)


# -- acquire ------------------------------------------------------------------

@pytest.mark.parametrize("kind", [READ, WRITE, permits(2, 3)])
def test_a_grant_of_a_keeper_is_checked_renewed_and_released(store, kind):
    grant = store.acquire(*kind, "a").stdout.strip()
    assert store.run("check", grant).returncode == 0
    assert store.run("renew", grant).returncode == 0
    assert store.run("release", grant).returncode == 0
    assert store.run("release", grant).returncode == 76
    assert not store.held("a")


def test_two_readers_grants_are_two(store):
    first = store.acquire(*READ, "a").stdout.strip()
    second = store.acquire(*READ, "a").stdout.strip()
    assert first != second
    assert store.run("release", first).returncode == 0
    assert store.run("release", first).returncode == 76
    assert store.run("check", second).returncode == 0
    assert len(holders(store, "a")) == 1
    assert store.run("release", second).returncode == 0


@pytest.mark.parametrize("kind, word", [(READ, ".read:"), (WRITE, ":"),
                                        (permits(2, 3), ".semaphore.2:")])
def test_a_grant_without_a_keeper_is_checked_renewed_and_released(store, kind,
                                                                  word):
    done = store.run("acquire", "-q", "--detached", "-t", "30s", *kind, "a")
    grant = done.stdout.strip()
    assert grant.startswith("snib1:nokeeper" + word), done.stderr
    if kind == READ:  # another of the same token
        assert store.run("acquire", "-q", "--detached", "-t", "30s", *kind,
                         "a").returncode == 0
    assert store.run("check", grant).returncode == 0
    assert store.run("renew", "-t", "20s", grant).returncode == 0
    assert store.run("check", grant).returncode == 0
    assert store.run("release", grant).returncode == 0
    assert store.run("release", grant).returncode == 76
    assert store.run("check", grant).returncode == 76
    assert len(holders(store, "a")) == (1 if kind == READ else 0)


# -- slots --------------------------------------------------------------------

SLOT = ("sh", "-c", 'echo "slot ${SNIB_SLOT-none}"; exec sleep 60')


def slot_of(process):
    return process.stdout.readline().split()[1]


def test_each_command_of_a_semaphore_has_a_slot_of_its_own(store):
    first = [store.start("run", *permits(n, 4), "s", "--", *SLOT)
             for n in (2, 1)]
    assert sorted(map(slot_of, first)) == ["0", "1"]
    third = store.start("run", *permits(1, 4), "s", "--", *SLOT)
    assert slot_of(third) == "2"
    told = holders(store, "s")
    assert sorted(h["slot"] for h in told) == [0, 1, 2]
    assert sorted(re.findall(r", \d permits?, slot (\d)\n",
                             store.run("status", "s").stdout)) == ["0", "1",
                                                                  "2"]
    gone = next(h["slot"] for h in told if h["permits"] == 2)
    end(first[0])
    again = store.start("run", *permits(2), "s", "--", *SLOT)
    assert slot_of(again) == str(gone)


def test_only_permits_have_a_slot(store):
    for kind in ((), READ, WRITE):
        done = store.run("run", *kind, "a", "--", "sh", "-c",
                         "echo ${SNIB_SLOT-none}", env={"SNIB_SLOT": "7"})
        assert done.stdout == "none\n"
    store.hold("a", *READ)
    assert "slot" not in holders(store, "a")[0]
    # Inside: one of its own, that of the same lock up the tree, or none.
    told = store.run(
        "run", *permits(1, 3), "x", "--", "sh", "-c",
        '"$0" run --kind semaphore --capacity 3 y -- "$0" run '
        '--kind semaphore --capacity 3 y2 -- sh -c "echo \\$SNIB_SLOT"; '
        '"$0" run --reentrant --kind semaphore x -- sh -c "echo \\$SNIB_SLOT"; '
        '"$0" run m -- sh -c "echo \\${SNIB_SLOT-none}"', store.binary)
    assert told.stdout.split() == ["0", "0", "none"], told.stderr


def test_a_slot_left_behind_is_taken_by_nobody_else(store):
    told = [json.loads(store.run("acquire", "--detached", "--json", "-t",
                                 "60s", *permits(1, 3), "s").stdout)
            for _ in range(2)]
    assert [t["slot"] for t in told] == [0, 1]
    assert store.run("renew", told[1]["grant"]).returncode == 0
    assert store.run("release", told[0]["grant"]).returncode == 0
    kept = json.loads(store.run("acquire", "--json", *permits(1), "s").stdout)
    assert kept["slot"] == 0
    assert sorted(h["slot"] for h in holders(store, "s")) == [0, 1]
    assert store.run("release", kept["grant"]).returncode == 0
    assert "slot" not in json.loads(
        store.run("acquire", "--detached", "--json", "-t", "60s",
                  "a").stdout)


# -- wait, force-release ------------------------------------------------------

def test_wait_is_for_the_kind_that_is_asked(store):
    store.hold("a", *READ)
    assert store.run("wait", "-w0", *READ, "a").returncode == 0
    assert store.run("wait", "-w0", *WRITE, "a").returncode == 75
    assert store.run("wait", "-w0", "a").returncode == 75
    p = store.start("run", "-q", *WRITE, "a", "true")
    eventually(lambda: store.waiters("a") == 1)
    assert store.run("wait", "-w0", *READ, "a").returncode == 75
    p.send_signal(signal.SIGTERM)
    assert p.wait(10) == 143
    store.hold("s", *permits(2, 3))
    assert store.run("wait", "-w0", "-n1", "--kind", "semaphore", "s") \
        .returncode == 0
    assert store.run("wait", "-w0", "-n2", "--kind", "semaphore", "s") \
        .returncode == 75


def test_wait_returns_when_enough_permits_are_back(store):
    holder = store.hold("s", *permits(2, 3))
    p = store.start("wait", *permits(2), "s")
    assert "2 of 3 permits in use by" in p.stderr.readline()
    end(holder)
    assert p.wait(10) == 0


def test_force_release_shows_all_holders_and_ends_them(store):
    readers = [store.hold("a", *READ, "-t", "1s") for _ in range(3)]
    done = store.run("force-release", "--yes", "--reason", "stuck", "a")
    assert done.returncode == 0
    lines = done.stderr.splitlines()
    assert "held by 3 readers, longest by " in lines[0]
    for i in range(3):
        assert re.match(r"snib:   %d of 3: \S+/\d+ \(.*\) running sh, to "
                        r"read \(this is you\)$" % (i + 1), lines[1 + i])
    assert lines[4] == "snib: a: 3 grants ended"
    assert [r.wait(15) for r in readers] == [76] * 3
    assert not any(runs(r.command) for r in readers)


def test_the_json_of_a_list_tells_the_kinds(mapped):
    mapped.hold("r", *READ)
    mapped.hold("s", *permits(2, 3))
    locks = {l["name"]: l for l in
             json.loads(mapped.run("list", "--json").stdout)["locks"]}
    assert locks["r"]["holders"][0]["kind"] == "read"
    assert "semaphore" not in locks["r"]
    assert locks["s"]["semaphore"]["available"] == 1


def test_who_awaits_a_latch_is_not_said_to_read_only(store):
    assert store.run("latch", "-q", "--set", "1", "n").returncode == 0
    store.start("latch", "--await", "-q", "n")
    eventually(lambda: store.waiters("n") == 1)
    assert re.search(r"^  waiting  .*, to pass the latch, or to read$",
                     store.run("status", "n").stdout, re.M)
    assert " for the latch, or for reading, waiting for " in \
        store.run("why", "n").stdout
    assert store.status("n")["waiters"][0]["kind"] == "read"


def test_why_tells_how_many_parties_of_a_barrier_are_here(store):
    store.start("barrier", "-q", "-n", "2", "n")
    eventually(lambda: store.waiters("n") == 1)
    assert store.run("why", "n").stdout.startswith(
        "n: a barrier, 1 of 2 parties are here.\n")
