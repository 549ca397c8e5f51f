"""snib semaphore, latch and barrier."""

import json
import signal

import pytest

from conftest import eventually


def told(done):
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert value["schema"] == 1
    return value


# -- semaphore ----------------------------------------------------------------

def test_a_semaphore_is_shown_and_changed(store):
    done = store.run("semaphore", "s")
    assert done.stdout == "s: no size yet, 0 permits in use\n"
    assert told(store.run("semaphore", "--json", "s")) == {
        "schema": 1, "name": "s", "size": None, "used": 0, "available": None,
        "waiting": 0}
    done = store.run("semaphore", "--set", "5", "s")
    assert done.stdout == "s: 0 of 5 permits in use, 5 available\n"
    store.hold("s", "--kind", "semaphore", "-n", "3")
    assert told(store.run("semaphore", "--json", "s")) == {
        "schema": 1, "name": "s", "size": 5, "used": 3, "available": 2,
        "waiting": 0}
    done = store.run("semaphore", "--add", "-4", "s")
    assert done.stdout == ("s: 3 of 1 permits in use, none available before 3 "
                           "come back\n")
    assert told(store.run("semaphore", "--json", "--add", "+6", "s"))[
        "available"] == 4
    assert store.run("semaphore", "-q", "--set", "3", "s").stdout == ""


def test_init_sets_a_size_once(store):
    assert told(store.run("semaphore", "--json", "--init", "2", "s"))["set"] \
        is True
    done = store.run("semaphore", "--json", "--init", "9", "s")
    value = told(done)
    assert (value["set"], value["size"]) == (False, 2)
    assert "has a size already" in done.stderr


def test_a_size_that_cannot_be_is_refused(store):
    done = store.run("semaphore", "--add", "1", "s")
    assert done.returncode == 78
    assert "no size yet" in done.stderr and "--set N" in done.stderr
    store.run("semaphore", "--set", "2", "s")
    done = store.run("semaphore", "--add", "-3", "s")
    assert done.returncode == 64
    assert "less than 0" in done.stderr
    assert told(store.run("semaphore", "--json", "s"))["size"] == 2


def test_growing_lets_in_who_waits(store):
    store.hold("s", "--kind", "semaphore", "--capacity", "1")
    p = store.start("run", "-q", "--kind", "semaphore", "s", "true")
    eventually(lambda: store.waiters("s") == 1)
    assert told(store.run("semaphore", "--json", "s"))["waiting"] == 1
    assert store.run("semaphore", "--add", "1", "s").returncode == 0
    assert p.wait(10) == 0


# -- latch --------------------------------------------------------------------

def test_a_latch_is_set_counted_down_and_open(store):
    assert store.run("latch", "l").stdout == "l: open\n"
    assert store.run("latch", "--set", "3", "l").stdout == \
        "l: closed, 3 steps to go\n"
    done = store.run("latch", "--set", "9", "l")
    assert done.returncode == 75 and "closed already" in done.stderr
    assert store.run("latch", "--set", "9", "--busy-ok", "l").returncode == 0
    assert store.run("latch", "--down", "l").stdout == \
        "l: closed, 2 steps to go\n"
    assert told(store.run("latch", "--json", "l")) == {
        "schema": 1, "name": "l", "left": 2, "open": False}
    assert told(store.run("latch", "--json", "--down=2", "l"))["open"] is True
    assert store.run("latch", "--down", "l").stdout == "l: open\n"
    assert store.run("latch", "-q", "--set", "1", "l").stdout == ""
    assert store.run("latch", "--open", "l").stdout == "l: open\n"


def test_await_passes_an_open_latch_at_once(store):
    assert store.run("latch", "--await", "l").returncode == 0
    assert store.run("latch", "--await", "-w0", "l").returncode == 0
    assert not store.held("l")


def test_await_waits_for_the_last_step(store):
    store.run("latch", "--set", "2", "l")
    waiting = [store.start("latch", "--await", "l") for _ in range(3)]
    eventually(lambda: store.waiters("l") == 3)
    assert waiting[0].stderr.readline().startswith(
        "l: a closed latch, 2 steps to go; you are ")
    view = store.status("l")
    assert view["latch"] == 2 and not view["held"]
    assert store.run("status", "l").stdout.startswith(
        "l: a closed latch, 2 steps to go\n")
    store.run("latch", "--down", "l")
    assert all(p.poll() is None for p in waiting)
    store.run("latch", "--down", "l")
    assert [p.wait(10) for p in waiting] == [0] * 3
    eventually(lambda: not store.held("l"))
    assert "latch" not in store.status("l")


def test_await_has_a_limit(store):
    store.run("latch", "--set", "1", "l")
    for wait in ("0", "300ms"):
        done = store.run("latch", "--await", "-w", wait, "l")
        assert done.returncode == 75
        assert "not passed in time: a closed latch, 1 step to go" in \
            done.stderr
    assert store.run("latch", "--await", "-w0", "-E9", "l").returncode == 9
    assert store.run("latch", "--await", "-w0", "--busy-ok", "l") \
        .returncode == 0
    eventually(lambda: store.waiters("l") == 0)


@pytest.mark.parametrize("sub", [("latch", "--await"), ("barrier", "-n", "2")])
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM,
                                 signal.SIGHUP])
def test_a_signal_leaves_the_queue(store, sub, sig):
    store.run("latch", "--set", "1", "l")
    name = "l" if sub[0] == "latch" else "b"
    p = store.start(*sub, name)
    eventually(lambda: store.waiters(name) == 1)
    p.send_signal(sig)
    assert p.wait(10) == 128 + sig
    eventually(lambda: store.waiters(name) == 0)
    assert not store.held(name)


def test_a_closed_latch_keeps_run_and_wait_out(store):
    store.run("latch", "--set", "1", "l")
    assert store.run("try", "l").returncode == 75
    assert store.run("wait", "-w0", "l").returncode == 75
    p = store.start("run", "l", "true")
    assert p.stderr.readline().startswith("l: a closed latch, 1 step to go")
    store.run("latch", "--open", "l")
    assert p.wait(10) == 0
    assert store.run("wait", "-w0", "l").returncode == 0


def test_a_step_whose_reply_is_lost_counts_once(redis):
    from harness.fault_proxy import FaultProxy
    redis.run("latch", "--set", "10", "l")
    redis.run("semaphore", "--set", "3", "s")
    with FaultProxy(redis.server.address) as proxy:
        through = {"SNIB_URL": "redis://127.0.0.1:%d" % proxy.address[1]}
        # Whatever else it asks at first, the answer to the script is lost.
        for args in (("latch", "--down", "l"), ("semaphore", "--add", "2",
                                                "s")):
            rule = proxy.drop_reply(command="EVALSHA", nth=1, then="rst")
            done = redis.run(*args, env=through)
            assert rule.fired == 1
            assert done.returncode in (0, 69), done.stderr
    assert told(redis.run("latch", "--json", "l"))["left"] == 9
    assert told(redis.run("semaphore", "--json", "s"))["size"] == 5


def test_no_residue_is_left_behind(redis):
    redis.run("latch", "--set", "1", "l")
    redis.run("latch", "--await", "-w", "100ms", "l")
    redis.run("latch", "--down", "l")
    redis.run("latch", "--await", "l")
    redis.run("barrier", "-n", "2", "-w", "100ms", "b")
    redis.run("barrier", "-n", "1", "b")
    for key in redis.server.command("KEYS", "*"):
        assert redis.server.command("PTTL", key) > 0, key
    assert told(redis.run("list", "--json"))["locks"] == []


# -- barrier ------------------------------------------------------------------

def test_a_barrier_lets_three_pass_together_twice(store):
    last = 0
    for _ in range(2):
        two = [store.start("barrier", "-n", "3", "--json", "b")
               for _ in range(2)]
        eventually(lambda: store.waiters("b") == 2)
        assert all(p.poll() is None for p in two)
        third = told(store.run("barrier", "-n", "3", "--json", "b"))
        generations = [json.loads(p.communicate(timeout=10)[0])["generation"]
                       for p in two]
        assert generations == [third["generation"]] * 2
        assert third["generation"] > last and third["parties"] == 3
        last = third["generation"]
    eventually(lambda: not store.held("b"))


def test_a_barrier_says_how_many_are_here(store):
    p = store.start("barrier", "-n", "3", "b")
    assert p.stderr.readline() == \
        "b: a barrier, 1 of 3 parties are here; you are 1st of 1\n"
    words = store.run("status", "b").stdout
    assert words.startswith("b: a barrier, 1 of 3 parties are here\n")
    assert ", a barrier of 3\n" in words
    assert store.status("b")["waiters"][0]["kind"] == "barrier"


def test_a_barrier_without_enough_is_75_and_not_counted(store):
    done = store.run("barrier", "-n", "2", "-w", "300ms", "b")
    assert done.returncode == 75
    assert "fewer than 2 parties came" in done.stderr
    eventually(lambda: store.waiters("b") == 0)
    done = store.run("barrier", "-n", "2", "-w", "300ms", "b")
    assert done.returncode == 75
    assert done.stdout == ""


def test_a_killed_party_is_not_counted(store):
    dead = store.start("barrier", "-q", "-n", "2", "b")
    eventually(lambda: store.waiters("b") == 1)
    dead.kill()
    dead.wait()
    p = store.start("barrier", "-q", "-n", "2", "--json", "b")
    other = told(store.run("barrier", "-q", "-n", "2", "--json", "-w", "30s",
                           "b"))
    mine = json.loads(p.communicate(timeout=10)[0])
    assert mine["generation"] == other["generation"]


def test_an_unreachable_store_is_69(mapped):
    there = ("-s", "redis://127.0.0.1:1")
    for args in (("semaphore", *there, "a"), ("latch", *there, "a"),
                 ("latch", "--await", "-w", "1s", *there, "a"),
                 ("barrier", "-n2", "-w", "1s", *there, "a")):
        done = mapped.run(*args)
        assert done.returncode == 69, (args, done.stderr)
        assert done.stdout == ""
