"""What a Redis server is like, told in words by each command and by doctor:
real servers, set up as people set them up."""

import json
import os
import time

import pytest

from conftest import Snib, eventually
from harness.redis_server import RedisServer, redis_missing
from harness.shim import Shim, build_shim

pytestmark = pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())


@pytest.fixture
def server_with(snib_bin, tmp_path):
    """server_with(lines of its configuration) is a Snib on such a server."""
    made = []

    def start(*config):
        made.append(RedisServer(config))
        snib = Snib(snib_bin, made[-1].url, str(tmp_path))
        snib.server = made[-1]
        made.append(snib)
        return snib
    yield start
    for one in reversed(made):
        one.end() if isinstance(one, Snib) else one.close()


# -- errors in words ----------------------------------------------------------------


def test_a_server_that_asks_for_a_login(server_with):
    snib = server_with("requirepass geheim")
    done = snib.run("run", "-w", "3s", "n", "--", "true")
    assert done.returncode == 77, done.stderr
    assert "NOAUTH: the server asks for a login" in done.stderr
    assert "redis://USER:PASSWORD@HOST" in done.stderr
    assert ("put such a URL into SNIB_URL, or into the file of --store-file "
            "PATH\n"
            in done.stderr), "--store takes none"
    assert "HELLO" not in done.stderr, "the server's own words"
    assert len(done.stderr) < 300, "one sentence, and not cut"


def test_a_replica_is_not_said_to_be_down(server_with):
    primary = server_with()
    replica = server_with(f"replicaof 127.0.0.1 {primary.server.port}")
    done = replica.run("try", "n")
    assert done.returncode == 69
    assert done.stderr.endswith(
        "locks live on the primary: give its URL, or promote this one\n")


# -- since when ---------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_since_when_somebody_waits_is_not_the_waiters_clock(
        redis, tmp_path, tmp_path_factory, ahead):
    shim = Shim(build_shim(tmp_path_factory.mktemp("shim")),
                tmp_path / "words")
    shim.step_real(ahead)
    redis.hold("n")
    began = time.time()
    redis.start("run", "-q", "n", "true", env=shim.env)
    eventually(lambda: redis.waiters("n") == 1)
    for _ in range(2):  # a poll later it is the same
        waiter, = redis.status("n")["waiters"]
        assert began - 1 < waiter["since_ms"] / 1000 < time.time() + 1
        polled = redis.server.command("HGETALL", "snib:{n}:w")
        eventually(lambda: redis.server.command("HGETALL", "snib:{n}:w") !=
                   polled)
    told = redis.run("why", "n").stdout
    assert "1h" not in told and "59m" not in told and "60m" not in told, told
    shim.close()


# -- doctor -------------------------------------------------------------------------


def findings(snib, status):
    """{check: (level, text, remedy)}; of several the worst."""
    done = snib.run("doctor", "--json")
    assert done.returncode == status, done.stdout
    worst = {}
    for one in sorted(json.loads(done.stdout)["findings"],
                      key=lambda f: ["ok", "warn", "fail"].index(f["level"])):
        worst[one["check"]] = (one["level"], one["text"], one["remedy"])
    return worst


def test_doctor_sees_that_memory_is_used_up(server_with):
    snib = server_with("maxmemory-policy noeviction")
    snib.server.command("SET", "foreign", "x" * 2_000_000)
    snib.server.command("CONFIG", "SET", "maxmemory", "2mb")
    refused = snib.run("try", "n")
    assert refused.returncode == 69 and "OOM" in refused.stderr
    level, text, remedy = findings(snib, 78)["memory"]
    assert level == "fail" and "takes no new locks" in text
    assert "raise maxmemory" in remedy
    snib.server.command("CONFIG", "SET", "maxmemory", "1gb")
    assert findings(snib, 0)["memory"][0] == "ok"


def test_doctor_sees_that_nothing_can_be_saved(server_with):
    snib = server_with("save 3600 1000000")
    os.mkdir(os.path.join(snib.server.dir, "dump.rdb"))
    snib.server.command("SET", "foreign", "x")
    snib.server.command("BGSAVE")
    snib.server.wait_for(lambda server: b"rdb_last_bgsave_status:err" in
                         server.command("INFO"), what="a failed dump")
    refused = snib.run("try", "n")
    assert refused.returncode == 69
    assert "MISCONF: the server takes no writes" in refused.stderr
    found = findings(snib, 78)
    assert found["disk"][0] == "fail"
    assert "takes no locks until a dump succeeds" in found["disk"][2]
    assert found["answer"][0] == "fail"
    assert "permissions" not in found, "no right is missing"


@pytest.mark.parametrize("config, level, says", [
    (["appendonly yes", "appendfsync always"], "ok", "always"),
    (["appendonly yes", "appendfsync everysec"], "warn", "the last second"),
    (["appendonly yes", "appendfsync no"], "warn", "half a minute"),
    ([], "warn", "nothing is saved"),
    (["save 60 1"], "warn", "dumps only")],
    ids=["always", "everysec", "no", "nothing", "dumps"])
def test_doctor_says_what_a_crash_forgets(server_with, config, level, says):
    told = findings(server_with(*config), 0)["persistence"]
    assert told[0] == level and says in told[1]
    assert level == "ok" or "fencing" in told[2]


def test_doctor_says_which_layout_the_locks_have(redis):
    assert findings(redis, 0)["layout"] == ("ok", "the locks have layout 2", "")
    redis.server.command("SET", "snib:layout", "3", "PX", 60000)
    level, text, remedy = findings(redis, 78)["configuration"]
    assert (level, remedy) == ("fail", "the text says what to do")
    other = ("the locks of this server have layout 3, this snib knows 2; use "
             "the newer snib everywhere, or delete the key snib:layout when "
             "nobody uses them")
    assert text == other
    for args in (("try", "n"), ("run", "n", "true"), ("status", "n"), ("list",)):
        refused = redis.run(*args)
        assert refused.returncode == 78, args
        assert other in refused.stderr, args


def test_doctor_warns_who_may_not_see_the_layout(redis):
    redis.server.command("ACL", "SETUSER", "team", "reset", "on", ">p",
                         "~snib:{team-a.*", "&*", "+@all")
    redis.env["SNIB_URL"] = redis.url.replace("://", "://team:p@")
    level, text, remedy = findings(redis, 0)["layout"]
    assert level == "warn" and "NOPERM" in text
    assert "let the user write the key snib:layout" in remedy


def test_doctor_sees_who_listens_to_anothers_channel(redis):
    redis.hold("n")
    redis.start("run", "-q", "n", "true")
    eventually(lambda: redis.waiters("n") == 1)
    record, = [value for key, value in zip(*[iter(
        redis.server.command("HGETALL", "snib:{n}:w"))] * 2) if key != b"#"]
    channel = record.split()[1].decode()
    assert findings(redis, 0)["listeners"][0] == "ok"
    with redis.server.client() as eavesdropper:
        eavesdropper.command("SUBSCRIBE", channel)
        level, text, remedy = findings(redis, 0)["listeners"]
        assert level == "warn" and channel in text
        assert "CLIENT LIST TYPE pubsub" in remedy
