"""The C programs: each is run, on the embedded store and on Redis."""

import pytest


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
    result = example("hello", url="redis://127.0.0.1:1")
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
