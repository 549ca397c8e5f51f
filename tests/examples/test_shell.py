"""The shell examples: the script runs, and the command lines in the cron
table and the unit are ones that snib understands."""

import os
import re
import shlex
import subprocess

import pytest

from conftest import EXAMPLES


@pytest.fixture
def environment(snib, tmp_path):
    return {**os.environ, "SNIB_URL": f"sqlite:{tmp_path}/locks.db",
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


def test_backup_leaves_quietly_when_another_host_is_at_it(snib, environment):
    script = f'"{EXAMPLES}/shell/backup.sh"; echo "status $?"'
    # The inner one is a stranger, not a nested run of the same tree.
    result = run([snib, "run", "nightly-backup", "--", "env", "-i",
                  f"PATH={environment['PATH']}",
                  f"SNIB_URL={environment['SNIB_URL']}", "sh", "-c", script],
                 environment)
    assert result.stdout == "status 0\n", result.stderr


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


def command_lines():
    found = []
    for name in ("snib.cron", "report.service", "scheduler.service"):
        with open(f"{EXAMPLES}/shell/{name}", encoding="utf-8") as file:
            found += re.findall(r"(?m)^(?:[^#\n]*\sroot\s+|ExecStart=)"
                                r"(snib (?:run|elect) .*)$", file.read())
    return found


def test_all_command_lines_were_found():
    assert len(command_lines()) == 5


@pytest.mark.parametrize("line", command_lines())
def test_the_command_line_is_understood(line, snib, environment):
    argv = shlex.split(line)
    assert argv[0] == "snib" and argv[-1].startswith("/usr/local/bin/")
    once = ["--once"] if argv[1] == "elect" else []
    result = run([snib, argv[1], *once, *argv[2:-1], "true"], environment)
    assert result.returncode == 0, result.stderr


def test_the_unit_restarts_after_a_loss():
    with open(f"{EXAMPLES}/shell/report.service", encoding="utf-8") as file:
        assert "RestartForceExitStatus=76" in file.read()
