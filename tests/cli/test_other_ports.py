"""The port in the URL is that of something else: a web server, a login by SSH, a
Redis, another database. Whatever speaks is told from the store at once; what waits
for the client to speak first is waited for as long as for a silent server. Either
way the words say what to look at."""

import contextlib
import socket
import threading
import time

import pytest

from conftest import Snib, slack

URLS = {
    "etcd": "etcd://{}",
    "zookeeper": "zookeeper://{}",
    "amqp": "amqp://u:s3cret@{}",
    "postgres": "postgres://u:s3cret@{}/x?tls=no",
    "mysql": "mysql://u:s3cret@{}/x?tls=no",
}


def web(client):
    if client.recv(4096):
        client.sendall(b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n"
                       b"Content-Type: text/html\r\nContent-Length: 157\r\n"
                       b"Connection: close\r\n\r\n" + b"<p>400\r\n" * 19)


def ssh(client):
    client.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n")
    if client.recv(4096):
        client.sendall(b"Invalid SSH identification string.\r\n")


def redis(client):
    """It reads lines."""
    line = b""
    while b"\n" not in line:
        data = client.recv(4096)
        if not data:
            return
        line += data
    client.sendall(b"-ERR unknown command '" + line[:20] + b"'\r\n")


def mariadb(client):
    """It greets."""
    client.sendall(b"\x54\0\0\0\x0a5.5.5-10.11.6-MariaDB\0\x08\0\0\0abcdefgh\0"
                   b"\xfe\xf7\x08\x02\0\xff\x81\x15" + b"\0" * 6 +
                   b"\x1d\0\0\0abcdefghijkl\0mysql_native_password\0")
    client.recv(4096)


def postgresql(client):
    """It reads what begins with its length."""
    if client.recv(4096)[4:8] == b"\x04\xd2\x16\x2f":
        client.sendall(b"N")
        client.recv(4096)
    client.sendall(b"E\0\0\0\x28SFATAL\0C08P01\0Minvalid packet\0\0")


OTHERS = {"web": web, "ssh": ssh, "redis": redis, "mysql": mariadb,
          "postgres": postgresql}
NOT_ETCD = (69, "this does not speak HTTP/2; is it the port for clients of etcd")
NOT_ZOOKEEPER = (69, "does not answer like ZooKeeper; is it the port for its")
NOT_RABBITMQ = (69, "does not answer like RabbitMQ; is it its port for AMQP")
NOT_POSTGRES = (78, "there is no PostgreSQL server; look at the port")
NOT_MYSQL = (69, "is it a MySQL or MariaDB server, and this its port?")
SILENT = (69, "no answer from", "is the URL right")
SAID = {
    "etcd": {one: NOT_ETCD for one in OTHERS},
    "zookeeper": {one: NOT_ZOOKEEPER for one in OTHERS} | {"redis": SILENT},
    "amqp": {one: NOT_RABBITMQ for one in OTHERS} | {"redis": SILENT},
    "postgres": {"web": NOT_POSTGRES, "ssh": NOT_POSTGRES, "redis": SILENT,
                 "mysql": NOT_POSTGRES},
    # The client of MySQL waits for a greeting.
    "mysql": {"web": SILENT, "ssh": NOT_MYSQL, "redis": SILENT,
              "postgres": SILENT},
}


@pytest.fixture
def other():
    """other(what) is HOST:PORT of such a server."""
    with contextlib.ExitStack() as stack:
        def of(what):
            ear = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def one(client):
                with client, contextlib.suppress(OSError):
                    OTHERS[what](client)

            def serve():
                with contextlib.suppress(OSError):
                    while True:
                        threading.Thread(target=one, args=(ear.accept()[0],),
                                         daemon=True).start()
            threading.Thread(target=serve, daemon=True).start()
            return "127.0.0.1:%d" % ear.getsockname()[1]
        yield of


@pytest.mark.parametrize("store, what", [
    (store, what) for store, said in SAID.items() for what in said])
def test_it_is_told_what_to_look_at(snib_bin, tmp_path, other, store, what):
    address = other(what)
    snib = Snib(snib_bin, URLS[store].format(address), str(tmp_path))
    code, *words = SAID[store][what]
    begun = time.monotonic()
    done = snib.run("try", "n", "--", "true")
    took = time.monotonic() - begun
    if f"there is no store {store}: in this build" in done.stderr:
        pytest.skip(f"{store} is not in this build")
    assert done.returncode == code, done.stderr
    assert all(one in done.stderr for one in words), done.stderr
    assert took < 3 + slack() and "s3cret" not in done.stderr
    check = snib.run("doctor")
    said = check.stdout + check.stderr
    assert check.returncode == code and "s3cret" not in said
    assert words[0] in said and address in said, said
