"""Locks in etcd: what stands in its keys, and what becomes of them when answers,
connections, the one member or a client are lost.

What every store does is in tests/conformance; of several members, in
test_etcd_cluster.py.
"""

import time

import pytest

from ensembles import Wire
from harness.driver import LockError
from harness.etcd_server import EtcdServer, etcd_missing
from harness.wait import stays, wait_until

pytestmark = pytest.mark.skipif(bool(etcd_missing()), reason=etcd_missing())
NEEDS = "etcd://127.0.0.1:1"


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
    seen = [lease_of(one, claims(one)[0])]
    for _ in range(2):
        time.sleep(1.2)  # so that it may not be the same one
        grant.renew()
        seen.append(lease_of(one, claims(one)[0]))
    assert len(set(seen)) == 3
    grant.release()


def test_a_lease_that_was_revoked_by_hand_is_a_lock_that_is_lost(one, drivers):
    holder, other = drivers(one.url), drivers(one.url)
    grant = holder.acquire(holder.lock("n", lease_ms=9000))
    one.ctl("lease", "revoke", lease_of(one, claims(one)[0]))
    other.acquire(other.lock("n"), wait_ms=5000)
    assert holder.ask("renew", id=grant.id).err == "LOST"


def lease_of(server, key):
    fields = server.ctl("get", key, "-w", "fields")
    number = int(fields.split('"Lease" : ')[1].split()[0])
    return f"{number:x}"


def test_a_waiter_whose_lease_is_revoked_is_not_let_in_by_that(one, drivers):
    holder, other = drivers(one.url), drivers(one.url)
    grant = holder.acquire(holder.lock("n"))
    own = claims(one)
    waits = other.start_acquire(other.lock("n"), wait_ms=20000)
    wait_until(lambda: len(claims(one)) == 2, what="it waits")
    for _ in range(3):
        one.ctl("lease", "revoke",
                lease_of(one, next(k for k in claims(one) if k not in own)))
        wait_until(lambda: len(claims(one)) == 2, 5, "it asks again")
        assert not waits.done()
    grant.release()
    waits.wait().release()


# -- what an administrator does meanwhile --------------------------------------------


def test_who_waits_is_woken_through_a_compaction(one, drivers):
    holder, other = drivers(one.url), drivers(one.url)
    grant = holder.acquire(holder.lock("n"))
    waits = other.start_acquire(other.lock("n"), wait_ms=20000)
    wait_until(lambda: len(claims(one)) == 2, what="it waits")
    for i in range(20):
        one.ctl("put", "else", str(i))
    fields = one.ctl("endpoint", "status", "-w", "fields")
    one.ctl("compact", "--physical",
            fields.split('"Revision" : ')[1].split()[0])
    answer = grant.release()
    got = waits.wait()
    # sooner than by its poll, and it goes on holding
    assert got.ended - answer.ended < 0.5e9
    got.renew()
    assert other.ask("list", client="c", glob="*").ok
    got.release()


def test_a_token_of_the_login_that_is_over_costs_no_lock(drivers):
    """etcd forgets a user's tokens when his password is set."""
    with EtcdServer() as server:
        server.add_user("known", "pw")
        server.enable_auth()
        holder, other = [drivers(f"etcd://known:pw@127.0.0.1:{server.port}")
                         for _ in range(2)]
        grant = holder.acquire(holder.lock("n", lease_ms=9000))
        waits = other.start_acquire(other.lock("n"), wait_ms=30000)
        wait_until(lambda: len(claims(server)) == 2, what="it waits")
        for _ in range(2):
            server.ctl("user", "passwd", "known", "--interactive=false",
                       stdin="pw\n")
            grant.renew()
        grant.release()
        waits.wait().release()
        assert not [one for one in grant.changes() if one.state == "lost"]


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


def test_who_holds_on_a_full_database_loses_by_the_deadline(drivers):
    """Nothing can be written, so a release is unknown, and the lease ends the
    lock. When there is room again all goes on."""
    with EtcdServer(config=["--quota-backend-bytes", "65536"]) as small:
        holder, other = drivers(small.url, request_ms=2000), drivers(small.url)
        lost = holder.acquire(holder.lock("lost", lease_ms=4000))
        ends = holder.acquire(holder.lock("ends", lease_ms=12000))
        for i in range(40):
            small.ctl("put", f"fill{i}", "x" * 8000, check=False)
        assert "NOSPACE" in small.ctl("alarm", "list")
        assert holder.ask("release", id=ends.id, timeout=15).err == "UNKNOWN"
        told = holder.wait_event("change", timeout=15, ticket=lost.ticket,
                                 state="lost")
        assert told.at - lost.ended < 6e9
        small.ctl("del", "--prefix", "fill")
        fields = small.ctl("endpoint", "status", "-w", "fields")
        small.ctl("compact", "--physical",
                  fields.split('"Revision" : ')[1].split()[0])
        small.ctl("defrag")
        small.ctl("alarm", "disarm")
        for name in ("lost", "ends", "after"):
            other.acquire(other.lock(name), wait_ms=15000,
                          timeout=20).release()


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
