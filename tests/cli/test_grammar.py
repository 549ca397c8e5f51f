"""Where options, names and the command stand; defaults from the environment."""

import json
import os
import subprocess

import pytest


def test_options_may_follow_the_name(mapped):
    mapped.hold("job")
    done = mapped.run("run", "job", "-w", "0", "--", "echo", "ran")
    assert (done.returncode, done.stdout) == (75, "")
    assert done.stderr.startswith("snib: job: not acquired: held by")
    names = [x["name"] for x in
             json.loads(mapped.run("list", "--json").stdout)["locks"]]
    assert names == ["job"], "an option became a lock name"


def test_options_may_follow_the_name_without_dashes_too(mapped):
    mapped.hold("job")
    done = mapped.run("run", "job", "-w", "0", "echo", "ran")
    assert (done.returncode, done.stdout) == (75, "")
    done = mapped.run("run", "other", "-t", "9s", "echo", "-w", "0")
    assert (done.returncode, done.stdout) == (0, "-w 0\n")


def test_options_between_names(mapped):
    done = mapped.run("run", "b", "-t", "9s", "a", "-q", "--", "sh", "-c",
                      'echo "$SNIB_NAME $SNIB_TTL_MS"')
    assert (done.returncode, done.stdout) == (0, "a:b 9000\n")


def test_options_behind_the_operand_of_other_sub_commands(mapped):
    assert json.loads(mapped.run("status", "a", "--json").stdout)["held"] is False
    assert mapped.run("latch", "a", "--set", "3").returncode == 0
    assert mapped.run("status", "a").stdout.startswith("a: a closed latch, 3")
    assert mapped.run("try", "a", "--help").stdout.startswith("Usage: snib try")


@pytest.mark.parametrize("args", [
    ("run", "-x", "--", "true"), ("run", "a", "-x", "--", "true"),
    ("run", "a", "--nope", "true"), ("status", "-x"), ("status", "a", "-x")],
    ids=" ".join)
def test_what_begins_with_a_dash_is_no_name(mapped, args):
    done = mapped.run(*args)
    assert done.returncode == 64
    assert "unknown option" in done.stderr
    assert json.loads(mapped.run("list", "--json").stdout)["locks"] == []


def test_a_name_that_begins_with_a_dash(mapped):
    done = mapped.run("run", "--name=-x", "--", "sh", "-c", 'echo "$SNIB_NAME"')
    assert (done.returncode, done.stdout) == (0, "-x\n")
    done = mapped.run("run", "--name=-x", "sh", "-c", 'echo "$SNIB_NAME"')
    assert (done.returncode, done.stdout) == (0, "-x\n")
    done = mapped.run("run", "--name", "-x", "a", "--", "sh", "-c",
                      'echo "$SNIB_NAME"')
    assert (done.returncode, done.stdout) == (0, "-x:a\n")
    assert mapped.run("status", "--name=-x").stdout == "-x: free\n"


@pytest.mark.parametrize("args", [
    ("run", "--name=a", "--name=echo", "hello"),
    ("run", "a", "--name=echo", "hello"), ("try", "--name", "a", "--name=b"),
    ("elect", "--once", "--name=a", "--name=echo", "hello")], ids=" ".join)
def test_a_second_name_is_no_command(mapped, args):
    done = mapped.run(*args)
    assert (done.returncode, done.stdout) == (64, "")
    assert "several names need a -- before the command" in done.stderr


@pytest.mark.parametrize("args", [
    ("run", "a", "no-such-command"), ("try", "a", "no-such-command"),
    ("run", "a", "no-such-command", "-c", "echo hi"),
    ("elect", "-1", "a", "no-such-command")], ids=" ".join)
def test_a_name_that_was_taken_for_the_command_is_said_to_be_one(mapped, args):
    done = mapped.run(*args)
    assert (done.returncode, done.stdout) == (127, "")
    assert ("snib: no-such-command: No such file or directory (without a --, "
            "the command begins behind the first name)\n") in done.stderr


def test_a_command_behind_dashes_is_meant(mapped):
    done = mapped.run("run", "-q", "a", "--", "no-such-command")
    assert (done.returncode, done.stderr) == (
        127, "snib: no-such-command: No such file or directory\n")


def test_a_script_for_several_names_needs_the_dashes(mapped):
    script = 'echo "$SNIB_NAME"'
    assert mapped.run("run", "-c", script, "a").stdout == "a\n"
    assert mapped.run("run", "a", "b", "-c", script, "--").stdout == "a:b\n"


def test_a_value_is_not_taken_from_behind_the_dashes(mapped):
    done = mapped.run("run", "a", "--reason", "--", "true")
    assert done.returncode == 64
    assert "--reason needs TEXT before the --" in done.stderr


@pytest.mark.parametrize("args, word", [
    (("status", "a", "b"), "unexpected argument 'b'; expected NAME"),
    (("wait", "a", "b"), "unexpected argument 'b'; expected NAME"),
    (("acquire", "a", "b"), "unexpected argument 'b'; expected NAME"),
    (("doctor", "a"), "unexpected argument 'a'; expected none"),
    (("acquire", "--no-keeper", "-t", "9s", "a"), "is called --detached now"),
    (("run", "-r", "--kind", "write", "a", "true"), "-r is --kind read"),
    (("run", "a", "-c", "true", "--", "false"), "exclude each other"),
    (("run", "a", "-c", "true", "false"), "exclude each other"),
], ids=str)
def test_a_wrong_use_says_what_was_expected(mapped, args, word):
    done = mapped.run(*args)
    assert done.returncode == 64
    assert word in done.stderr


def test_snib_alone_shows_the_usage(mapped):
    done = mapped.run()
    assert (done.returncode, done.stdout) == (64, "")
    assert "Usage: snib [GLOBAL OPTIONS] SUBCOMMAND" in done.stderr
    assert "a sub-command is missing" in done.stderr


@pytest.mark.parametrize("sub,said", [
    ("run", "how long to wait for the lock, or for a store that is away;"),
    ("run", "when the holder dies or loses the lock: keep it closed"),
    ("run", "exit 0, and say nothing, when not acquired"),
    ("check", "Exit 0 while the lease has the margin left, else 76."),
    ("check", "default: the smaller of 5s and a sixth of the ttl"),
    ("list", "held, waited for or kept closed"),
    ("renew", "Renew now what acquire acquired."),
])
def test_help_says_what_else_would_surprise(mapped, sub, said):
    assert said in " ".join(mapped.run(sub, "--help").stdout.split())


def test_help_names_all_that_a_status_may_mean(mapped):
    said = mapped.run("--help").stdout.partition("Exit status: ")[2]
    for line in ("69 store unreachable or unfit, or no answer; nothing ran",
                 "75 not acquired in time, or never could be; nothing ran"):
        assert "\n  " + line + "\n" in said


def test_help_names_what_this_release_lacks(mapped):
    said = mapped.run("--help").stdout
    line = [x for x in said.splitlines() if x.startswith("Not in this release")]
    assert line == ["Not in this release: watch, top, serve, bench, demo, "
                    "completion."]
    for name in line[0][21:-1].split(", "):
        done = mapped.run(name)
        assert (done.returncode, done.stdout) == (64, "")
        assert "not in this release" in done.stderr


@pytest.mark.parametrize("sub", ["version", "status", "list", "why", "doctor",
                                 "help", "release"])
def test_help_speaks_of_durations_where_there_are_some(mapped, sub):
    assert "Durations" not in mapped.run(sub, "--help").stdout
    assert "Durations" in mapped.run("run", "--help").stdout


def test_a_script_in_the_place_of_a_command(mapped):
    done = mapped.run("run", "a", "-c", 'echo "$SNIB_NAME $0"; exit 3')
    assert (done.returncode, done.stdout) == (3, "a sh\n")
    done = mapped.run("run", "b", "a", "-c", 'echo "$SNIB_NAME"', "--")
    assert (done.returncode, done.stdout) == (0, "a:b\n")
    assert mapped.run("try", "-c", "exit 4", "a").returncode == 4


def test_r_reads(mapped):
    done = mapped.run("run", "-r", "a", "--", mapped.binary, "status",
                      "--json", "a")
    assert json.loads(done.stdout)["holders"][0]["kind"] == "read"
    mapped.hold("b", "-r")
    assert mapped.run("try", "-r", "b").returncode == 0
    assert mapped.run("try", "-q", "b").returncode == 75
    assert mapped.run("wait", "-r", "-w", "0", "b").returncode == 0


def test_the_environment_gives_defaults(mapped):
    mapped.hold("a")
    done = mapped.run("run", "-q", "a", "--", "true", env={"SNIB_WAIT": "0"},
                      timeout=20)
    assert done.returncode == 75
    done = mapped.run("run", "b", "--", "sh", "-c", "echo $SNIB_TTL_MS",
                      env={"SNIB_TTL": "7s"})
    assert done.stdout == "7000\n"
    done = mapped.run("run", "-t", "8s", "b", "--", "sh", "-c",
                      "echo $SNIB_TTL_MS", env={"SNIB_TTL": "7s"})
    assert done.stdout == "8000\n"
    for name, bad in (("SNIB_WAIT", "5"), ("SNIB_TTL", "never")):
        done = mapped.run("run", "b", "--", "true", env={name: bad})
        assert done.returncode == 64
        assert "%s: '%s'" % (name, bad) in done.stderr
    for more in ([], ["-g", "2s"]):
        done = mapped.run("run", *more, "b", "--", "true",
                          env={"SNIB_TTL": "3s" if more else "1ms"})
        assert done.returncode == 64
        assert "SNIB_TTL" in done.stderr and "--ttl" not in done.stderr


def test_a_dry_run_tells_and_takes_nothing(mapped):
    mapped.hold("a")
    done = mapped.run("run", "-w", "5m", "--dry-run", "a", "b", "--", "touch",
                      mapped.path("mark"), timeout=20)
    assert (done.returncode, done.stdout) == (0, "")
    assert "snib: a: now held by" in done.stderr
    assert "snib: b: now free" in done.stderr
    assert ("snib: would acquire all of them as mutex, ttl 30s, waiting for "
            "at most 5m00s, in file:") in done.stderr
    assert "; then run: touch" in done.stderr
    told = mapped.run("run", "-r", "-t", "2m", "-w", "0", "--dry-run", "b",
                      "--", "true", timeout=20).stderr
    assert "would acquire it as read, ttl 2m00s, without waiting, in" in told
    assert mapped.status("b")["token"] == 0
    assert mapped.waiters("a") == 0
    done = mapped.run("run", "--dry-run", "a", "--", "true",
                      env={"SNIB_URL": "redis://127.0.0.1:1"})
    assert done.returncode == 69


def test_busy_ok_is_silent(mapped):
    mapped.hold("a")
    for args in (("run", "-w", "0", "--busy-ok", "a", "--", "true"),
                 ("try", "--busy-ok", "a"),
                 ("try", "--busy-ok", "a", "--", "true")):
        done = mapped.run(*args)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_password_that_was_taken_out_is_not_sent(redis):
    redis.server.command("CONFIG", "SET", "requirepass", "geheim")
    url = "redis://:geheim@127.0.0.1:%d" % redis.server.port
    blank = url.replace("geheim", "***")
    for args, env in ((("status", "a"), {"SNIB_URL": blank}),
                      (("run", "a", "--", "true"), {"SNIB_URL": blank}),
                      (("status", "-s", blank, "a"), {})):
        done = redis.run(*args, env=env)
        assert done.returncode == 78, done.stderr
        assert "*** where its password was" in done.stderr
        assert "--store-file" in done.stderr


def test_the_store_of_a_file_named_by_the_environment(redis):
    path = redis.path("url")
    with open(path, "w") as f:
        f.write(redis.url + "\n")

    os.chmod(path, 0o600)
    redis.hold("a")
    env = dict(redis.env, SNIB_STORE_FILE=path)
    del env["SNIB_URL"]

    done = subprocess.run([redis.binary, "status", "--json", "a"], env=env,
                          stdout=subprocess.PIPE, timeout=30)
    assert json.loads(done.stdout)["held"] is True
    done = redis.run("status", "--json", "a", env={
        "SNIB_STORE_FILE": path, "SNIB_URL": "redis://:***@127.0.0.1:1"})
    assert json.loads(done.stdout)["held"] is True
