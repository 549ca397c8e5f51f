"""A client and its witness: what a killed process held is free at once, and
nothing else is.

In each case the leases are far longer than the test waits, so what is free was
ended by the witness; and where it must not act, the lock stays held.
"""

import contextlib
import os
import re
import signal
import time

import pytest

from harness.certs import Authority, tls_config
from harness.checks import holders
from harness.driver import find_driver
from harness.ports import free_port
from harness.redis_server import redis_missing, redis_tls_missing
from harness.wait import boot_ns, stays, wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

BUILD = os.environ.get("SNIB_BUILD_DIR") or os.path.dirname(
    os.path.dirname(os.path.dirname(find_driver())))
PROGRAM = os.path.join(BUILD, "snib-witness")
LEASE = 60_000


@pytest.fixture
def watched_by(drivers):
    """watched_by(url) is a process whose client has a witness."""
    made = []

    def start(url, **options):
        made.append(drivers(url, witness=PROGRAM, **options))
        return made[-1]
    yield start
    for driver in made:
        for pid in witnesses(driver):  # one that was stopped
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def witnesses(driver):
    """The pids of the witnesses of this process."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"snib-witness", str(driver.pid).encode()]:
            found.append(int(pid))
    return found


def has_ended(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def hold(driver, name="n", on="main", **options):
    """Taken, with a lease that nobody waits for."""
    options.setdefault("lease_ms", LEASE)
    return driver.acquire(driver.lock(name, **options), on=on)


# -- it holds ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["mutex", "read", "write", "permits"])
def test_what_a_killed_process_held_is_had_at_once(
        watched_by, drivers, redis, kind):
    one, two = watched_by(redis.url), drivers(redis.url)
    assert one.call("witness", client="c").witness == "watches"
    options = {"capacity": 1, "permits": 1} if kind == "permits" else {}
    hold(one, kind=kind, **options)
    if kind == "permits":
        two.lock("n", kind=kind, lease_ms=LEASE, **options)
    else:
        two.lock("n", kind="write", lease_ms=LEASE)
    assert two.try_acquire("n").err == "BUSY"
    one.kill()
    two.acquire("n", wait_ms=10_000).release()


def test_one_that_waits_has_it_in_milliseconds(watched_by, drivers, redis):
    """The goal is 50 ms (bench/, row witness); here a bound for busy machines."""
    one, two = watched_by(redis.url), drivers(redis.url)
    for _ in range(3):
        hold(one)
        two.lock("n", lease_ms=LEASE)
        waiting = two.start_acquire("n", wait_ms=20_000)
        redis.wait_for(lambda s: s.connections(channels=True) == 1)
        begun = boot_ns()
        one.kill()
        taken = waiting.wait()
        assert (taken.ended - begun) / 1e6 < 2_000
        taken.release()
        one = watched_by(redis.url)


def test_a_thin_grant_a_renewed_one_and_many_at_once(watched_by, drivers, redis):
    one, two = watched_by(redis.url), drivers(redis.url)
    hold(one, "first")  # makes the mark: by script
    for i in range(64):
        hold(one, f"n{i}")
    assert redis.command("TYPE", "snib:{n7}") == b"string"  # thin
    one.call("renew", id="g2", lease_ms=LEASE)
    one.kill()
    for name in ["first", *(f"n{i}" for i in range(64))]:
        two.acquire(two.lock(name, lease_ms=LEASE), wait_ms=10_000).release()


def test_after_a_hand_over_inside_the_process(watched_by, drivers, redis):
    """The token has changed, and the store does not know that one."""
    one, two = watched_by(redis.url), drivers(redis.url)
    one.lock("n", lease_ms=LEASE)
    for _ in range(20):
        # Tokens to pass on come with a grant that somebody waits behind.
        first = one.acquire("n")
        waiting = []
        for on in ("second", "third"):
            waiting.append(one.start_acquire("n", on=on, wait_ms=10_000))
            wait_until(lambda: one.call("counters", client="c")["waiting"]
                       == len(waiting), 5, "it waits")
        first.release()
        second = waiting[0].wait()
        second.release()
        third = waiting[1].wait()
        if third.token == second.token + 1:
            break
        third.release()
    else:
        pytest.fail("no hand-over inside the process was seen")
    two.lock("n", lease_ms=LEASE)
    one.kill()
    two.acquire("n", wait_ms=10_000).release()


def test_a_process_that_ends_without_freeing_its_client(
        watched_by, drivers, redis):
    one, two = watched_by(redis.url), drivers(redis.url)
    hold(one)
    one.quit()
    two.acquire(two.lock("n", lease_ms=LEASE), wait_ms=10_000).release()


@pytest.mark.parametrize("servers", [1, 3])
def test_each_of_a_crowd_is_killed_when_it_holds(
        watched_by, redis_with, servers):
    """A quorum asks under ids of its own, in round after round."""
    nodes = [redis_with() for _ in range(servers)]
    url = nodes[0].url if servers == 1 else "redlock://" + ",".join(
        f"127.0.0.1:{node.port}" for node in nodes)
    waiting = {}
    for _ in range(5):
        driver = watched_by(url)
        driver.lock("n", lease_ms=LEASE)
        waiting[driver] = driver.start_acquire("n", wait_ms=50_000)
    while waiting:
        holder = wait_until(
            lambda: next((d for d, w in waiting.items() if w.done()), None),
            15, "one of them holds")
        waiting.pop(holder).wait()
        holder.kill()


# -- something is under way --------------------------------------------------------


def test_who_waited_stands_in_nobodys_way(watched_by, drivers, redis, look):
    """Without a witness the next one waits for the end of its time (3 s)."""
    holder, dead, behind = (drivers(redis.url), watched_by(redis.url),
                            drivers(redis.url))
    held = hold(holder)
    view = look(redis.url)
    dead.start_acquire(dead.lock("n", lease_ms=LEASE), wait_ms=60_000)
    view.wait_waiters("n", 1)
    waiting = behind.start_acquire(
        behind.lock("n", lease_ms=LEASE), wait_ms=60_000)
    view.wait_waiters("n", 2)
    dead.kill()
    view.wait_waiters("n", 1, timeout=2)
    held.release()
    waiting.wait().release()


def test_an_acquire_that_comes_after_its_end_is_kept_out(
        watched_by, drivers, redis, proxy):
    one, two = watched_by(proxy.url), drivers(redis.url)
    hold(one, "before").release()
    copy = proxy.duplicate(script="acquire", times=1)
    hold(one, no_local_pass=True, kind="write")
    copy.wait_fired()
    one.kill()
    taken = two.acquire(two.lock("n", lease_ms=LEASE), wait_ms=10_000)
    copy.fire_late()
    copy.wait_late()
    assert holders(redis, "n") == 1
    taken.release()
    assert holders(redis, "n") == 0


def test_an_acquire_that_was_sent_and_not_executed(
        watched_by, drivers, redis, proxy):
    one, two = watched_by(proxy.url), drivers(redis.url)
    hold(one, "before").release()
    gate = proxy.hold_request(script="acquire", times=1)
    one.start_acquire(one.lock("n", kind="write", lease_ms=LEASE),
                      wait_ms=60_000)
    gate.wait_fired()
    one.kill()
    redis.wait_for(lambda s: any(b":x:" in key for key in s.keys()),
                   what="a tombstone keeps it out")
    gate.release()
    two.acquire(two.lock("n", lease_ms=LEASE), wait_ms=10_000).release()
    assert stays(lambda: holders(redis, "n") == 0, 0.3) is None


def test_a_release_that_was_sent_and_not_executed(
        watched_by, drivers, redis, proxy):
    one, two = watched_by(proxy.url), drivers(redis.url)
    held = hold(one, kind="write")
    gate = proxy.hold_request(script="release", times=1)
    held.start_release()
    gate.wait_fired()
    one.kill()
    taken = two.acquire(
        two.lock("n", kind="write", lease_ms=LEASE), wait_ms=10_000)
    gate.release()
    assert stays(lambda: holders(redis, "n") == 1, 0.3) is None
    taken.release()


def test_a_yield_that_was_sent_and_not_executed(
        watched_by, drivers, redis, proxy, look):
    """It asks anew, and ends in the same step what it held: both end."""
    one, two = watched_by(proxy.url), drivers(redis.url)
    view = look(redis.url)
    held = hold(one, no_local_pass=True)
    one.start_acquire("n", on="second", wait_ms=60_000)
    waiting = two.start_acquire(
        two.lock("n", lease_ms=LEASE), wait_ms=20_000)
    view.wait_waiters("n", 1)
    gate = proxy.hold_request(script="acquire", times=1)
    held.start_release()
    gate.wait_fired()
    one.kill()
    waiting.wait().release()
    gate.release()
    view.wait_free("n")
    assert view.waiters("n") == 0


# -- it still runs -------------------------------------------------------------------


def test_a_process_that_was_stopped_keeps_its_locks(watched_by, drivers, redis):
    one, two = watched_by(redis.url), drivers(redis.url)
    held = hold(one)
    one.freeze()
    two.lock("n", lease_ms=LEASE)
    assert stays(lambda: two.try_acquire("n").err == "BUSY", 0.5) is None
    one.thaw()
    held.release()


def test_a_main_thread_that_ended_is_not_the_process(
        watched_by, drivers, redis):
    one, two = watched_by(redis.url), drivers(redis.url)
    held = hold(one, on="second")
    one.start("main_ends")
    wait_until(lambda: has_ended(one.pid), 5, "the main thread has ended")
    two.lock("n", lease_ms=LEASE)
    assert stays(lambda: two.try_acquire("n").err == "BUSY", 0.5) is None
    assert held.status().held
    os.kill(one.pid, signal.SIGKILL)
    two.acquire("n", wait_ms=10_000).release()


def test_an_exec_is_not_the_end_of_the_process(watched_by, drivers, redis):
    """What it became may go on under the lock. When that ends, the lock does."""
    one, two = watched_by(redis.url), drivers(redis.url)
    hold(one)
    watch, = witnesses(one)
    one.start("exec")
    wait_until(lambda: b"sleep" in open(
        f"/proc/{one.pid}/cmdline", "rb").read(), 5, "exec")
    two.lock("n", lease_ms=LEASE)
    assert stays(lambda: two.try_acquire("n").err == "BUSY", 0.5) is None
    one.kill()
    two.acquire("n", wait_ms=10_000).release()
    wait_until(lambda: has_ended(watch), 10, "the witness has ended, too")


def test_an_exec_ends_the_witness_when_the_leases_are_over(
        watched_by, redis):
    one = watched_by(redis.url)
    watch, = witnesses(one)
    one.start("exec")  # it holds nothing
    wait_until(lambda: has_ended(watch), 10, "the witness has ended")


def test_a_forked_child_that_lives_on_is_not_the_client(
        watched_by, drivers, redis):
    one, two = watched_by(redis.url), drivers(redis.url)
    hold(one)
    child = one.call("fork_stay").pid
    one.call("fork_free", client="c")
    two.lock("n", lease_ms=LEASE)
    assert stays(lambda: two.try_acquire("n").err == "BUSY", 0.3) is None
    one.kill()
    two.acquire("n", wait_ms=10_000).release()
    os.kill(child, signal.SIGKILL)


def test_what_is_to_outlive_the_process_does(watched_by, drivers, redis):
    one, two = watched_by(redis.url), drivers(redis.url)
    hold(one, "fixed", fixed=True)
    hold(one, "delay", lock_delay_ms=20_000)
    hold(one, "plain")
    one.kill()
    two.acquire(two.lock("plain", lease_ms=LEASE), wait_ms=10_000).release()
    for name in ("fixed", "delay"):
        assert two.try_acquire(two.lock(name, lease_ms=LEASE)).err == "BUSY"


# -- numbers of processes --------------------------------------------------------------


def next_pid_is(pid):
    """Will the next process have this number? Only root may say so."""
    try:
        with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as file:
            file.write(str(pid - 1))
    except OSError:
        return False
    return True


def with_number(drivers, pid):
    """A process of that number. Others on this machine may be faster."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if not next_pid_is(pid):
            break
        driver = drivers()
        if driver.pid == pid:
            return driver
        driver.close()
    pytest.skip("no process can be given a number here")


@pytest.mark.parametrize("number", ["the same", "its own"])
def test_a_late_witness_leaves_the_next_holder_alone(
        watched_by, drivers, redis, number):
    """The number of the dead process may be the next holder's by then."""
    one, two = watched_by(redis.url), drivers(redis.url)
    hold(one)
    watch, = witnesses(one)
    os.kill(watch, signal.SIGSTOP)
    one.kill()
    two.call("force_release", client="c", name="n", reason="the test")
    three = (with_number(drivers, one.pid) if number == "the same"
             else drivers())
    three.open(redis.url, witness=PROGRAM)
    held = hold(three)
    os.kill(watch, signal.SIGCONT)
    wait_until(lambda: has_ended(watch), 20, "the late witness is through")
    assert holders(redis, "n") == 1
    assert held.status().held
    assert three.call("witness", client="c").witness == "watches"
    held.release()


# -- the witness, the server ------------------------------------------------------------


def test_without_its_witness_the_lease_counts(watched_by, drivers, redis):
    one, two = watched_by(redis.url), drivers(redis.url)
    hold(one, lease_ms=1500)
    watch, = witnesses(one)
    os.kill(watch, signal.SIGKILL)
    wait_until(lambda: any("the witness has ended" in line
                           for line in one.logs()), 5, "it is told")
    assert one.call("witness", client="c").witness == "ended"
    two.lock("n", lease_ms=LEASE)
    one.kill()
    assert two.try_acquire("n").err == "BUSY"
    two.acquire("n", wait_ms=10_000).release()


def test_no_connection_is_made_before_it_is_needed(
        watched_by, drivers, redis):
    plain = drivers(redis.url)
    plain.acquire(plain.lock("other")).release()
    before = redis.connections()
    driver = watched_by(redis.url)
    hold(driver)
    after = redis.connections()
    # as many as the plain one has
    assert after - before <= before


def test_a_server_that_is_away_is_asked_until_it_is_back(
        redis_with, watched_by, drivers):
    redis = redis_with("appendonly yes", "appendfsync always")
    one, two = watched_by(redis.url), drivers(redis.url)
    hold(one)
    redis.stop()
    watch, = witnesses(one)
    one.kill()
    assert stays(lambda: not has_ended(watch), 0.5) is None
    redis.start()
    two.acquire(two.lock("n", lease_ms=LEASE), wait_ms=15_000).release()
    wait_until(lambda: has_ended(watch), 10, "the witness has ended")


def test_a_witness_ends_with_its_work(watched_by, drivers, redis):
    one = watched_by(redis.url)
    hold(one)
    watch, = witnesses(one)
    one.kill()
    wait_until(lambda: has_ended(watch), 10, "the witness has ended")
    assert holders(redis, "n") == 0


# -- logins, TLS -------------------------------------------------------------------------


def test_a_password_of_the_url_and_one_of_a_file(
        redis, watched_by, drivers, tmp_path):
    redis.command("ACL", "SETUSER", "anna", "on", ">one", "~*", "&*", "+@all")
    host = f"127.0.0.1:{redis.port}"
    file = tmp_path / "password"
    file.write_text("one\n")
    two = drivers(redis.url)
    for url in (f"redis://anna:one@{host}",
                f"redis://anna@{host}?password_file={file}"):
        one = watched_by(url)
        hold(one)
        watch, = witnesses(one)
        with open(f"/proc/{watch}/cmdline", "rb") as words:
            assert b"one" not in words.read()
        one.kill()
        two.acquire(two.lock("n", lease_ms=LEASE), wait_ms=10_000).release()


@pytest.mark.skipif(bool(redis_tls_missing()), reason=redis_tls_missing())
def test_tls_with_a_certificate_of_the_client(
        redis_with, watched_by, drivers, tmp_path):
    papers, port = Authority(tmp_path), free_port()
    server, client = papers.issue("server"), papers.issue("client")
    redis_with(*tls_config(port, *server, papers.ca, clients="yes"))
    url = (f"rediss://127.0.0.1:{port}?tls_ca={papers.ca}"
           f"&tls_cert={client[0]}&tls_key={client[1]}")
    one, two = watched_by(url), drivers(url)
    hold(one)
    one.kill()
    two.acquire(two.lock("n", lease_ms=LEASE), wait_ms=10_000).release()


def test_a_file_that_the_url_names_and_is_missing_is_told_at_open(
        drivers, redis, tmp_path):
    driver = drivers()
    answer = driver.ask("open", id="c", witness=PROGRAM,
                        url=f"rediss://127.0.0.1:1?tls_ca={tmp_path}/none")
    assert answer.err == "CONFIG"
    assert re.search("none", answer.text)
