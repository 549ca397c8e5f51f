"""Locks in etcd: what stands in its keys, and what becomes of them when answers,
connections, a member, the leader or a client are lost.

What every store does is in tests/conformance.
"""

import os
import subprocess
import threading
import time

import pytest

from harness.driver import LockError
from harness.etcd_server import EtcdServer, etcd_missing
from harness.stream_proxy import StreamProxy
from harness.wait import stays, wait_until

pytestmark = pytest.mark.skipif(bool(etcd_missing()), reason=etcd_missing())
BUILT_IN = []
SNIB = os.environ.get("SNIB_BIN", "")
# A lease of etcd's ends up to half a second late, a waiter polls each second.
LATE_S = 3


@pytest.fixture(autouse=True)
def built_in(drivers):
    if not BUILT_IN:
        said = drivers().ask("open", id="x", url="etcd://127.0.0.1:1")
        BUILT_IN.append(said.err != "UNSUPPORTED")
    if not BUILT_IN[0]:
        pytest.skip("the store etcd: is not built in")


@pytest.fixture(scope="module")
def kept():
    """One member for these tests, whatever they do to it."""
    with EtcdServer() as server:
        yield server


@pytest.fixture
def one(kept):
    if kept.only.child.poll() is not None:
        kept.start()
    kept.ctl("del", "--prefix", "")
    return kept


@pytest.fixture
def three():
    with EtcdServer(members=3) as cluster:
        wait_until(cluster.leader, 20, "a leader")
        yield cluster


class Wire(StreamProxy):
    """A proxy that knows keys, which stand in what is sent as they are."""

    def __init__(self, server):
        super().__init__(server.address, words_of_texts=True)
        self.pieces = 0
        self.cut_at = self.then = None

    def _look(self, pair, data):
        self.pieces += 1
        if self.pieces == self.cut_at:
            pair["deaf"] = self.then
        super()._look(pair, data)

    @property
    def at(self):
        return f"etcd://127.0.0.1:{self.port}"


@pytest.fixture
def wire(one):
    with Wire(one) as proxy:
        yield proxy


def claims(server, name="n"):
    return [key for key in server.keys(f"snib/l/{name}/c/")]


# -- what is there ---------------------------------------------------------------


def test_a_holder_is_a_key_and_leaves_only_the_memory_of_its_token(
        one, drivers):
    holder = drivers(one.url)
    grant = holder.acquire(holder.lock("n/a%"))
    assert len(one.keys("snib/l/n%2Fa%25/c/")) == 1
    grant.release()
    assert one.keys() == ["snib/l/n%2Fa%25/!"]


def test_nothing_is_without_a_lease(one, drivers):
    holder, other = drivers(one.url), drivers(one.url)
    grant = holder.acquire(holder.lock("n"))
    waits = other.start_acquire(other.lock("n"), wait_ms=20000)
    wait_until(lambda: len(claims(one)) == 2, what="it waits")
    assert holder.ask("value_put", client="c", name="v", bytes="x").ok
    grant.release()
    waits.wait()
    for key in one.keys(""):
        fields = one.ctl("get", key, "-w", "fields").splitlines()
        lease = [line for line in fields if line.startswith('"Lease"')]
        assert lease and lease[0].split(" : ")[1] != "0", key


def test_a_prefix_is_a_store_of_its_own(one, drivers):
    a, b = drivers(one.url), drivers(one.url + "?prefix=team/b")
    first = a.acquire(a.lock("n"))
    b.acquire(b.lock("n"), wait_ms=2000).release()
    assert one.keys("team/b/") and len(claims(one)) == 1
    first.release()


# -- a lease is never kept alive -----------------------------------------------------


def test_a_renewal_puts_the_claim_under_a_younger_lease(one, drivers):
    holder = drivers(one.url)
    grant = holder.acquire(holder.lock("n", lease_ms=30000))

    def lease():
        fields = one.ctl("get", claims(one)[0], "-w", "fields")
        return fields.split('"Lease" : ')[1].split()[0]
    seen = [lease()]
    for _ in range(2):
        time.sleep(1.2)  # so that it may not be the same one
        grant.renew()
        seen.append(lease())
    assert len(set(seen)) == 3
    grant.release()


def test_a_lease_that_was_revoked_by_hand_is_a_lock_that_is_lost(one, drivers):
    holder, other = drivers(one.url), drivers(one.url)
    grant = holder.acquire(holder.lock("n", lease_ms=9000))
    fields = one.ctl("get", claims(one)[0], "-w", "fields")
    lease = int(fields.split('"Lease" : ')[1].split()[0])
    one.ctl("lease", "revoke", f"{lease:x}")
    other.acquire(other.lock("n"), wait_ms=5000)
    assert holder.ask("renew", id=grant.id).err == "LOST"


# -- lost answers ------------------------------------------------------------------


@pytest.mark.parametrize("then", ["rst", "silence"])
def test_the_connection_is_lost_at_each_message(one, drivers, then):
    """Whatever the message was: at no time two hold, and afterwards the lock can
    be had."""
    other = drivers(one.url)
    theirs = other.lock("n")
    cut = 0
    for at in range(1, 13):
        with Wire(one) as proxy:
            proxy.cut_at, proxy.then = at, then
            holder = drivers(proxy.at, request_ms=700)
            lock = holder.lock("n", lease_ms=2000)
            try:
                grant = holder.acquire(lock, wait_ms=4000)
                assert not other.try_acquire(theirs).ok
                grant.renew()
                grant.release()
            except LockError as error:
                assert error.err in ("UNKNOWN", "UNREACHABLE", "TIMEOUT",
                                     "LOST", "BUSY"), error
            cut += proxy.pieces >= at
            holder.kill()  # it may hold, if only a renewal was in vain
            other.acquire(theirs, wait_ms=15000).release()
    assert cut > 6


def test_a_grant_whose_answer_is_lost_is_found_again(one, drivers, wire):
    holder = drivers(wire.at, request_ms=1000)
    lock = holder.lock("n", lease_ms=9000)
    holder.acquire(lock, wait_ms=5000).release()
    rule = wire.lose_answers("/c/")
    grant = holder.acquire(lock, wait_ms=10000)
    assert rule.fired and len(claims(one)) == 1
    grant.release()


def test_a_late_copy_of_a_cancelled_acquire_lets_nobody_in(one, drivers, wire):
    """It is held back until the caller was told, and the lock cancelled."""
    holder, other = drivers(wire.at, request_ms=700), drivers(one.url)
    lock = holder.lock("n", lease_ms=3000)
    holder.acquire(lock, wait_ms=5000).release()
    rule = wire.be_late("/c/")
    said = holder.ask("acquire", lock=lock, id="late", wait_ms=500)
    assert rule.fired
    if said.ok:  # by a repeat
        assert holder.ask("release", id="late").ok
    got = other.acquire(other.lock("n"), wait_ms=10000)
    rule.go_on.set()
    stays(lambda: other.ask("renew", id=got.id).ok, 1)
    got.release()
    assert other.try_acquire("n").ok  # and nobody else is in


# -- the server ------------------------------------------------------------------------


def test_a_server_that_comes_back_has_the_lock(one, drivers):
    holder, other = drivers(one.url), drivers(one.url)
    grant = holder.acquire(holder.lock("n", lease_ms=20000))
    one.kill()
    one.start()
    assert not other.try_acquire(other.lock("n")).ok
    wait_until(lambda: holder.ask("renew", id=grant.id).ok, 15, "a renewal")
    grant.release()


def test_a_full_database_is_told(drivers):
    with EtcdServer(config=["--quota-backend-bytes", "65536"]) as small:
        holder = drivers(small.url, request_ms=2000)
        holder.lock("n")
        for i in range(40):
            small.ctl("put", f"fill{i}", "x" * 8000, check=False)
        said = holder.ask("acquire", lock="n", id="g", wait_ms=3000)
        assert said.err == "STORE" and "full" in said.text, said


def test_a_restored_backup_is_told_and_tokens_rise_through_it(drivers):
    with EtcdServer() as server:
        holder, other = drivers(server.url), drivers(server.url)
        other.acquire(other.lock("before")).release()
        backup = server.only.dir + "/backup"
        server.ctl("snapshot", "save", backup)
        grant = holder.acquire(holder.lock("n", lease_ms=30000))
        server.restore(backup)
        said = holder.ask("renew", id=grant.id, timeout=30)
        assert said.err == "LOST", said
        assert any("gone back in time" in line or "another cluster" in line
                   for line in holder.logs()), holder.logs()
        again = other.acquire(other.lock("n"), wait_ms=15000, timeout=30)
        assert again.token > grant.token


# -- many at once ------------------------------------------------------------------


def test_a_writer_leaves_to_more_readers_than_fit_into_a_transaction(
        one, drivers):
    writer = drivers(one.url)
    grant = writer.acquire(writer.lock("n", kind="write"))
    crowd, waits = [drivers(one.url) for _ in range(2)], []
    for reader in crowd:
        reader.lock("n", kind="read")
        waits += [reader.start_acquire("n", on=f"t{i}", wait_ms=60000)
                  for i in range(70)]
    wait_until(lambda: len(claims(one)) == 141, 30, "all wait")
    grant.release()
    for one_of_them in waits:
        one_of_them.wait(40)
    assert len(claims(one)) == 140


# -- a cluster ---------------------------------------------------------------------------

BODY = """
exec 9> "$1/mutex"
flock -n 9 || { echo overlap >> "$1/overlaps"; exit 1; }
sleep 0.02
echo "$SNIB_TOKEN" >> "$1/tokens"
"""


class Crowd:
    """Processes that take one lock again and again, and look whether they are
    alone: flock(2) refuses a second one."""

    def __init__(self, url, folder, count=4):
        self.url, self.folder, self.stop = url, str(folder), False
        self.done, self.said = 0, []
        (folder / "tokens").touch()
        self.threads = [threading.Thread(target=self._run)
                        for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self):
        while not self.stop:
            made = subprocess.run(
                [SNIB, "run", "--ttl", "3s", "--wait", "30s", "crowd", "--",
                 "sh", "-c", BODY, "sh", self.folder], text=True,
                env={**os.environ, "SNIB_URL": self.url},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                check=False)
            self.done += made.returncode == 0
            if made.returncode:
                self.said.append(made.stdout)

    def tokens(self):
        with open(self.folder + "/tokens", encoding="ascii") as file:
            return [int(line) for line in file if line.strip()]

    def end(self):
        self.stop = True
        for thread in self.threads:
            thread.join()
        assert not os.path.exists(self.folder + "/overlaps")
        tokens = self.tokens()
        assert tokens == sorted(set(tokens))
        return len(tokens)


def more_than(crowd, count):
    return lambda: len(crowd.tokens()) > count


@pytest.mark.parametrize("what", ["kill", "freeze"])
def test_the_leader_is_lost_and_there_is_one_owner(three, tmp_path, what):
    crowd = Crowd(three.url, tmp_path)
    try:
        wait_until(more_than(crowd, 10), 30, "the crowd works")
        for _ in range(2):
            leader = three.leader()
            if what == "kill":
                leader.kill()
            else:
                leader.freeze()
            others = [m for m in three.members if m is not leader]
            three.members.sort(key=lambda m, lost=leader: m is lost)
            wait_until(lambda: any(three.answers(m) for m in others), 30,
                       "a new leader")
            before = len(crowd.tokens())
            wait_until(more_than(crowd, before + 10), 40, "it goes on")
            if what == "kill":
                leader.start(three.members)
            else:
                leader.thaw()
            wait_until(lambda: three.answers(leader), 30, "it is back")
            before = len(crowd.tokens())
            wait_until(more_than(crowd, before + 10), 40, "it goes on")
    finally:
        for member in three.members:
            if member.child.poll() is None:
                member.thaw()
        count = crowd.end()
    assert count > 40


def test_an_old_leader_that_wakes_up_renews_nothing(three, drivers):
    """It stands still for longer than the lease while another one leads. Its
    clients ask it, and nobody else, to renew."""
    leader = three.leader()
    others = [m for m in three.members if m is not leader]
    holder = drivers(f"etcd://127.0.0.1:{leader.port}", request_ms=30000)
    grant = holder.acquire(holder.lock("n", lease_ms=4000))
    leader.freeze()
    rival = drivers("etcd://" + ",".join(f"127.0.0.1:{m.port}"
                                         for m in others))
    got = rival.acquire(rival.lock("n", lease_ms=30000), wait_ms=30000,
                        timeout=40)
    leader.thaw()
    stays(lambda: holder.ask("renew", id=grant.id, wait_ms=100).err != "OK", 3)
    assert got.renew().ok
    got.release()


def test_a_member_that_is_away_is_passed_by(three, drivers):
    three.members[0].kill()
    holder = drivers(three.url)
    holder.acquire(holder.lock("n"), wait_ms=8000).release()


def test_without_a_majority_nobody_gets_a_lock(three, drivers):
    for member in three.members[1:]:
        member.kill()
    holder = drivers(three.url, request_ms=1000)
    said = holder.ask("acquire", lock=holder.lock("n"), id="g", wait_ms=2500)
    assert said.err in ("UNREACHABLE", "UNKNOWN", "TIMEOUT"), said
