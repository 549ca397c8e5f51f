"""The command line on RabbitMQ: what is said when the URL, the server, the login or
the certificate is wrong, what it cannot do, its check-up, and TLS."""

import json
import os
import signal
import socket
import threading
import time

import pytest

from conftest import Snib, eventually, kill
from harness.certs import Authority, openssl_missing
from harness.rabbitmq_server import RabbitmqServer, rabbitmq_missing

pytestmark = pytest.mark.skipif(bool(rabbitmq_missing()),
                                reason=rabbitmq_missing())
SECRET = "s3cret-w0rd"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    """None: there is no TLS here."""
    return (None if openssl_missing() else
            Authority(tmp_path_factory.mktemp("papers")))


@pytest.fixture(scope="module")
def server(authority):
    """One for all tests: it takes seconds to start."""
    tls = (*authority.issue("server"), authority.ca) if authority else ()
    with RabbitmqServer(tls=tls) as made:
        yield made


@pytest.fixture
def papers(authority):
    if not authority:
        pytest.skip("openssl is not installed")
    return authority


@pytest.fixture
def at(snib_bin, tmp_path, server):
    """at(url) is snib with this URL; without one, that of the server."""
    made = []

    def of(url=None):
        made.append(Snib(snib_bin, url or server.url, str(tmp_path)))
        return made[-1]
    if of().run("try", "-q", "probe", "--", "true").returncode == 78:
        pytest.skip("no rabbitmq in this build")
    yield of
    for one in made:
        one.end()


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


def test_an_election_has_one_winner(at):
    snib = at()
    snib.start("elect", "lead", "--", "sh", "-c", "sleep 60")
    eventually(lambda: snib.status("lead")["holders"], "a leader")
    assert snib.run("try", "lead", "--", "true").returncode == 75


@pytest.mark.parametrize("args, words", [
    (("run", "--kind", "read", "n", "--", "true"), "mutexes only"),
    (("run", "--kind", "semaphore", "--capacity", "2", "n", "--", "true"),
     "mutexes only"),
    (("run", "--lock-delay", "5s", "n", "--", "true"), "no lock-delay"),
    (("run", "--priority", "3", "n", "--", "true"), "no priorities"),
    (("latch", "--set", "2", "n"), "latches or values"),
    (("latch", "--await", "n"), "mutexes only"),
    (("latch", "--await", "-w", "0", "n"), "mutexes only"),
    (("force-release", "--yes", "--reason", "x", "held"),
     "no forced release"),
    (("force-release", "free"), "no forced release"),
])
def test_what_it_has_not_is_said(at, args, words):
    snib = at()
    if "held" in args:
        snib.hold("held")
    done = snib.run(*args)
    assert (done.returncode, words in done.stderr) == (78, True), done.stderr


def test_a_lease_that_is_too_long_is_told_to_be_made_shorter(at):
    done = at().run("run", "--ttl", "11m", "n", "--", "true")
    assert done.returncode == 64, done.stderr
    assert ("leases of 10 minutes at most: make it shorter (lease_ms, --ttl)"
            in done.stderr), done.stderr


def test_a_dead_holder_is_no_lock_delay_and_a_wait_ends(at):
    """Its message stays. Nobody knows when it went, so whoever comes now waits for
    its whole lease."""
    snib = at()
    kill(snib.hold("dead", "-t", "2s").keeper, signal.SIGKILL)
    words = "closed for 2s more, after a holder that ended without a release"
    said = eventually(lambda: words in (
        text := at().run("status", "dead").stdout) and text, words)
    assert "lock-delay" not in said and "closed   " not in said, said
    said = at().run("why", "dead").stdout
    assert "closed after a holder that ended without a release; open in 2s" in (
        said), said
    assert at().run("wait", "-w", "1s", "dead").returncode == 75
    began = time.monotonic()
    assert at().run("wait", "-w", "20s", "dead").returncode == 0
    assert 1.9 <= time.monotonic() - began < 10


def test_a_frozen_holder_is_shown_as_a_silent_client(at):
    """Nobody else can say who it is; but it is no free lock."""
    kill(at().hold("frozen").keeper, signal.SIGSTOP)
    said = at().run("status", "frozen").stdout
    assert "held by a silent client" in said, said
    assert at().run("wait", "-w", "3s", "frozen").returncode == 75
    assert at().run("try", "frozen", "--", "true").returncode == 75


def test_the_doctor_looks_at_it(at):
    done = at().run("doctor", "--json")
    found = {one["check"]: one["level"]
             for one in json.loads(done.stdout)["findings"]}
    assert found["permissions"] == "ok" and found["servers"] == "warn"
    assert found["login"] == "warn" and found["heartbeat"] == "ok"
    assert found["server"] == "ok" and found["alarm"] == "ok"


# -- what is wrong ---------------------------------------------------------------

WRONG = {
    "no server": ("amqp://127.0.0.1:1", 69, "127.0.0.1:1"),
    "a key": ("amqp://HOST?nothing=1", 78, "nothing="),
    "a heartbeat": ("amqp://HOST?heartbeat_s=0", 78, "heartbeat_s"),
    "a key of TLS": ("amqp://HOST?tls_ca=/x", 78, "amqps:"),
    "twice": ("amqp://HOST,HOST", 78, "twice"),
    "a host": ("amqp://HOST/nowhere", 78, "virtual host"),
    "a login": ("amqp://guest:wr0ng@HOST", 77, "login is refused"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said(at, server, what):
    url, code, words = WRONG[what]
    snib = at(url.replace("HOST", f"127.0.0.1:{server.port}"))
    done = snib.run("try", "n", "--", "true")
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert "wr0ng" not in done.stderr


def page_rights():
    """The three patterns that docs/RABBITMQ.md gives a user."""
    import pathlib
    import re
    page = (pathlib.Path(__file__).parents[2] / "docs" /
            "RABBITMQ.md").read_text(encoding="utf-8")
    found = re.search(r"set_permissions -p / snib \\\n +'(.*)' '(.*)' '(.*)'",
                      page)
    return found.groups()


def test_the_rights_that_the_page_names_are_enough(at, server, tmp_path):
    server.ctl("add_user", "snib", SECRET)
    host = f"127.0.0.1:{server.port}"
    done = at(f"amqp://snib:{SECRET}@{host}").run("try", "r", "--", "true")
    assert done.returncode == 78 and "virtual host" in done.stderr
    server.ctl("set_permissions", "-p", "/", "snib", "^x", "^x", "^x")
    done = at(f"amqp://snib:{SECRET}@{host}").run("try", "r", "--", "true")
    assert done.returncode == 77 and "refused" in done.stderr, done.stderr
    server.ctl("set_permissions", "-p", "/", "snib", *page_rights())
    snib = at(f"amqp://snib:{SECRET}@{host}")
    snib.hold("r")
    assert snib.status("r")["holders"][0]["token"] > 0
    found = {one["check"]: one["level"] for one in json.loads(
        snib.run("doctor", "--json").stdout)["findings"]}
    assert found["permissions"] == "ok" and found["login"] == "ok"
    path = tmp_path / "password"
    path.write_text(SECRET + "\n")
    os.chmod(path, 0o600)
    by_file = at(f"amqp://snib@{host}?password_file={path}")
    done = by_file.run("try", "r2", "--", "true")
    assert done.returncode == 0, done.stderr
    path.unlink()
    done = by_file.run("try", "r2", "--", "true")
    assert done.returncode == 78 and "No such file" in done.stderr, done.stderr


def test_a_queue_of_others_is_not_taken_for_a_lock(at, server):
    with server.client() as client:
        client.declare("snib.l.theirs")
    done = at().run("try", "theirs", "--", "true")
    assert done.returncode == 78 and "PRECONDITION" in done.stderr, done.stderr


def answers_with(data):
    """A server of something else: the port where it says that to everybody."""
    ear = socket.socket()
    ear.bind(("127.0.0.1", 0))
    ear.listen(8)

    def serve():
        while True:
            try:
                client, _ = ear.accept()
                client.recv(100)
                client.sendall(data)
            except OSError:
                return
    threading.Thread(target=serve, daemon=True).start()
    return ear


@pytest.mark.parametrize("data", [
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    b"-ERR unknown command\r\n", b"AMQP\x03\x01\x00\x00",
    b"\x15\x03\x03\x00\x02\x02\x16", b"\x01\0\0\0\0\0\x04\0\x0a\0\x0a\xff"])
def test_another_server_on_the_port_is_said(at, data):
    ear = answers_with(data)
    done = at(f"amqp://127.0.0.1:{ear.getsockname()[1]}").run(
        "try", "n", "--", "true")
    ear.close()
    assert done.returncode == 69 and "not answer like RabbitMQ" in \
        done.stderr, done.stderr


# -- TLS ---------------------------------------------------------------------------


def test_through_tls_and_verified(at, papers, server, tmp_path):
    host = f"127.0.0.1:{server.tls_port}"
    done = at(f"amqps://{host}?tls_ca={papers.ca}").run(
        "try", "n", "--", "true")
    assert done.returncode == 0, done.stderr
    os.makedirs(tmp_path / "else")
    stranger = Authority(tmp_path / "else")
    done = at(f"amqps://{host}?tls_ca={stranger.ca}").run(
        "try", "n", "--", "true")
    assert done.returncode in (69, 78) and "certificate" in done.stderr
    done = at(f"amqps://{host}?tls_ca={papers.ca}&tls_name=else.where").run(
        "try", "n", "--", "true")
    assert done.returncode in (69, 78), done.stderr


def test_the_wrong_one_of_tls_and_none_is_said(at, papers, server):
    done = at(f"amqp://127.0.0.1:{server.tls_port}").run("try", "n", "--", "true")
    assert done.returncode == 69, done.stderr
    done = at(f"amqps://127.0.0.1:{server.port}?tls_ca={papers.ca}").run(
        "try", "n", "--", "true")
    assert done.returncode == 78, done.stderr
    assert "is not TLS; it may be the port without it: give the other, or " \
        "write amqp: for amqps:\n" in done.stderr, done.stderr
