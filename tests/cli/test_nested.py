"""Deadlocks through commands: snib run inside snib run. Each process is a
client of its own; a circle is refused only where it is proven that whoever
holds above does nothing but wait for the one that waits."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from conftest import eventually, keeper_of, kill, read_pid

# $1: what to hold a mark for, $2: whose to wait for, then the inner command.
INSIDE = ('touch "$1"; until [ -e "$2" ]; do sleep 0.01; done; shift 2; '
          '"$@"; echo "inner $?"')

# As long as a refusal can take: a second, and looks until all is proven.
REFUSED_BY = 30
# Nobody is refused who has not been so by then.
NEVER_AFTER = 7


def outer(store, name, mine, theirs, *inner, script=INSIDE, env=None):
    """`snib run NAME -- sh -c SCRIPT`, which runs `snib INNER`."""
    return store.start("run", "-q", name, "--", "sh", "-c", script, "sh",
                       store.path(mine), store.path(theirs), store.binary,
                       *inner, env=env)


def ended(*processes):
    """Their (stdout, stderr), once all have ended."""
    return [p.communicate(timeout=REFUSED_BY) for p in processes]


def assert_free(store, *names):
    for name in names:
        assert not store.held(name) and store.waiters(name) == 0


def test_two_commands_in_each_others_way(store):
    """Also with -q: that two do not get on is a mistake."""
    one = outer(store, "A", "a", "b", "run", "-q", "B", "--", "true")
    two = outer(store, "B", "b", "a", "run", "-q", "A", "--", "true")
    (out1, err1), (out2, err2) = ended(one, two)
    assert sorted([out1, out2]) == ["inner 0\n", "inner 75\n"], err1 + err2
    refused = err1 if out1 == "inner 75\n" else err2
    names = "B", "A"
    mine, other = names if out1 == "inner 75\n" else reversed(names)
    assert refused.startswith("snib: %s: not acquired: deadlock: this waits "
                              "for '%s' held by " % (mine, mine)), refused
    assert "waits for '%s' held by this" % other in refused
    assert_free(store, "A", "B")


def test_through_three_levels_and_several_names(store):
    one = outer(store, "A", "a", "c", "run", "-q", "B", "B2", "--",
                store.binary, "run", "--no-progress", "C", "C2", "--", "true")
    two = outer(store, "C", "c", "a", "run", "--no-progress", "A", "--",
                "true")
    (out1, err1), (out2, err2) = ended(one, two)
    assert sorted([out1, out2]) == ["inner 0\n", "inner 75\n"], err1 + err2
    assert "deadlock: this waits for" in err1 + err2
    assert_free(store, "A", "B", "B2", "C", "C2")


def test_a_program_of_the_library_in_the_circle(store, snib_bin):
    from harness.driver import Driver, driver_missing
    if driver_missing():
        pytest.skip(driver_missing())
    with open(store.path("b"), "w"):
        pass
    driver = Driver()
    try:
        driver.open(store.url)
        driver.lock("A")
        driver.lock("B")
        grant = driver.acquire("B")
        one = outer(store, "A", "a", "b", "run", "-q", "B", "--", "true")
        eventually(lambda: store.waiters("B") == 1)
        answer = driver.start_acquire("A").answer(timeout=REFUSED_BY)
        assert answer["err"] == "DEADLOCK", answer
        grant.release()
        assert one.communicate(timeout=30)[0] == "inner 0\n"
    finally:
        driver.close()


def test_why_and_deadlocks_show_it(store):
    """While it stands: both inner ones ask again when they are refused."""
    again = ('touch "$1"; until [ -e "$2" ]; do sleep 0.01; done; shift 2; '
             'while :; do "$@"; done')
    one = outer(store, "A", "a", "b", "run", "-q", "B", "--", "true",
                script=again)
    two = outer(store, "B", "b", "a", "run", "-q", "A", "--", "true",
                script=again)

    def deadlock():
        done = store.run("deadlocks", "--json")
        return done.returncode == 1 and json.loads(done.stdout)["deadlocks"]
    found, = eventually(deadlock, "a deadlock", REFUSED_BY)
    assert found["certain"] is True
    assert sorted(w["name"] for w in found["waits"]) == ["A", "B"]

    def told():
        done = store.run("why", "A")
        return done.stdout if "DEADLOCK of 2" in done.stdout else None
    words = eventually(told, "why tells it", REFUSED_BY)
    assert "It waits itself, for B, for " in words

    def named():
        done = store.run("deadlocks")
        return done.stdout if done.returncode == 1 else None
    words = eventually(named, "deadlocks tells it", REFUSED_BY)
    for p in (one, two):  # as status shows it: who holds, and who waits in it
        assert re.search(r"; held by \S+/%d .*, in whose command waits \S+/\d+"
                         % keeper_of(p.pid), words), words
    for p in (one, two):
        kill(p.pid, signal.SIGTERM)
        p.wait(timeout=30)


# Each of these goes on while its inner snib waits for B, until the file "go"
# is there; then it ends, and so releases A.
GOES_ON = {
    "background":
        'shift 2; "$@" & while [ ! -e "$0" ]; do sleep 0.05; done; kill $!',
    "program":
        'shift 2; exec "%s" -c "import os, subprocess, sys, time\n'
        'p = subprocess.Popen(sys.argv[2:])\n'
        'while not os.path.exists(sys.argv[1]): time.sleep(0.05)\n'
        'p.terminate(); p.wait()" "$0" "$@"' % sys.executable,
    "thread":
        'shift 2; exec "%s" -c "import os, subprocess, sys, threading, time\n'
        'def end():\n'
        '    while not os.path.exists(sys.argv[1]): time.sleep(0.05)\n'
        '    p.terminate()\n'
        'p = subprocess.Popen(sys.argv[2:])\n'
        'threading.Thread(target=end).start()\n'
        'p.wait()" "$0" "$@"' % sys.executable,
}


@pytest.mark.parametrize("how", sorted(GOES_ON))
def test_nobody_is_refused_for_a_command_that_goes_on(mapped, how):
    goes_on(mapped, how)


def test_on_redis_nobody_is_refused_for_a_command_that_goes_on(redis):
    goes_on(redis, "background")


def goes_on(store, how):
    go, mark = store.path("go"), store.path("mark")
    two = store.start("run", "-q", "B", "--", "sh", "-c",
                      'until [ -e "$0" ]; do sleep 0.01; done; exec "$@"',
                      mark, store.binary, "run", "-q", "A", "--", "true")
    eventually(lambda: store.held("B"))
    one = store.start("run", "-q", "A", "--", "sh", "-c", GOES_ON[how], go,
                      "", "", store.binary, "run", "-q", "B", "--", "true")
    eventually(lambda: store.waiters("B") == 1)
    with open(mark, "w"):
        pass
    eventually(lambda: store.waiters("A") == 1)
    with pytest.raises(subprocess.TimeoutExpired):
        two.wait(timeout=NEVER_AFTER)
    assert store.waiters("B") == 1 and store.waiters("A") == 1
    with open(go, "w"):
        pass
    out, err = two.communicate(timeout=30)
    assert two.returncode == 0, err
    one.wait(timeout=30)


def test_nobody_is_refused_for_a_wait_that_was_killed(store):
    """The command above goes on although the store still shows the wait."""
    mark, pid = store.path("mark"), store.path("pid")
    two = store.start("run", "-q", "B", "--", "sh", "-c",
                      'until [ -e "$0" ]; do sleep 0.01; done; exec "$@"',
                      mark, store.binary, "run", "-q", "A", "--", "true")
    eventually(lambda: store.held("B"))
    go = store.path("go")
    one = store.start("run", "-q", "A", "--", "sh", "-c",
                      '"$@"; until [ -e "$0" ]; do sleep 0.05; done', go,
                      "sh", "-c", 'echo $$ >"$0.new"; mv "$0.new" "$0"; '
                      'exec "$@"', pid, store.binary, "run", "-q", "B", "--",
                      "true")
    leash = read_pid(pid)
    eventually(lambda: store.waiters("B") == 1)
    keeper = eventually(lambda: keeper_of(leash))
    with open(mark, "w"):
        pass
    eventually(lambda: store.waiters("A") == 1)
    kill(keeper, signal.SIGSTOP)  # so that it cannot leave the queue
    kill(leash, signal.SIGKILL)
    kill(keeper, signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        two.wait(timeout=NEVER_AFTER)
    assert store.waiters("A") == 1
    with open(go, "w"):
        pass
    out, err = two.communicate(timeout=30)
    assert two.returncode == 0, err
    assert one.wait(timeout=30) == 0


@pytest.mark.parametrize("held", [
    "", ":", "x", "A=", "A=0.0123456789abcdef", "=" * 3000, "%zz=%%:" * 400,
    "A=0.0123456789abcdef:" * 100])
def test_a_held_variable_that_says_nothing_is_ignored(mapped, held):
    holder = mapped.hold("B")
    p = mapped.start("run", "-q", "A", "B", "--", "true",
                     env={"SNIB_HELD": held})
    eventually(lambda: mapped.waiters("B") == 1)
    kill(holder.pid, signal.SIGTERM)
    assert p.wait(timeout=30) == 0


def test_what_is_held_in_another_store_is_not_named(mapped, tmp_path):
    """The same names in two stores: no circle in either."""
    other = "file:%s/other.db" % tmp_path
    one = outer(mapped, "A", "a", "b", "run", "-q", "-s", other, "B", "--",
                "true")
    two = mapped.start("run", "-q", "-s", other, "B", "--", "sh", "-c",
                       INSIDE, "sh", mapped.path("b"), mapped.path("a"),
                       mapped.binary, "run", "-q", "-w", "%ds" % NEVER_AFTER,
                       "-s", mapped.url, "A", "--", "true")
    (out1, err1), (out2, err2) = ended(one, two)
    assert (out1, out2) == ("inner 0\n", "inner 75\n"), err1 + err2
    assert "deadlock" not in err1 + err2


def test_a_nested_run_leaves_no_process_behind(store):
    """Its keeper is gone when it ends: else the outer one takes it for a
    process of the command's that has to be killed."""
    inner = [store.binary, "run", "-q", "B", "--", "true"]
    for _ in range(15):
        done = store.run("run", "A", "--", *inner)
        assert (done.returncode, done.stderr) == (0, "")


# -- the store of a nested call ----------------------------------------------------

def elsewhere(store, *options):
    """`status` of the lock that it runs under, from another directory, with
    what the outer run passes on."""
    env = {"SNIB_URL": "file:%s" % store.path("wrong.db")}
    done = store.run("run", *options, "a", "--", "sh", "-c",
                     'cd / && "$0" status --json a', store.binary, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def other(mapped):
    os.mkdir(mapped.path("o%ver"))
    return "file:o%25ver/there.db"


def test_a_nested_call_uses_the_store_option(mapped, other):
    assert elsewhere(mapped, "-s", other)["held"]


def test_a_nested_call_uses_the_store_file(mapped, other):
    with open(mapped.path("url"), "w") as file:
        file.write(other.replace("o%25ver", mapped.path("o%25ver")))
    os.chmod(mapped.path("url"), 0o600)
    assert elsewhere(mapped, "--store-file", "url")["held"]


def test_a_store_file_keeps_its_password_from_the_environment(redis):
    """… and a nested call has it all the same."""
    redis.server.command("CONFIG", "SET", "requirepass", "secret")
    with open(redis.path("url"), "w") as file:
        file.write(redis.server.url.replace("://", "://:secret@"))
    os.chmod(redis.path("url"), 0o600)
    done = redis.run("run", "-q", "--store-file", "url", "a", "--", "sh", "-c",
                     'env; cd /; "$0" status a', redis.binary)
    assert done.returncode == 0, done.stderr
    assert "secret" not in done.stdout and "SNIB_URL" not in done.stdout
    assert "a: held by" in done.stdout, done.stdout


def test_a_nested_call_knows_a_scheme_in_capitals(mapped):
    assert elsewhere(mapped, "-s", "FILE:there.db")["held"]


def in_a_file(store, url):
    with open(store.path("url"), "w") as file:
        file.write(url)
    os.chmod(store.path("url"), 0o600)
    return store.path("url")


def test_a_nested_call_uses_no_file_that_was_not_used(redis):
    """Without the password it is refused, rather than sent elsewhere."""
    redis.server.command("CONFIG", "SET", "requirepass", "secret")
    url = redis.server.url.replace("://", "://:secret@")
    file = in_a_file(redis, "file:%s" % redis.path("wrong.db"))
    done = redis.run("run", "-q", "a", "--", redis.binary, "status", "a",
                     env={"SNIB_URL": url, "SNIB_STORE_FILE": file})
    assert (done.returncode, done.stdout) == (78, "")
    assert "*** where its password was" in done.stderr


def test_a_nested_call_uses_the_file_beside_a_blanked_url(redis):
    redis.server.command("CONFIG", "SET", "requirepass", "secret")
    in_a_file(redis, redis.server.url.replace("://", "://:secret@"))
    done = redis.run("run", "-q", "a", "--", "sh", "-c",
                     'env; cd /; "$0" status a', redis.binary,
                     env={"SNIB_URL": "redis://:***@127.0.0.1:1",
                          "SNIB_STORE_FILE": "url"})
    assert done.returncode == 0, done.stderr
    assert "secret" not in done.stdout
    assert "a: held by" in done.stdout, done.stdout


def test_the_owner_is_named_as_status_names_it(store):
    show = ('echo "$SNIB_OWNER"; "$0" status --json a')
    for inner in ([], [store.binary, "run", "--reentrant", "a", "--"]):
        done = store.run("run", "a", "--", *inner, "sh", "-c", show,
                         store.binary)
        assert done.returncode == 0, done.stderr
        owner, status = done.stdout.split("\n", 1)
        holder, = json.loads(status)["holders"]
        assert owner == "%s:%d" % (holder["client"], holder["owner"]), inner


def test_a_holder_asked_for_a_name_that_it_has_not_goes_on(mapped):
    """SNIB_HELD is whatever the environment says: who is asked by it for a
    name that he does not hold says so, and holds what he holds."""
    mapped.hold("b")
    done = mapped.run(
        "run", "a", "--", "sh", "-c",
        'SNIB_HELD=$(printf %s "$SNIB_HELD" | sed s/a=/other=/) '
        '"$0" run -q -w 1s b -- true; echo $?; "$0" check -q', mapped.binary,
        timeout=60)
    assert (done.returncode, done.stdout) == (0, "75\n"), done.stderr
    assert done.stderr.startswith("snib: b: not acquired: held by ")
    assert done.stderr.count("\n") == 1
