"""snib run and try: exit statuses, the environment, --status-fd."""

import json
import os
import signal
import subprocess

import pytest

from conftest import children_of, eventually, keeper_of, read_pid, runs
from harness.pulse import Pulse

UNREACHABLE = "redis://127.0.0.1:1"


def with_status(snib, *args, **more):
    """Run with --status-fd; (CompletedProcess, the line as a dict)."""
    r, w = os.pipe()
    sub, rest = args[0], args[1:]
    done = snib.run(sub, "--status-fd", str(w), *rest, pass_fds=(w,), **more)
    os.close(w)
    with os.fdopen(r) as f:
        lines = f.read().splitlines()
    assert len(lines) == 1, lines
    return done, json.loads(lines[0])


@pytest.mark.parametrize("code", [0, 1, 2, 64, 69, 75, 76, 126, 127, 255])
def test_the_commands_own_status_passes_through(mapped, code):
    done, line = with_status(mapped, "run", "a", "--", "sh", "-c",
                             "exit %d" % code)
    assert done.returncode == code
    assert line["by"] == "command" and line["exit"] == code
    assert line["cause"] == "exited" and line["ran"] is True


def test_on_redis_the_commands_own_status_passes_through(redis):
    assert redis.run("run", "a", "--", "sh", "-c", "exit 3").returncode == 3


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV"])
def test_a_command_killed_by_a_signal_ends_as_128_plus_n(mapped, name):
    done, line = with_status(mapped, "run", "a", "--", "sh", "-c",
                             "ulimit -c 0; kill -%s $$" % name)
    number = getattr(signal, "SIG" + name)
    assert done.returncode == 128 + number
    assert line["by"] == "command" and line["cause"] == "signalled"


def test_a_missing_command_ends_as_127_and_the_lock_is_free(mapped):
    done, line = with_status(mapped, "run", "a", "--", "/no/such/thing")
    assert done.returncode == 127
    assert line["by"] == "snib" and line["cause"] == "not-found"
    assert line["ran"] is False
    assert not mapped.held("a")


def test_a_file_that_is_not_executable_ends_as_126(mapped):
    done, line = with_status(mapped, "run", "a", "--", "/etc/passwd")
    assert done.returncode == 126
    assert line["by"] == "snib" and line["cause"] == "not-executable"
    assert "Permission denied" in done.stderr


def test_a_held_lock_is_75_and_nothing_runs(store):
    store.hold("a")
    mark = store.path("ran")
    done, line = with_status(store, "run", "-w", "0", "a", "--", "touch", mark)
    assert done.returncode == 75
    assert line["by"] == "snib" and line["cause"] == "busy"
    assert line["ran"] is False and line["token"] is None
    assert not os.path.exists(mark)
    assert "held by" in done.stderr


def test_the_wait_limit_ends_as_75_in_time(store):
    store.hold("a")
    done, line = with_status(store, "run", "-w", "300ms", "a", "--", "true")
    assert done.returncode == 75
    assert line["cause"] == "timeout"
    assert 300 <= line["waited_ms"] < 3000


def test_busy_exit_and_busy_ok_choose_the_status(mapped):
    mapped.hold("a")
    assert mapped.run("run", "-w0", "-E", "9", "a", "true").returncode == 9
    assert mapped.run("run", "-w0", "--busy-ok", "a", "true").returncode == 0
    assert mapped.run("try", "-E9", "a").returncode == 9
    assert mapped.run("try", "--busy-ok", "a").returncode == 0


def test_busy_exit_does_not_touch_the_commands_own_75(mapped):
    done = mapped.run("run", "-E9", "a", "--", "sh", "-c", "exit 75")
    assert done.returncode == 75


REFUSED = [
    (("--ttl", "5", "a", "--", "true"), 64, "usage"),
    (("a",), 64, "usage"),
    (("--nothing", "a", "--", "true"), 64, "usage"),
    (("-s", "what:", "a", "--", "true"), 78, "config"),
]


@pytest.mark.parametrize("rest,code,cause", REFUSED)
def test_the_status_line_tells_of_what_was_not_begun(mapped, rest, code, cause):
    done, line = with_status(mapped, "run", *rest)
    assert done.returncode == code, done.stderr
    assert line.pop("waited_ms") >= 0
    assert line == {"by": "snib", "exit": code, "cause": cause, "ran": False,
                    "token": None, "held_ms": 0}


def test_the_status_line_on_stderr_leaves_the_commands_stderr(mapped):
    """It was closed for the command, whose next file then was its stderr."""
    out = mapped.path("precious")
    done = mapped.run("run", "-q", "--status-fd", "2", "a", "--", "sh", "-c",
                      'exec 5>"$0"; echo precious >&5; echo progress >&2', out)
    assert done.returncode == 0
    assert open(out).read() == "precious\n"
    said = done.stderr.split("\n")
    assert said[0] == "progress" and json.loads(said[1])["exit"] == 0


@pytest.mark.parametrize("fd", [0, 1, 2])
def test_the_status_line_leaves_the_commands_streams_open(mapped, fd):
    out = mapped.path("out")
    with open(out, "w+") as file:
        streams = [subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL]
        streams[fd] = file
        done = subprocess.run(
            [mapped.binary, "run", "-q", "--status-fd", str(fd), "a", "--",
             "sh", "-c", "echo hi >&%d" % fd], env=mapped.env,
            stdin=streams[0], stdout=streams[1], stderr=streams[2],
            timeout=30)
        file.seek(0)
        said = file.read().split("\n")
    assert done.returncode == 0, said
    assert said[0] == "hi" and json.loads(said[1])["cause"] == "exited"


@pytest.mark.parametrize("how", ["3</dev/null", "1>&-", "2>&-", "0<&-", ""])
def test_a_status_line_that_nobody_can_write_is_refused(mapped, how):
    fd = how[:1] or "3"
    done = subprocess.run(
        ["sh", "-c", '"$0" run -q --status-fd %s a -- touch "$1" %s'
         % (fd, how), mapped.binary, mapped.path("ran")], env=mapped.env,
        stderr=subprocess.PIPE, text=True, timeout=30)
    assert done.returncode == 64
    assert how == "2>&-" or "--status-fd: %s is" % fd in done.stderr
    assert not os.path.exists(mapped.path("ran"))


def test_an_unreachable_store_is_69_and_nothing_runs(mapped):
    mark = mapped.path("ran")
    done, line = with_status(mapped, "run", "-s", UNREACHABLE, "-w", "300ms",
                             "a", "--", "touch", mark)
    assert done.returncode == 69, done.stderr
    assert line["ran"] is False and line["exit"] == 69
    assert not os.path.exists(mark)
    assert done.stderr != ""


def test_a_wrong_password_is_77(redis):
    redis.server.command("CONFIG", "SET", "requirepass", "secret")
    port = redis.server.port
    bad = "redis://:wrong@127.0.0.1:%d" % port
    done = redis.run("run", "-w", "2s", "a", "true", env={"SNIB_URL": bad})
    assert done.returncode == 77, done.stderr
    assert "wrong" not in done.stderr


def test_a_directory_that_cannot_be_used_is_78(mapped):
    done = mapped.run("run", "-s", "file:/proc/nope/locks.db", "a", "true")
    assert done.returncode == 78, done.stderr
    assert "/proc/nope" in done.stderr


def test_try_without_a_command_tells_and_takes_nothing(store):
    assert store.run("try", "a").returncode == 0
    assert not store.held("a")
    store.hold("a")
    done = store.run("try", "a")
    assert done.returncode == 75
    assert "held by" in done.stderr


def test_try_with_a_command_runs_it_or_says_75(store):
    assert store.run("try", "a", "--", "sh", "-c", "exit 4").returncode == 4
    store.hold("a")
    assert store.run("try", "a", "--", "true").returncode == 75


def test_the_environment_tells_the_command_what_it_holds(store):
    done = store.run("run", "-t", "20s", "we ird", "--", "env")
    env = dict(line.split("=", 1) for line in done.stdout.splitlines()
               if line.startswith("SNIB_"))
    assert env["SNIB_NAME"] == "we ird"
    assert int(env["SNIB_TOKEN"]) > 0
    assert env["SNIB_OWNER"].count(":") == 1
    assert env["SNIB_TTL_MS"] == "20000"
    assert env["SNIB_HELD"].startswith("we%20ird=")
    assert int(env["SNIB_LEASE_FD"]) > 2


def test_tokens_rise_from_run_to_run(store):
    tokens = [int(store.run("run", "a", "--", "sh", "-c",
                            "echo $SNIB_TOKEN").stdout) for _ in range(5)]
    assert tokens == sorted(set(tokens))
    assert all(0 < t < 2**53 for t in tokens)


def test_the_status_lines_token_is_the_commands(mapped):
    done, line = with_status(mapped, "run", "a", "--", "sh", "-c",
                             "echo $SNIB_TOKEN")
    assert line["token"] == int(done.stdout)
    assert line["waited_ms"] >= 0 and line["held_ms"] >= 0


def test_no_credentials_reach_the_command(redis):
    redis.server.command("CONFIG", "SET", "requirepass", "geheim")
    url = "redis://:geheim@127.0.0.1:%d" % redis.server.port
    done = redis.run("run", "-v", "a", "--", "sh", "-c",
                     "env; cat /proc/$$/environ", env={"SNIB_URL": url})
    assert done.returncode == 0, done.stderr
    assert "geheim" not in done.stdout
    assert "geheim" not in done.stderr


def test_stdin_and_stdout_belong_to_the_command(mapped):
    done = mapped.run("run", "-v", "a", "--", "cat", stdin=None, input="x\ny\n")
    assert done.stdout == "x\ny\n"


def test_the_command_gets_its_arguments_untouched(mapped):
    done = mapped.run("run", "a", "printf", "<%s>", "-v", "--help", "", "a b")
    assert done.stdout == "<-v><--help><><a b>"


def test_signal_mask_and_dispositions_are_the_callers(mapped):
    plain = subprocess.run(["grep", "^Sig[BI]", "/proc/self/status"],
                           stdout=subprocess.PIPE, text=True).stdout
    done = mapped.run("run", "a", "--", "grep", "^Sig[BI]",
                      "/proc/self/status")
    assert done.stdout == plain


def test_only_the_lease_descriptor_is_added(mapped):
    done = mapped.run("run", "a", "--", "sh", "-c",
                      "ls /proc/self/fd; echo L $SNIB_LEASE_FD")
    *fds, lease = done.stdout.split("\n")[:-1]
    lease = lease.split()[1]
    assert set(fds) - {"0", "1", "2", lease} <= {"3", "4"}  # ls' own


def test_a_caller_that_ignores_sigchld_still_gets_the_status(mapped):
    done = mapped.run("run", "a", "--", "sh", "-c", "exit 5",
                      preexec_fn=lambda: signal.signal(signal.SIGCHLD,
                                                       signal.SIG_IGN))
    assert done.returncode == 5


def test_processes_left_behind_are_ended_before_the_release(mapped):
    mark = mapped.path("left")
    done = mapped.run("run", "a", "--", "sh", "-c",
                      'sleep 1000 & echo $! >"$0"', mark)
    assert done.returncode == 0
    assert not runs(read_pid(mark))
    assert not mapped.held("a")
    assert "left processes behind" in done.stderr


@pytest.mark.parametrize("form", ['%s', 'sh -c \'%s\' "$0"; :', '(%s); :'])
def test_a_holder_process_that_ends_with_its_script_was_not_left(store, form):
    """It was told as a process that the command has left behind."""
    script = 'text=$("$0" acquire -q --sh inner) && eval "$text" || exit 9'
    done = store.run("run", "a", "--", "sh", "-c", form % script, store.binary)
    assert (done.returncode, done.stderr) == (0, "")
    assert not store.held("inner") and not store.held("a")


def test_a_holder_process_that_nothing_ends_was_left_behind(store):
    done = store.run("run", "a", "--", store.binary, "acquire", "-q", "inner")
    assert done.returncode == 0
    assert "left processes behind" in done.stderr
    assert not store.held("inner") and not store.held("a")


def test_one_that_left_by_setsid_is_ended_before_the_release(mapped):
    mark = mapped.path("left")
    done = mapped.run("run", "a", "--", "sh", "-c",
                      'setsid sh -c \'echo $$ >"$0.n"; mv "$0.n" "$0"; '
                      'exec sleep 1000\' "$0" & '
                      'while ! test -s "$0"; do :; done', mark)
    assert done.returncode == 0
    assert not runs(read_pid(mark))


def test_one_that_left_by_setsid_and_ignores_term_is_killed(mapped):
    mark = mapped.path("left")
    done = mapped.run("run", "-g", "200ms", "a", "--", "sh", "-c",
                      'setsid sh -c \'trap "" TERM; echo $$ >"$0.n"; '
                      'mv "$0.n" "$0"; exec sleep 1000\' "$0" & '
                      'while ! test -s "$0"; do :; done', mark)
    assert done.returncode == 0
    assert not runs(read_pid(mark))


def test_hold_min_keeps_the_lock_after_a_short_command(mapped):
    mark = mapped.path("ran")
    p = mapped.start("run", "-q", "--hold-min", "60s", "a", "--", "sh", "-c",
                     "touch '%s'; exec true" % mark)
    eventually(lambda: os.path.exists(mark))
    # The keeper alone is left; a signal before that is the command's.
    eventually(lambda: children_of(p.pid) == [keeper_of(p.pid)])
    assert len(mapped.status("a")["holders"]) == 1
    assert p.poll() is None
    p.send_signal(signal.SIGTERM)  # enough of it
    assert p.wait(10) == 0
    assert not mapped.held("a")


def test_a_lock_taken_away_during_hold_min_is_told(mapped):
    """Nobody can tell whether that was before or after the command's end."""
    mark = mapped.path("ran")
    p = mapped.start("run", "--hold-min", "60s", "a", "--", "sh", "-c",
                     "touch '%s'; exec true" % mark)
    eventually(lambda: os.path.exists(mark))
    eventually(lambda: children_of(p.pid) == [keeper_of(p.pid)])
    assert mapped.run("force-release", "--yes", "--reason", "enough",
                      "a").returncode == 0
    _, said = p.communicate(timeout=10)
    assert p.returncode == 76, said
    assert said.count("lock lost") == 1 and "enough" in said, said


def test_hold_min_is_over_when_the_command_ran_longer(mapped):
    done, line = with_status(mapped, "run", "--hold-min", "400ms", "a",
                             "true")
    assert done.returncode == 0
    assert line["held_ms"] >= 400


def test_max_run_stops_the_command(mapped):
    done, line = with_status(mapped, "run", "--max-run", "250ms", "a", "--",
                             "sleep", "1000")
    assert done.returncode == 143
    assert line["by"] == "snib" and line["cause"] == "max-run"


def test_max_run_kills_one_that_ignores_term(mapped):
    done, line = with_status(mapped, "run", "--max-run", "250ms", "-g",
                             "250ms", "a", "--", "sh", "-c",
                             'trap "" TERM; while :; do sleep 0.05; done')
    assert done.returncode == 137
    assert line["cause"] == "max-run"


def test_a_command_that_turns_max_runs_term_into_0_has_not_succeeded(mapped):
    done, _ = with_status(mapped, "run", "--max-run", "250ms", "a", "--",
                          "sh", "-c", 'trap "exit 0" TERM; '
                          'while :; do sleep 0.05; done')
    assert done.returncode == 143


@pytest.mark.parametrize("options, seconds, slack_ms", [
    (("-t", "1s"), 3, 333), (("-t", "4s", "-g", "2s"), 6, 667)],
    ids=["a second", "a grace of half the ttl"])
def test_a_short_lease_is_renewed_in_time(store, options, seconds, slack_ms):
    """From when a renewal is due, at a third of the lease, until the command
    would be stopped, a grace before its end, there are slack_ms. A machine
    that itself stood still for a good part of them may lose the lock."""
    pulse = Pulse()
    done = store.run("run", *options, "a", "--", "sleep", str(seconds))
    late_ms = pulse.worst_ms()
    pulse.close()
    assert done.returncode == 0 or late_ms > slack_ms / 3, (
        done.stderr, late_ms)


def test_a_stderr_that_nobody_reads_does_not_hold_anything_up(mapped):
    r, w = os.pipe()
    os.set_blocking(w, False)
    try:
        while True:
            os.write(w, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(w, True)
    mapped.hold("a")
    p = mapped.start("run", "-v", "-w", "300ms", "a", "true", stderr=w)
    assert p.wait(10) == 75
    os.close(r)
    os.close(w)


def test_closed_standard_descriptors_do_no_harm(mapped):
    done = subprocess.run(
        ["sh", "-c", '"$0" run a -- sh -c "exit 3" <&- >&- 2>&-',
         mapped.binary], env=mapped.env, timeout=30)
    assert done.returncode == 3
