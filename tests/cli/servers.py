"""What the command line says is the same of each store that is a server's, as
tests and fixtures that the module of a store takes over. It has the fixtures

    server  a real one
    wrong   a URL that is wrong, HOST being the server's, with the exit status and
            words for that
"""

import socket
import threading

import pytest

from conftest import Snib

SECRET = "s3cret-w0rd"


@pytest.fixture
def at(snib_bin, tmp_path, server):
    """at(url) is snib with this URL; without one, that of the server."""
    made = []

    def of(url=None):
        made.append(Snib(snib_bin, url or server.url, str(tmp_path)))
        return made[-1]
    if of().run("try", "-q", "probe", "--", "true").returncode == 78:
        pytest.skip(f"no {server.url.partition(':')[0]} in this build")
    yield of
    for one in made:
        one.end()


def test_what_is_wrong_is_said(at, server, wrong):
    url, code, words = wrong
    snib = at(url.replace("HOST", f"127.0.0.1:{server.port}"))
    snib.env["HOME"] = "/nonexistent"
    snib.env.pop("PGPASSWORD", None)
    snib.env.pop("MYSQL_PWD", None)
    done = snib.run("try", "n", "--", "true")
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert "wr0ng" not in done.stderr + done.stdout


def tried(at, url, data):
    """What a try says where another server is, which answers so to everybody; with
    nothing it closes. HOST in the URL is that server's."""
    ear = socket.create_server(("127.0.0.1", 0))

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
    done = at(url.replace("HOST", f"127.0.0.1:{ear.getsockname()[1]}")).run(
        "try", "n", "--", "true")
    ear.close()
    assert done.returncode == 69, done.stderr
    return done.stderr
