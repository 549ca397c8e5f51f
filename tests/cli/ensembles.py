"""What the command line says is the same in each store that is an ensemble of
servers, as tests that the module of a store takes over. It has

    SCHEME   of its URLs: etcd, say
    server   a fixture: a real one
    WRONG    URLs that are wrong, by what is: each with the exit status and words
             for that
"""

import json
import socket
import threading

import pytest

from conftest import Snib, eventually
from harness.redis_server import RedisServer, redis_missing

SECRET = "s3cret-w0rd"


def pytest_generate_tests(metafunc):
    if "wrong" in metafunc.fixturenames:
        cases = metafunc.module.WRONG
        metafunc.parametrize("wrong", cases.values(), ids=cases.keys())


@pytest.fixture
def at(request, snib_bin, tmp_path, server):
    """at(url) is snib with this URL; without one, that of the server."""
    made = []

    def of(url=None):
        made.append(Snib(snib_bin, url or server.url, str(tmp_path)))
        return made[-1]
    if of().run("try", "-q", "probe", "--", "true").returncode == 78:
        pytest.skip(f"no {request.module.SCHEME} in this build")
    yield of
    for one in made:
        one.end()


def test_a_command_runs_under_a_lock_and_others_see_it(at):
    done = at().run("run", "n", "--", "sh", "-c", "echo $SNIB_TOKEN")
    assert done.returncode == 0 and int(done.stdout) > 0
    snib = at()
    snib.hold("a b")
    assert snib.status("a b")["holders"][0]["token"] > 0
    other = snib.start("run", "a b", "--", "true")
    eventually(lambda: snib.waiters("a b"), "a waiter")
    locks = json.loads(snib.run("list", "--json", "a*").stdout)["locks"]
    assert [one["name"] for one in locks] == ["a b"]
    assert "a b" in snib.run("why", "a b").stdout
    other.kill()


def test_what_is_wrong_is_said(at, server, wrong):
    url, code, words = wrong
    snib = at(url.replace("HOST", f"127.0.0.1:{server.port}"))
    done = snib.run("try", "n", "--", "true")
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def answers_with(data):
    """A server of something else: the port where it says that to everybody; where
    it says nothing, it closes."""
    ear = socket.socket()
    ear.bind(("127.0.0.1", 0))
    ear.listen(8)

    def serve():
        while True:
            try:
                client, _ = ear.accept()
                client.recv(100)
                client.sendall(data)
                if not data:
                    client.close()
            except OSError:
                return
    threading.Thread(target=serve, daemon=True).start()
    return ear


def tried(at, scheme, data):
    """What a try says where that is the server."""
    ear = answers_with(data)
    done = at(f"{scheme}://127.0.0.1:{ear.getsockname()[1]}").run(
        "try", "n", "--", "true")
    ear.close()
    assert done.returncode == 69, done.stderr
    return done.stderr


@pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())
def test_a_redis_on_the_port_is_said(request, at):
    with RedisServer() as redis:
        done = at(f"{request.module.SCHEME}://127.0.0.1:{redis.port}").run(
            "try", "n", "--", "true")
    assert done.returncode == 69 and "127.0.0.1" in done.stderr, done.stderr
