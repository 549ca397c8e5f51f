"""The command line on a PostgreSQL server: what is said when the URL, the server
or the rights are wrong, its check-up, the text of its tables, and TLS."""

import json
import os
import re
import socket
import threading

import pytest

from databases import *  # noqa: F401,F403
from databases import SECRET
from harness.certs import Authority, openssl_missing
from harness.postgres_server import PostgresServer, postgres_missing

pytestmark = pytest.mark.skipif(bool(postgres_missing()),
                                reason=postgres_missing())


@pytest.fixture(scope="module")
def server():
    with PostgresServer() as made:
        made.psql(f"CREATE ROLE known LOGIN PASSWORD '{SECRET}' IN ROLE locked",
                  "CREATE DATABASE empty")
        yield made


@pytest.fixture
def query(server):
    return server.psql


WRONG = {
    "no server": ("postgres://snib@127.0.0.1:1/snib", 69,
                  "Connection refused"),
    "no such user": ("postgres://nobody_here@HOST/snib", 77,
                     "does not know this user"),
    "wrong password": ("postgres://known:wr0ng@HOST/snib", 77,
                       "refuses this user or this password"),
    "no password": ("postgres://known@HOST/snib", 77, "wants a password"),
    "no such database": ("postgres://snib@HOST/none", 78, "createdb"),
    "no right to make tables": ("postgres://snib@HOST/empty", 78,
                                "snib doctor --schema"),
    "no TLS": ("postgres://snib@HOST/snib?tls=verify", 78, "?tls=no"),
    "a key": ("postgres://snib@HOST/snib?nothing=1", 78, "?nothing="),
    "a schema": ("postgres://snib@HOST/snib?schema=A", 78, "?schema="),
    "tls=": ("postgres://snib@HOST/snib?tls=maybe", 78, "verify or no"),
    "durable=": ("postgres://snib@HOST/snib?durable=1", 78, "yes or no"),
    "two databases": ("postgres://snib@HOST/a/b", 78, "no '/'"),
    "no socket": ("postgres://snib@/snib?socket=relative", 78, "?socket="),
    "no port": ("postgres://snib@/snib?socket=/tmp&port=x", 78, "?socket="),
}


@pytest.fixture(params=WRONG)
def wrong(request):
    return WRONG[request.param]


def test_another_protocol_is_told(at):
    """A server that greets like mail."""
    ear = socket.create_server(("127.0.0.1", 0))

    def greet():
        while True:
            try:
                client, _ = ear.accept()
            except OSError:
                return
            client.sendall(b"220 mail.example.com ESMTP\r\n")
            client.close()
    threading.Thread(target=greet, daemon=True).start()
    snib = at(f"postgres://snib@127.0.0.1:{ear.getsockname()[1]}/snib")
    done = snib.run("try", "n", "--", "true")
    ear.close()
    assert done.returncode == 78 and "no PostgreSQL server" in done.stderr


def test_the_check_up_of_a_sound_server_finds_no_fault(at):
    snib = at()
    done = snib.run("doctor", "--json")
    found = json.loads(done.stdout)
    checks = {one["check"]: one for one in found["findings"]}
    assert done.returncode == 0 and found["ok"]
    assert set(checks) >= {"server", "database", "clock", "latency", "durable",
                           "disk-writes", "isolation", "vacuum", "replicas",
                           "permissions", "layout", "wake-up"}
    assert {one["level"] for one in checks.values()} == {"ok"}
    assert "layout 1" in checks["layout"]["text"]


def test_the_check_up_names_what_is_missing(at, server):
    snib = at()
    assert snib.run("try", "n", "--", "true").returncode == 0
    weak = at(snib.url + "?durable=no").run("doctor").stdout
    assert "warn  durable" in weak and "synchronous_commit=off" in weak
    server.psql("CREATE ROLE poor LOGIN", "GRANT USAGE ON SCHEMA snib TO poor",
                "GRANT SELECT, UPDATE ON snib.meta TO poor",
                "GRANT SELECT, UPDATE ON snib.lock, snib.claim TO poor")
    done = at(snib.url.replace("snib@", "poor@")).run("doctor")
    assert done.returncode == 78
    assert "missing: " in done.stdout and "value SELECT" in done.stdout
    assert "lock INSERT" in done.stdout and "meta" not in (
        done.stdout.split("missing: ")[1].split("\n")[0])
    server.psql("ALTER TABLE snib.lock SET UNLOGGED")
    assert "UNLOGGED" in snib.run("doctor").stdout
    server.psql("ALTER TABLE snib.lock SET LOGGED")


def test_the_check_up_names_the_tables_that_are_missing(at, server):
    snib = at()
    assert snib.run("try", "n", "--", "true").returncode == 0
    server.psql("DROP TABLE snib.claim", "DROP TABLE snib.value")
    done = snib.run("doctor")
    assert done.returncode == 78
    assert re.search("(?m)^fail  tables +missing: snib.claim, snib.value$",
                     done.stdout), done.stdout
    assert "doctor --schema" in done.stdout
    assert "all that are needed" not in done.stdout
    path = os.path.join(server.dir, "missing.sql")
    with open(path, "w", encoding="utf-8") as file:
        file.write(snib.run("doctor", "--schema").stdout)
    server.psql(f"\\i {path}")
    server.psql("GRANT ALL ON ALL TABLES IN SCHEMA snib TO snib")
    assert snib.run("doctor").returncode == 0


def test_the_text_of_the_tables_makes_them(at, server):
    done = at().run("doctor", "--schema")
    assert done.returncode == 0
    server.psql("DROP SCHEMA IF EXISTS snib CASCADE", database="empty")
    path = os.path.join(server.dir, "schema.sql")
    with open(path, "w", encoding="utf-8") as file:
        file.write(done.stdout)
    server.psql(f"\\i {path}", database="empty")
    server.psql("GRANT USAGE ON SCHEMA snib TO snib",
                "GRANT SELECT, UPDATE ON snib.meta TO snib",
                "GRANT SELECT, INSERT, UPDATE, DELETE ON snib.lock, "
                "snib.claim, snib.value TO snib", database="empty")
    snib = at(server.url.removesuffix("snib") + "empty")
    assert snib.run("try", "n", "--", "true").returncode == 0
    server.psql("DROP SCHEMA snib CASCADE", database="empty")


def test_a_store_without_tables_has_no_such_text(at, tmp_path):
    done = at(f"file:{tmp_path}/x.db").run("doctor", "--schema")
    assert done.returncode == 78 and "no tables" in done.stderr


# -- TLS ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """secure(days) is a server with a certificate for localhost, of a CA of its
    own; days < 0: it has expired."""
    if openssl_missing():
        pytest.skip(openssl_missing())
    made = {}

    def of(days=2):
        if days in made:
            return made[days]
        papers = Authority(tmp_path_factory.mktemp("tls"))
        paths = papers.issue("server", "DNS:localhost", days)
        server = PostgresServer(["ssl = on"], start=False)
        made[days] = server
        entry = os.stat(server.data)
        for name, path in zip(("server.crt", "server.key"), paths):
            to = os.path.join(server.data, name)
            with open(path, "rb") as file, open(to, "wb") as copy:
                copy.write(file.read())
            os.chmod(to, 0o600)
            os.chown(to, entry.st_uid, entry.st_gid)
        server.start()
        server.make()
        server.ca = papers.ca
        return server
    yield of
    for server in made.values():
        server.close()


def at_localhost(server, host="localhost"):
    return f"postgres://snib@{host}:{server.port}/snib?tls=verify"


def test_a_certificate_of_a_known_authority_is_taken(at, secure):
    server = secure()
    snib = at(at_localhost(server) + f"&ca={server.ca}")
    assert snib.run("try", "n", "--", "true").returncode == 0
    assert "ok    tls" in snib.run("doctor").stdout
    assert server.psql("SELECT 1") == "1"


def test_a_certificate_of_an_unknown_authority_is_refused(at, secure):
    done = at(at_localhost(secure())).run("try", "n", "--", "true")
    assert done.returncode == 78 and "?ca=FILE" in done.stderr


def test_a_certificate_for_another_name_is_refused(at, secure):
    server = secure()
    snib = at(at_localhost(server, "127.0.0.1") + f"&ca={server.ca}")
    done = snib.run("try", "n", "--", "true")
    assert done.returncode == 78 and "for another name" in done.stderr


def test_a_certificate_that_has_expired_is_refused(at, secure):
    """libpq says no more than that it could not be verified."""
    server = secure(-1)
    done = at(at_localhost(server) + f"&ca={server.ca}").run(
        "try", "n", "--", "true")
    assert done.returncode == 78 and "or it has expired" in done.stderr


def test_a_file_of_authorities_that_is_not_there_is_named(at, secure):
    done = at(at_localhost(secure()) + "&ca=/nowhere").run("try", "n", "--",
                                                           "true")
    assert done.returncode == 78 and "?ca=FILE" in done.stderr
