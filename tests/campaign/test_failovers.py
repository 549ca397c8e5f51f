"""Failovers of Redis that ./dev test plays: one of each kind. (./dev campaign
--failovers 40 plays two hundred.)"""

import os
import subprocess
import sys

import pytest

import failovers
import second
from campaign import missing
from harness.door import Door, kind_of
from harness.redis_server import RedisServer, redis_missing
from harness.wait import stays
from pair_gate import SEED
from stores import Skip

HERE = os.path.dirname(os.path.abspath(__file__))
WHY = missing() or redis_missing()


@pytest.fixture(scope="module")
def rigs():
    with failovers.Rigs() as made:
        yield made


def test_each_kind_is_played_with_and_without_what_prevents_two_owners():
    for kind in failovers.KINDS:
        pairs = failovers.rounds_of(kind)
        assert all(pair.play.__name__ == kind for pair in pairs)
        shapes = {pair.shape: pair.lossy for pair in pairs}
        assert shapes == ({"cluster": True} if kind.startswith("cluster") else
                          {"sentinel": True, "kept": False})


@pytest.mark.parametrize("words, says", [
    (["--failovers", "0"], "wants 1 or more"),
    (["--failovers", "1", "--kind", "calm"], "no such kind of failover: calm"),
    (["--failovers", "1", "--minutes", "1"],
     "one of --minutes, --pairs and --failovers")])
def test_bad_usage_is_told(words, says):
    done = subprocess.run([sys.executable, os.path.join(HERE, "soak.py"),
                           *words], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 64 and says in done.stderr


def test_a_door_knows_who_comes():
    assert kind_of(b"*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n") == "client"
    assert kind_of(b"*1\r\n$4\r\nPING\r\n") == "replica"
    assert kind_of(b"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$21\r\n"
                   b"sentinel-0a1b2c3d-cmd\r\n") == "sentinel"


@pytest.mark.skipif(bool(WHY), reason=WHY)
@pytest.mark.parametrize("kind, shape", [
    ("planned", "kept"), ("kill", "kept"), ("freeze", "kept"),
    ("partition", "kept"), ("cluster_kill", "cluster")])
def test_a_failover_keeps_its_promises(rigs, kind, shape):
    pair = next(pair for pair in failovers.rounds_of(kind)
                if pair.shape == shape)
    try:
        played = rigs.play(pair, SEED, second.missing(), times=1)
    except Skip as why:
        pytest.skip(str(why))
    print(played)
    assert played.ok, f"{played}\nhistory: {played.path}"
    assert played.seen == 1


def follower(first):
    """A replica that has come through the door."""
    door = Door()
    one = RedisServer([*door.announced(),
                       f"replicaof 127.0.0.1 {first.door.port}"])
    one.door, door.target = door, one.address
    one.wait_for(lambda s: s.command("ROLE")[3] == b"connected", 20, "it follows")
    return one


@pytest.mark.skipif(bool(WHY), reason=WHY)
def test_a_door_keeps_back_what_it_is_told_to():
    """A replica hears nothing while the door is shut for it, and the other one
    does; then it comes late, or, dropped, never on that connection."""
    with RedisServer() as first, Door() as door:
        first.door, door.target = door, first.address
        with follower(first) as one, follower(first) as other:
            door.shut(f"replica:{one.door.port}")
            first.command("SET", "k", "1")
            other.wait_for(lambda s: s.command("GET", "k") == b"1", 10,
                           "the other one has it")
            stays(lambda: one.command("GET", "k") is None, 0.3)
            door.open()
            one.wait_for(lambda s: s.command("GET", "k") == b"1", 10, "late")
            one.door.close()
            other.door.close()
