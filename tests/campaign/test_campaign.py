"""Short rounds: each store × each kind of fault, one seed each.

SNIB_CAMPAIGN_SEED (default 1) draws other rounds; ./dev soak draws many. A
failure prints where the history is kept; `checker.py FILE` reads it again."""

import os
import shutil

import pytest

import nemesis
import second
from campaign import Skip, World, missing, run_round
from clients import DriverClient, Caller
from checker import check, read
from harness.wait import boot_ns
from history import append

SEED = int(os.environ.get("SNIB_CAMPAIGN_SEED", "1"))
SECONDS = {kind: 0.9 for kind in nemesis.QUICK | {"calm", "stop_short"}}

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


def play(store, kind):
    try:
        verdict, faults, path = run_round(
            store, kind, SEED, SECONDS.get(kind, 1.2), keep=True)
    except Skip as why:
        pytest.skip(str(why))
    print(f"{store} {kind} seed {SEED}: {verdict} {verdict.counts} {faults}")
    assert verdict.ok, f"{verdict}\nhistory: {path}"
    if not second.missing():  # test_judge.py is skipped there, and says why
        opinion = second.judge(path)[0]
        assert opinion.ok, f"{opinion}\nhistory: {path}"
    # A quorum behind proxies on a busy machine may miss its short limits.
    least = 1 if store == "quorum" else 2
    assert faults.get(kind) and verdict.counts["grants"] >= least
    shutil.rmtree(os.path.dirname(path))
    return verdict


@pytest.mark.parametrize("kind", sorted(
    set(nemesis.KINDS["redis"]) - nemesis.LOSSY))
def test_redis_keeps_its_promises_through(kind):
    assert not play("redis", kind).broken


@pytest.mark.parametrize("kind", sorted(nemesis.KINDS["file"]))
def test_a_file_keeps_its_promises_through(kind):
    assert not play("file", kind).broken


@pytest.mark.parametrize("kind", ["partition_majority", "server_stop"])
def test_a_quorum_keeps_its_promises_through(kind):
    assert not play("quorum", kind).broken


@pytest.mark.parametrize("kind", sorted(nemesis.LOSSY))
def test_the_fence_holds_when_redis_forgets_by(kind):
    """Exclusion may fail here; the verdict counts how often it did."""
    play("redis", kind)


def test_memory_keeps_its_promises():
    pytest.skip("memory: one process only; its locks are not shared")


def test_exclusion_that_fails_by_flushall_is_seen_and_the_fence_holds(
        tmp_path):
    """By the book, so that each run shows it: the campaign's own clients."""
    try:
        world = World("redis", "flushall", SEED, 0, str(tmp_path))
    except Skip as why:
        pytest.skip(str(why))
    path = world.history.path
    old, new = (DriverClient(world, index, 0) for index in (0, 1))
    try:
        first = Caller(world, *old.current(), "l0", world.random)
        held = first.acquire(1000)
        found = world.resource.enter(held.token)
        world.history("nemesis", kind="flushall", lossy=True)
        begun = boot_ns() // 1_000_000
        while boot_ns() // 1_000_000 <= begun + 1:
            pass  # tokens count milliseconds once all memory is gone
        nemesis.flushall(world)
        second = Caller(world, *new.current(), "l0", world.random)
        taken = second.acquire(1000)
        second.probe(taken)
        second._protected(taken, True)
        late = {"element": 999_999, "token": held.token, "p": first.p}
        world.history("write", e="invoke", **late)
        # It knows nothing yet, and writes what it has read before.
        assert not world.resource.write(held.token, found[0] + 1,
                                        found[1] + [[held.token, 999_999]])
        world.history("write", e="fail", **late)
        second.release(taken)
        first.probe(held)
        first.release(held)
        data = world.resource.read()
        world.history("final", elements=data["elements"], count=data["count"])
    finally:
        old.close()
        new.close()
        world.store.close()
    verdict = check(read(path))
    assert verdict.ok, f"{verdict}\nhistory: {path}"
    assert taken.token > held.token
    assert verdict.counts["written"] == 1
    assert verdict.counts["refused_writes"] == 1


def test_a_client_that_goes_on_after_its_deadline_is_found(tmp_path):
    """The policy `aggressive` switches exclusion off: a broken library, as it
    were. Cut off from the store it says "at risk" and not "lost", while the next
    one holds; take that for "held"."""
    try:
        world = World("redis", "partition", SEED, 0, str(tmp_path))
    except Skip as why:
        pytest.skip(str(why))
    path = world.history.path
    old = DriverClient(world, 0, 0)
    world.store.url = world.store.direct_url
    new = DriverClient(world, 1, 0)
    try:
        old.driver.lock("n", lease_ms=DriverClient.LEASE_MS, aggressive=True)
        first = Caller(world, *old.current(), "l0", world.random)
        held = first.acquire(1000)
        world.store.proxy.partition()
        second = Caller(world, *new.current(), "l0", world.random)
        taken = second.acquire(8000)
        second.probe(taken)
        status = held.status()
        assert status.state == "at risk" and status.left_ms == 0
        world.history("probe", p=first.p, grant=f"{first.p}.{held.id}",
                      began=status.began, ended=status.ended, held=True,
                      state=status.state, left_ms=0)
        world.history("final", elements=[], count=0)
    finally:
        old.close()
        new.close()
        world.store.close()
    verdict = check(read(path))
    assert [finding.model for finding in verdict.failures] == ["mutex"]


def test_a_history_with_a_lost_element_fails(tmp_path):
    """The whole way from file to verdict."""
    path = tmp_path / "history.jsonl"
    append(path, op="write", e="invoke", element=1, token=5)
    append(path, op="write", e="ok", element=1, token=5)
    append(path, op="final", elements=[], count=0)
    assert not check(read(path)).ok
