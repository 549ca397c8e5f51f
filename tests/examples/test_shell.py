"""The shell examples: the script runs, and the command lines in the cron
table and the unit are ones that snib understands."""

import os
import re
import shlex
import shutil
import subprocess

import pytest

from conftest import EXAMPLES


@pytest.fixture
def environment(snib, tmp_path):
    return {**os.environ, "SNIB_URL": f"file:{tmp_path}/locks.db",
            "PATH": os.path.dirname(snib) + ":" + os.environ["PATH"]}


def run(argv, environment):
    return subprocess.run(argv, env=environment, capture_output=True,
                          text=True, timeout=60)


def test_backup_runs_under_its_lock(environment):
    result = run([f"{EXAMPLES}/shell/backup.sh"], environment)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert [line.split()[2] for line in lines] == ["etc", "home", "srv"]
    assert len({line.split()[4] for line in lines}) == 1


def test_backup_is_found_from_its_own_directory(environment):
    result = subprocess.run(["sh", "backup.sh"], env=environment, text=True,
                            cwd=f"{EXAMPLES}/shell", capture_output=True,
                            timeout=60)
    assert result.returncode == 0, result.stderr
    assert "backing up etc" in result.stdout


def test_backup_leaves_quietly_when_another_host_is_at_it(snib, environment):
    script = f'"{EXAMPLES}/shell/backup.sh"; echo "status $?"'
    # The inner one is a stranger, not a nested run of the same tree.
    result = run([snib, "run", "nightly-backup", "--", "env", "-i",
                  f"PATH={environment['PATH']}",
                  f"SNIB_URL={environment['SNIB_URL']}", "sh", "-c", script],
                 environment)
    assert result.stdout == "status 0\n", result.stderr


def test_backup_under_another_lock_takes_its_own(snib, environment):
    """Both stand in the same crontab, and one job may start the other."""
    script = f'"{EXAMPLES}/shell/backup.sh"; echo "status $?"'
    apart = ["env", "-i", f"PATH={environment['PATH']}",
             f"SNIB_URL={environment['SNIB_URL']}"]
    result = run([snib, "run", "nightly-backup", "--", *apart,
                  snib, "run", "another", "--", "sh", "-c", script],
                 environment)
    assert result.stdout == "status 0\n", result.stdout + result.stderr


def test_parallel_runs_all_and_two_at_a_time(environment, tmp_path):
    log = tmp_path / "log"
    job = tmp_path / "job"
    job.write_text('#!/bin/sh\n'
                   f'echo "+ $1" >>{log}; sleep 0.1; echo "- $1" >>{log}\n')
    job.chmod(0o755)
    result = run([f"{EXAMPLES}/shell/parallel.sh", *"abcdef"],
                 {**environment, "CONVERT": str(job)})
    assert result.returncode == 0, result.stderr
    assert result.stdout == "all 6 done\n"
    at_once = most = 0
    for line in log.read_text().splitlines():
        at_once += 1 if line[0] == "+" else -1
        most = max(most, at_once)
    assert at_once == 0 and 1 <= most <= 2
    assert len(log.read_text().splitlines()) == 12


def test_parallel_on_two_hosts_has_a_latch_each(snib, environment, tmp_path):
    """Both have the same process number, as in two containers."""
    hosts = []
    for host in ("left", "right"):
        path = tmp_path / host
        path.mkdir()
        (path / "uname").write_text(f"#!/bin/sh\necho {host}\n")
        (path / "snib").write_text(
            f'#!/bin/sh\necho "$@" >>{path}/calls\nexec {snib} "$@"\n')
        for name in ("uname", "snib"):
            (path / name).chmod(0o755)
        # $$ is the same: as the first process of a pid namespace, or put in.
        with open(f"{EXAMPLES}/shell/parallel.sh", encoding="utf-8") as file:
            script = file.read().replace("$$", "1")
        done = run(["sh", "-c", script, "parallel.sh", "a"],
                   {**environment, "CONVERT": "true",
                    "PATH": f"{path}:{environment['PATH']}"})
        assert done.returncode == 0, done.stderr
        latches = set(re.findall(r"convert:\S+",
                                 (path / "calls").read_text()))
        assert len(latches) == 1
        hosts.append(latches.pop())
    assert hosts[0] != hosts[1]


def command_lines():
    found = []
    for name in ("snib.cron", "report.service", "scheduler.service"):
        with open(f"{EXAMPLES}/shell/{name}", encoding="utf-8") as file:
            found += re.findall(r"(?m)^(?:[^#\n]*\sroot\s+|ExecStart=)"
                                r"(snib (?:run|elect) .*)$", file.read())
    return found


def test_all_command_lines_were_found():
    assert len(command_lines()) == 5


def to_run(line, snib):
    """The words of the line, for this machine and in a moment."""
    argv = shlex.split(line)
    assert argv[0] == "snib" and argv[-1].startswith("/usr/local/bin/")
    once = ["--once"] if argv[1] == "elect" else []
    return [snib, argv[1], *once,
            *["100ms" if w == "5m" else w for w in argv[2:-1]], "true"]


@pytest.mark.parametrize("line", command_lines())
def test_the_command_line_is_understood(line, snib, environment):
    result = run(to_run(line, snib), environment)
    assert result.returncode == 0, result.stderr


def cron_lines():
    return [line for line in command_lines() if "/report" in line
            or "/sync" in line]


@pytest.mark.parametrize("line", cron_lines())
def test_who_comes_too_late_is_quiet(line, snib, environment):
    """What it writes, cron mails. And it stays away while the first one's
    short job is long done: the lock is held on."""
    words = shlex.split(line)
    assert words[words.index("--hold-min") + 1] == "5m"
    name = words[words.index("--") - 1]
    first = subprocess.Popen([snib, *words[1:-1], "true"], env=environment,
                             stderr=subprocess.PIPE, text=True)
    try:
        # Not by `try`, which might hold it just when the first one asks once.
        while '"held":true' not in run([snib, "status", "--json", name],
                                       environment).stdout:
            assert first.poll() is None
        result = run(to_run(line, snib)[:-1] + ["echo", "again"], environment)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
        assert first.poll() is None
    finally:
        first.terminate()
        first.wait(timeout=20)
        first.stderr.close()


def test_cron_finds_snib():
    with open(f"{EXAMPLES}/shell/snib.cron", encoding="utf-8") as file:
        text = file.read()
    path = re.search(r"(?m)^PATH=(.*)$", text)
    assert path and "/usr/local/bin" in path.group(1).split(":")


@pytest.mark.parametrize("unit", ["report.service", "report.timer",
                                  "scheduler.service"])
def test_systemd_loads_the_unit(unit, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    for name in ("report.service", "report.timer", "scheduler.service"):
        with open(f"{EXAMPLES}/shell/{name}", encoding="utf-8") as file:
            text = file.read()
        text = re.sub(r"(?m)^ExecStart=snib .*$", "ExecStart=/bin/true", text)
        (tmp_path / name).write_text(text)
    result = run(["systemd-analyze", "verify", str(tmp_path / unit)],
                 dict(os.environ))
    assert (result.returncode, result.stderr) == (0, "")
