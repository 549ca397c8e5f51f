"""snib store ready: a recovery is ended by hand (scripts/epoch.lua), on a real
redis-server. test_redis_recovery.py has recoveries that end by themselves.
"""

import json
import os
import subprocess
import time

import pytest

from harness.redis_server import redis_missing
from harness.resp import RedisError
from harness.sentinel import Watched
from harness.wait import stays, wait_until
from test_redis_recovery import scripts

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

LEASE_MS, LONG = 1500, 60


@pytest.fixture
def sure(redis):
    """Far too long to be waited for."""
    return f"{redis.url}?recovery={LONG}s"


def snib(*words, url=None):
    env = {**os.environ, "SNIB_URL": url or ""}
    return subprocess.run([os.environ["SNIB_BIN"], *words], env=env,
                          capture_output=True, text=True, timeout=30)


def ready(at, *words, url=None):
    """at: the operand; None: there is none, and url stands in SNIB_URL."""
    return snib("store", "ready", *([at] if at else []), *words, url=url)


def epoch(redis):
    return redis.command("GET", "snib:epoch").split()


def all_else(redis):
    """What stands at each other key."""
    return {key: redis.command("DUMP", key)
            for key in redis.command("KEYS", "*") if key != b"snib:epoch"}


def begin(url):
    """Who wants a lock begins the recovery; who looks does not."""
    assert snib("try", "-t", "1s", "begin", url=url).returncode == 75


@pytest.fixture
def waiter(drivers, sure):
    one = drivers(sure, request_ms=500)
    one.lock("n", lease_ms=LEASE_MS)
    return one


@pytest.fixture
def waiting(waiter, redis):
    """Somebody who waits behind the recovery."""
    waits = waiter.start_acquire("n", wait_ms=LONG * 1000)
    wait_until(lambda: redis.command("ZCARD", "snib:{n}:q") == 1,
               what="it is queued")
    return waits


def test_without_yes_it_says_what_is_risked_and_does_nothing(
        redis, sure, waiting):
    before, others = epoch(redis), all_else(redis)
    told = ready(sure)
    assert told.returncode == 64 and told.stdout == ""
    assert f"{sure}: a recovery runs for " in told.stderr
    assert " is free for others at once, while its holder may work on" in (
        told.stderr)
    assert "it was not ended: --yes does it" in told.stderr
    assert epoch(redis) == before
    others.pop(b"snib:{n}:a"), others.pop(b"snib:{n}:w")  # who waits polls
    others.pop(b"snib:{n}")
    assert others.items() <= all_else(redis).items()
    assert not waiting.done()


def test_how_long_it_says_is_never_too_short(redis, sure):
    begin(sure)
    said = ready(sure).stderr
    left = said.split(" from now at the latest")[0].rsplit(" ", 1)[1]
    seconds, micros = redis.command("TIME")
    now = int(seconds) * 1000 + int(micros) // 1000
    minutes, _, rest = left.rpartition("m")
    assert 1000 * (60 * int(minutes or 0) + int(rest.rstrip("s") or 0)) >= (
        int(epoch(redis)[1]) - now)


def test_with_yes_who_waits_is_served(redis, sure, waiting):
    before, life = epoch(redis), redis.command("PTTL", "snib:epoch")
    told = ready(sure, "--yes")
    ended = time.monotonic()
    assert told.returncode == 0 and told.stdout == ""
    assert f"{sure}: the recovery is ended, " in told.stderr
    grant = waiting.wait(10)
    assert time.monotonic() - ended < 2
    after = epoch(redis)
    assert [before[0], *before[2:]] == [after[0], *after[2:]]
    assert int(after[1]) < int(before[1])
    assert life - 20000 < redis.command("PTTL", "snib:epoch") <= life
    assert redis.command("GET", "snib:m") == b"recovery"
    grant.release()


def test_command_that_waits_is_served(redis, sure):
    with subprocess.Popen(
            [os.environ["SNIB_BIN"], "run", "-t", "1500ms", "-s", sure, "n",
             "--", "true"], stderr=subprocess.PIPE, text=True) as runs:
        wait_until(lambda: redis.command("ZCARD", "snib:{n}:q") == 1,
                   what="it is queued")
        assert ready(sure, "--yes").returncode == 0
        ended = time.monotonic()
        assert runs.wait(timeout=30) == 0
    assert time.monotonic() - ended < 3  # the command's own time in it


def test_nothing_but_the_epoch_changes(redis, sure, drivers):
    """Holders of before, a queue that is not asked for, a size, a value."""
    other = drivers(sure, request_ms=500)
    assert ready(sure, "--yes").returncode == 0
    held = other.acquire(other.lock("held", lease_ms=40000, fixed_lease=1))
    snib("semaphore", "--set", "3", "s", "-s", sure)
    redis.command("DEL", "snib:epoch")
    assert ready(sure).returncode == 64
    before = all_else(redis)
    assert ready(sure, "--yes").returncode == 0
    assert all_else(redis) == before
    held.release()


def test_again_it_says_that_none_runs(redis, sure):
    assert ready(sure, "--yes").returncode == 0
    before = epoch(redis)
    for words in [], ["--yes"]:
        told = ready(sure, *words)
        assert told.returncode == 0
        assert told.stderr == f"snib: {sure}: no recovery runs; nothing to end\n"
        told = ready(sure, "-q", *words)
        assert told.returncode == 0 and told.stderr == ""
    assert epoch(redis) == before


def test_as_json(redis, sure):
    looked = ready(sure, "--json")
    assert looked.returncode == 64
    told = json.loads(looked.stdout)
    assert told["schema"] == 1 and told["store"] == sure
    assert told["left_ms"] == LONG * 1000 and told["ended"] is False
    assert told["begun"] is False
    begin(sure)
    told = json.loads(ready(sure, "--json").stdout)
    assert 1000 < told["left_ms"] <= LONG * 1000 and told["begun"] is True
    ended = ready(sure, "--json", "--yes", "-q")
    assert ended.returncode == 0 and ended.stderr == ""
    told = json.loads(ended.stdout)
    assert told["ended"] is True and 1000 < told["left_ms"] <= LONG * 1000
    told = json.loads(ready(sure, "--json", "--yes").stdout)
    assert told["ended"] is False and told["left_ms"] == 0


def test_url_may_stand_in_the_environment(redis, sure):
    assert snib("store", "ready", "--yes", url=sure).returncode == 0
    told = snib("store", "ready", sure, "-s", sure)
    assert told.returncode == 64
    assert "the store is given twice" in told.stderr


def test_what_is_written_wrongly_is_told(redis, sure):
    told = snib("store", "raedy", sure)
    assert told.returncode == 64
    assert "unknown word 'raedy'; expected ready [URL]" in told.stderr
    told = ready(sure.replace("redis://", "redis://a:b@"))
    assert told.returncode == 64 and "holds a password" in told.stderr


def test_server_that_is_away_is_told(redis, sure):
    redis.kill()
    told = ready(sure, "--yes")
    assert told.returncode == 69 and "does the server run" in told.stderr


def test_what_cannot_be_printed_is_told(redis, sure):
    assert ready(sure, "--yes").returncode == 0
    with open("/dev/full", "w", encoding="ascii") as full:
        told = subprocess.run(
            [os.environ["SNIB_BIN"], "store", "ready", "--json", sure],
            stdout=full, stderr=subprocess.PIPE, timeout=30, check=False)
    assert told.returncode == 70


def test_refused_login_is_told(redis, sure):
    redis.command("CONFIG", "SET", "requirepass", "right")
    told = ready(sure, "--yes")
    redis.command("AUTH", "right")
    redis.command("CONFIG", "SET", "requirepass", "")
    assert told.returncode == 77, told.stderr


def test_look_begins_none_and_says_so(redis, sure):
    """Where others used the server without recovery=, it kept them out."""
    snib("try", "n", url=redis.url)
    told = ready(sure)
    assert told.returncode == 64
    assert ("a recovery of 1m00s begins with the first who asks for a lock: "
            in told.stderr), told.stderr
    assert "is used with recovery= for the first time" in told.stderr
    assert redis.command("EXISTS", "snib:epoch") == 0
    assert snib("try", "n", url=redis.url).returncode == 0


def test_with_yes_one_that_has_not_begun_does_not_run(redis, sure):
    told = ready(sure, "--yes")
    assert told.returncode == 0, told.stderr
    assert f"{sure}: the recovery is ended, " in told.stderr
    assert redis.command("GET", "snib:m") == b"recovery"
    assert snib("try", "-t", "1s", "n", url=sure).returncode == 0
    assert snib("try", "n", url=redis.url).returncode == 78


@pytest.mark.parametrize("words", [[], ["--yes"]])
def test_longer_number_is_told_and_changes_nothing(redis, sure, words):
    begin(sure)
    before = epoch(redis)
    told = ready(redis.url + "?recovery=61s", *words)
    assert told.returncode == 78
    assert "recovery=60s, this URL says 61s: write 60s here" in told.stderr
    assert epoch(redis) == before


def test_user_without_the_epoch_is_told_which_key(redis, sure):
    redis.command("ACL", "SETUSER", "team-a", "on", ">x", "~snib:{team-a.*",
                  "~snib:layout", "~snib:m", "~snib:{%doctor}:*",
                  "resetchannels", "&snib:*", "+@all")
    told = ready(None, url=sure.replace("redis://", "redis://team-a:x@"))
    assert told.returncode == 77
    assert "recovery= needs the keys snib:epoch and snib:m" in told.stderr
    redis.command("ACL", "SETUSER", "team-a", "~snib:epoch")
    told = ready(None, url=sure.replace("redis://", "redis://team-a:x@"))
    assert told.returncode == 64


OTHERS = ["file:/tmp/snib-none/x", "redis+cluster://127.0.0.1:1",
          "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"]


@pytest.mark.parametrize("url", ["redis", *OTHERS])
def test_store_without_a_recovery_is_refused_with_what_to_do(
        redis, url, tmp_path):
    url = redis.url if url == "redis" else url.replace(
        "/tmp/snib-none", str(tmp_path))
    told = ready(url, "--yes")
    assert told.returncode == 78
    assert f"snib: {url}: this store has no recovery; expected " in told.stderr
    assert "the URL of a Redis server with recovery=, as its clients" in (
        told.stderr)


def test_url_with_another_number_ends_nothing(redis, sure):
    begin(sure)
    before = epoch(redis)
    told = ready(redis.url + "?recovery=5s", "--yes")
    assert told.returncode == 78 and "recovery=60s" in told.stderr
    assert epoch(redis) == before


# -- what it does to exclusion -------------------------------------------------


def test_who_has_reclaimed_keeps_what_it_has_and_who_has_not_is_told(
        redis, sure, drivers):
    one, two, three = (drivers(sure, request_ms=500) for _ in range(3))
    assert ready(sure, "--yes").returncode == 0
    kept = one.acquire(one.lock("kept", lease_ms=LEASE_MS))
    lost = two.acquire(two.lock("lost", lease_ms=30000))
    redis.command("FLUSHALL")
    wait_until(lambda: redis.command("EXISTS", "snib:{kept}") == 1,
               what="it is reclaimed")
    assert ready(sure, "--yes").returncode == 0
    stays(lambda: kept.status().held, 1.0, "reclaimed, so its own")
    assert three.try_acquire(three.lock("kept", lease_ms=LEASE_MS)).err == "BUSY"
    later = three.acquire(three.lock("lost", lease_ms=LEASE_MS), wait_ms=5000)
    assert later.token > lost.token, "the fence refuses the old one"
    assert two.ask("renew", id=lost.id, lease_ms=0, on="main").err == "LOST"
    later.release()
    kept.release()


def test_next_time_the_server_forgets_there_is_a_recovery_again(
        redis, sure, waiter):
    assert ready(sure, "--yes").returncode == 0
    waiter.acquire("n", wait_ms=5000).release()
    redis.command("FLUSHALL")
    assert waiter.try_acquire("n").err == "BUSY"
    assert ready(sure).returncode == 64


def end(redis, at, recovery=LONG * 1000):
    """left, end, ended"""
    return redis.command("EVAL", scripts()["epoch"], 2, "snib:epoch", "snib:m",
                         recovery, at)[1:4]


def has_not_begun(told, recovery=LONG * 1000):
    return told[0] == recovery and told[1] < 0 and told[2] == 0


def test_recovery_that_began_after_the_look_goes_on(redis, sure):
    ahead = end(redis, 0)
    assert has_not_begun(ahead)
    begin(sure)
    looked = end(redis, ahead[1])
    assert 0 < looked[0] <= LONG * 1000 and looked[2] == 0
    redis.command("DEL", "snib:epoch")
    begin(sure)
    before = epoch(redis)
    assert int(before[1]) > looked[1]
    told = end(redis, looked[1])
    assert told[1] == int(before[1]) and told[2] == 0
    assert epoch(redis) == before
    assert end(redis, told[1])[2] == 1
    again = end(redis, told[1])
    assert again[0] == 0 and again[2] == 0


def test_server_that_forgot_after_the_look_is_not_opened(redis, sure):
    """It has no epoch, or that of its life before."""
    begin(sure)
    looked, mine = end(redis, 0), epoch(redis)
    before = b" ".join([b"0" * 40, *mine[1:]])
    redis.command("SET", "snib:epoch", before)
    assert has_not_begun(end(redis, looked[1]))
    with pytest.raises(RedisError, match="SNIBRECOVERY"):
        end(redis, looked[1], recovery=LONG * 1000 + 1)
    assert redis.command("GET", "snib:epoch") == before
    redis.command("DEL", "snib:epoch")
    assert has_not_begun(end(redis, looked[1]))
    assert redis.command("EXISTS", "snib:epoch") == 0


def test_look_of_before_a_recovery_that_is_over_opens_nothing(redis):
    """Whoever looked stood still. One began, was over, and others held when the
    server forgot once more: of these he did not say that nobody goes on."""
    looked = end(redis, 0, recovery=1000)
    assert has_not_begun(looked, recovery=1000)
    end(redis, "begin", recovery=1000)
    wait_until(lambda: end(redis, 0, recovery=1000)[0] == 0, 5, "it is over")
    redis.command("FLUSHALL")
    told = end(redis, looked[1], recovery=1000)
    assert has_not_begun(told, recovery=1000)
    assert redis.command("EXISTS", "snib:epoch") == 0
    assert end(redis, told[1], recovery=1000)[2] == 1


def test_epoch_that_is_not_ours_is_left_alone(redis, sure):
    ready(sure)
    redis.command("SET", "snib:epoch", "x")
    told = ready(sure, "--yes")
    assert told.returncode == 69 and "rename or delete it" in told.stderr
    assert redis.command("GET", "snib:epoch") == b"x"


def test_epoch_without_an_end_of_its_own_gets_one(redis, sure):
    begin(sure)
    redis.command("PERSIST", "snib:epoch")
    assert ready(sure, "--yes").returncode == 0
    assert redis.command("PTTL", "snib:epoch") > 31000000000


# -- several servers -----------------------------------------------------------


def test_of_several_servers_the_primary_is_opened(redis_with, drivers):
    redis = redis_with()
    replica = redis_with("replicaof 127.0.0.1 %d" % redis.port)
    wait_until(lambda: b"master_link_status:up" in replica.command(
        "INFO", "replication"), 10, "the replica is in step")
    url = (f"redis://127.0.0.1:{replica.port},127.0.0.1:{redis.port}"
           f"?recovery={LONG}s")
    assert ready(url, "--yes").returncode == 0
    redis.kill()
    replica.command("REPLICAOF", "NO", "ONE")
    one = drivers(url, request_ms=500)
    one.lock("n", lease_ms=LEASE_MS)
    assert one.try_acquire("n").err == "BUSY"
    waits = one.start_acquire("n", wait_ms=LONG * 1000)
    assert ready(url, "--yes").returncode == 0
    ended = time.monotonic()
    waits.wait(10).release()
    assert time.monotonic() - ended < 2


def test_after_a_planned_failover_who_waits_need_not(drivers):
    """Behind Sentinels; the new primary is the one that is opened."""
    with Watched() as servers:
        url = f"{servers.url}?recovery={LONG}s"
        assert ready(url, "--yes").returncode == 0
        one = drivers(url, request_ms=500)
        one.acquire(one.lock("n", lease_ms=LEASE_MS), wait_ms=5000).release()
        new = servers.fail_over()
        waits = one.start_acquire("n", wait_ms=LONG * 1000)
        wait_until(lambda: new.command("ZCARD", "snib:{n}:q") == 1, 60,
                   "it is queued at the new primary")  # TILT lasts for 30 s
        told = ready(url, "--yes")
        ended = time.monotonic()
        assert told.returncode == 0, told.stderr
        waits.wait(10).release()
        assert time.monotonic() - ended < 2


def test_user_of_the_manual_may_do_it(redis, sure):
    """The rights that docs/REDIS.md lists."""
    path = os.path.join(os.path.dirname(__file__), "..", "..", "docs",
                        "REDIS.md")
    with open(path, encoding="utf-8") as page:
        text = page.read().split("ACL SETUSER snib ", 1)[1].split("```", 1)[0]
    words = text.replace("\\\n", " ").replace(">CHANGE-ME", ">pw").split()
    redis.command("ACL", "SETUSER", "snib", *words)
    url = sure.replace("redis://", "redis://snib:pw@")
    told = snib("store", "ready", "--yes", url=url)
    assert told.returncode == 0, told.stderr
    assert "pw" not in told.stderr
