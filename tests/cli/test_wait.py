"""Waiting: the line, the order, several names, nested runs, snib wait."""

import os
import re
import signal
import subprocess
import threading
import time

import pytest

from conftest import eventually, keeper_of, kill, read_pid

LINE = re.compile(r'^(?P<name>\S+): held by (?P<host>\S+)/(?P<pid>\d+) '
                  r'\((?P<who>[^)]*)\) for (?P<since>\S+), lease (?P<left>\S+?)'
                  r'(; you are (?P<place>\d+)(st|nd|rd|th) of (?P<of>\d+))?$')


def test_the_waiting_line_says_who_holds_and_our_place(store):
    store.hold("nightly", "--reason", "release 4.2")
    store.start("run", "-q", "nightly", "true")
    eventually(lambda: store.waiters("nightly") == 1)
    p = store.start("run", "nightly", "true")
    line = p.stderr.readline().rstrip("\n")
    found = LINE.match(line)
    assert found, line
    assert found["name"] == "nightly"
    assert '"release 4.2"' in found["who"]
    assert (found["place"], found["of"]) == ("2", "2")


@pytest.mark.parametrize("option", ["-q", "--no-progress"])
def test_the_waiting_line_can_be_switched_off(mapped, option):
    mapped.hold("a")
    done = mapped.run("run", option, "-w", "600ms", "a", "true")
    assert done.returncode == 75
    assert "you are" not in done.stderr


def test_foreign_bytes_in_the_line_cannot_drive_the_terminal(mapped):
    evil = "\x1b[2J\x07\nforged: held by nobody\u202e"
    mapped.hold("a", "--reason", evil)
    done = mapped.run("run", "-w", "400ms", "a", "true")
    assert done.returncode == 75
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr
    assert "\u202e" not in done.stderr
    assert not any(line.startswith("forged")
                   for line in done.stderr.splitlines())


def test_waiters_come_in_the_order_of_arrival(store):
    holder = store.hold("a")
    log = store.path("order")
    waiting = []
    for i in range(4):
        waiting.append(store.start("run", "-q", "a", "--", "sh", "-c",
                                   'echo %d >>"$0"' % i, log))
        eventually(lambda: store.waiters("a") == i + 1)
    holder.send_signal(signal.SIGTERM)
    assert [p.wait(20) for p in waiting] == [0] * 4
    assert open(log).read().split() == ["0", "1", "2", "3"]


def test_several_names_are_held_together(store):
    done = store.run("run", "c", "a", "b", "--", "sh", "-c",
                     'for n in a b c; do "$0" try -q $n; echo $?; done; '
                     'echo "$SNIB_NAME $SNIB_TOKEN"', store.binary)
    lines = done.stdout.splitlines()
    assert lines[:3] == ["75", "75", "75"], done.stderr
    names, tokens = lines[3].split()
    assert names == "a:b:c" and len(tokens.split(":")) == 3
    for name in "abc":
        assert not store.held(name)


def test_of_several_names_all_or_nothing_is_held(store):
    store.hold("b")
    done = store.run("run", "-w", "300ms", "c", "a", "b", "--", "true")
    assert done.returncode == 75
    assert not store.held("a") and not store.held("c")


def test_one_name_twice_is_an_error(mapped):
    done = mapped.run("run", "a", "b", "a", "--", "true")
    assert done.returncode == 64
    assert "twice" in done.stderr


def test_several_names_in_any_order_do_not_deadlock(mapped):
    """20 runs each over 3 names in shuffled orders by 4 workers."""
    orders = ["abc", "cba", "bca", "acb"]
    codes = []

    def work(order):
        for _ in range(5):
            codes.append(mapped.run("run", "-q", "-w", "30s", *order, "--",
                                    "true").returncode)
    workers = [threading.Thread(target=work, args=(o,)) for o in orders]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert codes == [0] * 20


def test_a_nested_run_on_the_same_lock_is_an_error(store):
    done = store.run("run", "a", "--", store.binary, "run", "a", "--", "true")
    assert done.returncode == 64
    assert "already held: this command runs inside" in done.stderr
    assert "--reentrant" in done.stderr


@pytest.mark.parametrize("inner, outcome", [
    (("run", "a", "--", "true"), "would wait for itself for ever"),
    (("run", "-w", "9s", "a", "--", "true"),
     "would wait for itself until its limit"),
    (("run", "-w", "0", "a", "--", "true"), "cannot have it while that runs"),
    (("try", "a", "--", "true"), "cannot have it while that runs"),
    (("try", "--reentrant", "--kind", "read", "a", "--", "true"), None),
    (("acquire", "-w", "0", "a"), "cannot have it while that runs")],
    ids=lambda x: " ".join(x) if isinstance(x, tuple) else "")
def test_what_would_become_of_a_nested_command_is_told(mapped, inner, outcome):
    """One that does not wait would not do so for ever."""
    done = mapped.run("run", "a", "--", mapped.binary, *inner)
    if outcome is None:
        assert done.returncode == 0, "the outer lease covers it"
        return
    assert done.returncode == 64
    assert outcome in done.stderr
    assert ("ever" in done.stderr) == ("ever" in outcome)


@pytest.mark.parametrize("inner, advice", [
    (("acquire", "a"), "only snib run and try have --reentrant"),
    (("elect", "a", "true"), "use another name\n")],
    ids=["acquire", "elect"])
def test_nobody_is_sent_to_an_option_that_is_not_there(mapped, inner, advice):
    done = mapped.run("run", "a", "--", mapped.binary, *inner)
    assert done.returncode == 64
    assert "already held: this command runs inside" in done.stderr
    assert advice in done.stderr
    assert "use --reentrant" not in done.stderr


def test_a_script_that_has_the_lock_is_told_that_it_has(mapped):
    done = subprocess.run(
        ["sh", "-c", 'eval "$("$0" acquire --sh a)"; "$0" acquire --sh a; '
         '"$0" run a true', mapped.binary], env=mapped.env, cwd=mapped.tmp,
        capture_output=True, text=True, timeout=60)
    again, run = done.stderr.splitlines()
    for line in (again, run):
        assert "the script around this command acquired it (snib acquire" in line
        assert "release it first, or use " in line
    assert "or use another name (only snib run and try have" in again
    assert "or use --reentrant, or another name" in run


@pytest.mark.parametrize("words", [
    ("wait", "a"), ("wait", "-w", "9s", "--kind", "read", "a"),
    ("latch", "--await", "a"), ("barrier", "-n", "1", "a")], ids=" ".join)
def test_a_wait_for_ones_own_lock_is_an_error(store, words):
    done = store.run("run", "a", "--", store.binary, *words, timeout=20)
    assert done.returncode == 64
    assert ("a: held by the snib run that this command runs inside (holder "
            "process ") in done.stderr


@pytest.mark.parametrize("words", [
    ("wait", "-w", "0", "a"), ("latch", "-w", "0", "--await", "a"),
    ("try", "a")], ids=" ".join)
def test_a_question_about_ones_own_lock_is_answered(store, words):
    done = store.run("run", "a", "--", store.binary, *words)
    assert done.returncode == 75


@pytest.mark.parametrize("words", [
    ("-r", "a", "wait", "-r", "a"), ("-r", "a", "latch", "--await", "a"),
    ("a", "wait", "b"),
    ("--kind=semaphore", "--capacity=2", "a", "wait", "--kind=semaphore", "a")],
    ids=" ".join)
def test_a_wait_for_what_goes_beside_ones_own_lock_is_none(mapped, words):
    at = words.index("latch") if "latch" in words else words.index("wait")
    done = mapped.run("run", *words[:at], "--", mapped.binary, *words[at:])
    assert done.returncode == 0, done.stderr


def test_a_script_may_release_what_its_background_waits_for(mapped):
    done = subprocess.run(
        ["sh", "-c", 'eval "$("$0" acquire --sh a)"; "$0" wait a 2>said & '
         'until grep -q "script around" said; do sleep 0.02; done; '
         '"$0" release "$SNIB_GRANT"; wait $!; echo $?', mapped.binary],
        env=mapped.env, cwd=mapped.tmp, capture_output=True, text=True,
        timeout=60)
    assert done.stdout == "0\n", done.stderr


def test_a_script_that_waits_for_its_own_lock_is_told(mapped):
    done = subprocess.run(
        ["sh", "-c", 'eval "$("$0" acquire --sh a)"; "$0" wait -w 200ms a; '
         'echo $?; "$0" wait -q -w 200ms a', mapped.binary], env=mapped.env,
        cwd=mapped.tmp, capture_output=True, text=True, timeout=60)
    assert done.stdout == "75\n"
    assert done.stderr.count("held by the script around this command") == 1


def test_a_nested_run_that_lost_its_environment_is_found(store):
    done = store.run("run", "a", "--", "env", "-u", "SNIB_HELD", store.binary,
                     "run", "a", "--", "true")
    assert done.returncode == 64, done.stderr
    assert "already held: this command runs inside" in done.stderr


def test_a_run_beside_what_a_command_acquired_is_not_inside_it(store):
    """The holder process was adopted by the outer run, and is not its own."""
    done = store.run("run", "a", "--", "sh", "-c",
                     '"$0" acquire b >"$1" && "$0" run -w 0 b -- true; '
                     'echo "$?"; "$0" release "$(cat "$1")"; "$0" run b -- '
                     'echo ran', store.binary, store.path("grant"))
    assert done.stdout.splitlines()[0] == "75", done
    assert "b: not acquired: held by" in done.stderr
    assert done.stdout.splitlines()[-1] == "ran"


# Becomes the driver; a child that it has before that runs the command at $GO.
PROGRAM = """#!/bin/sh
{ until [ -e "$GO" ]; do sleep 0.01; done; eval "$COMMAND" 2>"$OUT.err"
  echo "$?" >"$OUT.new"; mv "$OUT.new" "$OUT"; } </dev/null >/dev/null &
exec "$DRIVER"
"""


def run_inside_a_program(store, command, **options):
    """The exit status and stderr of a command that a program of the library
    has started, which holds the lock a."""
    from harness.driver import Driver, driver_missing, find_driver
    if driver_missing():
        pytest.skip(driver_missing())
    go, out, program = (store.path(n) for n in ("go", "out", "program"))
    with open(program, "w") as f:
        f.write(PROGRAM)
    os.chmod(program, 0o755)
    driver = Driver(program, {"GO": go, "OUT": out, "DRIVER": find_driver(),
                              "SNIB_URL": store.url, "COMMAND": "'%s' %s" % (
                                  store.binary, command)})
    try:
        driver.open(store.url, **options)
        driver.lock("a")
        driver.acquire("a")
        with open(go, "w"):
            pass
        eventually(lambda: os.path.exists(out), "the command has ended")
    finally:
        driver.close()
    with open(out) as code, open(out + ".err") as said:
        return int(code.read()), said.read(), driver.child.pid


def test_a_run_inside_a_program_that_holds_the_lock_is_told_so(store):
    """It was told to use --reentrant, which cannot work there."""
    code, said, pid = run_inside_a_program(store, "run a -- true",
                                           program="stock keeper")
    assert code == 64
    assert ("a: already held by program stock keeper (pid %d), which this "
            "command runs inside: it may be waiting for this command to end; "
            "let it release first, or use another name\n" % pid) in said
    assert "--reentrant" not in said


def test_reentrant_inside_a_program_that_holds_the_lock_says_why_not(store):
    """It was told that the lease is of another kind, which it was not."""
    code, said, pid = run_inside_a_program(store, "run --reentrant a -- true")
    assert code == 64
    assert ("(pid %d), which this command runs inside: --reentrant works "
            "inside snib run only, and it may be" % pid) in said
    assert "but not as" not in said


def test_reentrant_without_snib_held_says_what_is_missing(store):
    done = store.run("run", "a", "--", "env", "-u", "SNIB_HELD", store.binary,
                     "run", "--reentrant", "a", "--", "true")
    assert done.returncode == 64, done.stderr
    assert "SNIB_HELD, which is missing in this environment" in done.stderr
    assert "but not as" not in done.stderr


def test_reentrant_below_a_holder_that_is_stopped_says_so(store):
    """It was told that SNIB_HELD is missing, which it was not."""
    outer = store.start(
        "run", "a", "--", "sh", "-c", 'read x; "$0" run --reentrant a -- true',
        store.binary, stdin=subprocess.PIPE)
    keeper = eventually(lambda: store.held("a") and keeper_of(outer.pid))
    kill(keeper, signal.SIGSTOP)
    outer.stdin.write("\n")
    outer.stdin.flush()
    try:
        assert ("--reentrant asks that process, which does not answer here: it "
                "may be stopped, or use another name\n"
                in outer.stderr.readline())
    finally:
        kill(keeper, signal.SIGCONT)
    assert outer.wait(timeout=60) == 64


def test_reentrant_with_another_spelling_of_the_store_says_so(mapped):
    os.symlink(mapped.tmp, mapped.path("link"))
    other = "file:" + mapped.path("link/locks.db")
    done = mapped.run("run", "a", "--", mapped.binary, "--store", other, "run",
                      "--reentrant", "a", "--", "true")
    assert done.returncode == 64, done.stderr
    assert ("--reentrant needs the store to be written in the same way: there "
            "it is %s, here %s, or use another name\n" % (mapped.url, other)
            in done.stderr), done.stderr


def test_reentrant_with_a_snib_held_of_other_locks_says_so(store):
    done = store.run("run", "b", "--", "sh", "-c",
                     'held=$SNIB_HELD; exec "$0" run a -- env '
                     'SNIB_HELD="$held" "$0" run --reentrant a -- true',
                     store.binary)
    assert done.returncode == 64, done.stderr
    assert ("SNIB_HELD, which does not name that lock in this environment; "
            "pass it on" in done.stderr), done.stderr


CONTAINER = ["unshare", *([] if os.geteuid() == 0 else
                          ["--user", "--map-root-user"]),
             "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]


def test_a_holder_in_another_container_has_the_pid_of_one_up_the_tree(redis):
    """Of containers that share a host's name: it was refused, as inside."""
    def start(script):
        p = subprocess.Popen([*CONTAINER, script, redis.binary], env=redis.env,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        redis.started.append(p)
        return p
    holder = start('"$0" run b -- cat; true')
    eventually(lambda: redis.held("b"))
    time.sleep(0.05)  # processes are told apart by starts to 10 ms
    waiter = start('"$0" run c -- "$0" run b -- echo ran; true')
    eventually(lambda: redis.waiters("b") == 1)
    assert waiter.stderr.readline().startswith("b: held by ")
    mine, others = (redis.status(name)["holders"][0] for name in "cb")
    assert mine["pid"] == others["pid"] and mine["host"] == others["host"]
    holder.stdin.close()
    holder.stdin = None
    assert waiter.communicate(timeout=30)[0] == "ran\n"


def test_a_nested_run_on_another_lock_is_fine(store):
    done = store.run("run", "a", "--", store.binary, "run", "b", "--", "sh",
                     "-c", 'echo "$SNIB_HELD"')
    assert done.returncode == 0, done.stderr
    assert [e.split("=")[0] for e in done.stdout.strip().split(":")] == \
        ["a", "b"]


def test_the_same_name_in_another_store_is_another_lock(mapped):
    other = "file:" + mapped.path("other.db")
    done = mapped.run("run", "a", "--", mapped.binary, "run", "-s", other, "a",
                      "--", "true")
    assert done.returncode == 0, done.stderr


def test_reentrant_runs_under_the_outer_lease(store):
    done = store.run("run", "a", "--", "sh", "-c",
                     'echo $SNIB_TOKEN; "$0" run --reentrant a -- sh -c '
                     '"echo \\$SNIB_TOKEN"; "$0" status a', store.binary)
    assert done.returncode == 0, done.stderr
    outer, inner = done.stdout.splitlines()[:2]
    assert outer == inner
    assert "held by" in done.stdout, "the inner end released nothing"


def test_reentrant_ends_with_the_outer_lease(mapped):
    mark = mapped.path("inner")
    p = mapped.start("run", "-q", "-t", "1s", "--on-lost", "ignore", "a", "--",
                     mapped.binary, "run", "-q", "-t", "1s", "--reentrant",
                     "a", "--", "sh", "-c", 'echo $$ >"$0"; exec sleep 1000',
                     mark)
    inner = read_pid(mark)
    from conftest import keeper_of, runs
    kill(keeper_of(p.pid), signal.SIGSTOP)
    eventually(lambda: not runs(inner), "inner command stopped", 10)
    assert p.wait(10) == 76, "what the inner snib said"


def test_a_stale_snib_held_is_no_obstacle(mapped):
    done = mapped.run("run", "a", "true",
                      env={"SNIB_HELD": "a=0.0123456789abcdef"})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("held", [":", "=", "a=", "a=x", "%=0.00", "a" * 9999,
                                  "a=0.0123456789abcdef" * 50])
def test_garbage_in_snib_held_is_no_obstacle(mapped, held):
    done = mapped.run("run", "a", "true", env={"SNIB_HELD": held})
    assert done.returncode == 0, done.stderr


def test_wait_returns_when_the_lock_is_free_and_takes_nothing(store):
    assert store.run("wait", "a").returncode == 0
    holder = store.hold("a")
    p = store.start("wait", "a")
    assert "held by" in p.stderr.readline()
    assert p.poll() is None
    assert store.waiters("a") == 0
    holder.send_signal(signal.SIGTERM)
    assert p.wait(10) == 0


def test_wait_has_a_limit(mapped):
    mapped.hold("a")
    assert mapped.run("wait", "-w", "200ms", "a").returncode == 75
    assert mapped.run("wait", "-w", "0", "a").returncode == 75
    assert mapped.run("wait", "-w", "0", "--busy-ok", "a").returncode == 0


def test_who_waits_to_pass_is_told_what_keeps_it(mapped):
    """While it waits, not only at its limit."""
    assert mapped.run("latch", "-q", "--set", "2", "a").returncode == 0
    done = mapped.run("latch", "--await", "-w", "1s", "a", timeout=20)
    assert done.returncode == 75
    lines = done.stderr.splitlines()
    assert lines == [
        "a: a closed latch, 2 steps to go; you are 1st of 1",
        "snib: a: not passed in time: a closed latch, 2 steps to go"]


def test_a_long_list_of_names_is_possible_to_64(mapped):
    names = ["n%02d" % i for i in range(64)]
    assert mapped.run("run", *names, "--", "true").returncode == 0
    assert mapped.run("run", *names, "x", "--", "true").returncode == 64


def test_the_wait_limit_counts_for_all_names_together(mapped):
    mapped.hold("a")
    mapped.hold("b")
    done = mapped.run("run", "-w", "500ms", "a", "b", "--", "true", timeout=10)
    assert done.returncode == 75
    assert os.path.exists(mapped.tmp)
