"""The command line on ZooKeeper: what is said when the URL, the server or the
login is wrong, what it cannot do, and its check-up."""

import json
import os
import socket
import struct
import threading
import time

import pytest

from conftest import eventually
from harness.redis_server import RedisServer, redis_missing
from harness.zookeeper_server import ZookeeperServer, zookeeper_missing
from servers import *  # noqa: F401,F403
from servers import SECRET, tried

pytestmark = pytest.mark.skipif(bool(zookeeper_missing()),
                                reason=zookeeper_missing())


@pytest.fixture(scope="module")
def server():
    with ZookeeperServer() as made:
        yield made


def test_a_command_runs_under_a_lock_and_others_see_it(at):
    done = at().run("run", "n", "--", "sh", "-c", "echo $SNIB_TOKEN")
    assert done.returncode == 0 and int(done.stdout) > 0
    snib = at()
    snib.hold("a b")
    holder = snib.status("a b")["holders"][0]
    assert holder["token"] > 0
    other = snib.start("run", "a b", "--", "true")
    eventually(lambda: snib.waiters("a b"), "a waiter")
    locks = json.loads(snib.run("list", "--json", "a*").stdout)["locks"]
    assert [one["name"] for one in locks] == ["a b"]
    assert "a b" in snib.run("why", "a b").stdout
    other.kill()


def test_a_script_acquires_and_releases(at):
    snib = at()
    grant = snib.acquire("script").stdout.strip()
    assert at().run("try", "script", "--", "true").returncode == 75
    assert snib.run("release", grant).returncode == 0
    assert at().run("try", "script", "--", "true").returncode == 0


def test_a_try_says_no_and_leaves_nothing(at, server):
    snib = at()
    snib.hold("taken")
    assert snib.run("try", "taken", "--", "true").returncode == 75
    with server.client() as look:
        assert len(look.children("/snib/taken")) == 2


def test_readers_share(at):
    snib = at()
    snib.hold("shared", "-r")
    assert snib.run("try", "-r", "shared", "--", "true").returncode == 0
    assert snib.run("try", "shared", "--", "true").returncode == 75


def test_an_election_has_one_winner(at, tmp_path):
    snib = at()
    snib.start("elect", "lead", "--", "sh", "-c", "sleep 60")
    eventually(lambda: snib.status("lead")["holders"], "a leader")
    assert snib.run("try", "lead", "--", "true").returncode == 75


@pytest.mark.parametrize("args, words", [
    (("run", "--kind", "semaphore", "--capacity", "2", "n", "--", "true"),
     "mutexes and read/write locks only"),
    (("run", "--lock-delay", "5s", "n", "--", "true"), "no lock-delay"),
    (("run", "--priority", "3", "n", "--", "true"), "no priorities"),
    (("force-release", "--yes", "--reason", "x", "held"),
     "no forced release"),
    (("force-release", "free"), "no forced release"),
    (("latch", "--set", "2", "n"), "latches or values"),
    (("latch", "--await", "n"), "no latches"),
    (("latch", "--await", "-w", "0", "n"), "no latches"),
])
def test_what_it_has_not_is_said(at, args, words):
    snib = at()
    if "held" in args:
        snib.hold("held")
    done = snib.run(*args)
    assert (done.returncode, words in done.stderr) == (78, True), done.stderr


def test_a_dead_holder_is_no_lock_delay_and_a_wait_ends(at, server):
    """The holder's session is over, its record stays. Nobody knows when that was,
    so whoever comes now waits for its whole lease."""
    snib = at()
    snib.hold("dead", "-t", "2s")
    with server.client() as look:
        node = [one for one in look.children("/snib/dead") if "=held" not in one]
        look.delete("/snib/dead/" + node[0])
    said = at().run("status", "dead").stdout
    assert "closed for 2s more, after a holder that ended without a release" in (
        said), said
    assert "lock-delay" not in said and "closed   " not in said, said
    said = at().run("why", "dead").stdout
    assert "closed after a holder that ended without a release; open in 2s" in (
        said), said
    assert at().run("wait", "-w", "200ms", "dead").returncode == 75
    began = time.monotonic()
    assert at().run("wait", "-w", "20s", "dead").returncode == 0
    assert 1.9 <= time.monotonic() - began < 10


def test_the_doctor_looks_at_it(at):
    done = at().run("doctor", "--json")
    found = {one["check"]: one["level"]
             for one in json.loads(done.stdout)["findings"]}
    assert found["permissions"] == "ok" and found["servers"] == "warn"
    assert found["login"] == "warn" and found["session"] == "ok"


# -- what is wrong ---------------------------------------------------------------

WRONG = {
    "no server": ("zookeeper://127.0.0.1:1", 69, "127.0.0.1:1"),
    "a key": ("zookeeper://HOST?nothing=1", 78, "nothing="),
    "a session": ("zookeeper://HOST?session_ms=x", 78, "session_ms"),
    "a path": ("zookeeper://HOST/a/../b", 78, "a path like"),
    "twice": ("zookeeper://HOST,HOST", 78, "twice"),
    "TLS": ("zookeepers://HOST,HOST", 78, "no TLS with ZooKeeper"),
}


@pytest.fixture(params=WRONG)
def wrong(request):
    return WRONG[request.param]


def test_a_login_keeps_others_out(at, server, tmp_path):
    url = f"zookeeper://known:{SECRET}@127.0.0.1:{server.port}/closed"
    assert at(url).run("try", "n", "--", "true").returncode == 0
    for wrong in (url.replace(SECRET, "wr0ng"),
                  f"zookeeper://127.0.0.1:{server.port}/closed"):
        done = at(wrong).run("try", "n", "--", "true")
        assert done.returncode == 77 and "/closed" in done.stderr, done.stderr
        assert "wr0ng" not in done.stderr
    path = tmp_path / "password"
    path.write_text(SECRET + "\n")
    os.chmod(path, 0o600)
    by_file = at(url.replace(f":{SECRET}@", "@") + f"?password_file={path}")
    done = by_file.run("try", "n", "--", "true")
    assert done.returncode == 0, done.stderr
    path.unlink()
    done = by_file.run("try", "n", "--", "true")
    assert done.returncode == 78 and "No such file" in done.stderr, done.stderr


def test_a_part_of_the_tree_is_enough(at):
    """The root is closed, and the path is yet to be made in a part of the tree."""
    with ZookeeperServer() as server:
        with server.client() as root:
            root.create("/team")
            root.only_read("/")
        snib = at(server.url + "/team/app/locks")
        for _ in range(2):  # before the path is there, and behind that
            assert snib.run("doctor").returncode == 0
            done = snib.run("try", "n", "--", "true")
            assert done.returncode == 0, done.stderr
        snib = at(server.url + "/other/locks")
        done = snib.run("try", "n", "--", "true")
        assert done.returncode == 77 and "no right to" in done.stderr
        said = json.loads(snib.run("doctor", "--json").stdout)["findings"]
        assert [(one["check"], one["level"]) for one in said
                if one["level"] == "fail"] == [("permissions", "fail")]


@pytest.mark.parametrize("data", [
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    b"-ERR unknown command\r\n", b"\x4a\x00\x00\x00\x0a5.5.5\x00" * 8,
    b"\x15\x03\x03\x00\x02\x02\x16", b"\0\0\0\x08" + b"\0" * 8])
def test_another_server_on_the_port_is_said(at, data):
    assert "not answer like ZooKeeper" in tried(at, "zookeeper://HOST", data)


def test_a_port_that_closes_at_once_is_said(at):
    """As the port for TLS does, and a server with too many connections."""
    said = tried(at, "zookeeper://HOST", b"")
    assert "without TLS?" in said and "maxClientCnxns" in said


SASL = ["authProvider.sasl=org.apache.zookeeper.server.auth."
        "SASLAuthenticationProvider", "sessionRequireClientSASLAuth=true"]


def test_a_server_that_wants_sasl_is_said(at):
    with ZookeeperServer(config=SASL) as server:
        for login in ("", f"known:{SECRET}@"):
            snib = at(server.url.replace("//", f"//{login}"))
            for what in (("try", "n", "--", "true"), ("status", "n")):
                done = snib.run(*what)
                assert done.returncode == 77, done.stderr
                assert "SASL, which is not supported" in done.stderr
            said = json.loads(snib.run("doctor", "--json").stdout)["findings"]
            bad = [one for one in said if one["level"] == "fail"]
            assert [one["check"] for one in bad] == ["login"], said
            assert "rights" not in bad[0]["remedy"]


@pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())
def test_a_redis_on_the_port_is_said(at):
    with RedisServer() as redis:
        done = at(f"zookeeper://127.0.0.1:{redis.port}").run(
            "try", "n", "--", "true")
    assert done.returncode == 69 and "127.0.0.1" in done.stderr, done.stderr


# -- an old server ---------------------------------------------------------------


def exactly(sock, count):
    got = b""
    while len(got) < count:
        piece = sock.recv(count - len(got))
        if not piece:
            raise ConnectionError
        got += piece
    return got


class AsOld:
    """The way to a server that answers as 3.4 did: what came with 3.5 (15 is its
    first number) is unknown, and ends the connection."""
    KNOWN = set(range(1, 15)) | {100, 101, -11}

    def __init__(self, server):
        self.server = server
        self.ear = socket.create_server(("127.0.0.1", 0))
        self.url = "zookeeper://127.0.0.1:%d" % self.ear.getsockname()[1]
        self._spawn(self._serve)

    @staticmethod
    def _spawn(work, *args):
        def quietly():
            try:
                work(*args)
            except OSError:
                pass
        threading.Thread(target=quietly, daemon=True).start()

    def _serve(self):
        while True:
            self._spawn(self._pass_on, self.ear.accept()[0])

    @staticmethod
    def _answers(server, client):
        while (data := server.recv(65536)):
            client.sendall(data)

    def _pass_on(self, client):
        with client, socket.create_connection(self.server.address) as server:
            self._spawn(self._answers, server, client)
            first = True
            while True:
                size = exactly(client, 4)
                body = exactly(client, struct.unpack(">i", size)[0])
                xid, op = struct.unpack_from(">ii", body)
                if not first and op not in self.KNOWN:
                    client.sendall(struct.pack(">iiqi", 16, xid, -1, -6))
                    return
                first = False
                server.sendall(size + body)


def test_an_old_server_is_told_so(at, server):
    old = AsOld(server)
    done = at(old.url).run("run", "-w", "20s", "never made", "--", "true")
    old.ear.close()
    assert done.returncode == 78, done.stderr
    assert "ZooKeeper 3.5 or later is needed" in done.stderr
