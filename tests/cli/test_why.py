"""why and deadlocks: words and JSON, for somebody who was woken up."""

import json
import re
import time

import pytest

from conftest import eventually


@pytest.fixture
def drivers(snib_bin):
    """drivers(url): one more process with the library."""
    from harness.driver import Driver, driver_missing
    if driver_missing():
        pytest.skip(driver_missing())
    made = []

    def start(url, **options):
        made.append(Driver())
        made[-1].open(url, **options)
        return made[-1]
    yield start
    for driver in made:
        driver.close()


def why(store, name):
    done = store.run("why", "--json", name)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_why_of_a_free_lock(store):
    done = store.run("why", "a")
    assert done.returncode == 0
    assert done.stdout == "a: nobody; it is free.\n"
    told = why(store, "a")
    assert told["schema"] == 1 and told["held"] is False
    assert told["holders"] == told["waiters"] == told["deadlocks"] == []


def test_why_tells_holder_queue_and_outlook(store):
    store.hold("a", "--reason", "release 4.2")
    alone = store.run("why", "a").stdout
    assert "Nobody waits. It is free when it is released" in alone
    store.start("run", "-q", "--reason", "me too", "a", "true")
    eventually(lambda: store.waiters("a") == 1)
    lines = store.run("why", "a").stdout.splitlines()
    assert lines[0] == "a:"
    assert re.match(r'  held by .*"release 4\.2".* running .*sh, for '
                    r'.*; lease left (29|30)s\.$', lines[1]), lines
    assert lines[2] == "  1 waits:"
    assert re.match(r'  1\. .*"me too".*, waiting for ', lines[3])
    assert lines[4].startswith("  Next: the first in the queue, when it "
                               "is released, or in ")
    told = why(store, "a")
    assert told["holders"][0]["waits_for"] is None
    assert told["deadlocks"] == []


def test_why_follows_a_holder_to_what_it_waits_for(store, drivers):
    a, b = drivers(store.url), drivers(store.url)
    for d in (a, b):
        d.lock("X")
        d.lock("Y")
    b.acquire("Y")
    a.acquire("X")
    a.start_acquire("Y")
    eventually(lambda: store.waiters("Y") == 1)
    told = why(store, "X")
    assert told["holders"][0]["waits_for"]["name"] == "Y"
    assert told["holders"][0]["owner"] > 0
    words = store.run("why", "X").stdout
    assert "It waits itself, for Y, for " in words
    assert re.search(r"/%d \([^)]*\) owner \d+" % b.pid, words), words
    assert "lane" not in words
    assert "/%d" % b.pid in words
    assert "That one waits for no other lock: it can go on." in words


def test_no_deadlock_is_exit_0(store):
    store.hold("a")
    done = store.run("deadlocks")
    assert done.returncode == 0 and done.stdout == "no deadlock\n"
    done = store.run("deadlocks", "--json")
    assert json.loads(done.stdout) == {"schema": 1, "deadlocks": []}


def circle(store, drivers):
    """A deadlock that stands: whoever is refused asks again at once."""
    a, b = drivers(store.url), drivers(store.url)
    for d in (a, b):
        d.lock("X")
        d.lock("Y")
    a.acquire("X")
    b.acquire("Y")
    a.start_acquire("Y")
    eventually(lambda: store.waiters("Y") == 1)
    b.start_acquire("X")
    eventually(lambda: store.waiters("X") == 1)
    return a, b


def seen(again, look, ask):
    """look() until it finds something; the circle is closed again when it
    was resolved meanwhile."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        if again.done():
            again = ask()
    raise AssertionError("never seen")


def test_a_deadlock_is_shown(store, drivers):
    a, b = circle(store, drivers)

    def look():
        done = store.run("deadlocks")
        return done.stdout if done.returncode == 1 else None
    words = seen(b.start_acquire("X"), look, lambda: b.start_acquire("X"))
    assert words.startswith("DEADLOCK of 2:\n")
    assert re.search(r"  .*/%d .*waits for X, for .*; held by .*/%d "
                     % (b.pid, a.pid), words)
    assert re.search(r"  .*/%d .*waits for Y, for .*; held by .*/%d "
                     % (a.pid, b.pid), words)
    assert "is refused within some seconds" in words


def test_a_deadlock_in_json_and_in_why(store, drivers):
    a, b = circle(store, drivers)

    def look():
        done = store.run("deadlocks", "--json")
        return done.returncode == 1 and json.loads(done.stdout)["deadlocks"]
    one, = seen(b.start_acquire("X"), look, lambda: b.start_acquire("X"))
    assert one["certain"] is True
    assert [w["name"] for w in one["waits"]] == ["X", "Y"]
    assert [w["waiter"]["pid"] for w in one["waits"]] == [b.pid, a.pid]
    told = seen(b.start_acquire("X"), lambda: why(store, "Y")["deadlocks"],
                lambda: b.start_acquire("X"))
    assert told[0]["certain"] is True
    assert "DEADLOCK of 2" in seen(
        b.start_acquire("X"),
        lambda: (lambda s: s if "DEADLOCK" in s else None)(
            store.run("why", "X").stdout),
        lambda: b.start_acquire("X"))


def test_permits_in_a_circle_are_shown_as_not_certain(store, drivers):
    a, b = drivers(store.url), drivers(store.url)
    for d in (a, b):
        d.lock("S", kind="permits", permits=1, capacity=1)
        d.lock("Y")
    a.acquire("S")
    b.acquire("Y")
    a.start_acquire("Y")
    b.start_acquire("S")
    done = eventually(lambda: (lambda d: d if d.returncode else None)(
        store.run("deadlocks", "--json")))
    assert done.returncode == 1
    one, = json.loads(done.stdout)["deadlocks"]
    assert one["certain"] is False
    words = store.run("deadlocks").stdout
    assert words.startswith("DEADLOCK of 2, as far as can be seen:\n")
    assert "Nobody is refused" in words


def test_a_store_that_is_not_there_and_wrong_usage(store):
    for sub in (["why", "a"], ["deadlocks"]):
        done = store.run(sub[0], "-s", "redis://127.0.0.1:1", *sub[1:])
        assert done.returncode in (69, 78)
        assert done.stdout == ""
    assert store.run("why").returncode == 64
    assert store.run("why", "").returncode == 64
    assert store.run("deadlocks", "a").returncode == 64
