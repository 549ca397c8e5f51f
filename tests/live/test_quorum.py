"""A lock on a majority of real servers: nodes down, slow, frozen, restarted
empty, with clocks apart; tokens, renewals, releases, counting.

Rows: A-03 to A-08, F-022, F-027, F-028, F-063; H15, H36, H37.
"""

import json
import os
import random
import re
import signal
import subprocess
import time

import pytest

from harness.checks import assert_no_residue, holders, read_tally
from harness.driver import LockError
from harness.fault_proxy import FaultProxy
from harness.pulse import late_ms
from harness.redis_server import redis_missing
from harness.shim import Shim, ShimMissing, build_shim
from harness.wait import wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


FAR = 8000000000000000  # a token of the year 2217


def url_of(nodes, **options):
    hosts = ",".join(f"{host}:{port}" for host, port in
                     (node.address for node in nodes))
    query = "&".join(f"{key}={value}" for key, value in options.items())
    return f"redlock://{hosts}" + (f"?{query}" if query else "")


@pytest.fixture
def nodes(redis_with):
    """nodes(3): that many servers of their own."""
    return lambda count: [redis_with() for _ in range(count)]


@pytest.fixture(params=[3, 5])
def quorum(request, nodes):
    return nodes(request.param)


def minority(quorum):
    return (len(quorum) - 1) // 2


def on(quorum, name="n"):
    """At how many servers the lock is held."""
    return sum(1 for node in quorum
               if node.child.poll() is None and holders(node, name))


def wait_whole(quorum, grant):
    """Until it is at every server under the quorum's token: one that gave a
    lower one is told the quorum's behind the answer, and would set what a test
    has taken away. (One that was too slow for the round gets the grant with
    the next renewal.)"""
    token = str(grant.token).encode()
    wait_until(lambda: all(
        any(value.split()[1:2] == [token]
            for value in node.command("HVALS", "snib:{n}"))
        for node in quorum), 10, "a whole grant")


# -- everything well ------------------------------------------------------------


def test_grant_is_on_every_node_and_leaves_nothing(drivers, quorum):
    driver = drivers(url_of(quorum))
    grant = driver.acquire(driver.lock("n"), wait_ms=2000)
    wait_whole(quorum, grant)
    grant.release()
    for node in quorum:
        assert_no_residue(node)


def test_a_token_far_ahead_of_one_lock_is_no_floor_of_others(drivers, nodes):
    three = nodes(3)
    for node in three:
        node.command("SET", "snib:{a}:t", FAR)
    driver = drivers(url_of(three))
    first = driver.acquire(driver.lock("a"), wait_ms=2000)
    assert first.token > FAR
    first.release()
    other = driver.acquire(driver.lock("b"), wait_ms=2000)
    assert other.token < FAR
    other.release()
    again = driver.acquire("a", wait_ms=2000)
    assert again.token > first.token, "and its own goes on"
    again.release()


def test_other_client_is_told_busy_and_then_wins(drivers, quorum):
    a, b = drivers(url_of(quorum)), drivers(url_of(quorum))
    grant = a.acquire(a.lock("n"), wait_ms=2000)
    assert b.try_acquire(b.lock("n")).err == "BUSY"
    waits = b.start_acquire(b.lock("n"), wait_ms=5000)
    grant.release()
    late = time.monotonic()
    second = waits.wait()
    assert time.monotonic() - late < 0.5
    assert second.token > grant.token


def test_view_shows_the_holder_once(drivers, quorum):
    driver = drivers(url_of(quorum))
    grant = driver.acquire(driver.lock("n"), wait_ms=2000)
    view = driver.call("inspect", client="c", name="n")
    assert [party["token"] for party in view.holders] == [grant.token]
    grant.release()


# -- nodes down --------------------------------------------------------------------


def test_minority_down_costs_nothing_but_time(drivers, quorum):
    driver = drivers(url_of(quorum))
    driver.acquire(driver.lock("n"), wait_ms=2000).release()
    for node in quorum[:minority(quorum)]:
        node.kill()
    last = 0
    for _ in range(5):
        grant = driver.acquire(driver.lock("n"), wait_ms=3000)
        assert grant.token > last
        last = grant.token
        grant.renew()
        grant.release()


def test_minority_down_from_the_start(drivers, quorum):
    for node in quorum[:minority(quorum)]:
        node.kill()
    driver = drivers(url_of(quorum))
    driver.acquire(driver.lock("n"), wait_ms=5000).release()


def test_majority_down_is_a_clear_error_in_time(drivers, quorum):
    driver = drivers(url_of(quorum), request_ms=1000)
    driver.acquire(driver.lock("n"), wait_ms=2000).release()
    for node in quorum[minority(quorum):]:
        node.kill()
    for wait_ms in (0, 1500):
        began = time.monotonic()
        with pytest.raises(LockError) as error:
            driver.acquire(driver.lock("n"), wait_ms=wait_ms)
        took_ms = (time.monotonic() - began) * 1000
        assert took_ms < wait_ms + 1500 + late_ms()
        assert error.value.err == "UNREACHABLE"
        assert "no majority" in error.value.answer.text
    # What the minority granted meanwhile is given back.
    wait_until(lambda: on(quorum) == 0, 3, "nothing held at the minority")


def test_waiter_survives_the_loss_and_return_of_the_majority(drivers, quorum):
    driver = drivers(url_of(quorum))
    driver.acquire(driver.lock("n"), wait_ms=2000).release()
    down = quorum[minority(quorum):]
    for node in down:
        node.kill()
    waits = driver.start_acquire(driver.lock("n"), wait_ms=15000)
    wait_until(lambda: not waits.done(), 1, "it waits")
    for node in down:
        node.start()
    waits.wait().release()


def test_holder_without_majority_is_told_before_the_lease_ends(drivers, quorum):
    driver = drivers(url_of(quorum), request_ms=500)
    grant = driver.acquire(driver.lock("n", lease_ms=1500), wait_ms=2000)
    for node in quorum[minority(quorum):]:
        node.kill()
    died = time.monotonic()
    grant.wait_state("at risk", timeout=2)
    grant.wait_state("lost", timeout=3)
    assert time.monotonic() - died < 1.6


def test_release_with_a_node_down_reaches_it_when_it_is_back(drivers, nodes):
    """A frozen node that holds our grant is told of its end."""
    quorum = nodes(3)
    driver = drivers(url_of(quorum))
    grant = driver.acquire(driver.lock("n"), wait_ms=2000)
    wait_whole(quorum, grant)
    quorum[0].freeze()
    try:
        grant.release()
    finally:
        quorum[0].thaw()
    wait_until(lambda: on(quorum) == 0, 5, "released everywhere")


# -- slow, frozen --------------------------------------------------------------------


def test_slow_minority_does_not_slow_the_lock(drivers, nodes):
    quorum = nodes(3)
    with FaultProxy(quorum[0].address) as slow:
        driver = drivers(url_of([slow, quorum[1], quorum[2]]))
        driver.acquire(driver.lock("n"), wait_ms=2000).release()
        with slow.delay_reply(0.4):
            for _ in range(5):
                began = time.monotonic()
                driver.acquire(driver.lock("n"), wait_ms=2000).release()
                assert time.monotonic() - began < 0.3 + late_ms() / 1000
        for node in quorum:
            assert_no_residue(node, timeout=5)


def test_slow_majority_is_not_had_within_the_node_limit(drivers, nodes):
    quorum = nodes(3)
    with FaultProxy(quorum[0].address) as a, FaultProxy(quorum[1].address) as b:
        driver = drivers(url_of([a, b, quorum[2]], node_ms=100))
        driver.lock("n")
        # Until each has answered once, it has request_ms: a majority without
        # the third is the two that are to be slow.
        quorum[2].freeze()
        try:
            driver.acquire("n", wait_ms=2000).release()
        finally:
            quorum[2].thaw()
        driver.acquire("n", wait_ms=2000).release()
        for node in quorum:
            wait_until(lambda: not holders(node, "n"), 5, "all given back")
        with a.delay_reply(2), b.delay_reply(2):
            began = time.monotonic()
            with pytest.raises(LockError) as error:
                driver.acquire("n", wait_ms=0)
            assert time.monotonic() - began < 1.8 + late_ms() / 1000
            assert error.value.err == "UNREACHABLE"
        # Its own leftovers do not block the next attempt for long (F-028).
        driver.acquire(driver.lock("n"), wait_ms=8000).release()
        # While there is a way to each: a release is done when a majority has
        # confirmed it, and the last server is told behind it.
        for node in quorum:
            assert_no_residue(node, timeout=12)


@pytest.mark.parametrize("frozen", [1, 2])
def test_frozen_nodes(drivers, nodes, frozen):
    quorum = nodes(3)
    driver = drivers(url_of(quorum), request_ms=1000)
    driver.acquire(driver.lock("n"), wait_ms=2000).release()
    for node in quorum[:frozen]:
        node.freeze()
    try:
        if frozen == 1:
            for _ in range(3):
                grant = driver.acquire(driver.lock("n"), wait_ms=3000)
                grant.renew()
                grant.release()
        else:
            began = time.monotonic()
            with pytest.raises(LockError) as error:
                driver.acquire(driver.lock("n"), wait_ms=1000)
            assert time.monotonic() - began < 2.5 + late_ms() / 1000
            assert error.value.err == "UNREACHABLE"
    finally:
        for node in quorum[:frozen]:
            node.thaw()
    driver.acquire(driver.lock("n"), wait_ms=5000).release()
    for node in quorum:
        assert_no_residue(node, timeout=12)


# -- restarted empty -------------------------------------------------------------------


def test_renewal_sets_the_grant_at_nodes_restarted_empty(drivers, quorum):
    """F-027: one after the other, over and over; the grant stays whole."""
    driver, other = drivers(url_of(quorum)), drivers(url_of(quorum))
    grant = driver.acquire(driver.lock("n", lease_ms=3000), wait_ms=2000)
    for node in quorum:
        wait_whole(quorum, grant)
        node.command("FLUSHALL")
        grant.renew()
    wait_whole(quorum, grant)
    assert other.try_acquire(other.lock("n")).err == "BUSY"
    assert grant.status().state == "held"
    grant.release()


def test_majority_restarted_empty_at_once_is_set_again(drivers, nodes):
    quorum = nodes(3)
    driver = drivers(url_of(quorum))
    grant = driver.acquire(driver.lock("n", lease_ms=3000), wait_ms=2000)
    wait_whole(quorum, grant)
    for node in quorum[:2]:
        node.command("FLUSHALL")
    grant.renew()
    wait_whole(quorum, grant)
    grant.release()
    wait_until(lambda: on(quorum) == 0, 2, "nothing held")


def test_grant_is_not_set_again_where_another_was_granted_since(drivers, nodes):
    """The empty majority elected somebody else meanwhile: that one holds, and
    the first is told at its next renewal."""
    quorum = nodes(3)
    a, b = drivers(url_of(quorum)), drivers(url_of(quorum))
    first = a.acquire(a.lock("n", lease_ms=20000), wait_ms=2000)
    wait_whole(quorum, first)
    for node in quorum[:2]:
        node.command("FLUSHALL")
    second = b.acquire(b.lock("n", lease_ms=20000), wait_ms=2000)
    assert second.token > first.token  # the fence holds where exclusion fails
    with pytest.raises(LockError) as error:
        first.renew()
    assert error.value.err == "LOST"
    assert first.status().state == "lost"
    second.renew()
    second.release()


def test_grant_given_and_taken_back_since_is_not_continued(drivers, nodes):
    quorum = nodes(3)
    a, b = drivers(url_of(quorum)), drivers(url_of(quorum))
    first = a.acquire(a.lock("n", lease_ms=20000), wait_ms=2000)
    wait_whole(quorum, first)
    for node in quorum[:2]:
        node.command("FLUSHALL")
    b.acquire(b.lock("n"), wait_ms=2000).release()
    with pytest.raises(LockError) as error:
        first.renew()
    assert error.value.err in ("LOST", "UNREACHABLE", "STORE")


# -- tokens -------------------------------------------------------------------------------


def test_tokens_rise_over_majorities_that_disagree(drivers, nodes):
    """H36: nodes with memories apart, each acquisition on another majority,
    by one of two clients."""
    quorum = nodes(3)
    seed = random.Random(36)
    for i, node in enumerate(quorum):  # ten minutes apart, each
        seconds, micros = node.command("TIME")
        ahead = (int(seconds) * 1000 + i * 600_000) * 1024
        node.command("SET", "snib:{n}:t", str(ahead), "PX", 86_000_000)
    clients = [drivers(url_of(quorum, node_ms=60), request_ms=600)
               for _ in range(2)]
    locks = [client.lock("n", lease_ms=2000) for client in clients]
    last = 0
    for i in range(200):
        down = seed.choice([None, *quorum])
        if down is not None:
            down.freeze()
        try:
            k = seed.randrange(2)
            grant = clients[k].acquire(locks[k], wait_ms=8000)
            assert grant.token > last, f"acquisition {i}"
            last = grant.token
            grant.release()
        finally:
            if down is not None:
                down.thaw()


# -- clocks ---------------------------------------------------------------------------------


@pytest.fixture
def clocked(redis_with, tmp_path):
    """A server whose wall clock the test steps: (server, shim)."""
    try:
        shim = Shim(build_shim(tmp_path), tmp_path / "words")
    except ShimMissing as why:
        pytest.skip(str(why))
    yield redis_with(env=shim.env), shim
    shim.close()


@pytest.mark.parametrize("seconds", [-6, 6, 3600, 400 * 86400])
def test_one_clock_stepped_costs_neither_lock_nor_token(
        drivers, nodes, clocked, seconds):
    odd, shim = clocked
    quorum = [odd, *nodes(2)]
    a, b = drivers(url_of(quorum)), drivers(url_of(quorum))
    last = a.acquire(a.lock("n"), wait_ms=2000)
    shim.step_real(seconds)
    wait_until(lambda: abs(int(odd.command("TIME")[0]) - time.time() - seconds)
               < 2, 2, "the clock is stepped")
    last.renew()
    assert b.try_acquire(b.lock("n")).err == "BUSY"
    last.release()
    token = last.token
    for i in range(10):
        client = (a, b)[i % 2]
        grant = client.acquire(client.lock("n"), wait_ms=3000)
        assert grant.token > token
        token = grant.token
        # One clock does not drag the tokens more than a day along.
        assert token / 1024 / 1000 - time.time() < 86400 + 60
        grant.release()


# -- many -------------------------------------------------------------------------------------


def test_two_clients_count_for_ten_seconds(drivers, quorum, tmp_path):
    path = tmp_path / "tally"
    clients = [drivers(url_of(quorum)) for _ in range(2)]
    locks = [client.lock("n") for client in clients]
    end, total = time.monotonic() + 10, 0
    while time.monotonic() < end:
        jobs = [client.start("count", lock=lock, path=path, rounds=20)
                for client, lock in zip(clients, locks)]
        answers = [job.wait(timeout=60) for job in jobs]
        assert sum(answer.fallen_tokens for answer in answers) == 0
        total += sum(answer.done for answer in answers)
    assert read_tally(path)[0] == total
    assert total > 0
    for node in quorum:
        assert_no_residue(node, timeout=5)


def test_owners_of_two_processes_share(drivers, nodes, tmp_path):
    """Local turns end in a yield, which lets the other process in."""
    path = tmp_path / "tally"
    quorum = nodes(3)
    jobs = []
    for _ in range(2):
        driver = drivers(url_of(quorum))
        lock = driver.lock("n")
        jobs += [driver.start("count", lock=lock, path=path, rounds=100,
                              on=f"t{i}") for i in range(4)]
    answers = [job.wait(timeout=60) for job in jobs]
    assert sum(answer.done for answer in answers) == 800
    assert sum(answer.fallen_tokens for answer in answers) == 0
    assert read_tally(path)[0] == 800
    for node in quorum:
        assert_no_residue(node, timeout=12)


def test_counter_is_exact_while_nodes_come_and_go(drivers, nodes, tmp_path):
    """F-063: one node after the other stands still for a moment."""
    path = tmp_path / "tally"
    quorum = nodes(5)
    jobs = []
    for _ in range(3):
        driver = drivers(url_of(quorum, node_ms=80))
        lock = driver.lock("n")
        jobs.append(driver.start("count", lock=lock, path=path, rounds=60))
    seed = random.Random(63)
    while not all(job.done() for job in jobs):
        for node in seed.sample(quorum, 2):
            node.child.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + 0.15
        wait_until(lambda: time.monotonic() > deadline, 1, "the pause is over")
        for node in quorum:
            node.child.send_signal(signal.SIGCONT)
    answers = [job.wait(timeout=60) for job in jobs]
    assert sum(answer.done for answer in answers) == 180
    assert sum(answer.fallen_tokens for answer in answers) == 0
    assert read_tally(path)[0] == 180


# -- the command line ---------------------------------------------------------------------------


@pytest.fixture
def snib(quorum):
    """snib("status", "n"): the command on that quorum."""
    program = os.environ.get("SNIB_BIN", "")
    if not os.access(program, os.X_OK):
        pytest.skip("the command snib is not built")

    def run(*words, **more):
        return subprocess.run(
            [program, *words], capture_output=True, text=True, timeout=30,
            env={**os.environ, "SNIB_URL": url_of(quorum)}, **more)
    return run


def test_run_status_list_doctor(snib, quorum):
    program = os.environ["SNIB_BIN"]
    done = snib("run", "n", "--", "sh", "-c",
                f"{program} status n; {program} list; echo $SNIB_TOKEN")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert sum(line.startswith("n: held by") for line in lines) == 2
    assert any(line.split()[:1] == ["token"] and line.split()[1] == lines[-1]
               for line in lines)
    done = snib("doctor")
    for node in quorum:
        assert f"127.0.0.1:{node.port}: " in done.stdout
    assert "servers answer" in done.stdout
    for node in quorum:
        assert_no_residue(node, timeout=5)


def test_grant_left_behind_is_released_by_another_process(
        snib, quorum, tmp_path):
    """The token is one for all servers, so one number names the grant."""
    path = tmp_path / "grant"
    quorum[0].freeze()  # misses it, or is told late
    try:
        done = snib("acquire", "--detached", "-t", "20s", "-o", str(path),
                    "n")
    finally:
        quorum[0].thaw()
    assert done.returncode == 0, done.stderr
    assert snib("try", "n", "--", "true").returncode == 75
    done = snib("release", str(path))
    assert done.returncode == 0, done.stderr
    wait_until(lambda: on(quorum[1:]) == 0, 3, "released")
    assert snib("try", "n", "--", "true").returncode == 0


def test_an_earlier_vote_does_not_make_a_holder_hold_for_longer(snib, quorum):
    """A vote of a round that was lost may stand at a server yet."""
    held = subprocess.Popen(
        [os.environ["SNIB_BIN"], "run", "-q", "-t", "20s", "n", "--", "cat"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "SNIB_URL": url_of(quorum)})
    held.stdin.write(b"held\n")
    held.stdin.flush()
    assert held.stdout.readline() == b"held\n"
    wait_until(lambda: on(quorum) == len(quorum), 2, "a grant on every server")
    client, record = quorum[0].command("HGETALL", "snib:{n}")
    request, token, end, mode, permits, since, rest = record.split(b" ", 6)
    quorum[0].command("HSET", "snib:{n}", client, b" ".join(
        [request[::-1], b"%d" % (int(token) - 1024000), end, mode, permits,
         b"%d" % (int(since) - 60000), rest]))
    shown = json.loads(snib("status", "--json", "n").stdout)
    since_ms = shown["holders"][0]["since_ms"]
    assert time.time() * 1000 - since_ms < 30000, shown
    held.stdin.close()
    assert held.wait(20) == 0


def test_a_release_reaches_servers_that_are_slow_to_greet(nodes, tmp_path):
    """The command has its answer from three of five, before the other two
    have taken its connection."""
    five = nodes(5)
    program = os.environ["SNIB_BIN"]
    path = tmp_path / "grant"
    for slow in (0.1, 0.2):
        env = {**os.environ, "SNIB_URL": url_of(five)}
        subprocess.run([program, "acquire", "--detached", "-t", "20s", "-o",
                        str(path), "n"], env=env, check=True, timeout=30)
        wait_until(lambda: on(five) == 5, 2, "a grant on every server")
        with FaultProxy(five[3].address) as a, FaultProxy(five[4].address) as b:
            a.delay_reply(slow, command="HELLO")
            b.delay_reply(slow, command="HELLO")
            done = subprocess.run(
                [program, "release", "-s", url_of([*five[:3], a, b]),
                 str(path)], capture_output=True, text=True, timeout=30)
            assert done.returncode == 0, done.stderr
            wait_until(lambda: on(five) == 0, 1, "released on every server")


def test_names_that_do_not_resolve_end_a_wait_at_once(drivers, nodes):
    """As soon as no majority can be there; one that is missing is no matter."""
    one, two = ("%s:%d" % node.address for node in nodes(2))
    url = f"redlock://{one},no-such-host.invalid,nor-this.invalid"
    driver = drivers(url)
    answer = driver.start_acquire(driver.lock("n"), wait_ms=60000).answer(30)
    assert answer.err == "UNREACHABLE"
    assert answer.took_ms < 15000 + late_ms()
    assert ".invalid:6379: " in answer.text, answer.text
    done = subprocess.run(
        [os.environ["SNIB_BIN"], "run", "-s", url, "n", "--", "echo", "ran"],
        capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (69, ""), done.stderr
    assert ".invalid:6379: " in done.stderr, done.stderr
    driver = drivers(f"redlock://{one},{two},no-such-host.invalid")
    # Another name: the command may have left its vote for n, for a lease.
    driver.acquire(driver.lock("m"), wait_ms=5000).release()


def test_force_release_ends_it_on_all_and_tells_the_holder(
        snib, drivers, quorum):
    driver = drivers(url_of(quorum))
    grant = driver.acquire(driver.lock("n", lease_ms=1500), wait_ms=2000)
    wait_whole(quorum, grant)
    done = snib("force-release", "--yes", "--reason", "stuck", "n")
    assert done.returncode == 0, done.stderr
    assert on(quorum) == 0
    grant.wait_state("lost", timeout=3)
    assert grant.status().reason == "revoked"


def test_without_a_majority_nothing_runs(snib, quorum):
    for node in quorum[minority(quorum):]:
        node.kill()
    done = snib("run", "--wait", "1s", "n", "--", "echo", "ran")
    assert done.returncode == 69
    assert re.search(r"unreachable for \S+ \(\d of \d servers reachable, \d "
                     r"needed; .*connection refused\)", done.stderr), done.stderr
    assert "ran" not in done.stdout
    done = snib("status", "n")
    assert done.returncode == 69
    done = snib("doctor")
    assert done.returncode != 0
    assert f"of {len(quorum)} servers answer" in done.stdout


@pytest.mark.parametrize("url, says", [
    ("redlock://h", "one server is no quorum"),
    ("redlock://h:1/1,i:1/1,j:1/1", "the first / ends the list, what follows "
     "is the database of all; write redlock://HOST,HOST,HOST/DB"),
    ("redlock://h,h", "stands twice"),
    ("redlock://a,b,c,d,e,f,g,h", "at most 7"),
    ("redlock://a,,b", "a host is empty"),
    ("redlock://a,b:0", "port must be a number"),
    ("redlock://a,b?lease=3", "node_ms="),
    ("redlocks://a,b?tls_ca=/no/such", "tls_ca=/no/such"),
    ("redlock://a,b?tls_ca=/x", "tls_ca="),
    ("redis://a,b?socket=/s", "a socket leads to one server"),
])
def test_wrong_urls_say_what_is_wrong(url, says):
    program = os.environ.get("SNIB_BIN", "")
    if not os.access(program, os.X_OK):
        pytest.skip("the command snib is not built")
    done = subprocess.run([program, "run", "--store", url, "n", "--", "true"],
                          capture_output=True, text=True, timeout=10)
    assert done.returncode in (64, 78), done.stderr
    assert says in done.stderr
