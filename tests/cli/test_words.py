"""What snib run says of a lock that is at risk or lost: the cause, in words."""

import json

from conftest import read_pid


def lines(text):
    """The words, and the cause in the status line."""
    at = text.index("{")
    return text[:at], json.loads(text[at:]).get("cause")


def hold(store, *options):
    mark = store.path("pid")
    p = store.start("run", "--status-fd", "2", *options, "a", "--", "sh", "-c",
                    'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 1000',
                    mark)
    p.command = read_pid(mark)
    return p


def test_a_dead_server_is_the_cause_not_the_lease(redis):
    p = hold(redis, "-t", "3s")
    redis.server.stop()
    assert p.wait(20) == 76
    words, cause = lines(p.stderr.read())
    assert cause == "unreachable"
    assert "a: at risk: a renewal failed (" in words
    assert words.index("efused); the lease still runs") < words.index(
        "a: lock lost (unreachable: "), words


def test_a_server_that_does_not_answer_is_the_cause(redis):
    p = hold(redis, "-t", "3s")
    redis.server.freeze()
    assert p.wait(20) == 76
    redis.server.thaw()
    words, cause = lines(p.stderr.read())
    assert cause == "unreachable"
    assert "a: at risk: a renewal failed (" in words
    assert "a: lock lost (unreachable: " in words


def test_who_revoked_it_and_why_is_told(store):
    p = hold(store, "-t", "3s")
    done = store.run("force-release", "--yes", "--reason", "release 4.2 is bad",
                     "a")
    assert done.returncode == 0, done.stderr
    assert p.wait(20) == 76
    words, cause = lines(p.stderr.read())
    assert cause == "revoked"
    assert "a: lock lost (revoked by " in words, words
    assert "release 4.2 is bad); the command is stopped" in words
