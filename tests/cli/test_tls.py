"""rediss: and redlocks: against real servers: what works, and what each thing
that is wrong is called. No certificate is kept: they are made on the spot."""

import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from conftest import Snib, eventually, slack

SECRET = "hunter2-s3cr3t"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))


class Place:
    """A CA, and servers with certificates of it."""

    def __init__(self, folder):
        from harness.certs import Authority
        (folder / "ours").mkdir()
        (folder / "theirs").mkdir()
        self.ours = Authority(folder / "ours")
        self.theirs = Authority(folder / "theirs", "another CA")
        self.good = self.ours.issue("server")
        self.servers = []

    def server(self, paper=None, clients="no", config=()):
        from harness.certs import tls_config
        from harness.ports import free_port
        from harness.redis_server import RedisServer
        port = free_port()
        cert, key = paper or self.good
        server = RedisServer(config=[
            *tls_config(port, cert, key, self.ours.ca, clients), *config])
        server.tls_port = port
        self.servers.append(server)
        return server


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    from harness.redis_server import redis_missing, redis_tls_missing
    for why in (redis_missing(), redis_tls_missing()):
        if why:
            pytest.skip(why)
    made = Place(tmp_path_factory.mktemp("papers"))
    yield made
    for server in made.servers:
        server.close()


@pytest.fixture(scope="module")
def server(place):
    return place.server()


@pytest.fixture
def snib(snib_bin, place, server, tmp_path):
    """On `server`, by TLS. The test is skipped where the build has none."""
    made = Snib(snib_bin, url_of(place, server), str(tmp_path))
    done = made.run("try", "is-tls-built-in")
    if done.returncode == 78 and "this build has no TLS" in done.stderr:
        pytest.skip("built without TLS")
    yield made
    made.end()


def url_of(place, server, **more):
    keys = {"tls_ca": place.ours.ca, **more}
    query = "&".join(f"{k}={v}" for k, v in keys.items() if v is not None)
    return f"rediss://127.0.0.1:{server.tls_port}?{query}"


def refused(done, code, *words):
    assert done.returncode == code, (done.returncode, done.stderr)
    for word in words:
        assert word in done.stderr, done.stderr


# -- what works ---------------------------------------------------------------

def test_a_lock_is_taken_waited_for_and_handed_over(snib):
    p = snib.hold("n")
    refused(snib.run("try", "n"), 75)
    waiter = snib.start("run", "-q", "n", "--", "sh", "-c", "echo mine")
    eventually(lambda: snib.waiters("n") == 1, "a waiter")
    os.kill(p.command, signal.SIGTERM)
    said, _ = waiter.communicate(timeout=20)
    assert said == "mine\n" and waiter.returncode == 0


def test_what_the_server_hears_is_encrypted(snib, server):
    p = snib.hold("plain-text-name")
    kinds = {c["flags"] for c in server.clients() if "lib-name" not in c or 1}
    assert kinds
    assert server.command("INFO", "clients")
    # The port without TLS was used by nobody but the tests' own connection.
    assert len(server.clients()) >= 2
    p.terminate()
    p.wait(20)


def test_a_name_in_place_of_an_address(snib, place, server):
    url = url_of(place, server).replace("127.0.0.1", "localhost")
    assert snib.run("try", "n", env={"SNIB_URL": url}).returncode == 0


def test_a_quorum_by_tls(snib, place, server):
    servers = [server, place.server(), place.server()]
    hosts = ",".join(f"127.0.0.1:{s.tls_port}" for s in servers)
    url = f"redlocks://{hosts}?tls_ca={place.ours.ca}&node_ms=2000"
    env = {"SNIB_URL": url}
    assert snib.run("run", "q", "--", "true", env=env).returncode == 0
    servers[2].kill()
    assert snib.run("run", "q", "--", "true", env=env).returncode == 0
    refused(snib.run("try", "q", env={
        "SNIB_URL": url.replace(place.ours.ca, place.theirs.ca)}), 78,
        "no majority", "certificate")


def test_connections_resume_one_session(snib, server):
    """What a client of three connections costs the server."""
    before = int(re.search(rb"total_connections_received:(\d+)",
                           server.command("INFO", "stats"))[1])
    assert snib.run("run", "n", "--", "true").returncode == 0
    after = int(re.search(rb"total_connections_received:(\d+)",
                          server.command("INFO", "stats"))[1])
    assert 1 <= after - before <= 4


def test_doctor_says_that_it_is_verified(snib, place, server):
    def finding(**more):
        done = snib.run("doctor", "--json",
                        env={"SNIB_URL": url_of(place, server, **more)})
        return [f for f in json.loads(done.stdout)["findings"]
                if f["check"] == "tls"]
    found, = finding()
    assert found["level"] == "ok"
    found, = finding(tls_ca=None, tls_verify="no")
    assert found["level"] == "fail" and "tls_ca=" in found["remedy"]


def test_unverified_is_said_at_each_open(snib, place, server):
    env = {"SNIB_URL": url_of(place, server, tls_ca=None, tls_verify="no")}
    for args in (("try", "n"), ("run", "n", "--", "true"), ("status", "n")):
        done = snib.run(*args, env=env)
        assert done.returncode in (0, 1), done.stderr
        assert done.stderr.count("tls_verify=no") == 1, done.stderr
    assert "tls_verify=no" not in snib.run("try", "-q", "n", env=env).stderr


# -- what does not ------------------------------------------------------------

def test_an_unknown_ca_is_refused_at_once(snib, place, server):
    for ca in (place.theirs.ca, None):
        url = url_of(place, server, tls_ca=ca)
        done = snib.run("run", "-w", "60s", "n", "--", "true",
                        env={"SNIB_URL": url}, timeout=20)
        refused(done, 78, "the certificate of 127.0.0.1 is refused",
                "give", "tls_ca=")


def test_an_expired_certificate_is_refused(snib, place):
    server = place.server(place.ours.issue("old", days=-1))
    done = snib.run("try", "n", env={"SNIB_URL": url_of(place, server)})
    refused(done, 78, "certificate has expired", "renew it")


def test_a_certificate_for_another_is_refused(snib, place):
    server = place.server(place.ours.issue("x", "DNS:redis.example"))
    env = {"SNIB_URL": url_of(place, server)}
    refused(snib.run("try", "n", env=env), 78,
            "is not for 127.0.0.1 but for redis.example", "tls_name=")
    env = {"SNIB_URL": url_of(place, server, tls_name="redis.example")}
    assert snib.run("try", "n", env=env).returncode == 0


def test_a_server_that_wants_a_certificate(snib, place):
    server = place.server(clients="yes")
    done = snib.run("run", "-w", "60s", "n", "--", "true", timeout=20,
                    env={"SNIB_URL": url_of(place, server)})
    refused(done, 77, "127.0.0.1 refuses us", "certificate required",
            "tls_cert= and tls_key=")
    cert, key = place.ours.issue("client", "DNS:client")
    env = {"SNIB_URL": url_of(place, server, tls_cert=cert, tls_key=key)}
    assert snib.run("run", "n", "--", "true", env=env).returncode == 0
    cert, key = place.theirs.issue("client", "DNS:client")
    env = {"SNIB_URL": url_of(place, server, tls_cert=cert, tls_key=key)}
    refused(snib.run("try", "n", env=env), 77, "refuses us", "tls_cert=")


def test_tls_to_the_port_without(snib, place, server):
    url = url_of(place, server).replace(str(server.tls_port),
                                        str(server.port))
    done = snib.run("try", "n", env={"SNIB_URL": url}, timeout=20)
    assert done.returncode in (69, 78), done.stderr
    assert re.search("port", done.stderr) and "TLS" in done.stderr


def test_no_tls_to_the_port_with(snib, server):
    url = f"redis://127.0.0.1:{server.tls_port}"
    done = snib.run("try", "n", env={"SNIB_URL": url}, timeout=20)
    assert done.returncode in (69, 78), done.stderr
    assert "rediss:" in done.stderr, done.stderr


def test_a_server_that_says_nothing_costs_no_more_than_the_limit(snib, place):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"rediss://127.0.0.1:{mute.getsockname()[1]}"
        for args, limit in ((("try", "n"), 2),
                            (("run", "-w", "1s", "n", "--", "true"), 1)):
            began = time.monotonic()
            done = snib.run(*args, env={"SNIB_URL": url}, timeout=20)
            assert time.monotonic() - began < limit + slack()
            refused(done, 69, "127.0.0.1")


@contextlib.contextmanager
def listening(meet):
    """A server that meets each connection so: its URL."""
    def serve(server):
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            with peer:
                meet(peer)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield f"rediss://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def test_a_server_that_is_none_is_told(snib):
    """A greeting of something else, on the port."""
    def answer(peer):
        peer.sendall(b"-ERR this is no TLS\r\n" * 20)
        peer.recv(4096)
    with listening(answer) as url:
        refused(snib.run("try", "n", env={"SNIB_URL": url}, timeout=20), 78,
                "is not TLS", "redis: for rediss:")


def test_a_server_that_resets_the_handshake_may_have_no_tls(snib):
    """As one does whose answer to such a greeting is lost with the reset."""
    def reset(peer):
        peer.recv(1)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                        struct.pack("ii", 1, 0))
    with listening(reset) as url:
        refused(snib.run("try", "n", env={"SNIB_URL": url}, timeout=20), 69,
                "reset by peer in the TLS handshake; it may be the port "
                "without TLS", "redis: for rediss:")


@pytest.mark.parametrize("keys, words", [
    ("tls_ca=/no/such/file", "tls_ca=/no/such/file: No such file"),
    ("tls_ca=/etc/passwd", "no certificates in PEM"),
    ("tls_ca=/dev/zero", "tls_ca=/dev/zero: not a regular file"),
    ("tls_cert=/no/such/file", "tls_cert=/no/such/file: No such file"),
    ("tls_key=/x", "give tls_cert"),
    ("tls_verify=never", "tls_verify is yes"),
    ("tls_verify=no&tls_ca=/x", "leave out"),
    ("tls_cipher=x", "not tls_cipher="),
])
def test_wrong_keys_of_the_url(snib, keys, words):
    for url in (f"rediss://h?{keys}", f"redlocks://h,i,j?{keys}"):
        refused(snib.run("try", "n", env={"SNIB_URL": url}), 78, words)


def test_keys_of_tls_are_for_tls(snib):
    refused(snib.run("try", "n", env={"SNIB_URL": "redis://h?tls_ca=/x"}), 78,
            "tls_ca= is for rediss:")
    refused(snib.run("try", "n",
                     env={"SNIB_URL": "redlock://h,i?tls_ca=/x"}), 78, "tls_ca=")
    refused(snib.run("try", "n", env={"SNIB_URL": "rediss://h?socket=/x"}), 78,
            "a socket needs no TLS")


# -- secrets ------------------------------------------------------------------

@pytest.fixture
def guarded(place, snib):
    server = place.server(config=[f"requirepass {SECRET}"])
    server.login(SECRET)
    snib.env["SNIB_URL"] = url_of(place, server).replace(
        "rediss://", f"rediss://:{SECRET}@")
    snib.server = server
    return snib


def test_no_secret_is_shown_anywhere(guarded):
    p = guarded.hold("n")
    for args in (("try", "n"), ("-v", "status", "n"), ("doctor",), ("why", "n"),
                 ("list", "--json")):
        done = guarded.run(*args)
        assert SECRET not in done.stdout + done.stderr
    for pid in (p.pid, p.keeper, p.command):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            assert SECRET.encode() not in file.read()
    with open(f"/proc/{p.command}/environ", "rb") as file:
        assert SECRET.encode() not in file.read()
    assert SECRET not in guarded.server.log()
    guarded.server.command("CONFIG", "SET", "requirepass", "another")
    done = guarded.run("try", "m")
    assert done.returncode == 77 and SECRET not in done.stdout + done.stderr


def test_a_refused_login_is_no_storm(guarded, place):
    """Many who wait with a wrong password: each is told at once, and the
    server sees few logins."""
    url = url_of(place, guarded.server).replace("rediss://", "rediss://:no@")
    waiting = [guarded.start("run", "-w", "60s", f"n{i}", "--", "true",
                             env={"SNIB_URL": url}) for i in range(4)]
    for p in waiting:
        _, said = p.communicate(timeout=20)
        assert p.returncode == 77 and "WRONGPASS" in said, said
    stats = guarded.server.command("INFO", "commandstats").decode()
    hello = re.search(r"cmdstat_hello:calls=(\d+)", stats)
    assert int(hello[1]) <= 3 * len(waiting)


def test_a_password_in_a_file_is_read_anew_at_each_connect(guarded, place):
    path = guarded.path("password")
    with open(path, "w", encoding="utf-8") as file:
        file.write(SECRET + "\n")
    url = url_of(place, guarded.server, password_file=path)
    p = guarded.hold("n", "--ttl", "6s")
    q = guarded.start("run", "-q", "--ttl", "6s", "m", "--", "sleep", "1000",
                      env={"SNIB_URL": url})
    eventually(lambda: guarded.held("m"), "m is held")
    with open(path, "w", encoding="utf-8") as file:
        file.write("another-" + SECRET + "\n")
    guarded.server.command("CONFIG", "SET", "requirepass", "another-" + SECRET)
    guarded.server.command("CLIENT", "KILL", "TYPE", "normal")
    guarded.server.login("another-" + SECRET)
    # The one with the password in its URL loses its lock, the other keeps it.
    p.communicate(timeout=30)
    assert p.returncode not in (0, None)
    assert q.poll() is None
    done = guarded.run("status", "m", env={"SNIB_URL": url})
    assert "held" in done.stdout
    assert SECRET not in done.stdout + done.stderr
    q.terminate()
    _, said = q.communicate(timeout=20)
    assert SECRET not in said


@pytest.mark.parametrize("text, words", [
    (None, "No such file"), ("", "first line is empty"),
    ("\nx", "first line is empty"), ("x" * 9000, "longer than any password")])
def test_a_password_file_that_gives_none(guarded, place, text, words):
    path = guarded.path("password")
    if text is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    url = url_of(place, guarded.server, password_file=path)
    refused(guarded.run("try", "n", env={"SNIB_URL": url}), 78,
            "password_file=", words)


def test_a_password_file_is_the_only_login(guarded):
    url = f"redis://:{SECRET}@127.0.0.1:1?password_file=/x"
    done = guarded.run("try", "n", env={"SNIB_URL": url})
    refused(done, 78, "leave one of them out")
    assert SECRET not in done.stderr


def test_a_user_of_least_rights_works_by_tls(guarded, place):
    """The rights of docs/REDIS.md, the password in a file."""
    with open(os.path.join(ROOT, "docs", "REDIS.md"), encoding="utf-8") as file:
        rule = re.search(r"ACL SETUSER snib on >CHANGE-ME ((?:.*\\\n)*.*)",
                         file.read())[1]
    path = guarded.path("password")
    with open(path, "w", encoding="utf-8") as file:
        file.write(SECRET)
    guarded.server.command("ACL", "SETUSER", "snib", "on", f">{SECRET}",
                           *rule.replace("\\\n", " ").split())
    url = url_of(place, guarded.server, password_file=path).replace(
        "rediss://", "rediss://snib@")
    env = {"SNIB_URL": url}
    for args in (("run", "n", "--", "true"), ("status", "n"), ("list",),
                 ("doctor",)):
        done = guarded.run(*args, env=env)
        assert done.returncode in (0, 1), done.stderr
        assert "NOPERM" not in done.stdout + done.stderr
