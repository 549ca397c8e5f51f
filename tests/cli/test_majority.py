"""The command on redlock:, a majority of Redis servers."""

import re

import pytest

from conftest import Snib

# Nobody listens at these ports.
AWAY = "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
NO_HOSTS = "redlock://h1.invalid,h2.invalid,h3.invalid"


@pytest.mark.parametrize("args", [("try", "a", "true"), ("status", "a")],
                         ids=" ".join)
def test_why_there_is_no_majority_is_told_to_its_end(sqlite, args):
    done = sqlite.run(*args, env={"SNIB_URL": NO_HOSTS})
    assert done.returncode == 69
    assert re.search(r"h\d\.invalid:6379: .+; expected a host name that DNS or "
                     r"/etc/hosts knows: check the URL\n$", done.stderr)


def test_doctor_of_a_majority_that_is_away_is_69(sqlite):
    done = sqlite.run("doctor", env={"SNIB_URL": AWAY})
    assert done.returncode == 69
    assert len(re.findall(r"^fail  reachable +127\.0\.0\.1:\d: ", done.stdout,
                          re.M)) == 3
    assert "0 of 3 servers answer, 2 are needed" in done.stdout
    assert done.stderr.startswith("snib: no majority: 0 of 3 servers answered")
    assert "see: snib doctor" not in done.stderr


@pytest.mark.parametrize("args", [
    ("run", "--priority", "4", "a", "true"),
    ("acquire", "--priority", "100", "a")], ids=" ".join)
def test_a_priority_without_a_queue_is_refused(sqlite, args):
    done = sqlite.run(*args, env={"SNIB_URL": AWAY})
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr == (
        "snib: a quorum (redlock:) has no queue in which --priority could "
        "count: leave it out, or use redis:\n")


def test_an_ordinary_priority_is_none(sqlite):
    done = sqlite.run("run", "-w", "0", "--priority", "0", "a", "true",
                      env={"SNIB_URL": AWAY})
    assert done.returncode == 69
