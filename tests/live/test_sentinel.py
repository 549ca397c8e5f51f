"""A failover while locks are held and waited for: real servers and Sentinels.

labels: thread
"""

import contextlib
import os
import signal
import subprocess
import time

import pytest

from harness.certs import Authority
from harness.checks import with_login
from harness.hostile import HostileRedis, reply
from harness.process import freeze, thaw
from harness.ports import free_port
from harness.redis_server import redis_missing, redis_tls_missing
from harness.resp import RedisError
from harness.sentinel import SERVICE, Watched
from harness.wait import patience, stays, wait_until

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

LEASE_MS = 60000  # none ends, and no renewal is due, while a test runs
SOURCE = os.environ.get("SNIB_SOURCE_DIR", os.path.join(
    os.path.dirname(__file__), "..", ".."))


@pytest.fixture(scope="module")
def calm():
    """Servers for the tests that leave them as they were."""
    with Watched() as made:
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


def stale(port, service=SERVICE, epoch=None):
    """A Sentinel that goes on naming this port. epoch: of how many failovers it
    knows; None: it does not tell."""
    def named(command):
        if command[1].upper() == b"MASTER":
            return (b"-NOPERM x\r\n" if epoch is None else
                    reply([b"name", service, b"config-epoch", str(epoch)]))
        return (reply(["127.0.0.1", str(port)])
                if command[2].decode() == service else b"*-1\r\n")
    return HostileRedis(on={
        "HELLO": reply([b"server", b"redis", b"version", b"7.0.15", b"proto",
                        2, b"id", 1, b"mode", b"sentinel", b"modules", []]),
        "SENTINEL": named})


def told_risk(grant):
    return any(line.state == "at risk" for line in grant.changes())


# -- failovers --------------------------------------------------------------------


@pytest.mark.parametrize("how", ["planned", "kill"])
@pytest.mark.parametrize("by", ["url", "list_url"])
def test_who_holds_and_who_waits_live_through_a_failover(
        drivers, watched, look, how, by):
    url = getattr(watched, by)
    holder, waiter = drivers(url, store_events=1), drivers(url)
    lock = holder.lock("n", lease_ms=LEASE_MS)
    grant = holder.acquire(lock)
    waiting = waiter.start_acquire(waiter.lock("n", lease_ms=LEASE_MS),
                                   wait_ms=60000)
    look(url).wait_waiters("n", 1)
    new = watched.fail_over() if how == "planned" else watched.kill()
    holder.wait_event("store changed", timeout=20)
    assert told_risk(grant), "at risk at once, and confirmed"
    grant.wait_state("held", timeout=20)
    assert holder.call("server", id="c").address == f"127.0.0.1:{new.port}"
    assert len([line for line in grant.changes() if line.state == "held"]) == 1
    assert not waiting.done(), "and nobody entered beside it"
    grant.release()
    next_one = waiting.wait(timeout=20)
    assert next_one.token > grant.token
    next_one.release()
    another = holder.acquire(lock, wait_ms=10000)
    assert another.token > next_one.token
    another.release()


@pytest.mark.skipif(bool(redis_tls_missing()), reason=redis_tls_missing())
def test_a_failover_through_tls(drivers, tmp_path):
    """The Sentinels' and the servers' certificates are verified alike."""
    with Watched(Authority(tmp_path)) as watched:
        one = drivers(watched.url)
        grant = one.acquire(one.lock("n", lease_ms=LEASE_MS))
        new = watched.kill()
        grant.wait_state("held", timeout=20)
        wait_until(lambda: told_risk(grant), 20, "it heard of the failover")
        assert one.call("server", id="c").address == f"127.0.0.1:{new.shown}"
        grant.release()
        other = drivers()
        other.open(watched.url.split("?")[0])
        answer = other.try_acquire(other.lock("n"))
        assert answer.err == "CONFIG" and "127.0.0.1:" in answer.text


def cut_off(server):
    """Whatever it is told from now on reaches no replica."""
    server.command("CONFIG", "SET", "repl-timeout", "3600")
    server.command("CLIENT", "KILL", "TYPE", "replica")


def test_a_grant_that_the_new_primary_never_had_is_forgotten_at_once(
        drivers, watched):
    old, replica = watched.primary, watched.replica
    one = drivers(watched.url, store_events=1)
    kept = one.acquire(one.lock("kept", lease_ms=LEASE_MS))
    wait_until(watched.in_step, 20, "the replica follows")
    freeze(replica.child)
    try:
        cut_off(old)
        lost = one.acquire(one.lock("lost", lease_ms=LEASE_MS), on="second")
        old.kill()
    finally:
        thaw(replica.child)
    watched.await_switch(old)
    change = one.wait_event("change", timeout=30, ticket=lost.ticket,
                            state="lost")
    assert change.reason == "forgotten"
    assert told_risk(lost)
    kept.wait_state("held", timeout=20)
    assert told_risk(kept)
    assert lost.start_release().answer().err == "LOST"
    again = one.acquire("lost", on="second", wait_ms=10000)
    assert again.token > lost.token
    again.release()
    kept.release()


@contextlib.contextmanager
def reaches_no_replica(watched):
    """What is done inside is lost: the primary is dead afterwards."""
    old, replica = watched.primary, watched.replica
    wait_until(watched.in_step, 20, "the replica follows")
    freeze(replica.child)
    try:
        cut_off(old)
        yield
        old.kill()
    finally:
        thaw(replica.child)
    watched.await_switch(old)


@pytest.mark.parametrize("options", [
    {}, {"kind": "read"}, {"kind": "permits", "permits": 1, "capacity": 1}],
    ids=["mutex", "read", "permits"])
def test_a_release_that_the_new_primary_never_had_is_done_there(
        drivers, watched, options):
    """By a client that asks for nothing more. Else the lock would be closed until
    the lease is over."""
    one, two = drivers(watched.url), drivers(watched.url)
    kind = "permits" if "permits" in options else "write"
    grant = one.acquire(one.lock("n", lease_ms=LEASE_MS, **options))
    with reaches_no_replica(watched):
        grant.release()
    lock = two.lock("n", lease_ms=LEASE_MS, **{**options, "kind": kind})
    two.acquire(lock, wait_ms=int(1000 * patience(5))).release()


def test_a_release_that_was_lost_is_done_within_a_recovery(
        drivers, snib, watched):
    url = watched.url + "?recovery=60s"
    one, two = drivers(url), drivers(url)
    one.try_acquire(one.lock("begin"))
    assert snib(url, "store", "ready", url, "--yes").returncode == 0
    grant = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    with reaches_no_replica(watched):
        grant.release()
    new = watched.primary
    wait_until(lambda: set(new.command("HKEYS", "snib:{n}")) <= {b"~"}, 10,
               "it is released there")
    assert two.try_acquire(two.lock("n", lease_ms=LEASE_MS)).err == "BUSY"
    assert snib(url, "store", "ready", url, "--yes").returncode == 0
    two.acquire("n", wait_ms=int(1000 * patience(3))).release()


def test_an_old_primary_that_goes_on_is_asked_no_more(drivers, watched):
    """It is stopped while it is replaced. When it wakes, before it is told that
    it is a replica now, it would grant to anybody."""
    old = watched.primary
    one = drivers(watched.url, request_ms=int(1000 * patience(1)))
    grant = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    wait_until(watched.in_step, 20, "the replica follows")
    freeze(old.child)
    try:
        watched.await_switch(old)
        other = one.acquire(one.lock("m", lease_ms=LEASE_MS), on="second",
                            wait_ms=30000)
    finally:
        thaw(old.child)
    grant.wait_state("held", timeout=20)
    new = watched.servers[1 - watched.servers.index(old)]
    assert new.command("EXISTS", "snib:{m}") == 1
    # The Sentinels' own time: INFO each 10 s, then 8 s without a doubt; and
    # 30 s in which they do nothing (TILT) after they stood still for 2 s.
    old.wait_for(lambda s: s.command("ROLE")[0] == b"slave", 90,
                 "the old one is a replica")
    other.release()
    grant.release()


def test_a_run_and_a_run_behind_it_live_through_a_kill(watched, tmp_path):
    program = os.environ.get("SNIB_BIN", "")
    if not os.access(program, os.X_OK):
        pytest.skip("the command snib is not built")

    def run(name):
        return subprocess.Popen(
            [program, "run", "-w", "60s", "n", "--", "sh", "-c",
             f'echo "$SNIB_TOKEN" > {tmp_path}/{name}.new;'
             f"mv {tmp_path}/{name}.new {tmp_path}/{name};"
             f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done"],
            env={**os.environ, "SNIB_URL": watched.url},
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    first = run("first")
    second = None
    try:
        wait_until((tmp_path / "first").exists, 20, "the first runs")
        second = run("second")
        wait_until(lambda: watched.primary.command("ZCARD", "snib:{n}:q") == 1,
                   20, "the second waits")
        watched.kill()
        assert first.poll() is None and not (tmp_path / "second").exists()
        (tmp_path / "end").touch()
        assert first.wait(30) == 0, first.stderr.read()
        assert second.wait(30) == 0, second.stderr.read()
        tokens = [int((tmp_path / name).read_text())
                  for name in ("first", "second")]
        assert tokens[0] < tokens[1]
    finally:
        for child in (first, second):
            if child is not None and child.poll() is None:
                child.send_signal(signal.SIGTERM)
                child.wait(20)
            if child is not None:
                child.stderr.close()


# -- Sentinels that do not know, or are not there ---------------------------------


def test_a_sentinel_that_is_behind_does_no_harm(drivers, snib, calm):
    replica = calm.replica
    with stale(replica.port) as fake:
        url = f"redis+sentinel://127.0.0.1:{fake.port},{calm.hosts}/{SERVICE}"
        done = snib(url, "run", "behind", "--", "true")
        assert done.returncode == 0, done.stderr
        assert "SENTINEL" in fake.heard, "it was asked first"
        one = drivers(url)
        grant = one.acquire(one.lock("behind"))
        assert calm.primary.command("EXISTS", "snib:{behind}") == 1
        grant.release()


def test_an_old_primary_beside_a_sentinel_that_is_behind_is_not_asked(
        drivers, snib, watched, redis_with):
    """As after a restart of the host of both: the one names the other, which
    takes itself for the primary."""
    old = redis_with()
    new = watched.fail_over()
    with stale(old.port, epoch=0) as fake:
        url = (f"redis+sentinel://127.0.0.1:{fake.port},{watched.hosts}"
               f"/{SERVICE}")
        done = snib(url, "run", "n", "--", "true")
        assert done.returncode == 0, done.stderr
        assert "SENTINEL" in fake.heard, "it was asked"
        one = drivers(url)
        grant = one.acquire(one.lock("n", lease_ms=LEASE_MS))
        assert new.command("EXISTS", "snib:{n}") == 1
        for sentinel in watched.sentinels:
            sentinel.kill()
        new.command("CLIENT", "KILL", "TYPE", "normal")
        wait_until(lambda: any("connection for calls lost" in line
                               for line in one.logs()), 5, "it has noticed")
        answer = one.try_acquire(one.lock("m"), on="second")
        assert answer.err == "STORE", answer
        assert "has not heard of the latest failover" in answer.text
        assert not old.keys()
        assert not any(l.state == "lost" for l in grant.changes())


def test_a_primary_that_is_restarted_empty_is_noticed_at_once(drivers, watched):
    """Before a Sentinel calls it dead."""
    for sentinel in watched.sentinels:
        sentinel.command("SENTINEL", "SET", SERVICE,
                         "down-after-milliseconds", "60000")
    one = drivers(watched.url)
    lost = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    watched.primary.restart("lost")
    change = one.wait_event("change", timeout=20, ticket=lost.ticket,
                            state="lost")
    assert change.reason == "forgotten"


def test_sentinels_that_all_name_a_replica_are_told(snib, calm):
    with stale(calm.replica.port) as fake:
        began = time.monotonic()
        done = snib(f"redis+sentinel://127.0.0.1:{fake.port}/{SERVICE}",
                    "try", "n")
        assert done.returncode == 69, done
        assert "is a replica" in done.stderr
        assert "was named as the primary" in done.stderr
        assert time.monotonic() - began < 5


def test_a_wrong_service_is_told_at_once(snib, calm):
    began = time.monotonic()
    done = snib(f"redis+sentinel://{calm.hosts}/other", "run", "-w", "60s",
                "n", "--", "true")
    assert done.returncode == 78, done
    assert "knows no service other" in done.stderr
    assert time.monotonic() - began < 10, "not after 60 s"


def test_no_sentinel_at_the_start_is_told(snib):
    hosts = ",".join(f"127.0.0.1:{free_port()}" for _ in range(3))
    done = snib(f"redis+sentinel://{hosts}/{SERVICE}", "try", "n")
    assert done.returncode == 69, done
    assert "none of the 3 Sentinels answers" in done.stderr
    assert "Connection refused" in done.stderr


def test_in_the_middle_of_a_failover_no_primary_is_known(snib):
    """The Sentinels still name the one that has failed: the URL is right."""
    port = free_port()
    with stale(port, epoch=3) as one, stale(port, epoch=3) as two:
        url = (f"redis+sentinel://127.0.0.1:{one.port},127.0.0.1:{two.port}"
               f"/{SERVICE}")
        for words in (["status", "n"], ["list"], ["try", "n"],
                      ["run", "-w", "300ms", "n", "--", "true"]):
            done = snib(url, *words)
            assert done.returncode == 69, done
            assert "no primary is known at the moment" in done.stderr
            assert f"still name 127.0.0.1:{port}" in done.stderr
            assert "is the URL right" not in done.stderr


def test_without_sentinels_what_is_open_goes_on(drivers, watched):
    one = drivers(watched.url)
    grant = one.acquire(one.lock("n", lease_ms=1500))
    for sentinel in watched.sentinels:
        sentinel.kill()
    stays(lambda: grant.status().held, 4, "held, past two leases")
    assert not told_risk(grant)
    other = one.acquire(one.lock("m"), on="second", wait_ms=5000)
    other.release()
    grant.release()


def test_a_server_in_place_of_a_sentinel_and_back(snib, calm):
    done = snib(f"redis+sentinel://127.0.0.1:{calm.primary.port}/{SERVICE}",
                "try", "n")
    assert done.returncode == 78, done
    assert "no Sentinel but a server" in done.stderr
    for url in (f"redis://127.0.0.1:{calm.sentinels[0].port}",
                f"redis://{calm.hosts}"):
        done = snib(url, "try", "n")
        assert done.returncode == 78, done
        assert "redis+sentinel://" in done.stderr


# -- a list ------------------------------------------------------------------------


def test_a_list_finds_its_primary_wherever_it_stands(snib, calm):
    ports = [server.port for server in calm.servers]
    for host, order in (("127.0.0.1", ports), ("localhost", ports[::-1])):
        url = "redis://" + ",".join(f"{host}:{port}" for port in order)
        done = snib(url, "run", "list", "--", "true")
        assert done.returncode == 0, done.stderr


def test_a_list_of_two_primaries_is_told(snib, redis_with):
    one, two = redis_with(), redis_with()
    done = snib(f"redis://127.0.0.1:{one.port},127.0.0.1:{two.port}",
                "try", "n")
    assert done.returncode == 69, done
    assert "both say that they are the primary" in done.stderr
    assert not one.keys() and not two.keys()


def test_a_list_of_replicas_is_told(snib, calm):
    done = snib(f"redis://127.0.0.1:{calm.replica.port},"
                f"127.0.0.1:{free_port()}", "try", "n")
    assert done.returncode == 69, done
    assert "none of the 2 servers is the primary" in done.stderr


# -- what is shown, and the rights that it takes -----------------------------------


def test_the_doctor_shows_how_the_primary_was_found(snib, calm):
    done = snib(calm.url, "doctor")
    assert (f"127.0.0.1:{calm.primary.port} is the primary of the service "
            f"{SERVICE}" in done.stdout), done.stdout
    assert "(of 3 in the URL)" in done.stdout
    assert "sentinel|master" not in done.stdout, "it may ask for the number"
    one = calm.url.replace(calm.hosts, f"127.0.0.1:{calm.sentinels[0].port}")
    done = snib(one, "doctor")
    assert "name all Sentinels in the URL" in done.stdout
    done = snib(calm.list_url, "doctor")
    assert "is the primary of the 2 servers" in done.stdout


def documented(user):
    """The words of an ACL SETUSER line of docs/REDIS.md."""
    with open(os.path.join(SOURCE, "docs", "REDIS.md"),
              encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    line = next(line for line in text.splitlines()
                if line.startswith(f"ACL SETUSER {user} "))
    return line.split()


def test_the_rights_in_the_manual_are_enough_and_no_more(drivers, watched):
    for server in watched.servers:
        server.command(*documented("snib"))
    for sentinel in watched.sentinels:
        sentinel.command(*documented("snib-watch"))
    url = (with_login(watched.url, "snib", "CHANGE-ME")
           + "?sentinel_user=snib-watch&sentinel_password=CHANGE-ME")
    one = drivers(url)
    grant = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    watched.fail_over()
    grant.wait_state("held", timeout=20)
    wait_until(lambda: told_risk(grant), 20, "it heard of the failover")
    grant.release()
    with watched.sentinels[0].client(
            user="snib-watch", password="CHANGE-ME") as client:
        for words in (("SENTINEL", "FAILOVER", SERVICE), ("SHUTDOWN",),
                      ("SENTINEL", "REMOVE", SERVICE), ("INFO",),
                      ("SUBSCRIBE", "__sentinel__:hello")):
            with pytest.raises(RedisError, match="NOPERM"):
                client.command(*words)


def test_a_login_that_the_sentinels_refuse_is_told(snib, calm):
    done = snib(calm.url + "?sentinel_user=nobody&sentinel_password=hunter2",
                "try", "n")
    assert done.returncode == 77, done
    assert "WRONGPASS" in done.stderr and "hunter2" not in done.stderr
