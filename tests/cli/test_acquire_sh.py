"""eval "$(snib acquire --sh NAME)": the lock ends with the script, in whatever
form and by whatever shell it is evaluated."""

import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import eventually, kill, read_pid, runs

SHELLS = {"bash": ["bash"], "dash": ["dash"], "busybox": ["busybox", "sh"]}

EVAL = 'eval "$("$SNIB" acquire -q --sh "$@" -t 1m "$NAME")"'

CAPTURED = 'text=$("$SNIB" acquire -q --sh "$@" -t 1m "$NAME") && ' \
           'eval "$text" || exit'

# What is written in a script; what comes behind runs if it may go on.
FORMS = {
    "plain": EVAL,
    "or exit": EVAL + " || exit",
    "function": 'lock() { %s; }; lock "$@"' % EVAL,
    "function or exit": 'lock() { %s || return; }; lock "$@" || exit' % EVAL,
    "if": "if %s; then :; else exit; fi" % EVAL,
    "if not": "if ! %s; then exit 75; fi" % EVAL,
    "set -eu": "set -eu; " + EVAL,
    "subshell": "(%s) || exit" % EVAL,
    "pipe": "{ %s && echo yes; } | grep -q yes || exit 75" % EVAL,
    "into a pipe": "true | { %s; } || exit" % EVAL,
    "and": EVAL + " && true || exit 75",
    "variable": 'text=$("$SNIB" acquire -q --sh "$@" -t 1m "$NAME"); '
                'eval "$text" || exit',
    "captured": CAPTURED,
    "captured, set -eu": "set -eu; " + CAPTURED,
    "captured in a function": 'lock() { %s; }; lock "$@"' % CAPTURED,
}
# Those that must stop by themselves when there is no lock.
GUARDED = [f for f in FORMS if f not in ("plain", "function")]

BEHIND = """
echo $$ >"$MARK.new"; mv "$MARK.new" "$MARK"
while [ ! -e "$MARK.go" ]; do sleep 0.02; done
"""


@pytest.fixture(params=SHELLS)
def shell(request):
    if shutil.which(SHELLS[request.param][0]) is None:
        pytest.skip("no %s here" % request.param)
    return SHELLS[request.param]


def environment(mapped, name="a"):
    return dict(mapped.env, SNIB=mapped.binary, NAME=name,
                MARK=mapped.path("mark"))


def start(mapped, words, form, *options, env=None, behind=BEHIND):
    p = subprocess.Popen(
        words + ["-c", FORMS.get(form, form) + "\n" + behind, "sh", *options],
        env=env or environment(mapped), cwd=mapped.tmp, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)
    mapped.started.append(p)
    return p


@pytest.mark.parametrize("form", FORMS)
def test_the_lock_is_held_until_the_script_ends(mapped, shell, form):
    p = start(mapped, shell, form)
    pid = read_pid(mapped.path("mark"))
    assert mapped.held("a")
    open(mapped.path("mark.go"), "w").close()
    assert p.wait(20) == 0, p.stderr.read()
    assert pid > 0
    eventually(lambda: not mapped.held("a"), "free again")
    assert p.stderr.read() == ""


@pytest.mark.parametrize("form", ["function", "set -eu", "into a pipe"])
def test_the_lock_is_free_when_the_script_is_killed(mapped, shell, form):
    p = start(mapped, shell, form)
    kill(read_pid(mapped.path("mark")), signal.SIGKILL)
    p.wait(20)
    eventually(lambda: not mapped.held("a"), "free again")


@pytest.mark.parametrize("form", GUARDED)
def test_the_script_does_not_go_on_without_the_lock(mapped, shell, form):
    mapped.hold("a")
    p = start(mapped, shell, form, "-w", "0")
    assert p.wait(20) == 75, p.stderr.read()
    assert not os.path.exists(mapped.path("mark"))


@pytest.mark.parametrize("prefix", [["sudo", "-n", "-E"], ["env", "-i"],
                                    ["setsid", "-w"]], ids=" ".join)
def test_below_sudo_and_in_a_unit(mapped, shell, prefix):
    if shutil.which(prefix[0]) is None:
        pytest.skip("no %s here" % prefix[0])
    if prefix[0] == "sudo" and os.geteuid() != 0:
        pytest.skip("sudo may ask for a password here")
    env = environment(mapped)
    kept = [k + "=" + env[k] for k in ("SNIB", "NAME", "MARK", "SNIB_URL")]
    words = prefix + ["env"] * (prefix[0] == "sudo") + \
        (kept if prefix[0] != "setsid" else []) + \
        [shutil.which(shell[0]), *shell[1:]]
    p = start(mapped, words, "set -eu")
    read_pid(mapped.path("mark"))
    assert mapped.held("a")
    open(mapped.path("mark.go"), "w").close()
    assert p.wait(20) == 0, p.stderr.read()
    eventually(lambda: not mapped.held("a"), "free again")


@pytest.mark.parametrize("options, code", [
    (("-w", "0"), 75), (("--nope",), 64), (("-w", "5"), 64),
    (("-w", "0", "-E", "7"), 7), (("-s", "redis://127.0.0.1:1", "-w", "0"), 69),
    (("-s", "nope://x"), 78), (("--busy-ok",), 64), (("--json",), 64),
    (("--detached",), 64)], ids=str)
def test_the_status_of_the_eval_is_that_of_snib(mapped, shell, options, code):
    mapped.hold("a")
    p = start(mapped, shell, EVAL, *options, behind="echo $?")
    out, _ = p.communicate(timeout=30)
    assert out == "%d\n" % code


def test_an_acquire_that_is_killed_is_no_success(mapped, shell):
    mapped.hold("a")
    p = start(mapped, shell, EVAL, behind="echo $?")
    eventually(lambda: mapped.waiters("a") == 1)
    pid = mapped.status("a")["waiters"][0]["pid"]
    with open("/proc/%d/stat" % pid) as f:
        kill(int(f.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
    out, _ = p.communicate(timeout=30)
    assert out != "0\n" and out.strip().isdigit(), out


def test_what_nobody_evaluates_holds_nothing(mapped):
    done = mapped.run("acquire", "-q", "--sh", "-t", "1m", "a")
    assert done.returncode == 0 and mapped.held("a")
    eventually(lambda: not mapped.held("a"), "free again")
    p = start(mapped, ["sh"], 'eval "$TEXT"', behind="echo $?",
              env=dict(environment(mapped), TEXT=done.stdout))
    out, said = p.communicate(timeout=30)
    assert out == "76\n"
    assert "the grant had ended" in said


@pytest.mark.parametrize("name", ["a b", "it's", 'a"$x`y`\\', "-x", "n\n!m",
                                  "*"])
def test_names_that_need_quoting(mapped, shell, name):
    p = start(mapped, shell,
              'set -eu; eval "$("$SNIB" acquire -q --sh --name="$NAME")"',
              env=environment(mapped, name),
              behind='test "$SNIB_NAME" = "$NAME"; "$SNIB" check -m 1s; '
                     'test "$SNIB_TOKEN" -gt 0; '
                     '"$SNIB" release "$SNIB_GRANT"; echo fine')
    out, said = p.communicate(timeout=30)
    assert (out, said) == ("fine\n", "")


def test_a_nested_run_of_the_same_name_is_told(mapped, shell):
    p = start(mapped, shell, "set -eu; " + EVAL,
              behind='"$SNIB" run --reentrant a -- echo in; '
                     '"$SNIB" run a -- echo never || echo $?')
    out, said = p.communicate(timeout=30)
    assert out == "in\n64\n"
    assert "already held: the script around this command acquired it" in said


def test_a_value_that_reads_like_sh_is_no_option(mapped):
    done = mapped.acquire("--reason", "--sh", "a")
    assert done.returncode == 0
    assert done.stdout.startswith("snib1:") and done.stdout.count("\n") == 1
    done = mapped.run("acquire", "--sh", "--nope", "b")
    assert (done.returncode, done.stdout) == (64, "(exit 64)\n")


def test_acquire_says_until_when_it_holds(mapped):
    done = mapped.run("acquire", "a")
    mapped.keepers.append(int(done.stdout.split(":")[2].split(".")[0]))
    assert "a: held until snib release" in done.stderr
    p = mapped.start("acquire", "--holder-pid", str(os.getpid()), "b")
    out, said = p.communicate(timeout=30)
    mapped.keepers.append(int(out.split(":")[2].split(".")[0]))
    assert said == ""


def test_acquire_inside_a_run_says_that_the_run_ends_it(store):
    done = store.run("run", "-q", "a", "--", "sh", "-c",
                     '"$0" acquire inner > "$1"', store.binary,
                     str(store.tmp) + "/grant")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(
        "snib: inner: held until snib release, at most until the snib run "
        "around this script ends; --holder-pid PID or "), done.stderr
    assert "also after" not in done.stderr
    assert not store.held("inner")
    with open(str(store.tmp) + "/grant") as f:
        assert store.run("check", f.read().strip()).returncode == 76


def test_acquire_under_the_lock_of_a_script_is_in_no_run(mapped):
    p = mapped.start_shell(
        't=$("$0" acquire -q --sh a) && eval "$t" || exit; '
        '"$0" acquire b > grant 2> said; "$0" release "$(cat grant)"')
    assert p.wait(60) == 0
    with open(str(mapped.tmp) + "/said") as f:
        assert "b: held until snib release, also after the end" in f.read()


def test_a_grant_is_tied_to_a_process_later(mapped):
    grant = mapped.acquire("a").stdout.strip()
    p = subprocess.Popen(["sleep", "1000"])
    done = mapped.run("renew", "--holder-pid", str(p.pid), grant)
    assert (done.returncode, done.stderr) == (0, "")
    assert mapped.held("a")
    p.kill()
    p.wait()
    eventually(lambda: not mapped.held("a"))
    done = mapped.run("renew", "--holder-pid", "1", grant)
    assert done.returncode == 76


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_the_holder_process_of_acquire_ends_with_a_release(store, sig):
    assert store.acquire("-t", "1m", "a").returncode == 0
    kill(store.keepers[0], sig)
    eventually(lambda: not store.held("a"), "free again")


# As a service manager stops a unit: TERM to all of it at once.
FINISHES = """
trap : TERM
echo $$ >"$MARK.new"; mv "$MARK.new" "$MARK"
until [ -e "$MARK.done" ]; do sleep 0.02; done
"""


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("form", [
    EVAL, 'GRANT=$("$SNIB" acquire -q -t 1s --holder-pid $$ "$NAME") || exit'],
    ids=["sh", "holder-pid"])
def test_a_holder_told_to_end_waits_for_the_one_it_is_tied_to(mapped, form,
                                                              sig):
    p = start(mapped, ["sh"], form, behind=FINISHES.replace(
        "TERM", signal.Signals(sig).name[3:]))
    script = read_pid(mapped.path("mark"))
    holder = mapped.status("a")["holders"][0]["pid"]
    mapped.keepers.append(holder)
    for pid in (holder, script):
        kill(pid, sig)
    # A wait of more than the lease: it must go on renewing.
    done = mapped.run("try", "-q", "a", "--", "true")
    assert done.returncode == 75, "two owners"
    done = mapped.run("run", "-q", "-w", "3s", "a", "--", "true")
    assert done.returncode == 75, "two owners, later"
    assert p.poll() is None, "it works"
    open(mapped.path("mark.done"), "w").close()
    assert p.wait(20) == 0, p.stderr.read()
    eventually(lambda: not mapped.held("a"), "free again")


@pytest.mark.parametrize("sig, words", [
    (signal.SIGKILL, "its holder process has ended"),
    (signal.SIGSTOP, "its holder process does not answer")])
@pytest.mark.parametrize("sub", ["release", "renew", "check"])
def test_a_holder_process_that_does_not_answer_is_told(store, sub, sig, words):
    grant = store.acquire("-t", "1m", "a").stdout.strip()
    kill(store.keepers[0], sig)
    if sig == signal.SIGKILL:
        eventually(lambda: not os.path.exists("/proc/%d" % store.keepers[0]))
    done = store.run(sub, grant)
    assert done.returncode == 76
    assert "a: %s; the lock is free in at most " % words in done.stderr
    assert "snib force-release" in done.stderr
    assert store.held("a")


NO_STORE = {"SNIB_URL": "", "SNIB_STORE_FILE": ""}


@pytest.mark.parametrize("sub", ["release", "renew", "check"])
def test_the_store_that_the_token_file_names_is_asked(store, sub):
    file = store.path("grant")
    assert store.run("acquire", "-o", file, "-t", "1m", "a").returncode == 0
    with open(file) as lines:
        holder = int(lines.readline().split(":")[2].split(".")[0])
    kill(holder, signal.SIGKILL)
    eventually(lambda: not os.path.exists("/proc/%d" % holder))
    for env in (NO_STORE,
                {"SNIB_URL": "file:%s" % store.path("wrong.db")}):
        done = store.run(sub, file, env=env)
        assert done.returncode == 76
        assert "a: its holder process has ended; the lock is free in at " \
               "most " in done.stderr
    assert not os.path.exists(store.path("wrong.db"))
    assert store.run("force-release", "--yes", "--reason", "x",
                     "a").returncode == 0
    done = store.run(sub, file, env=NO_STORE)
    assert done.returncode == 76
    assert "a: the grant had ended before, says " + store.url in done.stderr


def test_a_check_after_the_release_does_not_speak_of_a_loss(mapped, shell):
    """The variables of the shell are as they were: nobody can take them back."""
    p = start(mapped, shell,
              EVAL + '; "$SNIB" check; echo $?; '
                     '"$SNIB" release "$SNIB_GRANT"',
              behind='"$SNIB" check; echo $?')
    out, said = p.communicate(timeout=30)
    assert out == "0\n76\n"
    assert said == ("snib: a: not held any more: it was released, or its holder "
                    "process was killed; snib check \"$SNIB_GRANT\" checks "
                    "only the lock acquired last\n")


# The grant's text names its holder process.
HOLDER = 'echo "$SNIB_GRANT" | cut -d: -f3 | cut -d. -f1\n'
LOSS = """
while "$SNIB" check -q "$SNIB_GRANT"; do sleep 0.05; done
"""


def revoke(mapped, *names):
    for name in names:
        assert mapped.run("force-release", "--yes", "--reason", "4.2 is bad",
                          name).returncode == 0
    open(mapped.path("mark.go"), "w").close()


def test_a_script_is_told_who_took_its_lock(mapped, shell):
    p = start(mapped, shell, EVAL, behind=BEHIND + LOSS + """
"$SNIB" check; echo $?
"$SNIB" check "$SNIB_GRANT"; echo $?
"$SNIB" release "$SNIB_GRANT"; echo $?""")
    read_pid(mapped.path("mark"))
    revoke(mapped, "a")
    out, said = p.communicate(timeout=30)
    assert out == "76\n76\n76\n"
    why = "revoked by .* on .*: 4.2 is bad"
    assert re.fullmatch(r"snib: a: the lease is lost: %s\n"
                        r"snib: a: the lease is lost: %s\n"
                        r"snib: a: the grant had ended before \(%s\)\n" %
                        (why, why, why), said), said


def test_a_lock_lost_before_is_acquired_anew(mapped, shell):
    """The holder that stayed to tell of the loss is neither in the way nor
    asked again, and ends: a script may lose its lock again and again."""
    p = start(mapped, shell, EVAL + '; old=$SNIB_GRANT; ' + HOLDER,
              behind=BEHIND + LOSS + EVAL + ' || exit\n'
              '"$SNIB" check; echo $?; "$SNIB" check -q "$old"; echo $?; '
              'echo "$SNIB_HELD" | tr -cd : | wc -c; read end')
    read_pid(mapped.path("mark"))
    revoke(mapped, "a")
    out = [p.stdout.readline().strip() for _ in range(4)]
    assert out[1:] == ["0", "76", "0"], out
    eventually(lambda: not runs(int(out[0])))
    p.kill()


@pytest.mark.parametrize("child", [
    EVAL + ' || exit; "$SNIB" check || exit; "$SNIB" release "$SNIB_GRANT"',
    '"$SNIB" acquire -q --sh a >/dev/null'],
    ids=["evaluated", "thrown away"])
def test_a_child_leaves_the_holder_of_its_parents_loss(mapped, shell, child):
    """A child that acquired the name which its parent had lost ended the
    parent's holder, and nobody was left to say who had revoked it."""
    p = start(mapped, shell, EVAL, behind=BEHIND + LOSS +
              "%s -c '%s' || exit\n" % (" ".join(shell), child) +
              '"$SNIB" check; echo $?; "$SNIB" check "$SNIB_GRANT"; echo $?')
    read_pid(mapped.path("mark"))
    revoke(mapped, "a")
    out, said = p.communicate(timeout=30)
    assert out == "76\n76\n"
    why = "the lease is lost: revoked by .* on .*: 4.2 is bad"
    assert re.fullmatch(r"snib: a: %s\nsnib: a: %s\n" % (why, why), said), said


def test_of_many_names_those_that_were_lost_go_first(mapped):
    p = start(mapped, ["sh"], "i=1; while [ $i -le 34 ]; do NAME=n$i; %s; "
              '[ $i -gt 2 ] || { %s }; i=$((i + 1)); '
              '[ $i != 2 ] || first=$SNIB_GRANT; '
              '[ $i != 3 ] || second=$SNIB_GRANT; done' % (CAPTURED, HOLDER),
              behind=BEHIND +
              LOSS.replace("SNIB_GRANT", "first") +
              LOSS.replace("SNIB_GRANT", "second") +
              "NAME=b; %s\n" % CAPTURED +
              'echo "$SNIB_HELD" | tr : "\\n" | wc -l; read end')
    read_pid(mapped.path("mark"))
    revoke(mapped, "n1", "n2")
    holders = [int(p.stdout.readline()) for _ in range(2)]
    assert int(p.stdout.readline()) == 33
    eventually(lambda: not any(runs(pid) for pid in holders))
    p.kill()


def test_a_check_speaks_of_the_grant_only_where_there_is_one(mapped):
    """A process that has outlived its command of snib run has none."""
    held = mapped.run("run", "-q", "a", "--", "sh", "-c",
                      'printf %s "$SNIB_HELD"').stdout
    done = mapped.run("check", env={"SNIB_HELD": held})
    assert done.returncode == 76
    assert done.stderr == ("snib: a: not held any more: it was released, or "
                           "its holder process was killed\n")


def test_a_check_without_any_lock_to_ask_for_says_so(mapped):
    done = mapped.run("check", env={"SNIB_HELD": "garbage"})
    assert done.returncode == 76
    assert done.stderr == ("snib: SNIB_HELD names no lock: garbage; expected "
                           "what snib run or snib acquire --sh has put there\n")


# The two values of one script, and how often: its environment must not grow.
LOOP = """
i=0
while [ $i -lt 40 ]; do
    %s
    "$SNIB" check || exit 77
    echo "${#SNIB_HELD}"
    "$SNIB" release "$SNIB_GRANT" || exit
    i=$((i + 1))
done
"""


@pytest.mark.parametrize("form", ["or exit", "captured"])
def test_a_loop_of_one_name_does_not_grow(mapped, shell, form):
    p = start(mapped, shell, LOOP % FORMS[form], behind="")
    out, said = p.communicate(timeout=60)
    assert (p.returncode, said) == (0, "")
    sizes = out.split()
    assert len(sizes) == 40 and len(set(sizes)) == 1, sizes


def test_a_loop_of_many_names_does_not_grow(mapped):
    p = start(mapped, ["sh"], LOOP.replace('"$SNIB" check || exit 77',
                                           'NAME=n$((i + 11))') % CAPTURED,
              env=environment(mapped, "n10"), behind="")
    out, said = p.communicate(timeout=60)
    assert (p.returncode, said) == (0, "")
    sizes = [int(line) for line in out.split()]
    assert len(sizes) == 40 and len(set(sizes[33:])) == 1, sizes


def test_a_lock_that_was_killed_is_told_after_the_next_acquire(mapped, shell):
    """It cannot be told from a released one, so nobody vouches for it."""
    p = start(mapped, shell, CAPTURED,
              behind='kill -9 "$(echo "$SNIB_GRANT" | cut -d: -f3 | '
                     'cut -d. -f1)"; NAME=b; %s; "$SNIB" check; echo $?; '
                     '"$SNIB" check "$SNIB_GRANT"; echo $?' % CAPTURED)
    out, said = p.communicate(timeout=30)
    assert out == "76\n0\n"
    assert said.startswith("snib: a: not held any more")


def test_two_texts_that_are_evaluated_later_are_both_checked(mapped, shell):
    p = start(mapped, shell,
              'a=$("$SNIB" acquire --sh a) && b=$("$SNIB" acquire --sh b) && '
              'eval "$a" && eval "$b" || exit',
              behind='"$SNIB" check || exit; for g in "$SNIB_HELD"; do '
                     'case $g in a=*:b=*) echo both ;; *) echo "$g" ;; esac; '
                     'done')
    assert p.communicate(timeout=30) == ("both\n", "")


def test_a_lock_up_the_tree_stays_in_the_variable(mapped):
    done = mapped.run("run", "outer", "--", "sh", "-c",
                      'for n in in in; do text=$("$0" acquire --sh $n) && '
                      'eval "$text" || exit; "$0" check || exit; '
                      '"$0" release "$SNIB_GRANT"; done; '
                      'case $SNIB_HELD in outer=*:in=*:*) echo grew ;; '
                      'outer=*:in=*) echo fine ;; esac', mapped.binary)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def test_a_script_without_snib_stops(mapped, shell):
    env = dict(environment(mapped), SNIB="/nonexistent/snib")
    p = start(mapped, shell, CAPTURED, env=env, behind="echo went on")
    out, _ = p.communicate(timeout=30)
    assert (p.returncode, out) == (127, "")


@pytest.mark.parametrize("sub", ["release", "renew", "check"])
def test_a_grant_released_before_promises_nothing(mapped, sub):
    """Of the default store: the lock is free, or another's by now, whom a
    forced release would hit."""
    name = f"test-{os.getpid()}-{sub}"  # of no other who uses that store
    done = mapped.run("acquire", "-q", name, env=NO_STORE)
    grant = done.stdout.strip()
    assert mapped.run("release", grant, env=NO_STORE).returncode == 0
    holder = int(grant.split(":")[2].split(".")[0])
    eventually(lambda: not os.path.exists("/proc/%d" % holder))
    done = mapped.run(sub, grant, env=NO_STORE)
    assert done.returncode == 76
    assert done.stderr == (f"snib: {name}: its holder process has ended: "
                           "released already, or killed; snib status shows "
                           "who holds it now\n")


def test_a_text_that_is_evaluated_too_late_says_so(mapped):
    done = mapped.run("acquire", "-q", "--sh", "-t", "1m", "a")
    eventually(lambda: not mapped.held("a"), "free again")
    p = start(mapped, ["sh"], 'eval "$TEXT"', behind="echo $?",
              env=dict(environment(mapped), TEXT=done.stdout))
    out, said = p.communicate(timeout=30)
    assert out == "76\n"
    assert "snib acquire --sh is good for 10s" in said


def test_a_slot_of_a_semaphore_up_the_tree_is_not_this_locks(mapped, shell):
    p = start(mapped, shell, "plain", behind='echo "${SNIB_SLOT-none}"',
              env=dict(environment(mapped), SNIB_SLOT="7"))
    assert p.communicate(timeout=30) == ("none\n", "")
    p = start(mapped, shell, "plain", "--kind", "semaphore", "-n", "1",
              "--capacity", "2", behind='echo "${SNIB_SLOT-none}"',
              env=dict(environment(mapped, "s"), SNIB_SLOT="7"))
    assert p.communicate(timeout=30) == ("0\n", "")
