"""The C programs: each is run, on the embedded store and on Redis."""

import os
import subprocess

import pytest

from conftest import EXAMPLES, ROOT


@pytest.fixture(params=["embedded", "redis"])
def run(request, example):
    if request.param == "embedded":
        return example
    server = request.getfixturevalue("redis")
    return lambda name: example(name, url=server.url)


def test_hello_acquires_and_releases(run):
    first, second = run("hello"), run("hello")
    assert first.returncode == second.returncode == 0, first.stderr
    tokens = [int(r.stdout.split()[-1]) for r in (first, second)]
    assert 0 < tokens[0] < tokens[1]


def test_hello_says_what_is_wrong(example):
    result = example("hello", url="redis://no-such-host.invalid")
    assert result.returncode == 69
    assert result.stderr.startswith("UNREACHABLE: ")


def test_loop_serves_both_jobs_one_after_the_other(run):
    result = run("loop")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert sorted(lines) == sorted([
        "first: granted", "first: released",
        "second: granted", "second: released"])
    assert lines[0] == "first: granted"
    # The release's answer and the next grant may arrive in either order.
    assert lines.index("second: granted") > 0
    assert lines.index("second: released") == 3


def test_threads_count_without_losing_any(run):
    result = run("threads")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == "counted to 800\n"


def test_guard_locks_and_says_what_is_wrong(run, example):
    result = run("guard")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("mine, with token ")
    result = example("guard", url="redis://no-such-host.invalid")
    assert result.returncode == 69
    assert result.stderr.startswith("UNREACHABLE: ")


def test_policy_turns_the_second_payment_away(run):
    result = run("policy")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[1:] == [
        "  order 4711: turned away (held by another owner)",
        "  order 4712: charged, fencing token at hand",
        "  order 4711: charged, fencing token at hand"]


def test_loss_stops_the_work(run):
    result = run("loss")
    assert result.returncode == 0, result.stdout + result.stderr
    # The callback comes on the library's thread: at any place, and not when
    # the program has seen the loss and ended before.
    lines = [line for line in result.stdout.splitlines()
             if line != "callback: lost (expired)"]
    assert lines == ["stopped after some of the steps: lost (expired)",
                     "release: the lease ended before the release"]


def test_value_sells_each_piece_once(run):
    for _ in range(2):  # whatever the first run left
        result = run("value")
        assert result.returncode == 0, result.stderr
        assert result.stdout == "sold 50 of 50\n"


def test_ring_moves_only_what_the_leaver_owned(example):
    result = example("ring")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 4
    assert lines[-1].endswith(", others moved: 0")
    assert not lines[-1].startswith("moved from beta: 0,")


def test_multi_moves_money_in_both_directions(run):
    result = run("multi")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == "1000 and 1000\n"


def test_elect_has_one_leader_at_a_time(run):
    result = run("elect")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == "6 terms, 0 mistakes\n"


def test_deadlock_refuses_one_and_both_get_through(run):
    result = run("deadlock")
    assert result.returncode == 0, result.stdout + result.stderr
    refused = [line for line in result.stdout.splitlines()
               if line.startswith("refused: ")]
    assert len(refused) == 1
    assert "this waits for 'example/account/" in refused[0]
    assert refused[0].endswith(" held by this")
    assert result.stdout.count("transferred") == 2


def test_rw_never_reads_torn(run):
    result = run("rw")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == "written 16 times, read torn 0 times\n"


def test_semaphore_bounds_the_jobs(run):
    for _ in range(2):  # whatever the first run left
        result = run("semaphore")
        assert result.returncode == 0, result.stdout + result.stderr
        assert result.stdout == ("8 jobs, never more than 3 at once: yes\n"
                                 "drained 3; now 3 of 5 in use\n")


def test_latch_and_barrier_wait_for_all(run):
    for _ in range(2):
        result = run("latch")
        assert result.returncode == 0, result.stdout + result.stderr
        assert result.stdout == "loaded by 3 of 3\n2 rounds, 0 mistakes\n"


# Programs that include what belongs to a database, and where Debian has that.
OF_DATABASES = {"version_postgres.c": "/usr/include/postgresql/libpq-fe.h",
                "version_mysql.c": "/usr/include/mariadb/mysql.h",
                "version_sqlite.c": "/usr/include/sqlite3.h"}
SOURCES = sorted(os.path.relpath(os.path.join(folder, name), EXAMPLES)
                 for folder, _, names in os.walk(EXAMPLES)
                 for name in names if name.endswith(".c") and
                 os.path.exists(OF_DATABASES.get(name, ROOT)))


@pytest.mark.parametrize("source", SOURCES)
def test_an_example_compiles_as_strict_c11(source):
    """Without the GNU extensions that a compiler adds of itself."""
    done = subprocess.run(
        ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
         "-I", os.path.join(ROOT, "include"),
         "-I", os.path.dirname(OF_DATABASES.get(source, ROOT)),
         os.path.join(EXAMPLES, source)],
        capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
