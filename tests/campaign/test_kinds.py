"""Short rounds of readers, writers and permits: each store × each fault that
it survives, one seed each (SNIB_CAMPAIGN_SEED draws others)."""

import pytest

import kinds
import nemesis
from campaign import Skip, missing
from test_campaign import SECONDS, SEED

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


def play(store, kind):
    try:
        verdict, faults, path = kinds.run_round(
            store, kind, SEED, SECONDS.get(kind, 1.2))
    except Skip as why:
        pytest.skip(str(why))
    print(f"{store} {kind} seed {SEED}: {verdict} {verdict.counts} {faults}")
    assert verdict.ok and not verdict.broken, f"{verdict}\nhistory: {path}"
    assert faults.get(kind)
    for word in ("granted_read", "granted_write", "granted_permits"):
        assert verdict.counts.get(word, 0) > 0, verdict.counts


@pytest.mark.parametrize("kind", kinds.REDIS_KINDS)
def test_redis_keeps_readers_writers_and_permits_apart_through(kind):
    play("redis", kind)


@pytest.mark.parametrize("kind", sorted(nemesis.KINDS["file"]))
def test_a_file_keeps_readers_writers_and_permits_apart_through(kind):
    play("file", kind)


@pytest.mark.parametrize("kind", sorted(nemesis.KINDS["memory"]))
def test_memory_keeps_readers_writers_and_permits_apart_through(kind):
    play("memory", kind)
