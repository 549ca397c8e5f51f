"""?recovery=: a server that forgets costs no exclusion (store/redis/recovery.c,
scripts/epoch.lua), on a real redis-server: restarted without its data, emptied,
promoted with old data. test_redis_states.py has what happens without it.
"""

import json
import os
import pathlib
import subprocess
import time

import pytest

from harness.redis_server import redis_missing
from harness.wait import wait_until
from recoveries import begin, is_open

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())

LEASE_MS, RECOVERY = 1500, 3.0


@pytest.fixture
def sure(redis):
    return redis.url + "?recovery=3s"


@pytest.fixture
def one(drivers, redis, sure):
    driver = drivers(sure, request_ms=500)
    begin(redis, driver, LEASE_MS, 2 * RECOVERY)
    return driver


@pytest.fixture
def two(drivers, sure):
    return drivers(sure, request_ms=500)


FORGETS = {
    "restarted empty": lambda redis: redis.restart(data="lost"),
    "emptied": lambda redis: redis.command("FLUSHALL"),
    "its epoch deleted": lambda redis: redis.command("DEL", "snib:epoch"),
    "restarted with its data": lambda redis: redis.restart(data="kept"),
}


@pytest.mark.parametrize("what", FORGETS)
def test_nobody_new_comes_in_and_the_holder_keeps_what_it_has(
        one, two, redis, what):
    grant = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    two.lock("n", lease_ms=LEASE_MS)
    two.lock("free", lease_ms=LEASE_MS)
    FORGETS[what](redis)
    forgot = time.monotonic()
    waiting = two.start_acquire("n", on="waits", wait_ms=20000)
    refused = two.try_acquire("free")
    assert refused.err == "BUSY", refused
    assert "lets nobody in anew" in refused.text, refused
    taken = two.acquire("free", wait_ms=20000)
    assert time.monotonic() - forgot > RECOVERY - 0.1
    taken.release()
    assert not waiting.done(), "the holder has reclaimed it"
    assert grant.status().held
    assert "lost" not in [change.state for change in grant.changes()]
    grant.release()
    after = waiting.wait()
    assert after.token > grant.token
    after.release()


def test_without_it_a_second_owner_comes_in_at_once(redis, drivers):
    one, two = drivers(redis.url), drivers(redis.url)
    first = one.acquire(one.lock("n", lease_ms=60000))
    redis.command("FLUSHALL")
    second = two.acquire(two.lock("n", lease_ms=60000), wait_ms=0)
    assert first.status().held and second.status().held
    second.release()


def test_holder_that_does_not_come_back_is_waited_for(one, two, redis):
    one.acquire(one.lock("n", lease_ms=LEASE_MS))
    redis.command("FLUSHALL")
    one.kill()
    forgot = time.monotonic()
    taken = two.acquire(two.lock("n", lease_ms=LEASE_MS), wait_ms=20000)
    assert time.monotonic() - forgot > RECOVERY - 0.5
    taken.release()


@pytest.mark.parametrize("kind", ["mutex", "read"])
def test_release_of_what_was_forgotten_says_so(one, redis, kind):
    """It said stolen. (A mutex would have been reclaimed by its renewal.)"""
    grant = one.acquire(one.lock("n", kind=kind, lease_ms=2900))
    redis.command("FLUSHALL")
    told = grant.start_release().answer()
    assert told.err == "LOST", told
    assert told.text.startswith("forgotten: the store does not know"), told


def test_release_beside_one_who_asks_for_no_recovery_is_not_called_forgotten(
        one, redis, drivers):
    """Who came first to the emptied server was let in."""
    grant = one.acquire(one.lock("n", lease_ms=2900))
    redis.command("FLUSHALL")
    other = drivers(redis.url)
    held = other.acquire(other.lock("n", lease_ms=20000), wait_ms=0)
    told = grant.start_release().answer()
    assert told.err == "LOST", told
    assert told.text.startswith("stolen: the store does not know"), told
    held.release()


def test_release_that_finds_its_grant_in_a_recovery_is_done(one, redis):
    grant = one.acquire(one.lock("n", lease_ms=2900))
    redis.command("DEL", "snib:epoch")
    assert one.try_acquire(one.lock("m", lease_ms=2900)).err == "BUSY"
    grant.release()
    assert redis.command("HLEN", "snib:{n}") <= 1


def test_reader_is_told_that_it_was_forgotten_and_no_writer_is_beside_it(
        one, two, redis):
    reads = one.acquire(one.lock("n", kind="read", lease_ms=LEASE_MS))
    redis.command("FLUSHALL")
    forgot = time.monotonic()
    wrote = two.acquire(two.lock("n", kind="write", lease_ms=LEASE_MS),
                        wait_ms=20000)
    assert time.monotonic() - forgot > RECOVERY - 0.1
    told = one.wait_event("change", ticket=reads.ticket, state="lost")
    assert told.reason == "forgotten"
    wrote.release()


@pytest.mark.parametrize("what", ["emptied", "its epoch deleted"])
def test_writer_that_reads_inside_waits_until_the_recovery_is_over(
        one, redis, what):
    """Its write lock is not reclaimed yet; or it is there, but might be one of
    before that has ended since."""
    wrote = one.acquire(one.lock("n", id="w", kind="write", lease_ms=LEASE_MS))
    inside = one.lock("n", id="r", kind="read", lease_ms=LEASE_MS)
    FORGETS[what](redis)
    forgot = time.monotonic()
    refused = one.try_acquire(inside)
    assert refused.err == "BUSY", refused
    assert "lets nobody in anew" in refused.text, refused
    reads = one.acquire(inside, wait_ms=20000)
    assert time.monotonic() - forgot > RECOVERY - 0.1
    assert wrote.status().held and reads.status().held
    reads.release()
    wrote.release()


def test_promoted_with_old_data_the_later_holder_reclaims(
        redis_with, drivers):
    """The replica has the lock as it was before: held by another, who has
    ended since."""
    redis = redis_with()
    old = redis_with("replicaof 127.0.0.1 %d" % redis.port)
    wait_until(lambda: b"master_link_status:up" in old.command(
        "INFO", "replication"), 10, "the replica is in step")
    hosts = f"redis://127.0.0.1:{redis.port},127.0.0.1:{old.port}?recovery=3s"
    one, two = drivers(hosts, request_ms=500), drivers(hosts, request_ms=500)
    begin(redis, one, LEASE_MS, 2 * RECOVERY)
    before = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    two.lock("n", lease_ms=LEASE_MS)
    waiting = two.start_acquire("n", wait_ms=20000)
    wait_until(lambda: old.command("ZCARD", "snib:{n}:q") == 1,
               what="the replica knows both")
    old.command("CONFIG", "SET", "repl-timeout", "60")
    old.freeze()
    before.release()
    held = waiting.wait()
    redis.kill()
    old.thaw()
    old.command("REPLICAOF", "NO", "ONE")
    forgot = time.monotonic()
    again = one.start_acquire("n", wait_ms=20000)
    wait_until(lambda: is_open(old), 4 * RECOVERY, "the recovery is over")
    assert time.monotonic() - forgot > RECOVERY - 0.1
    assert held.status().held
    assert "lost" not in [change.state for change in held.changes()]
    held.release()
    again.wait().release()


def test_who_does_not_ask_for_it_is_refused_where_that_can_be_seen(
        one, redis, drivers):
    other = drivers(redis.url)
    answer = other.try_acquire(other.lock("n"))
    assert answer.err == "CONFIG", answer
    assert "use it here, too" in answer.text
    assert redis.command("TYPE", "snib:m") == b"string"


def test_what_others_took_before_stays_theirs(redis, drivers, sure):
    other = drivers(redis.url)
    held = other.acquire(other.lock("n", lease_ms=20000))
    one = drivers(sure)
    begin(redis, one, LEASE_MS, 2 * RECOVERY)
    answer = one.try_acquire(one.lock("n", lease_ms=LEASE_MS))
    assert answer.err == "BUSY", answer
    held.renew()
    held.release()
    taken = one.acquire("n", wait_ms=5000)
    assert taken.token > held.token
    taken.release()


def test_another_number_is_refused(one, redis, drivers):
    other = drivers(redis.url + "?recovery=5s")
    answer = other.try_acquire(other.lock("n", lease_ms=LEASE_MS))
    assert answer.err == "CONFIG", answer
    assert "recovery=3s, this URL says 5s: write 3s here" in answer.text


def test_longer_number_counts_where_a_shorter_one_began_the_recovery(
        one, redis, drivers):
    """Else they would let newcomers in too early for those with the longer one,
    who are connected and do not greet the server anew."""
    held = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    one.lock("free", lease_ms=LEASE_MS)
    short = drivers(redis.url + "?recovery=1s")
    short.lock("free", lease_ms=800)
    redis.command("FLUSHALL")
    forgot = time.monotonic()
    assert short.try_acquire("free").err == "BUSY"
    assert redis.command("GET", "snib:epoch").split()[2] == b"1000"
    refused = one.try_acquire("free")
    assert refused.err == "BUSY", refused
    assert redis.command("GET", "snib:epoch").split()[2] == b"3000"
    told = short.start_acquire("free", wait_ms=20000).answer()
    assert told.err == "CONFIG", told
    assert "recovery=3s" in told.text
    taken = one.acquire("free", wait_ms=20000)
    assert RECOVERY - 0.1 < time.monotonic() - forgot < 2 * RECOVERY
    assert held.status().held
    taken.release()
    held.release()


def test_longer_lease_is_refused_at_once(one):
    answer = one.try_acquire(one.lock("n", lease_ms=3001))
    assert answer.err == "USAGE", answer
    assert "--ttl" in answer.text and "raise recovery=" in answer.text
    assert "recovery=" in answer.text
    grant = one.acquire(one.lock("m", lease_ms=LEASE_MS))
    told = one.ask("renew", id=grant.id, lease_ms=3001, on="main")
    assert told.err == "USAGE", told
    grant.release()


# -- what stands at the key ----------------------------------------------------


def test_recovery_that_ends_far_ahead_begins_anew(one, redis):
    """The server's clock was set back by hours while it ran."""
    one.lock("n", lease_ms=LEASE_MS)
    epoch = redis.command("GET", "snib:epoch").split()
    epoch[1] = b"%d" % (int(epoch[1]) + 7200000)
    redis.command("SET", "snib:epoch", b" ".join(epoch))
    begun = time.monotonic()
    refused = one.try_acquire("n")
    assert refused.err == "BUSY", refused
    taken = one.acquire("n", wait_ms=20000)
    assert RECOVERY - 0.1 < time.monotonic() - begun < 2 * RECOVERY
    taken.release()


FOREIGN = {
    "another type": lambda redis: redis.command("RPUSH", "snib:epoch", "x"),
    "rubbish": lambda redis: redis.command("SET", "snib:epoch", "x"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_epoch_that_is_not_ours_is_told_and_lets_nobody_in(
        one, two, redis, what):
    two.lock("n", lease_ms=LEASE_MS)
    redis.command("DEL", "snib:epoch")
    FOREIGN[what](redis)
    told = one.try_acquire(one.lock("n", lease_ms=LEASE_MS))
    assert told.err == "CORRUPT", told
    assert "rename or delete it" in told.text, told
    waits = two.start_acquire("n")  # its first connection; without a limit
    told = waits.answer()
    assert told.err == "CORRUPT", told
    assert "rename or delete it" in told.text, told
    redis.command("DEL", "snib:epoch")
    one.acquire("n", wait_ms=20000).release()


def test_server_without_info_is_refused_with_what_to_do(redis_with, drivers):
    redis = redis_with("rename-command INFO hidden")
    other = drivers(redis.url + "?recovery=3s")
    answer = other.start_acquire(other.lock("n", lease_ms=LEASE_MS)).answer()
    assert answer.err == "CONFIG", answer
    assert "recovery= needs it" in answer.text, answer


def test_mark_is_not_forgotten_where_there_is_no_memory_left(redis):
    """Tokens are above all that it gave; the script takes the mark away."""
    redis.command("XADD", "snib:m", "5000000000000-7", "a", "")
    redis.command("CONFIG", "SET", "maxmemory", "1")
    done = redis.command("EVAL", scripts()["epoch"], 2, "snib:epoch", "snib:m",
                         3000, "begin")
    assert done[1] == 3000
    least = int(redis.command("GET", "snib:epoch").split()[3])
    assert least > 5000000000000 * 1024 + 7


def test_server_that_is_told_to_hide_is_refused(redis, drivers, sure):
    """A login that may not look who the server is."""
    redis.command("ACL", "SETUSER", "a", "on", ">b", "~*", "&*", "+@all", "-info")
    other = drivers(sure.replace("redis://", "redis://a:b@"))
    answer = other.try_acquire(other.lock("n", lease_ms=LEASE_MS))
    assert answer.err == "DENIED", answer
    assert "give the user +info" in answer.text, answer


def doctor(url):
    done = subprocess.run([os.environ["SNIB_BIN"], "doctor", "-s", url],
                          capture_output=True, text=True, timeout=30)
    return [line for line in done.stdout.splitlines()
            if "recovery" in line or "mark" in line], done.stdout


def test_doctor_says_how_long_nobody_is_let_in(redis, sure):
    found, text = doctor(sure)
    assert any("nobody is let in for 3000 ms from when the first asks" in line
               for line in found), text
    snib(sure, "try", "-t", "1s", "n")
    found, text = doctor(sure)
    assert any("nobody is let in anew for" in line for line in found), text
    assert not any("another type" in line for line in found), text
    wait_until(lambda: is_open(redis), 2 * RECOVERY, "the first recovery")
    found, text = doctor(sure)
    assert any("for 3000 ms" in line for line in found), text
    assert "recovery= in" in doctor(redis.url)[1]


def snib(url, *words):
    return subprocess.run([os.environ["SNIB_BIN"], *words, "-s", url],
                          capture_output=True, text=True, timeout=30)


def test_status_why_and_wait_know_that_nothing_new_is_granted(redis, sure):
    snib(sure, "try", "-t", "1s", "n")
    shown = snib(sure, "status", "n").stdout
    assert shown.startswith("n: nothing new is granted for "), shown
    assert " more: " in shown, shown
    told = json.loads(snib(sure, "status", "--json", "n").stdout)
    assert 0 < told["recovery"]["left_ms"] <= 1000 * RECOVERY
    assert told["recovery"]["begun"] is True
    shown = snib(sure, "why", "n").stdout
    assert "n: nobody that the server knows of.\n" in shown, shown
    assert "  Nothing new is granted for " in shown, shown
    assert snib(sure, "wait", "--wait", "0", "n").returncode == 75
    assert snib(sure, "wait", "n").returncode == 0
    assert is_open(redis)
    assert snib(sure, "status", "n").stdout == "n: free\n"


@pytest.mark.parametrize("words", [
    ["try"], ["run", "-w", "0", "--"], ["acquire", "-w", "0", "--detached"]])
def test_who_does_not_wait_is_told_of_the_recovery(redis, sure, words):
    verb, options = words[0], [word for word in words[1:] if word != "--"]
    command = ["--", "true"] if "--" in words else []
    done = subprocess.run(
        [os.environ["SNIB_BIN"], verb, "-s", sure, "-t", "%dms" % LEASE_MS,
         *options, "n", *command],
        capture_output=True, text=True, timeout=30)
    assert done.returncode == 75
    assert "n: not acquired: nothing new is granted for " in done.stderr
    assert "another owner" not in done.stderr


# -- the script by which a holder reclaims -------------------------------------


def test_late_reclaim_takes_nothing_from_a_later_holder(one, two, redis):
    """A copy of it, of a grant that has ended since."""
    first = one.acquire(one.lock("n", lease_ms=LEASE_MS))
    first.release()
    later = two.acquire(two.lock("n", lease_ms=LEASE_MS))
    redis.command("DEL", "snib:epoch")
    begun = one.try_acquire("begin")  # begins the next epoch
    assert begun.err == "BUSY"
    text = scripts()["keep"]
    client, request = b"c" * 32, b"d" * 32
    seconds, micros = redis.command("TIME")
    soon = int(seconds) * 1000 + int(micros) // 1000 + 5000
    keys = [b"snib:{n}" + tail for tail in
            (b"", b":t", b":q", b":w", b":a", b":x:" + request, b":r", b":c")]
    done = redis.command(
        "EVAL", text, 9, *keys, "snib:epoch", client, request, first.token,
        first.token + 31, LEASE_MS, "0 1", soon, 31, "", 3000)
    assert done[1] == 0
    assert later.status().held
    later.release()


def begin_anew(one, redis):
    redis.command("DEL", "snib:epoch")
    assert one.try_acquire("begin").err == "BUSY"


def poll_again(redis, client, request, kind):
    """The server meets a late copy of that acquire."""
    seconds, micros = redis.command("TIME")
    soon = int(seconds) * 1000 + int(micros) // 1000 + 5000
    keys = [b"snib:{n}" + tail for tail in
            (b"", b":t", b":q", b":w", b":a", b":x:" + request, b":c")]
    return redis.command(
        "EVAL", scripts()["acquire"], 8, *keys, "snib:epoch", client, request,
        2500, 1, 1, soon, 0, 0, 0, b"snib:" + client, kind, 1, 3000, "", 0, 128,
        3000)


def test_who_was_first_when_the_server_changed_is_first_again(
        one, two, redis):
    """Its grant was on its way, so the server knows it as the holder."""
    two.acquire(two.lock("n", lease_ms=LEASE_MS))
    (client, record), = pairs(redis.command("HGETALL", "snib:{n}"))
    two.kill()
    begin_anew(one, redis)
    one.lock("n", lease_ms=LEASE_MS)
    waits = one.start_acquire("n", wait_ms=20000)
    wait_until(lambda: redis.command("ZCARD", "snib:{n}:q") == 1,
               what="another one waits")
    said = poll_again(redis, client, record.split()[0], 0)
    assert said[0] == 2 and said[2] == 1 and said[4] == 1, said
    first = redis.command("ZRANGE", "snib:{n}:q", 0, 0)
    assert first == [record.split()[0]]
    waits.wait(20).release()


def test_late_copy_of_a_reader_that_holds_gives_it_no_second_grant(
        one, two, redis):
    """Else that of the queue, which is shorter, would take the place of its own."""
    reads = one.acquire(one.lock("n", kind="read", lease_ms=2500))
    (field, _), = pairs(redis.command("HGETALL", "snib:{n}"))
    client, request = field.split(b":")
    begin_anew(one, redis)
    wait_until(lambda: is_open(redis, ahead=0.7), 2 * RECOVERY)
    said = poll_again(redis, client, request, 1)
    assert said[0] == 2 and said[4] == 1, said
    wait_until(lambda: is_open(redis), RECOVERY)
    other = two.acquire(two.lock("n", kind="read", lease_ms=2500))
    found = dict(pairs(redis.command("HGETALL", "snib:{n}")))[field].split()
    assert found[1] == b"%d" % reads.token
    assert redis.command("ZCARD", "snib:{n}:q") == 0
    assert reads.status().held
    other.release()
    reads.release()


def pairs(found):
    return [(found[i], found[i + 1]) for i in range(0, len(found), 2)
            if found[i] != b"~"]


def scripts():
    """The scripts as they are embedded, by name."""
    folder = next(pathlib.Path(os.environ["SNIB_BUILD_DIR"]).rglob(
        "redis_scripts/redis_keep.lua")).parent
    return {path.stem[len("redis_"):]: path.read_bytes()
            for path in folder.glob("redis_*.lua")}
