"""The command line on etcd: what is said when the URL, the server, the login or
the certificate is wrong, its check-up, and TLS."""

import json
import os
import pathlib
import re
import shlex

import pytest

from conftest import eventually
from harness.certs import Authority, openssl_missing
from harness.etcd_server import EtcdServer, etcd_missing
from harness.redis_server import RedisServer, redis_missing
from servers import *  # noqa: F401,F403
from servers import SECRET, tried

pytestmark = pytest.mark.skipif(bool(etcd_missing()), reason=etcd_missing())
ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server():
    with EtcdServer() as made:
        yield made


@pytest.fixture(scope="module")
def guarded():
    """With users: `known` may use snib/…, `poor` may use nothing of it."""
    with EtcdServer() as made:
        made.add_user("known", SECRET)
        made.add_user("poor", SECRET, prefix="other/")
        made.enable_auth()
        yield made


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    if openssl_missing():
        pytest.skip(openssl_missing())
    return Authority(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def secure(papers):
    with EtcdServer(tls=(*papers.issue("server"), papers.ca)) as made:
        yield made


def test_a_command_runs_under_a_lock_and_others_see_it(at):
    done = at().run("run", "n", "--", "sh", "-c", "echo $SNIB_TOKEN")
    assert done.returncode == 0 and int(done.stdout) > 1 << 50
    snib = at()
    snib.hold("a b")
    assert snib.status("a b")["holders"][0]["token"] > 0
    other = snib.start("run", "a b", "--", "true")
    eventually(lambda: snib.waiters("a b"), "a waiter")
    locks = json.loads(snib.run("list", "--json", "a*").stdout)["locks"]
    assert [one["name"] for one in locks] == ["a b"]
    other.kill()


def test_force_release_tells_the_holder(at):
    snib = at()
    held = snib.hold("forced")
    assert snib.run("force-release", "--yes", "--reason", "why not",
                    "forced").returncode == 0
    assert held.wait(20) == 76


def test_the_doctor_is_content(at):
    done = at().run("doctor", "--json")
    found = {one["check"]: one["level"]
             for one in json.loads(done.stdout)["findings"]}
    assert found["permissions"] == "ok" and found["alarms"] == "ok"
    assert found["quorum"] == "warn"


def test_the_doctor_counts_who_has_a_vote(at):
    with EtcdServer() as made:
        made.ctl("member", "add", "two", "--learner", "--peer-urls",
                 "http://127.0.0.1:1")
        done = at(made.url).run("doctor", "--json")
    found = {one["check"]: one["text"]
             for one in json.loads(done.stdout)["findings"]}
    assert found["members"].startswith("1 voting member and 1 learner")
    assert found["quorum"].startswith("one voting member")


# -- what is wrong ---------------------------------------------------------------

WRONG = {
    "no server": ("etcd://127.0.0.1:1", 69, "127.0.0.1:1"),
    "a path": ("etcd://HOST/db", 78, "no path"),
    "a key": ("etcd://HOST?nothing=1", 78, "nothing="),
    "a prefix": ("etcd://HOST?prefix=a%20b", 78, "?prefix="),
    "twice": ("etcd://HOST,HOST", 78, "twice"),
    "a login where there are no users": (
        "etcd://known:x@HOST", 78, "knows no users"),
}


@pytest.fixture(params=WRONG)
def wrong(request):
    return WRONG[request.param]


@pytest.mark.parametrize("key", ["!", "c/" + "a" * 32 + ".00000001"])
def test_what_a_later_snib_has_written_is_told(at, server, key):
    """Of the whole lock, whichever row it is: it may well be held."""
    name = "later" + key[0].strip("!")
    server.ctl("put", f"snib/l/{name}/{key}", stdin="\x02Lsomething new")
    snib = at()
    for args in (["try", name, "--", "true"], ["status", name],
                 ["run", name, "--", "true"]):
        done = snib.run(*args)
        assert done.returncode == 78, (args, done.stdout, done.stderr)
        assert "layout 2, this snib knows 1" in done.stderr
        assert "force-release" not in done.stderr
    locks = json.loads(snib.run("list", "--json").stdout)["locks"]
    told = [one["damage"] for one in locks if one["name"] == name]
    server.ctl("del", f"snib/l/{name}/{key}")
    assert len(told) == 1 and "layout 2" in told[0]


def test_a_key_that_cannot_be_read_may_hold(at, server):
    name = "strange"
    key = f"snib/l/{name}/c/" + "a" * 32
    server.ctl("put", key, stdin="x")
    snib = at()
    for args in (["try", name, "--", "true"], ["status", name],
                 ["run", name, "--", "true"]):
        done = snib.run(*args)
        assert done.returncode == 78, (args, done.stdout, done.stderr)
        assert "another version of snib, or by hand;" in done.stderr
        assert key in done.stderr
    server.ctl("del", key)
    assert snib.run("try", name, "--", "true").returncode == 0


@pytest.mark.parametrize("login, code, words", [
    ("known:wr0ng@", 77, "authentication failed"),
    ("nobody:x@", 77, "authentication failed"),
    ("", 77, "wants a login"),
    (f"poor:{SECRET}@", 77, "permission denied"),
])
def test_a_login_that_is_refused_is_said(at, guarded, login, code, words):
    snib = at(f"etcd://{login}127.0.0.1:{guarded.port}")
    done = snib.run("try", "n", "--", "true")
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert "wr0ng" not in done.stderr and SECRET not in done.stderr


def test_the_doctor_says_which_keys_a_user_lacks(at, guarded):
    url = f"etcd://known:{SECRET}@127.0.0.1:{guarded.port}?prefix=other"
    done = at(url).run("doctor")
    assert done.returncode == 77
    assert re.search("(?m)^fail  permissions .*permission denied for the keys "
                     r"other/\.\.\.: give this user's role readwrite there",
                     done.stdout), done.stdout
    assert "fail  reachable" not in done.stdout


def test_a_login_works_by_url_and_by_file(at, guarded, tmp_path):
    url = f"etcd://known:{SECRET}@127.0.0.1:{guarded.port}"
    assert at(url).run("try", "n", "--", "true").returncode == 0
    path = tmp_path / "password"
    path.write_text(SECRET + "\n")
    os.chmod(path, 0o600)
    by_file = at(f"etcd://known@127.0.0.1:{guarded.port}"
                 f"?password_file={path}")
    done = by_file.run("try", "n", "--", "true")
    assert done.returncode == 0, done.stderr
    os.rename(path, tmp_path / "moved")
    done = by_file.run("try", "n", "--", "true")
    assert done.returncode == 78 and "No such file" in done.stderr, done.stderr
    os.rename(tmp_path / "moved", path)
    held = by_file.hold("kept", "--ttl", "30s")
    guarded.kill()  # its tokens go with it
    guarded.start()
    assert held.poll() is None
    assert at(url).run("try", "kept", "--", "true").returncode == 75


def test_the_rights_of_the_page_are_enough(at):
    page = (ROOT / "docs" / "ETCD.md").read_text(encoding="utf-8")
    own = page.partition("## With")[0]  # live.etcd_dialect has the others
    lines = re.findall(r"^etcdctl ((?:role|user) .*)$", own, re.M)
    assert len(lines) == 4
    with EtcdServer() as made:
        for line in lines:
            # the page leaves the password to be asked for
            words = re.sub(r"^user add (\S+)$", rf"user add \1:{SECRET}", line)
            made.ctl(*shlex.split(words))
        made.enable_auth()
        snib = at(f"etcd://snib-user:{SECRET}@127.0.0.1:{made.port}")
        done = snib.run("run", "n", "--", "true")
        assert done.returncode == 0, done.stderr
        found = {one["check"]: one["level"] for one in
                 json.loads(snib.run("doctor", "--json").stdout)["findings"]}
        assert found["permissions"] == "ok"


@pytest.mark.parametrize("data", [
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",  # etcd 2, say
    b"-ERR unknown command\r\n", b"\x4a\x00\x00\x00\x0a5.5.5\x00" * 8])
def test_another_server_on_the_port_is_said(at, data):
    assert "does not speak HTTP/2" in tried(at, "etcd://HOST", data)


@pytest.mark.skipif(bool(redis_missing()), reason=redis_missing())
def test_a_redis_on_the_port_is_said(at):
    with RedisServer() as redis:
        done = at(f"etcd://127.0.0.1:{redis.port}").run("try", "n", "--",
                                                        "true")
    assert done.returncode == 69 and "127.0.0.1" in done.stderr, done.stderr


# -- TLS ---------------------------------------------------------------------------


def test_through_tls_and_verified(at, secure, papers, tmp_path):
    host = f"127.0.0.1:{secure.port}"
    done = at(f"etcds://{host}?tls_ca={papers.ca}").run(
        "run", "n", "--", "true")
    assert done.returncode == 0, done.stderr
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other", "another CA")
    done = at(f"etcds://{host}?tls_ca={stranger.ca}").run(
        "try", "n", "--", "true")
    assert done.returncode == 78 and "certificate" in done.stderr, done.stderr
    done = at(f"etcds://{host}?tls_ca={papers.ca}&tls_name=else.where").run(
        "try", "n", "--", "true")
    assert done.returncode == 78 and "else.where" in done.stderr, done.stderr


def test_the_wrong_one_of_tls_and_none_is_said(at, server, secure, papers):
    done = at(f"etcd://127.0.0.1:{secure.port}").run("try", "n", "--", "true")
    assert done.returncode == 69 and "etcds:" in done.stderr, done.stderr
    done = at(f"etcds://127.0.0.1:{server.port}?tls_ca={papers.ca}").run(
        "try", "n", "--", "true")
    assert done.returncode == 69, done.stderr  # it may as well be stopping
    assert "it may be the port without TLS: give the other, or write etcd: for " \
        "etcds:; does the server run" in done.stderr, done.stderr


def test_a_certificate_that_has_expired_is_refused(at, papers):
    old = papers.issue("old", days=-1)
    # etcdctl is to ask it whether it is healthy
    with EtcdServer(tls=(*old, papers.ca), verified=False) as made:
        done = at(f"{made.url}?tls_ca={papers.ca}").run("try", "n", "--",
                                                        "true")
        check = at(f"{made.url}?tls_ca={papers.ca}").run("doctor")
        lax = at(f"{made.url}?tls_verify=no").run(
            "try", "n", "--", "true")
    assert done.returncode == 78, done.stderr
    assert "has expired" in done.stderr and "renew it" in done.stderr
    assert check.returncode == 78 and "has expired" in (check.stdout +
                                                        check.stderr)
    assert lax.returncode == 0 and "tls_verify=no" in lax.stderr, lax.stderr


def test_a_server_that_wants_a_certificate_says_so(at, papers):
    wants = ["--client-cert-auth", "--trusted-ca-file", papers.ca]
    server, client = papers.issue("strict"), papers.issue("client")
    with EtcdServer(config=wants, tls=(*server, papers.ca),
                    client=client) as made:
        url = f"{made.url}?tls_ca={papers.ca}"
        bare = at(url).run("try", "n", "--", "true")
        with_it = at(f"{url}&tls_cert={client[0]}&tls_key={client[1]}").run(
            "try", "n", "--", "true")
    assert bare.returncode in (77, 78) and "certificate" in bare.stderr, \
        bare.stderr
    assert with_it.returncode == 0, with_it.stderr
