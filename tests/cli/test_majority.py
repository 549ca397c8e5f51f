"""The command on redlock:, a majority of Redis servers."""

import re

import pytest

from conftest import Snib

# Nobody listens at these ports.
AWAY = "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
NO_HOSTS = "redlock://h1.invalid,h2.invalid,h3.invalid"


@pytest.mark.parametrize("args", [("try", "a", "true"), ("status", "a")],
                         ids=" ".join)
def test_why_there_is_no_majority_is_told_to_its_end(mapped, args):
    done = mapped.run(*args, env={"SNIB_URL": NO_HOSTS})
    assert done.returncode == 69
    assert re.search(r"h\d\.invalid:6379: .+; expected a host name that DNS or "
                     r"/etc/hosts knows: check the URL\n$", done.stderr)


def test_doctor_of_a_majority_that_is_away_is_69(mapped):
    done = mapped.run("doctor", env={"SNIB_URL": AWAY})
    assert done.returncode == 69
    assert len(re.findall(r"^fail  reachable +127\.0\.0\.1:\d: ", done.stdout,
                          re.M)) == 3
    assert "0 of 3 servers answer, 2 are needed" in done.stdout
    assert done.stderr == (
        "snib: the store could not be looked at; does the server run, and is "
        "the URL right (--store, SNIB_URL)?\n"), "the rows have said the rest"


@pytest.mark.parametrize("args", [
    ("run", "--priority", "4", "a", "true"),
    ("acquire", "--priority", "100", "a")], ids=" ".join)
def test_a_priority_without_a_queue_is_refused(mapped, args):
    done = mapped.run(*args, env={"SNIB_URL": AWAY})
    assert (done.returncode, done.stdout) == (78, "")
    assert done.stderr == (
        "snib: redlock: has no queue in which --priority could count: leave it "
        "out, or use another store\n")


def test_an_ordinary_priority_is_none(mapped):
    done = mapped.run("run", "-w", "0", "--priority", "0", "a", "true",
                      env={"SNIB_URL": AWAY})
    assert done.returncode == 69


@pytest.fixture
def majority(snib_bin, tmp_path):
    from harness.redis_server import RedisServer, redis_missing
    if redis_missing():
        pytest.skip(redis_missing())
    with RedisServer() as a, RedisServer() as b, RedisServer() as c:
        s = Snib(snib_bin, "redlock://" + ",".join(
            "127.0.0.1:%d" % x.port for x in (a, b, c)), str(tmp_path))
        if s.run("try", "-q", "probe").returncode == 78:
            pytest.skip("no redis in this build")
        yield s
        s.end()


def test_who_waits_is_not_said_to_be_nobody(majority):
    majority.hold("a")
    p = majority.start("run", "a", "true")
    assert p.stderr.readline().startswith("a: held by ")
    assert "Nobody waits" not in majority.run("why", "a").stdout
    assert ("  Who waits cannot be seen on redlock:. It is free when "
            in majority.run("why", "a").stdout)
    assert majority.run("status", "a").stdout.endswith(
        "\n  waiting  cannot be seen on redlock:\n")
    assert majority.run("status", "b").stdout == "b: free\n"


def test_deadlocks_that_cannot_be_seen_are_not_denied(majority):
    for args in ((), ("--json",)):
        done = majority.run("deadlocks", *args)
        assert (done.returncode, done.stdout) == (78, "")
        assert done.stderr.startswith(
            "snib: deadlocks cannot be seen on redlock:, where ")
