"""The command is dead before anyone else can hold the lock: whichever one of
our processes is killed or stopped."""

import json
import os
import signal
import sys
import time

import pytest

from conftest import (eventually, keeper_of, kill, read_pid, read_pids, runs,
                      stat_of)

# A group: the shell, a child, a grandchild behind a nested shell.
GROUP = ('sleep 1000 & sh -c \'sleep 1000 & echo $! >>"$0"; wait\' "$0" & '
         'echo $! >>"$0"; echo $$ >>"$0"; wait')


def start_group(snib, *options):
    mark = snib.path("group")
    p = snib.start("run", *options, "a", "--", "sh", "-c", GROUP, mark)
    p.group = read_pids(mark, 3)
    p.command = os.getpgid(p.group[0])
    p.keeper = eventually(lambda: keeper_of(p.pid))
    assert all(os.getpgid(pid) == p.command for pid in p.group)
    assert p.command not in (os.getpgid(p.pid), os.getpgid(p.keeper))
    return p


def group_runs(pgid):
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open("/proc/%s/stat" % entry) as f:
                    rest = f.read().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(rest[2]) == pgid and rest[0] not in "ZX":
                return True
    return False


@pytest.mark.parametrize("again", range(5))
def test_a_killed_leash_leaves_nothing_of_the_group(store, again):
    p = start_group(store)
    kill(p.pid, signal.SIGKILL)
    assert p.wait(10) == -signal.SIGKILL
    eventually(lambda: not group_runs(p.command), "group gone", 5)
    eventually(lambda: not runs(p.keeper), "keeper gone", 5)
    assert not store.held("a"), "released at once, not after the lease"


@pytest.mark.parametrize("again", range(5))
def test_a_killed_keeper_leaves_nothing_of_the_group(store, again):
    p = start_group(store)
    kill(p.keeper, signal.SIGKILL)
    assert p.wait(10) == 76
    assert not group_runs(p.command)
    assert "lock lost" in p.stderr.read()


@pytest.mark.parametrize("again", range(5))
def test_a_killed_command_leaves_nothing_of_the_group(store, again):
    p = start_group(store)
    kill(p.command, signal.SIGKILL)
    assert p.wait(10) == 137
    assert not group_runs(p.command)
    assert not store.held("a")


def test_a_killed_leash_takes_along_who_left_the_group(mapped):
    mark = mapped.path("left")
    p = mapped.start("run", "a", "--", "sh", "-c",
                     'setsid sh -c \'echo $$ >"$0.n"; mv "$0.n" "$0"; '
                     'exec sleep 1000\' "$0" & wait', mark)
    left = read_pid(mark)
    assert os.getsid(left) == left
    kill(p.pid, signal.SIGKILL)
    p.wait()
    eventually(lambda: not runs(left), "the one that left is gone", 5)


# A proper daemon: no group, no parent, no descriptor, no environment of ours.
DAEMON = ('"$PYTHON" -c \'import os, sys\n'
          'if os.fork(): os._exit(0)\n'
          'os.setsid()\n'
          'if os.fork(): os._exit(0)\n'
          'os.closerange(0, 1024)\n'
          'with open(sys.argv[1] + ".n", "w") as f: f.write(str(os.getpid()))\n'
          'os.rename(sys.argv[1] + ".n", sys.argv[1])\n'
          'os.execve("/bin/sleep", ["sleep", "1000"], {})\' "$0"')


def free_by(store, name, pid):
    """Look until the lock is free; the daemon must have gone before."""
    eventually(lambda: not store.held(name), "free", 10)
    assert not runs(pid), "it outlived the lock"


def test_a_killed_leash_takes_along_a_daemon_without_an_environment(store):
    mark = store.path("daemon")
    p = store.start("run", "-q", "a", "--", "sh", "-c", DAEMON + "; sleep 1000",
                    mark, env={"PYTHON": sys.executable})
    daemon = read_pid(mark)
    eventually(lambda: stat_of(daemon)[1] == p.pid, "it is adopted")
    kill(p.pid, signal.SIGKILL)
    try:
        free_by(store, "a", daemon)
    finally:
        kill(daemon, signal.SIGKILL)


def test_it_takes_along_the_daemon_of_a_run_inside(store):
    """Whose own leash and keeper end in the same moment."""
    mark = store.path("daemon")
    p = store.start("run", "-q", "a", "--", store.binary, "run", "-q", "b",
                    "--", "sh", "-c", DAEMON + "; sleep 1000", mark,
                    env={"PYTHON": sys.executable})
    daemon = read_pid(mark)
    kill(p.pid, signal.SIGKILL)
    try:
        free_by(store, "b", daemon)
        free_by(store, "a", daemon)
    finally:
        kill(daemon, signal.SIGKILL)


def test_a_dead_keeper_does_not_free_the_lock_only_its_lease_does(store):
    """Its command may outlive it by some milliseconds."""
    p = store.hold("a", "-t", "3s")
    q = store.start("run", "-q", "a", "--", "true")
    eventually(lambda: store.waiters("a") == 1)
    left = store.status("a")["holders"][0]["left_ms"] / 1000
    killed = time.monotonic()
    kill(p.keeper, signal.SIGKILL)
    assert q.wait(20) == 0
    assert time.monotonic() - killed >= left - 0.5
    assert p.wait(10) == 76


def test_a_stopped_keeper_costs_the_command_before_the_lease_ends(store):
    """The other gets the lock only after the command is dead, and nothing
    but the lease frees it."""
    p = store.hold("a", "-t", "2s")
    kill(p.keeper, signal.SIGSTOP)
    q = store.start("run", "-q", "a", "--", "true")
    eventually(lambda: not runs(p.command), "command dead", 5)
    assert q.poll() is None, "the lease still runs"
    assert store.held("a")
    assert q.wait(10) == 0
    assert p.wait(10) == 76
    kill(p.keeper, signal.SIGCONT)


def test_a_command_that_ignores_term_is_dead_before_the_next_holder(store):
    mark = store.path("beat")
    p = store.start("run", "-q", "-t", "2s", "a", "--", "sh", "-c",
                    'trap "" TERM; while :; do date +%s%N >"$0"; '
                    'sleep 0.01; done', mark)
    eventually(lambda: os.path.exists(mark))
    kill(eventually(lambda: keeper_of(p.pid)), signal.SIGSTOP)
    q = store.run("run", "-q", "a", "--", "date", "+%s%N")
    last_beat = int(open(mark).read() or 0)
    assert last_beat < int(q.stdout)
    assert p.wait(10) == 76


def test_a_stopped_leash_does_not_stop_the_renewals(store):
    p = store.hold("a", "-t", "1s")
    kill(p.pid, signal.SIGSTOP)
    token = store.status("a")["token"]
    end = time.monotonic() + 3
    while time.monotonic() < end:
        view = store.status("a")
        assert view["held"] and view["token"] == token
    assert runs(p.command)
    kill(p.pid, signal.SIGCONT)
    kill(p.command, signal.SIGTERM)
    assert p.wait(10) == 143, "the old deadline is not held against it"


def test_with_a_stopped_leash_the_keeper_kills_in_time(redis):
    p = redis.hold("a", "-t", "2s")
    kill(p.pid, signal.SIGSTOP)
    redis.server.freeze()
    frozen = time.monotonic()
    eventually(lambda: not runs(p.command), "command dead", 5)
    assert time.monotonic() - frozen < 2.2
    redis.server.thaw()
    kill(p.pid, signal.SIGCONT)
    assert p.wait(15) == 76


def test_with_a_stopped_leash_the_keeper_ends_who_left_the_group(redis):
    mark = redis.path("daemon")
    p = redis.start("run", "-q", "-t", "2s", "a", "--", "sh", "-c",
                    DAEMON + "; sleep 1000", mark,
                    env={"PYTHON": sys.executable})
    daemon = read_pid(mark)
    eventually(lambda: stat_of(daemon)[1] == p.pid, "it is adopted")
    kill(p.pid, signal.SIGSTOP)
    redis.server.freeze()
    frozen = time.monotonic()
    try:
        eventually(lambda: not runs(daemon), "the daemon dead", 5)
        assert time.monotonic() - frozen < 2.2
    finally:
        kill(daemon, signal.SIGKILL)
    redis.server.thaw()
    kill(p.pid, signal.SIGCONT)
    assert p.wait(15) == 76


def test_a_store_that_stops_answering_costs_the_command_in_time(redis):
    p = redis.hold("a", "-t", "2s", "-g", "200ms")
    redis.server.freeze()
    frozen = time.monotonic()
    eventually(lambda: not runs(p.command), "command dead", 5)
    assert time.monotonic() - frozen < 2
    redis.server.thaw()
    assert p.wait(15) == 76


def test_a_short_stall_of_the_store_costs_nothing(redis):
    p = redis.hold("a", "-t", "10s", seconds=6)
    redis.server.freeze()
    time.sleep(3)  # the fault itself: a stall of 3 s
    redis.server.thaw()
    assert p.wait(20) == 0


def test_a_stopped_command_that_must_die_is_continued_to_hear_term(mapped):
    mark = mapped.path("term")
    p = mapped.start("run", "-q", "-t", "2s", "a", "--", "sh", "-c",
                     'trap \'echo heard >"$0"; exit\' TERM; echo $$ >"$0.pid"; '
                     'while :; do sleep 0.02; done', mark)
    command = read_pid(mark + ".pid")
    kill(-command, signal.SIGSTOP)
    # D: a shell whose vfork child was stopped before its exec
    eventually(lambda: stat_of(command)[0] in "TD")
    kill(eventually(lambda: keeper_of(p.pid)), signal.SIGSTOP)
    assert p.wait(10) == 76
    assert open(mark).read() == "heard\n"


def test_on_lost_signal_only_tells_and_the_status_is_76(mapped):
    mark = mapped.path("told")
    p = mapped.start("run", "-q", "-t", "1s", "--on-lost", "signal:USR1", "a",
                     "--", "sh", "-c", 'trap \'echo told >"$0"; exit 0\' USR1; '
                     'echo $$ >"$0.pid"; while :; do sleep 0.02; done', mark)
    read_pid(mark + ".pid")
    kill(keeper_of(p.pid), signal.SIGSTOP)
    eventually(lambda: os.path.exists(mark))
    kill(keeper_of(p.pid), signal.SIGCONT)
    assert p.wait(10) == 76


def test_on_lost_ignore_lets_the_command_end_by_itself(mapped):
    mark = mapped.path("go")
    p = mapped.start("run", "-t", "1s", "--on-lost", "ignore", "--status-fd",
                     "2", "a", "--", "sh", "-c", 'echo $$ >"$0.pid"; while ! test -e "$0"; do '
                     'sleep 0.02; done; exit 3', mark)
    read_pid(mark + ".pid")
    keeper = keeper_of(p.pid)
    kill(keeper, signal.SIGSTOP)
    mapped.run("run", "-q", "a", "true")  # somebody else had it
    open(mark, "w").close()
    kill(keeper, signal.SIGCONT)
    assert p.wait(10) == 3
    said = p.stderr.read()
    assert "lock lost" in said
    assert json.loads(said[said.index("{"):])["cause"] == "expired"


def test_the_lease_descriptor_reads_eof_on_loss(mapped):
    mark = mapped.path("eof")
    p = mapped.start("run", "-q", "-t", "1s", "--on-lost", "signal:USR2", "a",
                     "--", "python3", "-c",
                     "import os,signal,sys\n"
                     "signal.signal(signal.SIGUSR2, signal.SIG_IGN)\n"
                     "fd = int(os.environ['SNIB_LEASE_FD'])\n"
                     "open(sys.argv[1] + '.up', 'w').close()\n"
                     "got = os.read(fd, 1)\n"
                     "open(sys.argv[1], 'w').write(repr(got))\n", mark)
    eventually(lambda: os.path.exists(mark + ".up"))
    keeper = keeper_of(p.pid)
    kill(keeper, signal.SIGSTOP)
    eventually(lambda: os.path.exists(mark) and open(mark).read())
    assert open(mark).read() == "b''"
    kill(keeper, signal.SIGCONT)
    assert p.wait(10) == 76


def test_a_forced_release_stops_the_command(store):
    p = store.hold("a", "-t", "3s")
    done = store.run("force-release", "--yes", "--reason", "test", "a")
    assert done.returncode == 0, done.stderr
    assert p.wait(10) == 76
    assert not runs(p.command)


@pytest.mark.parametrize("names", [("a",), ("a", "b")], ids=str)
def test_a_forced_release_that_is_found_by_the_release_says_by_whom_and_why(
        store, names):
    """A holder of less than a second is not told at once: its own release is
    the first to hear of it."""
    report = store.path("report")
    with open(report, "w") as file:
        done = store.run(
            "run", "--status-fd", str(file.fileno()), *names, "--",
            store.binary, "force-release", "--yes", "--reason", "bad release",
            names[-1], pass_fds=(file.fileno(),))
    assert done.returncode == 76, done.stderr
    said = [line for line in done.stderr.splitlines() if "lock lost" in line]
    assert len(said) == 1 and "(revoked by " in said[0], done.stderr
    assert said[0].endswith(": bad release)"), said
    with open(report) as file:
        assert json.load(file)["cause"] == "revoked"


def test_a_killed_waiter_does_not_stay_in_the_queue(store):
    store.hold("a")
    p = store.start("run", "-q", "a", "true")
    eventually(lambda: store.waiters("a") == 1)
    kill(p.pid, signal.SIGKILL)
    p.wait()
    eventually(lambda: store.waiters("a") == 0, "the place is given up", 5)


def test_a_release_that_the_store_did_not_answer_is_repeated(redis):
    """The leash runs out of patience; the keeper goes on alone, and the lock
    does not have to wait for its lease."""
    p = redis.hold("a", "-t", "60s")
    redis.server.freeze()
    kill(p.command, signal.SIGTERM)
    assert p.wait(15) == 143
    time.sleep(5)  # the fault itself: longer than the library's last tries
    assert runs(p.keeper)
    redis.server.thaw()
    eventually(lambda: not redis.held("a"), "released before the lease", 20)
    eventually(lambda: not runs(p.keeper), "the keeper's end", 20)
