"""acquire, release, renew, check: for scripts and unit files."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import time

import pytest

from conftest import eventually, kill, name_of, runs


def test_acquire_prints_a_grant_and_release_frees_the_lock(store):
    done = store.acquire("a")
    assert done.returncode == 0, done.stderr
    grant = done.stdout.strip()
    assert grant.startswith("snib1:") and " " not in grant
    assert store.held("a")
    assert store.run("release", grant).returncode == 0
    assert not store.held("a")


def test_a_second_release_is_76(mapped):
    grant = mapped.acquire("a").stdout.strip()
    assert mapped.run("release", grant).returncode == 0
    done = mapped.run("release", grant)
    assert done.returncode == 76
    assert "ended" in done.stderr


def test_acquire_in_a_substitution_returns(mapped):
    done = subprocess.run(
        ["sh", "-c", 'x=$("$0" acquire -q a); "$0" release "$x"; echo $?',
         mapped.binary], env=mapped.env, timeout=30, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True)
    assert done.stdout == "0\n" and done.stderr == ""


def test_the_keeper_keeps_no_descriptor_of_the_callers(mapped):
    r, w = os.pipe()
    done = mapped.acquire("a", pass_fds=(w,))
    os.close(w)
    assert os.read(r, 1) == b""
    os.close(r)
    keeper = mapped.keepers[0]
    for fd in (0, 1, 2):
        assert os.readlink("/proc/%d/fd/%d" % (keeper, fd)) == "/dev/null"
    assert os.getsid(keeper) == keeper
    assert done.returncode == 0


def test_the_token_file_is_private_and_enough_for_release(store):
    path = store.path("token")
    done = store.run("acquire", "-q", "-o", path, "a")
    assert done.returncode == 0 and done.stdout == ""
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    fields = dict(line.split("=", 1) for line in open(path).read().splitlines())
    store.keepers.append(int(fields["keeper_pid"]))
    assert fields["name"] == "a"
    assert int(fields["token"]) > 0
    assert fields["boot_id"] == \
        open("/proc/sys/kernel/random/boot_id").read().strip()
    assert store.run("check", "-m", "1s", path).returncode == 0
    assert store.run("release", path).returncode == 0
    assert store.run("check", path).returncode == 76


def test_the_token_file_holds_no_password(redis):
    redis.server.command("CONFIG", "SET", "requirepass", "geheim")
    url = "redis://:geheim@127.0.0.1:%d" % redis.server.port
    path = redis.path("token")
    done = redis.run("acquire", "-o", path, "a", env={"SNIB_URL": url})
    assert done.returncode == 0, done.stderr
    assert "geheim" not in open(path).read()
    assert redis.run("release", path).returncode == 0


def test_a_token_file_that_cannot_be_written_leaves_nothing_held(mapped):
    done = mapped.run("acquire", "-o", "/no/such/dir/token", "a")
    assert done.returncode == 78
    eventually(lambda: not mapped.held("a"))


def test_a_stdout_that_cannot_be_written_leaves_nothing_held(mapped):
    with open("/dev/full", "w") as full:
        p = mapped.start("acquire", "a", stdout=full)
        assert p.wait(20) == 70
    eventually(lambda: not mapped.held("a"))


def test_a_killed_acquire_leaves_nothing_behind(mapped):
    mapped.hold("a")
    p = mapped.start("acquire", "-q", "a")
    eventually(lambda: mapped.waiters("a") == 1)
    kill(p.pid, signal.SIGKILL)
    eventually(lambda: mapped.waiters("a") == 0)


def test_acquire_is_renewed_in_the_background(store):
    grant = store.acquire("-t", "1s", "a").stdout.strip()
    token = store.status("a")["token"]
    since = os.times().elapsed
    while os.times().elapsed - since < 2.5:
        view = store.status("a")
        assert view["held"] and view["token"] == token
    assert store.run("release", grant).returncode == 0


def test_the_lock_is_released_when_the_holder_pid_ends(store):
    holder = subprocess.Popen(["sleep", "1000"])
    done = store.acquire("--holder-pid", str(holder.pid), "a")
    assert done.returncode == 0, done.stderr
    assert store.held("a")
    holder.kill()
    holder.wait()
    eventually(lambda: not store.held("a"))
    eventually(lambda: not runs(store.keepers[0]))


def test_busy_is_75_and_an_interrupt_leaves_the_queue(store):
    store.hold("a")
    assert store.run("acquire", "-w", "0", "a").returncode == 75
    assert store.run("acquire", "-w", "0", "-E", "3", "a").returncode == 3
    p = store.start("acquire", "-q", "a")
    eventually(lambda: store.waiters("a") == 1)
    p.send_signal(signal.SIGINT)
    assert p.wait(10) == 130
    assert store.waiters("a") == 0


def test_json_of_acquire_renew_and_check(mapped):
    done = mapped.run("acquire", "--json", "a")
    told = json.loads(done.stdout)
    assert told["schema"] == 1 and told["token"] > 0
    mapped.keepers.append(int(told["grant"].split(":")[2].split(".")[0]))
    renewed = json.loads(mapped.run("renew", "--json", "-t", "1m",
                                    told["grant"]).stdout)
    assert renewed["left_ms"] > 50_000
    checked = json.loads(mapped.run("check", "--json", told["grant"]).stdout)
    assert checked["held"] is True and checked["token"] == told["token"]
    assert mapped.run("release", told["grant"]).returncode == 0


def test_renew_of_an_ended_grant_is_76(mapped):
    grant = mapped.acquire("a").stdout.strip()
    mapped.run("release", grant)
    assert mapped.run("renew", grant).returncode == 76


def test_a_killed_keeper_makes_check_say_76(mapped):
    grant = mapped.acquire("a").stdout.strip()
    assert mapped.run("check", grant).returncode == 0
    kill(mapped.keepers[0], signal.SIGKILL)
    eventually(lambda: name_of(mapped.keepers[0]) != "snib-keeper")
    assert mapped.run("check", grant).returncode == 76
    assert mapped.run("release", grant).returncode == 76


def test_a_stopped_keeper_makes_check_say_76(mapped):
    grant = mapped.acquire("a").stdout.strip()
    kill(mapped.keepers[0], signal.SIGSTOP)
    assert mapped.run("check", grant).returncode == 76
    kill(mapped.keepers[0], signal.SIGCONT)


ROOT = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]


def inside(store, script, *args, spaces=()):
    """In a pid namespace of its own, as in a container."""
    return subprocess.run(
        ["unshare", *ROOT, "--pid", *spaces, "--fork", "--kill-child",
         "--mount-proc", "sh", "-c", script, store.binary, *args],
        env=store.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, timeout=60)


@pytest.mark.parametrize("sub", ["check", "renew", "release"])
def test_a_holder_process_that_is_not_seen_is_asked(store, sub):
    """In a container with the host's network it was said to have ended."""
    grant = store.acquire("-t", "1m", "a").stdout.strip()
    done = inside(store, '"$0" "$1" "$2"', sub, grant)
    assert (done.returncode, done.stderr) == (0, "")
    assert store.held("a") == (sub != "release")


def test_a_pid_of_another_container_ties_nothing(mapped):
    grant = mapped.acquire("-t", "1m", "a").stdout.strip()
    done = inside(mapped, '"$0" renew --holder-pid "$$" "$1"', grant)
    assert done.returncode == 64
    assert "the holder process is of another container" in done.stderr
    # no process was taken for the tied one: it ends when it is told to
    kill(mapped.keepers[0], signal.SIGTERM)
    eventually(lambda: not mapped.held("a"))


def test_a_stopped_holder_process_that_is_not_seen_has_not_ended(mapped):
    grant = mapped.acquire("-t", "1m", "a").stdout.strip()
    kill(mapped.keepers[0], signal.SIGSTOP)
    done = inside(mapped, '"$0" check "$1"', grant)
    assert done.returncode == 76
    assert "a: its holder process does not answer; " in done.stderr


def test_a_holder_process_of_another_host_is_not_said_to_have_ended(mapped):
    grant = mapped.acquire("-t", "1m", "a").stdout.strip()
    done = inside(mapped, 'echo other >/proc/sys/kernel/hostname; '
                  '"$0" check "$1"', grant, spaces=("--net", "--uts"))
    assert done.returncode == 76
    assert re.fullmatch("snib: a: its holder process was started on %s, and "
                        "answers only there; the lease lasts [0-9]+s unless "
                        "it is renewed\n" % re.escape(socket.gethostname()),
                        done.stderr), done.stderr


def test_a_grant_of_another_boot_is_76(mapped):
    grant = mapped.acquire("a").stdout.strip()
    parts = grant.split(":")
    parts[4] = "0" * 8 + parts[4][8:]
    other = ":".join(parts)
    assert mapped.run("check", other).returncode == 76
    assert mapped.run("check", grant).returncode == 0


def test_a_forced_release_ends_the_keeper(store):
    store.acquire("-t", "1s", "a")
    assert store.run("force-release", "--yes", "--reason", "x",
                     "a").returncode == 0
    eventually(lambda: not runs(store.keepers[0]))


REVOKED = "revoked by .* on .*: 4.2 is bad"


def revoke(store, grant):
    """… and wait until its holder has heard of it."""
    assert store.run("force-release", "--yes", "--reason", "4.2 is bad",
                     "a").returncode == 0
    eventually(lambda: store.run("check", grant).returncode == 76)


def test_who_asks_for_a_lost_grant_is_told_why(store):
    grant = store.acquire("-t", "1m", "a").stdout.strip()
    revoke(store, grant)
    ended = r"a: the grant had ended before \(%s\)" % REVOKED
    for sub, said in (("check", "a: the lease is lost: " + REVOKED),
                      ("renew", ended),
                      ("release", ended),
                      # its holder has nothing more to tell, and ends
                      ("release", "a: (its holder process has ended: .*|"
                                  "the grant had ended before, .*)")):
        done = store.run(sub, grant)
        assert done.returncode == 76
        assert re.fullmatch("snib: %s\n" % said, done.stderr), (sub, done.stderr)
    eventually(lambda: not runs(store.keepers[0]))


def test_check_as_json_says_what_became_of_the_holder(mapped):
    """It said "the lease is lost" of one that runs on at the store."""
    grant = mapped.acquire("-t", "1m", "a").stdout.strip()
    kill(mapped.keepers[0], signal.SIGKILL)
    eventually(lambda: not runs(mapped.keepers[0]))
    done = mapped.run("check", "--json", grant)
    assert done.returncode == 76
    assert json.loads(done.stdout)["held"] is False
    assert re.fullmatch("snib: a: its holder process has ended; the lock is "
                        "free in at most .*, or at once by snib "
                        "force-release\n", done.stderr), done.stderr
    done = mapped.run("check", "-q", "--json", grant)
    assert (done.returncode, done.stderr) == (76, "")


@pytest.mark.parametrize("sub", ["release", "check", "renew"])
def test_a_readers_grant_that_was_released_is_not_another_readers(store, sub):
    """Readers share a token. So the other readers' lease was taken for its
    own, with the advice to end theirs."""
    first = store.acquire("-r", "a").stdout.strip()
    assert store.acquire("-r", "a").returncode == 0
    assert store.run("release", first).returncode == 0
    done = store.run(sub, first)
    assert done.returncode == 76
    assert re.fullmatch("snib: a: the grant had ended before, says .*\n",
                        done.stderr), done.stderr
    assert store.held("a")


def test_nobody_is_advised_to_end_other_readers(store):
    grant = store.acquire("-r", "a").stdout.strip()
    assert store.acquire("-r", "a").returncode == 0
    kill(store.keepers[0], signal.SIGKILL)
    eventually(lambda: not runs(store.keepers[0]))
    done = store.run("check", grant)
    assert done.returncode == 76
    assert re.fullmatch("snib: a: its holder process has ended; its part of "
                        "the lock is free in at most .*s\n",
                        done.stderr), done.stderr


@pytest.mark.parametrize("sub", ["release", "renew"])
def test_who_comes_before_the_loss_is_known_is_told_why(store, sub):
    grant = store.acquire("-t", "1m", "a").stdout.strip()
    kill(store.keepers[0], signal.SIGSTOP)
    assert store.run("force-release", "--yes", "--reason", "4.2 is bad",
                     "a").returncode == 0
    p = store.start(sub, grant, stderr=subprocess.PIPE)
    time.sleep(0.2)  # it asks
    kill(store.keepers[0], signal.SIGCONT)
    said = p.communicate(timeout=30)[1]
    assert p.returncode == 76
    assert re.fullmatch(r"snib: a: the grant had ended before \(%s\)\n" % REVOKED,
                        said), said


def test_a_long_cause_is_cut_between_two_characters(mapped):
    grant = mapped.acquire("-t", "1m", "a").stdout.strip()
    assert mapped.run("force-release", "--yes", "--reason", "é" * 120,
                      "a").returncode == 0
    eventually(lambda: mapped.run("check", grant).returncode == 76)
    said = mapped.run("check", grant).stderr
    assert re.fullmatch("snib: a: the lease is lost: revoked by .* on .*: "
                        r"é{50,119}\.\.\.\n", said), said


def test_what_is_lost_is_tied_to_nothing(mapped):
    grant = mapped.acquire("-t", "1s", "a").stdout.strip()
    revoke(mapped, grant)
    done = mapped.run("renew", "--holder-pid", str(os.getpid()), grant)
    assert done.returncode == 76
    assert re.fullmatch(r"snib: a: the grant had ended before \(%s\)\n" % REVOKED,
                        done.stderr), done.stderr
    eventually(lambda: not runs(mapped.keepers[0]))


def wakes(pid):
    with open("/proc/%d/status" % pid) as lines:
        return int(re.search(r"\nvoluntary_ctxt_switches:\s*(\d+)",
                             lines.read())[1])


def pending(pid):
    with open("/proc/%d/status" % pid) as lines:
        return int(re.search(r"\nShdPnd:\s*([0-9a-f]+)", lines.read())[1], 16)


def test_a_holder_of_nothing_takes_nothing_from_the_next(store):
    first = store.acquire("-t", "1m", "a").stdout.strip()
    revoke(store, first)
    second = store.acquire("-w", "10s", "a").stdout.strip()
    for sub in ("renew", "release"):
        assert store.run(sub, first).returncode == 76
        assert store.run("check", second).returncode == 0
    eventually(lambda: not runs(store.keepers[0]))
    assert store.held("a")
    assert store.run("release", second).returncode == 0


@pytest.mark.parametrize("tied", [(), ("--holder-pid", str(os.getpid()))],
                         ids=["untied", "tied"])
def test_a_holder_of_nothing_ends_when_it_is_told_to(mapped, tied):
    revoke(mapped, mapped.acquire("-t", "1m", *tied, "a").stdout.strip())
    assert runs(mapped.keepers[0])
    kill(mapped.keepers[0], signal.SIGTERM)
    eventually(lambda: not runs(mapped.keepers[0]))


def test_a_holder_of_nothing_ends_when_it_is_told_to_once_more(mapped):
    """It was deaf after a first TERM, which it ignores while it holds."""
    grant = mapped.acquire("-t", "1m", "--holder-pid", str(os.getpid()),
                           "a").stdout.strip()
    keeper = mapped.keepers[0]
    kill(keeper, signal.SIGTERM)
    eventually(lambda: not pending(keeper))
    revoke(mapped, grant)
    assert runs(keeper)
    kill(keeper, signal.SIGTERM)
    eventually(lambda: not runs(keeper))


def test_a_holder_of_nothing_ends_with_what_it_is_tied_to(mapped):
    script = subprocess.Popen(["sleep", "300"])
    grant = mapped.acquire("-t", "1s", "--holder-pid", str(script.pid),
                           "a").stdout.strip()
    revoke(mapped, grant)
    before = wakes(mapped.keepers[0])
    time.sleep(1.5)  # longer than one lease
    assert wakes(mapped.keepers[0]) - before < 10  # it looked each 50 ms
    done = mapped.run("check", grant)
    assert re.search(REVOKED, done.stderr), done.stderr
    script.kill()
    script.wait()
    eventually(lambda: not runs(mapped.keepers[0]))


def test_a_run_cannot_be_released_from_outside(mapped):
    done = mapped.run("run", "a", "--", "sh", "-c", 'echo "$SNIB_HELD"; '
                      'echo "$SNIB_TOKEN"; "$0" check; echo $?', mapped.binary)
    assert done.stdout.splitlines()[2] == "0"


@pytest.mark.parametrize("margin, code", [("0", 0), ("1s", 0), ("29s", 0),
                                          ("31s", 76)])
def test_check_inside_a_command_compares_the_margin(store, margin, code):
    done = store.run("run", "a", "--", store.binary, "check", "-m", margin)
    assert done.returncode == code, done.stderr


def test_check_of_a_short_lease_has_a_default_margin_that_fits(mapped):
    done = mapped.run("run", "-t", "2s", "a", "--", mapped.binary, "check")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("outer, inner, margin", [("2s", "30s", 333),
                                                  ("30s", "2s", 333)])
def test_check_measures_each_lease_by_its_own_ttl(mapped, outer, inner, margin):
    """A lease of 2s around one of 30s never had the 5s that fit the other: 76,
    for ever, though all was held."""
    done = mapped.run("run", "-t", outer, "a", "--", mapped.binary, "run",
                      "-t", inner, "b", "--", mapped.binary, "check", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["enough"] and answer["margin_ms"] == margin
    assert 0 < answer["left_ms"] <= 2000


def test_check_works_without_the_lease_descriptor(mapped):
    done = mapped.run("run", "a", "--", "sh", "-c",
                      'eval "exec $SNIB_LEASE_FD<&-"; "$0" check',
                      mapped.binary)
    assert done.returncode == 0, done.stderr


def test_check_after_a_loss_is_76(mapped):
    mark = mapped.path("said")
    p = mapped.start("run", "-q", "-t", "1s", "--on-lost", "ignore", "a", "--",
                     "sh", "-c", 'while "$1" check -q -m 0; do sleep 0.05; '
                     'done; "$1" check -m 0 2>"$0"; echo $? >>"$0"', mark,
                     mapped.binary)
    eventually(lambda: mapped.held("a"))
    assert mapped.run("force-release", "--yes", "--reason", "4.2 is bad",
                      "a").returncode == 0
    p.wait(20)
    said = open(mark).read()
    assert re.fullmatch("snib: a: the lease is lost: %s\n76\n" % REVOKED,
                        said), said


LOST_INSIDE = """
"$0" force-release -q --yes --reason x "$1"
eval "cat <&$SNIB_LEASE_FD"
echo "$SNIB_TOKEN"
"$0" check --json
"""


@pytest.mark.parametrize("names, lost", [(["a"], "a"), (["a", "b"], "b"),
                                         (["a", "b"], "a")])
def test_after_a_loss_the_token_is_still_the_innermost_locks(store, names,
                                                             lost):
    """It was 0."""
    done = store.run("run", "-q", "--on-lost", "ignore", *names, "--", "sh",
                     "-c", LOST_INSIDE, store.binary, lost)
    tokens, answer = done.stdout.splitlines()[-2:]
    answer = json.loads(answer)
    assert answer["held"] is False
    assert answer["token"] == int(tokens.split(":")[-1]) > 0


def test_after_the_loss_of_an_outer_lock_the_token_is_the_innermost_locks(
        mapped):
    """No descriptor told it, so the holder processes were asked."""
    grant = mapped.acquire("-t", "1m", "a").stdout.strip()
    held = "a=" + grant.split(":")[1]
    revoke(mapped, grant)
    done = mapped.run("run", "b", "--", "sh", "-c", 'echo "$SNIB_TOKEN"; exec '
                      'env SNIB_LEASE_FD= SNIB_HELD="$1:$SNIB_HELD" "$0" check '
                      '--json', mapped.binary, held)
    token, answer = done.stdout.splitlines()
    answer = json.loads(answer)
    assert answer["held"] is False and answer["token"] == int(token)


# All in "$@" are revoked, and their holders and the command have heard of it.
REVOKED_INSIDE = """
for name; do
    "$0" force-release -q --yes --reason "$name is bad" "$name"
    held=$(echo "$SNIB_HELD" | tr : "\\n" | grep "^$name=")
    while SNIB_LEASE_FD= SNIB_HELD=$held "$0" check -q -m 0; do sleep 0.01; done
done
eval "cat <&$SNIB_LEASE_FD"
"$0" check; echo $?
"""
IGNORE = ("run", "-q", "--on-lost", "ignore")


def test_of_several_lost_the_innermost_is_told_with_its_cause(store):
    """It told the cause of the outermost, and no name."""
    done = store.run(*IGNORE, "a", "--", store.binary, *IGNORE, "b", "--", "sh",
                     "-c", REVOKED_INSIDE, store.binary, "a", "b")
    assert done.stdout == "76\n", done.stderr
    assert re.search(r"(?m)^snib: b: the lease is lost: revoked by .* on .*: "
                     r"b is bad$", done.stderr), done.stderr


def test_of_several_names_the_lost_one_is_told(store):
    """One holder process has both: what had become of a was told of b."""
    done = store.run(*IGNORE, "a", "b", "--", "sh", "-c",
                     REVOKED_INSIDE + 'SNIB_LEASE_FD= "$0" check',
                     store.binary, "a")
    a = r"^snib: a: the lease is lost: revoked by .* on .*: a is bad$"
    b = (r"^snib: b: the lease is lost: held with a, which was lost: "
         "revoked by .* on .*: a is bad$")
    assert re.search("(?m)" + b, done.stderr), done.stderr
    assert re.search("(?m)" + a, done.stderr), done.stderr


@pytest.fixture
def silent():
    """The address of a holder that never answers, and who asked it."""
    address = "%d.%s" % (os.geteuid(), os.urandom(8).hex())
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as holder:
        holder.bind("\0snib." + address)
        holder.listen(100)
        holder.setblocking(False)
        yield address, holder


def check_after_a_loss(mapped, held, *options):
    """As in a command whose lease is told to be lost."""
    end, other = os.pipe()
    os.close(other)
    try:
        return mapped.run("check", *options, pass_fds=(end,),
                          env={"SNIB_LEASE_FD": str(end), "SNIB_HELD": held})
    finally:
        os.close(end)


def test_holders_that_do_not_answer_do_not_keep_a_check_of_what_is_lost(
        mapped, silent):
    """It waited 300 ms for each of them."""
    held = ":".join("n%d=%s" % (i, silent[0]) for i in range(60))
    since = time.monotonic()
    done = check_after_a_loss(mapped, held)
    assert time.monotonic() - since < 9  # all of them are 18 s
    assert (done.returncode, done.stderr) == (76, "snib: the lease is lost\n")


def test_a_quiet_check_of_what_is_lost_asks_nobody(mapped, silent):
    done = check_after_a_loss(mapped, "a=" + silent[0], "-q")
    assert (done.returncode, done.stderr) == (76, "")
    with pytest.raises(BlockingIOError):
        silent[1].accept()


# -- --detached: a fixed lease, left in the store ------------------------------

def left(store, *args, name="a", ttl="1m"):
    done = store.run("acquire", "-q", "--detached", "-t", ttl, *args, name)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def keeper_runs(store):
    for pid in os.listdir("/proc"):
        if pid.isdigit() and name_of(int(pid)) == "snib-keeper":
            try:
                with open("/proc/%s/environ" % pid, "rb") as f:
                    if store.url.encode() in f.read():
                        return True
            except OSError:
                continue  # it has ended meanwhile
    return False


def test_no_keeper_leaves_a_lease_that_another_process_releases(store):
    grant = left(store)
    assert grant.startswith("snib1:nokeeper:a:") and " " not in grant
    eventually(lambda: not keeper_runs(store))
    assert store.held("a")
    assert store.run("try", "-q", "a").returncode == 75
    assert store.run("check", "-m", "30s", grant).returncode == 0
    assert store.run("release", grant).returncode == 0
    assert not store.held("a")
    assert store.run("check", "-q", grant).returncode == 76
    done = store.run("release", grant)
    assert done.returncode == 76 and "ended" in done.stderr
    assert store.run("renew", "-q", grant).returncode == 76
    assert store.run("try", "-q", "a").returncode == 0


def test_a_renewal_from_another_process_extends_the_lease_left_behind(store):
    grant = left(store, ttl="10s")
    token = store.status("a")["token"]
    assert store.run("check", "-q", "-m", "20s", grant).returncode == 76
    done = store.run("renew", "--json", "-t", "1m", grant)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["token"] == token and 50_000 < told["left_ms"] <= 60_000
    assert store.held("a") and store.status("a")["token"] == token
    assert store.run("check", "-m", "20s", grant).returncode == 0
    assert store.run("release", grant).returncode == 0
    assert not store.held("a")


def test_a_renewal_without_a_ttl_is_to_the_lease_acquired(store):
    grant = left(store, ttl="1h")
    told = json.loads(store.run("renew", "--json", grant).stdout)
    assert 3_500_000 < told["left_ms"] <= 3_600_000
    assert store.run("release", grant).returncode == 0


def test_a_lease_left_behind_ends_by_itself(store):
    grant = left(store, ttl="300ms")
    assert store.run("try", "-q", "a").returncode in (0, 75)
    assert store.run("run", "-q", "-w", "10s", "a", "--",
                     "true").returncode == 0
    assert store.run("release", "-q", grant).returncode == 76
    assert store.run("renew", "-q", grant).returncode == 76
    assert store.run("check", "-q", "-m", "0", grant).returncode == 76


def test_a_grant_left_behind_does_not_touch_the_next_holder(store):
    old = left(store, ttl="300ms")
    eventually(lambda: not store.held("a"))
    new = left(store)
    token = store.status("a")["token"]
    assert store.run("release", "-q", old).returncode == 76
    assert store.run("renew", "-q", old).returncode == 76
    assert store.held("a") and store.status("a")["token"] == token
    assert store.run("release", new).returncode == 0


def test_a_forced_release_ends_a_lease_left_behind(store):
    grant = left(store)
    assert store.run("force-release", "--yes", "--reason", "x",
                     "a").returncode == 0
    assert store.run("check", "-q", grant).returncode == 76
    assert store.run("release", "-q", grant).returncode == 76


def test_a_token_file_of_a_lease_left_behind_says_so(store):
    path = store.path("token")
    assert left(store, "-o", path, name="a b:c/\u00e9") == ""
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    fields = dict(line.split("=", 1) for line in open(path).read().splitlines())
    assert fields["keeper"] == "none" and "keeper_pid" not in fields
    assert fields["ttl_ms"] == "60000" and int(fields["deadline_ns"]) > 0
    assert fields["boot_id"] == \
        open("/proc/sys/kernel/random/boot_id").read().strip()
    assert store.run("check", path).returncode == 0
    assert store.run("renew", path).returncode == 0
    assert store.run("release", path).returncode == 0
    assert not store.held("a b:c/\u00e9")


def test_a_name_of_all_bytes_can_be_left_behind(mapped):
    name = "%" * 512
    grant = left(mapped, name=name)
    assert mapped.run("release", grant).returncode == 0
    assert not mapped.held(name)


def test_no_keeper_takes_its_turn_and_says_busy(store):
    grant = left(store)
    done = store.run("acquire", "--detached", "-t", "1m", "-w", "0", "a")
    assert done.returncode == 75 and done.stdout == ""
    p = store.start("acquire", "-q", "--detached", "-t", "1m", "a")
    eventually(lambda: store.waiters("a") == 1)
    assert store.run("release", grant).returncode == 0
    out, _ = p.communicate(timeout=20)
    assert p.returncode == 0
    assert store.run("release", out.strip()).returncode == 0


def test_no_keeper_that_cannot_write_its_grant_leaves_nothing(store):
    with open("/dev/full", "w") as full:
        p = store.start("acquire", "--detached", "-t", "1m", "a", stdout=full)
        assert p.wait(20) == 70
    eventually(lambda: not store.held("a"))


def test_a_wrong_url_says_nothing_of_a_lease_left_behind(mapped):
    """That is no loss: who hears of one stops."""
    grant = left(mapped)
    for words in (["check"], ["renew"], ["release"]):
        for url in ("bogus:", "redis://h:port", "memory:"):
            done = mapped.run(*words, "--store", url, grant)
            assert done.returncode == 78, (words, url, done.stderr)
        done = mapped.run(*words, "--store", "", grant)
        assert done.returncode == 64, (words, done.stderr)
    done = mapped.run("check", "--store", "redis://127.0.0.1:1", grant)
    assert done.returncode == 76, "nobody vouches"
    assert mapped.run("check", grant).returncode == 0
    assert mapped.run("release", grant).returncode == 0


def test_json_of_a_lease_left_behind(mapped):
    done = mapped.run("acquire", "--json", "--detached", "-t", "1m", "a")
    told = json.loads(done.stdout)
    assert told["keeper"] is False
    checked = json.loads(mapped.run("check", "--json", told["grant"]).stdout)
    assert checked["held"] is True and 50_000 < checked["left_ms"] < 60_000
    assert mapped.run("release", told["grant"]).returncode == 0


def test_another_store_is_named_when_it_says_that_the_lease_ended(mapped):
    grant = left(mapped)
    other = "file:%s" % mapped.path("other.db")
    done = mapped.run("release", "-s", other, grant)
    assert done.returncode == 76 and "other.db" in done.stderr
    assert mapped.held("a")
    assert mapped.run("release", "-s", mapped.url, grant,
                      env={"SNIB_URL": other}).returncode == 0
    assert not mapped.held("a")


def test_a_store_that_does_not_answer_is_69_and_vouches_for_nothing(redis):
    grant = left(redis)
    away = {"SNIB_URL": "redis://127.0.0.1:1"}
    assert redis.run("release", grant, env=away).returncode == 69
    assert redis.run("renew", grant, env=away).returncode == 69
    assert redis.run("check", grant, env=away).returncode == 76
    assert redis.held("a")
    assert redis.run("release", grant).returncode == 0


@pytest.mark.parametrize("spoil", [
    lambda f: f[:-1], lambda f: f + ["x"], lambda f: f[:2] + [""] + f[3:],
    lambda f: f[:3] + [f[3][:-1]] + f[4:], lambda f: f[:5] + ["0"] + f[6:],
    lambda f: f[:5] + ["-1"] + f[6:], lambda f: f[:6] + ["1"] + f[7:],
    lambda f: f[:2] + ["%zz"] + f[3:], lambda f: f[:2] + ["a" * 513] + f[3:],
    lambda f: f[:5] + ["9" * 19] + f[6:]])
@pytest.mark.parametrize("sub", ["release", "renew", "check"])
def test_a_spoilt_grant_left_behind_is_64(mapped, sub, spoil):
    fields = ("snib1:nokeeper:a:%s:%s:5:60000:99:%s" % (
        "0" * 32, "1" * 32, "0123abcd-0123-4567")).split(":")
    assert mapped.run(sub, "-q", ":".join(fields)).returncode == 76
    done = mapped.run(sub, ":".join(spoil(fields)))
    assert done.returncode == 64 and "not a grant" in done.stderr


def test_the_default_margin_is_a_sixth_of_a_short_lease(store):
    grant = store.acquire("-t", "3s", "a").stdout.strip()
    done = store.run("check", grant)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(store.run("check", "--json", grant).stdout)[
        "margin_ms"] == 500


def test_check_inside_names_the_lock_that_ends_first(mapped):
    done = mapped.run("run", "-q", "-t", "2m", "a", "--", mapped.binary, "run",
                      "-q", "-t", "1m", "b", "--", mapped.binary, "check", "-m",
                      "1h")
    assert done.returncode == 76
    assert re.fullmatch(r"snib: b: the lease is held for \d+s more, less than "
                        r"the margin of 1h00m\n", done.stderr), done.stderr


def test_check_tells_how_much_is_left(mapped):
    grant = mapped.acquire("a").stdout.strip()
    done = mapped.run("check", "-m", "1m", grant)
    assert done.returncode == 76
    assert re.fullmatch(r"snib: a: the lease is held for (29|[12]\d)s more, "
                        r"less than the margin of 1m00s\n", done.stderr), done.stderr
    done = mapped.run("check", "--json", "-m", "1m", grant)
    told = json.loads(done.stdout)
    assert done.returncode == 76
    assert told["held"] is True and told["enough"] is False
    assert 0 < told["left_ms"] < 30000 and told["margin_ms"] == 60000
    mapped.run("release", grant)
    told = json.loads(mapped.run("check", "--json", grant).stdout)
    assert told["held"] is False and told["left_ms"] == 0


@pytest.mark.parametrize("sub, code", [("release", 69), ("renew", 69),
                                       ("check", 76)])
def test_a_detached_grant_of_a_server_that_is_away(redis, sub, code):
    """Nothing was sent to it: nobody can say that no answer came."""
    grant = redis.run("acquire", "--detached", "-t", "1m", "a").stdout.strip()
    redis.server.kill()
    done = redis.run(sub, grant)
    assert done.returncode == code
    assert re.match(r"snib: a: no answer from the store, redis://\S+ unreachable "
                    r"for \S+ \(connection refused\); .*\(see: snib doctor\)$",
                    done.stderr.strip())
