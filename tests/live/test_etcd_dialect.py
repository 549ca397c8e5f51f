"""The same lock at the same moment as etcd's own clients (?dialect=concurrency):
`etcdctl lock`, and Go's concurrency.Mutex."""

import os
import pathlib
import re
import signal
import statistics
import subprocess
import time

import pytest

from counters import Counter
from harness import process
from harness.beside import snib_at
from harness.etcd_server import EtcdServer, etcd_missing
from harness.foreign import Foreign, go_mutex, missing
from harness.wait import stays, wait_until

pytestmark = pytest.mark.skipif(bool(etcd_missing()), reason=etcd_missing())
ROOT = pathlib.Path(__file__).parents[2]
NEEDS, DIALECT = "etcd://127.0.0.1:1", "?dialect=concurrency"
SNIB = os.environ.get("SNIB_BIN", "")
WAKE_S = 0.2  # a release of one side wakes the other; a poll comes later


@pytest.fixture(scope="module")
def kept():
    with EtcdServer() as server:
        yield server


@pytest.fixture
def one(kept):
    kept.ctl("del", "--prefix", "")
    return kept


@pytest.fixture
def mutex(one):
    """mutex(name): a process with Go's concurrency.Mutex of that name."""
    why = missing(go_mutex)
    if why:
        pytest.skip(why)
    made = []

    def start(name, *more):
        made.append(Foreign(go_mutex(), one.only.client_url, name, *more))
        return made[-1]
    yield start
    for each in made:
        each.close()


class EtcdctlLock:
    """`etcdctl lock NAME`, which holds until it is interrupted."""

    def __init__(self, server, name, *options):
        self.child = process.spawn(
            ["etcdctl", "--endpoints", server.only.client_url, "lock",
             *options, name], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "ETCDCTL_API": "3"})

    def locked(self):
        """Waits until it holds: then it shows its key."""
        return self.child.stdout.readline().decode().strip()

    def unlock(self):
        self.child.send_signal(signal.SIGINT)

    def close(self):
        if self.child.poll() is None:
            process.kill(self.child)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def waits(one, count, name="n"):
    wait_until(lambda: len(one.keys(f"{name}/")) == count, 10,
               f"{count} keys below {name}/")


# -- etcdctl lock ------------------------------------------------------------------


def test_etcdctl_keeps_ours_out_and_ours_keeps_it_out(one, drivers):
    ours = drivers(one.url + DIALECT)
    with EtcdctlLock(one, "n") as theirs:
        assert theirs.locked().startswith("n/")
        assert not ours.try_acquire(ours.lock("n")).ok
        waiting = ours.start_acquire("n", wait_ms=20000)
        waits(one, 2)
        theirs.unlock()
        grant = waiting.wait()
    with EtcdctlLock(one, "n") as theirs:
        waits(one, 2)
        stays(lambda: theirs.child.poll() is None, 0.5)
        grant.release()
        assert theirs.locked().startswith("n/")


def test_each_release_wakes_etcdctls_side_or_ours(one, drivers):
    ours, woken = drivers(one.url + DIALECT), []
    ours.lock("n")
    for _ in range(7):
        with EtcdctlLock(one, "n") as theirs:
            theirs.locked()
            waiting = ours.start_acquire("n", wait_ms=20000)
            waits(one, 2)
            time.sleep(0.05)  # its watch is there
            began = time.monotonic()
            theirs.unlock()
            grant = waiting.wait()
            woken.append(time.monotonic() - began)
        with EtcdctlLock(one, "n") as theirs:
            waits(one, 2)
            time.sleep(0.05)
            began = time.monotonic()
            grant.release()
            theirs.locked()
            woken.append(time.monotonic() - began)
            theirs.unlock()
            theirs.child.wait(10)
    assert statistics.median(woken[0::2]) < WAKE_S, woken
    assert statistics.median(woken[1::2]) < WAKE_S, woken


def adding_to(path, pause_s):
    return f"n=$(cat {path}); sleep {pause_s}; echo $((n + 1)) > {path}"


def test_a_counter_with_etcdctl_is_exact(one, drivers, tmp_path):
    """etcdctl runs a command under the lock, as snib run does."""
    counter = Counter(tmp_path)
    script = adding_to(counter.path, 0.005)
    counter.start_ours([drivers(one.url + DIALECT) for _ in range(2)], "n", 60)
    for _ in range(25):
        one.ctl("lock", "n", "--", "sh", "-c", script, timeout=60)
    counter.join()
    assert counter.number() == 145


def test_snib_run_and_etcdctl_lock_run_one_at_a_time(one, tmp_path):
    if not SNIB:
        pytest.skip("no snib")
    counter = Counter(tmp_path)
    script = adding_to(counter.path, 0.01)
    env = {**os.environ, "SNIB_URL": one.url + DIALECT}
    with EtcdctlLock(one, "n") as theirs:
        theirs.locked()
        done = subprocess.run([SNIB, "try", "n"], env=env, check=False,
                              stderr=subprocess.DEVNULL)
        assert done.returncode == 75
        theirs.unlock()
        theirs.child.wait(10)

    def ours():
        for _ in range(8):
            subprocess.run([SNIB, "run", "-q", "n", "--", "sh", "-c", script],
                           env=env, check=True)
    counter.start(ours)
    for _ in range(8):
        one.ctl("lock", "n", "--", "sh", "-c", script, timeout=60)
    counter.join()
    assert counter.number() == 16


# -- Go's concurrency.Mutex --------------------------------------------------------


def test_each_release_wakes_gos_side_or_ours(one, drivers, mutex):
    ours, theirs, woken = drivers(one.url + DIALECT), mutex("n"), []
    ours.lock("n")
    for _ in range(11):
        theirs.lock()
        waiting = ours.start_acquire("n", wait_ms=20000)
        waits(one, 2)
        time.sleep(0.05)
        began = time.monotonic()
        theirs.unlock()
        grant = waiting.wait()
        woken.append(time.monotonic() - began)
        theirs.say("lock")
        waits(one, 2)
        time.sleep(0.05)
        assert theirs.says_nothing()
        began = time.monotonic()
        grant.release()
        assert theirs.line() == "locked"
        woken.append(time.monotonic() - began)
        theirs.unlock()
    assert statistics.median(woken[0::2]) < WAKE_S, woken
    assert statistics.median(woken[1::2]) < WAKE_S, woken


def test_a_counter_with_go_is_exact(one, drivers, mutex, tmp_path):
    counter = Counter(tmp_path)
    theirs = [mutex("n") for _ in range(2)]
    counter.start_ours([drivers(one.url + DIALECT) for _ in range(2)], "n", 60)
    for each in theirs:
        each.say(f"count {counter.path} 60")
    for each in theirs:
        assert each.line(120) == "counted 60"
    counter.join()
    assert counter.number() == 240


def test_tokens_rise_over_the_grants_of_both(one, drivers, mutex):
    """The token is the create revision, which Go knows as well."""
    ours, theirs = drivers(one.url + DIALECT), mutex("n")
    ours.lock("n")
    last = 0
    for _ in range(3):
        grant = ours.acquire("n")
        assert grant.token > last
        last = grant.token
        grant.release()
        theirs.lock()
        revision = int(theirs.do("revision"))
        assert revision > last
        last = revision
        theirs.unlock()


def test_gos_try_is_refused_while_ours_holds(one, drivers, mutex):
    ours, theirs = drivers(one.url + DIALECT), mutex("n")
    grant = ours.acquire(ours.lock("n"))
    assert theirs.do("try") == "busy"
    grant.renew()
    assert theirs.do("try") == "busy"
    grant.release()
    assert theirs.do("try") == "locked"


def test_a_frozen_holder_of_ours_has_lost_before_go_has_it(one, drivers, mutex):
    """Its lease ends the lock; it finds that out by its own clock."""
    ours, theirs = drivers(one.url + DIALECT), mutex("n")
    grant = ours.acquire(ours.lock("n", lease_ms=3000))
    theirs.say("lock")
    waits(one, 2)
    ours.freeze()
    assert theirs.line(20) == "locked"
    ours.thaw()
    assert ours.ask("renew", id=grant.id).err == "LOST"


def test_a_dead_holder_of_gos_frees_the_lock_by_its_session(
        one, drivers, mutex):
    ours, theirs = drivers(one.url + DIALECT), mutex("n", 2)
    theirs.lock()
    waiting = ours.start_acquire(ours.lock("n"), wait_ms=30000)
    waits(one, 2)
    theirs.close()
    waiting.wait(30).release()


# -- what is there -----------------------------------------------------------------


def test_nothing_is_left_and_nothing_is_without_a_lease(one, drivers):
    a, b = drivers(one.url + DIALECT), drivers(one.url + DIALECT)
    grant = a.acquire(a.lock("a/b"))
    waiting = b.start_acquire(b.lock("a/b"), wait_ms=20000)
    waits(one, 2, "a/b")
    for key in one.keys(""):
        fields = one.ctl("get", key, "-w", "fields").splitlines()
        lease = [line for line in fields if line.startswith('"Lease"')]
        assert lease and lease[0].split(" : ")[1] != "0", key
    grant.release()
    waiting.wait().release()
    assert one.keys("") == []


def test_who_holds_is_shown_whichever_side_it_is(one, drivers):
    ours, look = drivers(one.url + DIALECT), drivers(one.url + DIALECT)
    with EtcdctlLock(one, "n") as theirs:
        theirs.locked()
        waiting = ours.start_acquire(ours.lock("n"), wait_ms=20000)
        waits(one, 2)
        seen = look.call("inspect", client="c", name="n")
        assert len(seen.holders) == 1 and len(seen.waiters) == 1
        assert seen.holders[0]["program"] == "not snib", seen
        said = snib_at(one.url + DIALECT, "status", "n").stdout
        assert re.match("n: held by a client that is not snib, lease .*\n"
                        "  holder   a client that is not snib\n  lease ",
                        said), said
        theirs.unlock()
        grant = waiting.wait()
    seen = look.call("inspect", client="c", name="n")
    assert seen.holders[0]["token"] == grant.token
    for holds in (True, False):
        done = snib_at(one.url + DIALECT, "force-release", "n")
        assert done.returncode == 78, done
        assert "not ended by force" in done.stdout, done
        if holds:
            grant.release()


def test_a_waiter_that_was_killed_stands_in_nobodys_way_for_long(one, drivers):
    holder, dead, last = [drivers(one.url + DIALECT) for _ in range(3)]
    grant = holder.acquire(holder.lock("n"))
    dead.start_acquire(dead.lock("n"), wait_ms=60000)
    waits(one, 2)
    waiting = last.start_acquire(last.lock("n"), wait_ms=60000)
    waits(one, 3)
    dead.kill()
    grant.release()
    waiting.wait(12).release()


def test_other_kinds_are_refused(one, drivers):
    ours = drivers(one.url + DIALECT)
    for kind in ("read", "write"):
        lock = ours.lock("n", id=kind, kind=kind)
        assert ours.try_acquire(lock).err == "UNSUPPORTED"
    assert ours.ask("list", client="c", glob="*").err == "UNSUPPORTED"


def test_the_rights_of_the_page_are_enough(drivers):
    page = (ROOT / "docs" / "ETCD.md").read_text(encoding="utf-8")
    rights = re.findall(r"^etcdctl (role .*)$", page.partition("## With")[2],
                        re.M)
    assert len(rights) == 2
    with EtcdServer() as server:
        server.ctl("role", "add", "snib")
        for each in rights:
            server.ctl(*each.split())
        server.ctl("user", "add", "both:pw")
        server.ctl("user", "grant-role", "both", "snib")
        server.enable_auth()
        url = f"etcd://both:pw@127.0.0.1:{server.port}{DIALECT}"
        a, b, c = drivers(url), drivers(url), drivers(url)
        grant = a.acquire(a.lock("nightly"))
        waiting = b.start_acquire(b.lock("nightly"), wait_ms=20000)
        said = c.ask("acquire", lock=c.lock("else"), id="e", wait_ms=3000)
        assert said.err == "DENIED", said
        assert "keys else/... or snib/x/...: give" in said.text, said
        grant.release()
        waiting.wait().release()


def test_the_doctor_tells_of_the_dialect(one):
    if not SNIB:
        pytest.skip("no snib")
    done = subprocess.run(
        [SNIB, "doctor"], env={**os.environ, "SNIB_URL": one.url + DIALECT},
        text=True, check=False, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT)
    assert "dialect" in done.stdout and "etcdctl lock" in done.stdout
    assert "fail" not in done.stdout, done.stdout
