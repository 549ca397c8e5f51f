"""The command line on a MariaDB server: what is said when the URL, the server or
the rights are wrong, its check-up, the text of its tables, and TLS."""

import json
import os
import re
import socket
import threading

import pytest

from databases import *  # noqa: F401,F403
from databases import SECRET
from harness.certs import Authority, openssl_missing
from harness.mysql_server import MysqlServer, mysql_missing

pytestmark = pytest.mark.skipif(bool(mysql_missing()), reason=mysql_missing())


@pytest.fixture(scope="module")
def server():
    with MysqlServer() as made:
        made.sql(f"CREATE USER known IDENTIFIED BY '{SECRET}'",
                 "GRANT ALL ON snib.* TO known",
                 "CREATE DATABASE empty", "GRANT SELECT ON empty.* TO snib@'%'",
                 "CREATE DATABASE closed", "CREATE USER bare",
                 "GRANT CREATE ROUTINE ON closed.* TO bare")
        yield made


@pytest.fixture
def query(server):
    return lambda text: server.sql(text.replace("snib.", "snib_"))


WRONG = {
    "no server": ("mysql://snib@127.0.0.1:1/snib", 69, "127.0.0.1"),
    "no such user": ("mysql://nobody_here@HOST/snib", 77,
                     "refuses this user or this password"),
    "wrong password": ("mysql://known:wr0ng@HOST/snib", 77,
                       "refuses this user or this password"),
    "no password": ("mysql://known@HOST/snib", 77,
                    "refuses this user or this password"),
    "no such database": ("mysql://root@HOST/none", 78,
                                     "CREATE DATABASE"),
    "no right to use it": ("mysql://snib@HOST/closed", 77,
                           "snib doctor --schema"),
    "no right at tables": ("mysql://bare@HOST/closed", 77,
                           "snib doctor --schema"),
    "no right to make tables": ("mysql://snib@HOST/empty", 78,
                                "snib doctor --schema"),
    "no TLS": ("mysql://snib@HOST/snib?tls=verify", 78, "?tls=no"),
    "a key": ("mysql://snib@HOST/snib?nothing=1", 78, "?nothing="),
    "a prefix": ("mysql://snib@HOST/snib?prefix=A", 78, "?prefix="),
    "tls=": ("mysql://snib@HOST/snib?tls=maybe", 78, "verify or no"),
    "no database": ("mysql://snib@HOST", 78, "mysql://HOST/DATABASE"),
    "two databases": ("mysql://snib@HOST/a/b", 78, "no '/'"),
    "no socket": ("mysql://snib@/snib?socket=relative", 78, "?socket="),
    "no file": ("mysql://known@HOST/snib?password_file=/none", 78,
                "No such file"),
    "two passwords": ("mysql://known:x@HOST/snib?password_file=/x", 78,
                      "password_file="),
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
    snib = at(f"mysql://snib@127.0.0.1:{ear.getsockname()[1]}/snib")
    done = snib.run("try", "n", "--", "true")
    ear.close()
    assert done.returncode == 69 and "its port" in done.stderr


def test_the_check_up_of_a_sound_server_finds_no_fault(at):
    done = at().run("doctor", "--json")
    found = json.loads(done.stdout)
    checks = {one["check"]: one for one in found["findings"]}
    assert done.returncode == 0 and found["ok"]
    assert set(checks) >= {"server", "database", "clock", "latency", "durable",
                           "disk-writes", "isolation", "packets", "replicas",
                           "permissions", "layout", "wake-up"}
    assert {one["level"] for one in checks.values()} == {"ok"}
    assert "layout 1" in checks["layout"]["text"]


def test_the_check_up_names_what_is_missing(at, server):
    snib = at()
    assert snib.run("try", "n", "--", "true").returncode == 0
    server.sql("CREATE USER poor@'%'",
               "GRANT SELECT, UPDATE ON snib.snib_meta TO poor@'%'",
               "GRANT SELECT, UPDATE ON snib.snib_lock TO poor@'%'",
               "GRANT SELECT, UPDATE ON snib.snib_claim TO poor@'%'")
    done = at(snib.url.replace("snib@", "poor@")).run("doctor")
    assert done.returncode == 78
    missing = done.stdout.split("missing: ")[1].split("\n")[0]
    assert "SELECT on snib_value" in missing
    assert "INSERT on snib_lock" in missing and "meta" not in missing
    server.sql("ALTER TABLE snib_claim ENGINE=MyISAM")
    said = snib.run("doctor").stdout
    assert "fail  tables" in said and "MyISAM" in said
    server.sql("ALTER TABLE snib_claim ENGINE=InnoDB",
               "SET GLOBAL innodb_flush_log_at_trx_commit=2",
               "SET GLOBAL max_allowed_packet=65536")
    said = snib.run("doctor").stdout
    server.sql("SET GLOBAL innodb_flush_log_at_trx_commit=1",
               "SET GLOBAL max_allowed_packet=16777216")
    assert "warn  durable" in said and "trx_commit=2" in said
    assert "warn  packets" in said and "packet=65536" in said


def test_the_check_up_names_the_tables_that_are_missing(at, server):
    snib = at()
    assert snib.run("try", "n", "--", "true").returncode == 0
    server.sql("DROP TABLE snib.snib_claim", "DROP TABLE snib.snib_value")
    done = snib.run("doctor")
    assert done.returncode == 78
    assert re.search("(?m)^fail  tables +missing: snib_claim, snib_value$",
                     done.stdout), done.stdout
    assert "doctor --schema" in done.stdout
    assert "all that are needed" not in done.stdout
    made = snib.run("doctor", "--schema")
    server.sql(made.stdout.rstrip().removesuffix(";"), database="snib")
    assert snib.run("doctor").returncode == 0


def test_the_text_of_the_tables_makes_them(at, server):
    done = at().run("doctor", "--schema")
    assert done.returncode == 0
    server.sql(done.stdout.rstrip().removesuffix(";"), database="empty")
    server.sql("GRANT ALL ON empty.* TO snib@'%'")
    snib = at(server.url.removesuffix("snib") + "empty")
    assert snib.run("try", "n", "--", "true").returncode == 0
    server.sql("REVOKE ALL ON empty.* FROM snib@'%'",
               "GRANT SELECT ON empty.* TO snib@'%'",
               *[f"DROP TABLE empty.snib_{one}"
                 for one in ("meta", "lock", "claim", "value")])


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
        server = MysqlServer(start=False)
        options = ["--ssl-ca"]
        paths = [papers.ca, *papers.issue("server", "DNS:localhost", days)]
        entry = os.stat(server.data)
        for name, path in zip(("ca", "cert", "key"), paths):
            to = os.path.join(server.dir, name)
            with open(path, "rb") as file, open(to, "wb") as copy:
                copy.write(file.read())
            os.chmod(to, 0o600)
            os.chown(to, entry.st_uid, entry.st_gid)
            options.append(f"--ssl-{name}={to}")
        server.config = options[1:]
        server.start()
        server.make()
        server.ca = papers.ca
        made[days] = server
        return server
    yield of
    for server in made.values():
        server.close()


def at_localhost(server, host="localhost"):
    return f"mysql://snib@{host}:{server.port}/snib?tls=verify"


def test_a_certificate_of_a_known_authority_is_taken(at, secure):
    server = secure()
    server.sql("CREATE USER IF NOT EXISTS tls@'%' REQUIRE SSL",
               "GRANT ALL ON snib.* TO tls@'%'")
    snib = at(at_localhost(server).replace("snib@", "tls@") +
              f"&ca={server.ca}")
    assert snib.run("try", "n", "--", "true").returncode == 0
    assert "ok    tls" in snib.run("doctor").stdout
    held = snib.hold("n")
    other = snib.start("run", "n", "--", "true")
    held.send_signal(15)
    assert other.wait(30) == 0


def test_a_certificate_of_an_unknown_authority_is_refused(at, secure):
    done = at(at_localhost(secure())).run("try", "n", "--", "true")
    assert done.returncode == 78 and "?ca=FILE" in done.stderr


def test_a_certificate_for_another_name_is_refused(at, secure):
    server = secure()
    snib = at(at_localhost(server, "127.0.0.1") + f"&ca={server.ca}")
    done = snib.run("try", "n", "--", "true")
    assert done.returncode == 78 and "for another name" in done.stderr


def test_a_certificate_that_has_expired_is_refused(at, secure):
    server = secure(-1)
    done = at(at_localhost(server) + f"&ca={server.ca}").run(
        "try", "n", "--", "true")
    assert done.returncode == 78 and "expired" in done.stderr


def test_a_file_of_authorities_that_is_not_there_is_named(at, secure):
    done = at(at_localhost(secure()) + "&ca=/nowhere").run("try", "n", "--",
                                                           "true")
    assert done.returncode == 78 and "?ca=FILE" in done.stderr


def test_a_user_who_must_use_tls_is_told_so(at, secure):
    server = secure()
    server.sql("CREATE USER IF NOT EXISTS tls@'%' REQUIRE SSL")
    done = at(f"mysql://tls@127.0.0.1:{server.port}/snib").run(
        "try", "n", "--", "true")
    assert done.returncode == 77
