"""Locks on a Redis Cluster of six real servers: while slots go to other nodes,
while nodes are killed, and where there is no cluster.

labels: thread
"""

import os
import re
import subprocess
import threading
import time

import pytest

from harness.cluster import Cluster, slot_of
from harness.ports import free_port
from harness.redis_server import redis_missing, redis_version
from harness.wait import stays, wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

SOURCE = os.environ.get("SNIB_SOURCE_DIR", os.path.join(
    os.path.dirname(__file__), "..", ".."))
LEASE_MS = 60000  # none ends, and no renewal is due, while a test runs


@pytest.fixture(scope="module")
def calm():
    """Servers for the tests that leave them as they were."""
    with Cluster() as made:
        yield made


@pytest.fixture
def cluster():
    with Cluster() as made:
        yield made


@pytest.fixture
def snib():
    """snib(url, "try", "n"): the command; .returncode, .stdout, .stderr."""
    program = os.environ.get("SNIB_BIN", "")
    if not os.access(program, os.X_OK):
        pytest.skip("the command snib is not built")

    def run(url, *words, **more):
        return subprocess.run([program, *words], capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL,
                              env={**os.environ, "SNIB_URL": url}, **more)
    return run


def told_risk(grant):
    return any(line.state == "at risk" for line in grant.changes())


def spread(cluster, count=9):
    """Names whose slots are at all three nodes."""
    names = [f"spread-{i}" for i in range(count)]
    assert len({cluster.home(name) for name in names}) == 3
    return names


# -- all as on one server --------------------------------------------------------


def test_each_lock_lives_at_the_node_of_its_slot(drivers, calm):
    one = drivers(calm.url)
    tokens = {}
    for name in spread(calm):
        grant = one.acquire(one.lock(name))
        tokens[name] = grant.token
        assert calm.home(name).command("EXISTS", f"snib:{{{name}}}") == 1
        assert calm.home(name).command("CLUSTER", "KEYSLOT",
                                       f"snib:{{{name}}}") == slot_of(name)
        grant.release()
    for name in spread(calm):
        grant = one.acquire(name)
        assert grant.token > tokens[name]
        grant.release()


def test_a_lock_goes_from_process_to_process(drivers, calm, look):
    for name in spread(calm, 6):
        one, two = drivers(calm.url), drivers(calm.url)
        grant = one.acquire(one.lock(name, lease_ms=LEASE_MS))
        assert two.try_acquire(two.lock(name)).err == "BUSY"
        waiting = two.start_acquire(name, wait_ms=20000)
        look(calm.url).wait_waiters(name, 1)
        stays(lambda: not waiting.done(), 0.3, "it waits")
        began = time.monotonic()
        grant.release()
        second = waiting.wait()
        assert time.monotonic() - began < 0.9, "by message, not by a poll"
        assert second.token > grant.token
        second.release()
        one.close()
        two.close()


def test_first_come_first_served(drivers, calm, look):
    holder = drivers(calm.url)
    grant = holder.acquire(holder.lock("order", lease_ms=LEASE_MS))
    waiting = []
    for number in range(1, 5):
        one = drivers(calm.url)
        waiting.append(one.start_acquire(one.lock("order"), wait_ms=30000))
        look(calm.url).wait_waiters("order", number)
    for one in waiting:
        grant.release()
        grant = one.wait()
    grant.release()


def test_many_are_renewed_each_at_its_home(drivers, calm):
    one = drivers(calm.url)
    names = [f"renewed-{i}" for i in range(40)]
    grants = [one.acquire(one.lock(name, lease_ms=1500)) for name in names]
    stays(lambda: all(g.status().held for g in grants), 4, "past two leases")
    assert not any(told_risk(g) for g in grants)
    for grant in grants:
        grant.release()


def test_the_list_has_the_locks_of_all_nodes(snib, drivers, calm):
    one = drivers(calm.url)
    names = spread(calm)
    grants = [one.acquire(one.lock(name, lease_ms=LEASE_MS)) for name in names]
    done = snib(calm.url, "list")
    assert done.returncode == 0, done.stderr
    assert all(f"{name}: held by" in done.stdout for name in names)
    for name in names[:4]:
        why = snib(calm.url, "why", name)
        assert why.returncode == 0 and "held by" in why.stdout
    for grant in grants:
        grant.release()


def test_the_doctor_looks_at_every_node(snib, calm):
    done = snib(calm.url, "doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    for server in calm.servers[:3]:
        assert f"127.0.0.1:{server.port}: version" in done.stdout
    assert "all 16384 slots have one of 3 nodes" in done.stdout


def test_several_locks_are_one_or_none(snib, drivers, calm):
    """Their slots are at three nodes, so no step can take them all."""
    one = drivers(calm.url)
    names = spread(calm)[:4]
    held = one.acquire(one.lock(names[-1], lease_ms=LEASE_MS))
    done = snib(calm.url, "run", "-w", "0", *names, "--", "true")
    assert done.returncode == 75, done
    for name in names[:-1]:
        one.acquire(one.lock(name)).release()
    held.release()
    done = snib(calm.url, "run", *names, "--", "true")
    assert done.returncode == 0, done.stderr


def test_a_forced_release_is_heard_at_once(drivers, snib, calm):
    one = drivers(calm.url)
    grant = one.acquire(one.lock("forced", lease_ms=LEASE_MS))
    wait_until(lambda: any(s.command("PUBSUB", "CHANNELS", "snib:*")
                           for s in calm.servers), 10, "it listens")
    done = snib(calm.url, "force-release", "--yes", "--reason", "x", "forced")
    assert done.returncode == 0, done.stderr
    change = one.wait_event("change", timeout=10, ticket=grant.ticket,
                            state="lost")
    assert change.reason == "revoked"


def documented():
    """The rights that docs/REDIS.md lists, and those of a cluster."""
    with open(os.path.join(SOURCE, "docs", "REDIS.md"),
              encoding="utf-8") as file:
        rule = re.search(r"ACL SETUSER snib on >CHANGE-ME ((?:.*\\\n)*.*)",
                         file.read())
    return rule[1].replace("\\\n", " ").split()


def test_a_user_with_the_documented_rights(snib, calm):
    url = calm.url.replace("://", "://snib:pw@")
    for server in calm.servers:
        server.command("ACL", "SETUSER", "snib", "reset", "on", ">pw",
                       *documented())
    done = snib(url, "run", "n", "--", "true")
    missing = "cluster|nodes" if redis_version() >= (7, 0) else "'cluster'"
    assert done.returncode == 77 and missing in done.stderr, done
    for server in calm.servers:
        server.command("ACL", "SETUSER", "snib", "+cluster|nodes", "+asking")
    for name in spread(calm):
        done = snib(url, "run", name, "--", "true")
        assert done.returncode == 0, done.stderr
    assert snib(url, "doctor").returncode == 0
    for server in calm.servers:  # found out before anything is written
        server.command("ACL", "SETUSER", "snib", "-hset")
    done = snib(url, "run", "n", "--", "true")
    missing = "HSET" if redis_version() >= (7, 0) else ": The user executing"
    assert done.returncode == 77 and missing in done.stderr, done
    done = snib(calm.url.replace("://", "://snib:bad@"), "try", "n")
    assert done.returncode == 77 and "WRONGPASS" in done.stderr, done


# -- slots that move --------------------------------------------------------------


def all_are_heard(cluster, name):
    """Every waiter listens at the node that has the lock by now. (One that does
    not is passed over until its next poll.)"""
    home = cluster.home(name)
    rows = home.command("HGETALL", f"snib:{{{name}}}:w")
    told = dict(zip(rows[::2], rows[1::2]))
    told.pop(b"#", None)
    channels = [record.split()[1] for record in told.values()]
    return all(home.command("PUBSUB", "NUMSUB", one)[1] == 1
               for one in channels)


def test_a_held_lock_whose_slot_moves_stays_held(drivers, cluster):
    one, other = drivers(cluster.url), drivers(cluster.url)
    grant = one.acquire(one.lock("n", lease_ms=1500))
    for _ in range(3):
        new = cluster.move("n")
        stays(lambda: grant.status().held, 2, "renewed at its new home")
        assert new.command("EXISTS", "snib:{n}") == 1
        assert other.try_acquire(other.lock("n")).err == "BUSY"
    assert not any(line.state == "lost" for line in grant.changes())
    grant.release()
    again = other.acquire("n", wait_ms=5000)
    assert again.token > grant.token
    again.release()


def test_who_waits_goes_with_the_slot_and_keeps_its_place(
        drivers, cluster, look):
    holder = drivers(cluster.url)
    grant = holder.acquire(holder.lock("n", lease_ms=LEASE_MS))
    waiting = []
    for number in range(1, 4):
        one = drivers(cluster.url)
        waiting.append(one.start_acquire(one.lock("n", lease_ms=LEASE_MS),
                                         wait_ms=60000))
        look(cluster.url).wait_waiters("n", number)
    token = grant.token
    for one in waiting:
        cluster.move("n")
        wait_until(lambda: all_are_heard(cluster, "n"), 10, "all have polled")
        grant.release()
        grant = one.wait(timeout=20)
        assert grant.token > token
        token = grant.token
        waiting = waiting[1:]
        assert not any(w.done() for w in waiting), "one after the other"
    grant.release()


def test_a_slot_on_its_way_delays_and_loses_nothing(drivers, cluster, look):
    """Key by key: TRYAGAIN while the keys of a lock are at two nodes."""
    one, two = drivers(cluster.url), drivers(cluster.url)
    grant = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    waiting = two.start_acquire(two.lock("n"), wait_ms=60000)
    look(cluster.url).wait_waiters("n", 1)
    home, to = cluster.begin_move("n")
    assert cluster.move_keys("n", home, to, most=1) == 1
    release = grant.start_release()
    stays(lambda: not release.done() and not waiting.done(), 0.5,
          "nobody can tell")
    cluster.end_move("n", home, to)
    release.wait()
    second = waiting.wait(timeout=20)
    assert second.token > grant.token
    second.release()


def test_a_new_lock_in_a_slot_on_its_way_waits_for_its_end(drivers, cluster):
    one = drivers(cluster.url, request_ms=5000)
    home, to = cluster.begin_move("n")
    asked = one.start_acquire(one.lock("n"), wait_ms=30000)
    time.sleep(0.3)
    cluster.end_move("n", home, to)
    grant = asked.wait(timeout=20)
    assert to.command("EXISTS", "snib:{n}") == 1
    grant.release()


def test_under_load_no_two_hold_while_slots_move(drivers, cluster):
    """Eight tasks count with a lock while its slot goes round."""
    names = ["load-a", "load-b"]
    tasks = [drivers(cluster.url) for _ in range(6)]
    inside = {name: 0 for name in names}
    counts = {name: 0 for name in names}
    guard, wrong, stop = threading.Lock(), [], threading.Event()

    def work(number, driver):
        name = names[number % 2]
        handle = driver.lock(name, lease_ms=5000)
        last = 0
        while not stop.is_set():
            try:
                grant = driver.acquire(handle, wait_ms=30000)
            except Exception as error:  # pylint: disable=broad-except
                wrong.append(repr(error))
                return
            with guard:
                inside[name] += 1
                counts[name] += 1
                if inside[name] != 1 or grant.token <= last:
                    wrong.append((name, inside[name], grant.token, last))
                last = grant.token
            time.sleep(0.002)
            with guard:
                inside[name] -= 1
            grant.release()

    threads = [threading.Thread(target=work, args=pair)
               for pair in enumerate(tasks)]
    for thread in threads:
        thread.start()
    for _ in range(6):
        for name in names:
            cluster.move(name)
        time.sleep(0.3)
    stop.set()
    for thread in threads:
        thread.join(60)
    assert not wrong, wrong
    assert all(n > 20 for n in counts.values()), counts


# -- nodes that fail --------------------------------------------------------------


@pytest.mark.parametrize("how", ["planned", "kill"])
def test_who_holds_and_who_waits_live_through_a_failover(
        drivers, cluster, look, how):
    holder, waiter = drivers(cluster.url, store_events=1), drivers(cluster.url)
    lock = holder.lock("n", lease_ms=LEASE_MS)
    grant = holder.acquire(lock)
    waiting = waiter.start_acquire(waiter.lock("n", lease_ms=LEASE_MS),
                                   wait_ms=60000)
    look(cluster.url).wait_waiters("n", 1)
    new = cluster.fail_over("n") if how == "planned" else cluster.kill("n")
    holder.wait_event("store changed", timeout=20)
    wait_until(lambda: told_risk(grant), 20, "it heard of the failover")
    grant.wait_state("held", timeout=20)
    assert new.command("EXISTS", "snib:{n}") == 1
    assert not waiting.done(), "and nobody entered beside it"
    grant.release()
    next_one = waiting.wait(timeout=20)
    assert next_one.token > grant.token
    next_one.release()
    another = holder.acquire(lock, wait_ms=10000)
    assert another.token > next_one.token
    another.release()


def test_locks_of_other_nodes_go_on_while_one_is_dead(drivers, cluster):
    one = drivers(cluster.url)
    for server in cluster.servers:
        server.command("CONFIG", "SET", "cluster-require-full-coverage", "no")
    names = spread(cluster)
    grants = {n: one.acquire(one.lock(n, lease_ms=LEASE_MS)) for n in names}
    dead = cluster.home(names[0])
    others = [n for n in names if cluster.home(n) is not dead]
    dead.kill()
    for name in others:
        grants[name].release()
        assert one.acquire(name, wait_ms=2000).token > grants[name].token


def test_a_try_finds_the_primary_that_came_meanwhile(drivers, cluster):
    """An idle client has an old map and no connection that would tell it."""
    one = drivers(cluster.url)
    one.acquire(one.lock("n")).release()
    cluster.kill("n")
    answer = one.try_acquire("n")
    assert answer.ok, answer


def test_a_grant_that_the_replica_never_had_is_forgotten(drivers, cluster):
    one = drivers(cluster.url)
    kept = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    old, replica = cluster.home("n"), cluster.replica(cluster.home("n"))
    other = next(f"m{i}" for i in range(100)
                 if cluster.home(f"m{i}") is old)
    wait_until(cluster.whole, 20, "the replica follows")
    replica.freeze()
    try:
        old.command("CONFIG", "SET", "repl-timeout", "3600")
        old.command("CLIENT", "KILL", "TYPE", "replica")
        lost = one.acquire(one.lock(other, lease_ms=LEASE_MS), on="second")
        old.kill()
    finally:
        replica.thaw()
    change = one.wait_event("change", timeout=40, ticket=lost.ticket,
                            state="lost")
    assert change.reason == "forgotten"
    kept.wait_state("held", timeout=20)
    assert lost.start_release().answer().err == "LOST"
    again = one.acquire(other, on="second", wait_ms=10000)
    assert again.token > lost.token
    again.release()
    kept.release()


def test_a_run_and_a_run_behind_it_live_through_a_kill(cluster, tmp_path):
    program = os.environ.get("SNIB_BIN", "")
    if not os.access(program, os.X_OK):
        pytest.skip("the command snib is not built")

    def run(name):
        return subprocess.Popen(
            [program, "run", "-w", "60s", "n", "--", "sh", "-c",
             f"touch {tmp_path}/{name};"
             f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done"],
            env={**os.environ, "SNIB_URL": cluster.url},
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    first = run("first")
    wait_until((tmp_path / "first").exists, 20, "the first runs")
    second = run("second")
    try:
        wait_until(lambda: cluster.home("n").command(
            "ZCARD", "snib:{n}:q") == 1, 20, "the second waits")
        cluster.kill("n")
        assert first.poll() is None and not (tmp_path / "second").exists()
        (tmp_path / "end").touch()
        assert first.wait(30) == 0, first.stderr.read()
        assert second.wait(30) == 0, second.stderr.read()
    finally:
        for child in (first, second):
            child.kill()
            child.wait(20)
            child.stderr.close()


# -- where it cannot be ------------------------------------------------------------


def test_a_hole_is_told_in_words(snib):
    """One node has a slot less than there are."""
    slot = slot_of("n")
    with Cluster(3, 0, hole=range(slot, slot + 1)) as holed:
        began = time.monotonic()
        done = snib(holed.url, "try", "n")
        assert done.returncode == 69, done
        assert f"serves slot {slot}" in done.stderr or \
            "CLUSTERDOWN" in done.stderr
        assert "redis-cli --cluster check" in done.stderr
        assert time.monotonic() - began < 5
        doctor = snib(holed.url, "doctor")
        assert doctor.returncode != 0
        assert "1 of 16384 slots are served by no node" in doctor.stdout
        for server in holed.servers:
            server.command("CONFIG", "SET", "cluster-require-full-coverage",
                           "no")
        wait_until(lambda: snib(holed.url, "try", "m").returncode == 0, 20,
                   "the others can be used")
        done = snib(holed.url, "try", "n")
        assert done.returncode == 69
        assert f"no node of the cluster serves slot {slot}" in done.stderr


@pytest.fixture(scope="module")
def down():
    """A cluster without one of its three nodes, and a name whose lock is held at
    one of the others."""
    name = next(f"n{i}" for i in range(100) if slot_of(f"n{i}") < 5000)
    with Cluster(3, 0) as made:
        key = f"snib:{{{name}}}"
        about = "0 0 0 0 -"
        made.home(name).command("SET", key, f"{'1' * 32} {'2' * 32} 60000 1 0 "
                                + about, "PX", 60000)
        made.servers[2].kill()
        wait_until(lambda: b"cluster_state:fail" in
                   made.servers[0].command("CLUSTER", "INFO"), 20, "it is down")
        made.name = name
        yield made


def test_a_cluster_that_is_down_is_told_in_words(snib, down):
    for _ in range(3):
        done = snib(down.url, "try", down.name)
        assert done.returncode == 69, done
        assert "the cluster is down (CLUSTERDOWN)" in done.stderr
        assert "redis-cli --cluster check HOST:PORT" in done.stderr
    done = snib(down.url, "run", "-w", "300ms", down.name, "--", "true")
    assert done.returncode == 69, done
    assert "(CLUSTERDOWN)" in done.stderr and "HOST:PORT" in done.stderr
    assert "of 4 nodes" not in done.stderr


@pytest.mark.parametrize("look", ["list", "why", "status"])
def test_looking_at_a_cluster_that_is_down_ends(snib, down, look):
    began = time.monotonic()
    done = snib(down.url, look, *([] if look == "list" else [down.name]))
    assert done.returncode == 69, done
    assert "CLUSTERDOWN" in done.stderr or "no connection" in done.stderr
    assert time.monotonic() - began < 8


def test_the_doctor_says_that_the_cluster_is_down(snib, down):
    done = snib(down.url, "doctor")
    assert done.returncode != 0, done
    alive = [s.port for s in down.servers[:2]]
    for port in alive:
        assert f"127.0.0.1:{port}: the cluster is down (CLUSTERDOWN)" \
            in done.stdout
    dead = f"127.0.0.1:{down.servers[2].port}"
    assert re.search(rf"fail +reachable +{dead}: ", done.stdout)
    assert re.search(r"fail +slots +5460 of 16384 slots", done.stdout)
    assert "all 16384 slots" not in done.stdout
    assert "give the user the rights" not in done.stdout
    assert "let the user write" not in done.stdout


def test_wrong_hosts_are_told(snib, calm):
    hosts = ",".join(f"127.0.0.1:{free_port()}" for _ in range(3))
    began = time.monotonic()
    done = snib(f"redis+cluster://{hosts}", "try", "n")
    assert done.returncode == 69, done
    assert "no node of the cluster answers" in done.stderr
    assert "Connection refused" in done.stderr
    assert time.monotonic() - began < 5
    one_good = f"redis+cluster://{hosts},127.0.0.1:{calm.servers[4].port}"
    done = snib(one_good, "try", "n")
    assert done.returncode == 0, done.stderr


def test_a_host_that_does_not_exist_is_told_at_once(snib):
    began = time.monotonic()
    done = snib("redis+cluster://no-such-host.invalid", "run", "-w", "60s", "n",
                "--", "true")
    assert done.returncode == 69, done
    assert "no-such-host.invalid" in done.stderr
    assert time.monotonic() - began < 20


def test_a_single_server_is_no_cluster_and_the_reverse(snib, redis, calm):
    began = time.monotonic()
    done = snib(f"redis+cluster://127.0.0.1:{redis.port}", "run", "-w", "60s",
                "n", "--", "true")
    assert done.returncode == 78, done
    assert "write redis://HOST" in done.stderr
    done = snib(f"redis://127.0.0.1:{calm.servers[0].port}", "try", "n")
    assert done.returncode == 78, done
    assert "redis+cluster://" in done.stderr
    assert time.monotonic() - began < 10


def test_a_replica_is_asked_for_the_map_alone(snib, calm):
    done = snib(f"redis+cluster://127.0.0.1:{calm.servers[5].port}", "run",
                "n", "--", "true")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("url, words", [
    ("redis+cluster://h/1", "the database 0 only"),
    ("redis+cluster://h?db=2", "the database 0 only"),
    ("redis+cluster://h?nat=a", "nat= is HOST:PORT=HOST:PORT"),
    ("redis+cluster://h?socket=/x", "a socket leads to one server"),
    ("redis+cluster://h?node_ms=3", "not node_ms="),
    ("redis+cluster://h?tls_ca=/x", "is for rediss"),
])
def test_urls_that_no_cluster_has(snib, url, words):
    done = snib(url, "try", "n")
    assert done.returncode in (64, 78), done
    assert words in done.stderr


def test_addresses_are_translated(snib, drivers, calm):
    """What the nodes call each other leads nowhere from here: a name that does
    lead there stands in its place."""
    nat = ",".join(f"127.0.0.1:{s.port}=localhost:{s.port}"
                   for s in calm.servers)
    one = drivers(f"{calm.url}?nat={nat}")
    for name in spread(calm):
        one.acquire(one.lock(name)).release()
