"""Which store is meant: by a path that hangs on the current directory, by the
default, by a URL that is none."""

import json
import os
import subprocess

import pytest

from conftest import Snib, eventually, kill
from test_signals import Terminal

RELATIVE = "file:here.db"


@pytest.fixture
def relative(snib_bin, tmp_path):
    made = Snib(snib_bin, RELATIVE, str(tmp_path))
    made.whole = "file:%s/here.db" % tmp_path
    yield made
    made.end()


def elsewhere(snib, *args, **more):
    """The same from another directory."""
    folder = snib.path("elsewhere")
    os.makedirs(folder, exist_ok=True)
    return subprocess.run([snib.binary, *args], env=snib.env, cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60, **more)


# -- a path that hangs on the current directory -----------------------------------

def test_a_token_file_names_the_whole_path(relative):
    assert relative.acquire("-o", "grant", "a").returncode == 0
    with open(relative.path("grant")) as file:
        lines = dict(line.rstrip("\n").split("=", 1) for line in file)
    relative.keepers.append(int(lines["keeper_pid"]))
    assert lines["store"] == relative.whole


def test_a_token_file_leads_to_its_store_from_another_directory(relative):
    """The holder process is dead: the store is asked, and that one knows."""
    done = relative.acquire("-t", "1m", "-o", "grant", "a")
    assert done.returncode == 0, done.stderr
    with open(relative.path("grant")) as file:
        keeper = int(file.read().split("keeper_pid=")[1].split()[0])
    kill(keeper, 9)
    eventually(lambda: not os.path.exists("/proc/%d/exe" % keeper))
    done = relative.run("force-release", "--yes", "--reason", "x", "a")
    assert done.returncode == 0, done.stderr
    done = elsewhere(relative, "release", relative.path("grant"))
    assert done.returncode == 76
    assert done.stderr == ("snib: a: the grant had ended before, says %s\n"
                           % relative.whole)


def test_a_relative_path_in_the_root_directory(snib_bin, tmp_path):
    """cron and systemd start there."""
    path = str(tmp_path / "here").lstrip("/")
    made = Snib(snib_bin, "file:" + path, str(tmp_path))
    try:
        done = subprocess.run(
            [made.binary, "run", "-v", "a", "--", "true"], env=made.env,
            cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=60)
    finally:
        made.end()
    assert done.returncode == 0, done.stderr
    assert "snib: store file:/%s\n" % path in done.stderr
    assert os.path.exists("/" + path)


def test_messages_show_the_whole_path(relative):
    done = relative.run("run", "-v", "a", "--", "true")
    assert "snib: store %s\n" % relative.whole in done.stderr


def test_doctor_warns_of_a_relative_path(relative):
    done = relative.run("doctor", "--json")
    told = json.loads(done.stdout)
    assert (told["store"], done.returncode) == (relative.whole, 0)
    path, = [f for f in told["findings"] if f["check"] == "path"]
    assert path["level"] == "warn"
    assert path["text"].startswith(RELATIVE + " depends on the current "
                                   "directory")
    assert path["remedy"] == "write the whole path: " + relative.whole


def test_doctor_says_nothing_of_a_whole_path(mapped):
    told = json.loads(mapped.run("doctor", "--json").stdout)
    assert "path" not in [f["check"] for f in told["findings"]]


@pytest.mark.parametrize("args", [("run", "a", "--", "true"),
                                  ("try", "a", "--", "true"),
                                  ("elect", "--once", "a", "--", "true")],
                         ids=lambda args: args[0])
def test_a_terminal_is_told_of_a_relative_path(relative, args):
    t = Terminal(relative, *args)
    assert t.wait() == 0
    line = "the store %s is file:" % RELATIVE
    assert t.seen.decode().count(line) == 1, t.seen
    assert "from another directory it is another one" in t.seen.decode()


def test_neither_a_script_nor_quiet_is_told(relative):
    assert relative.run("run", "a", "--", "true").stderr == ""
    t = Terminal(relative, "run", "-q", "a", "--", "true")
    assert t.wait() == 0 and t.seen == b""


# -- a grant that was left in the store ------------------------------------------------

@pytest.fixture
def left(store):
    """A token file of `acquire --detached`, asked about by who has another
    store in the environment."""
    done = store.run("acquire", "--detached", "-t", "1m", "-o", "file", "a")
    assert done.returncode == 0, done.stderr
    store.there = store.url
    store.env["SNIB_URL"] = "file:%s" % store.path("other.db")
    return store


def test_a_token_file_of_detached_leads_to_its_store(left):
    """All said "lost", or "had ended before", of a lock that was held."""
    for args in (("check", "-m", "30s"), ("renew",), ("release",)):
        done = left.run(*args, "file")
        assert (done.returncode, done.stderr) == (0, ""), args
    assert not json.loads(left.run("status", "--json", "-s", left.there,
                                   "a").stdout)["held"]
    says = "says %s\n" % json.loads(left.run(
        "doctor", "--json", "-s", left.there).stdout)["store"]
    for sub, what in (("check", "the lease is lost"),
                      ("renew", "the grant had ended before"),
                      ("release", "the grant had ended before the release")):
        done = left.run(sub, "file")
        assert done.returncode == 76
        assert done.stderr == "snib: a: %s, %s" % (what, says)


@pytest.mark.parametrize("sub", ["check", "renew", "release"])
def test_who_asks_another_store_is_told_so(left, sub):
    """An option counts more than the file: a store may have two addresses."""
    other = left.env.pop("SNIB_URL")
    done = left.run(sub, "-s", other, "file")
    assert done.returncode == 76
    with open(left.path("file")) as file:
        lines = dict(line.rstrip("\n").split("=", 1) for line in file)
    assert done.stderr.endswith(", says %s; the token file names %s\n"
                                % (other, lines["store"])), done.stderr
    assert left.run("release", "-s", left.there,
                    lines["grant"]).returncode == 0


@pytest.mark.parametrize("sub", ["check", "renew", "release"])
def test_a_grant_alone_needs_its_store_named(host_default, sub):
    snib, grant = host_default
    done = snib.run(sub, grant)
    assert done.returncode == 76
    assert "; the grant does not name its store, --store does" in done.stderr


@pytest.mark.parametrize("sub", ["check", "renew", "release"])
def test_a_grant_alone_at_a_wrong_store_of_the_environment(host_default, sub):
    snib, grant = host_default
    done = snib.run(sub, grant, env={"SNIB_URL": "file:" +
                                     snib.path("wrong.db")})
    assert done.returncode == 76
    assert "; the grant does not name its store, --store does" in done.stderr


@pytest.fixture
def host_default(mapped):
    """A grant left in another store than the default, which is asked."""
    done = mapped.run("acquire", "--detached", "-t", "1m", "a")
    assert done.returncode == 0, done.stderr
    del mapped.env["SNIB_URL"]
    return mapped, done.stdout.strip()


# -- the default --------------------------------------------------------------------

DEFAULT = '"$0" status --json "$SNIB_NAME"; echo "$SNIB_URL"'


def test_a_nested_call_uses_the_default_store_of_the_outer_one(mapped):
    """… also where its own would be another one, as that of another user."""
    del mapped.env["SNIB_URL"]
    done = mapped.run("run", "which-store:%s" % mapped.tmp, "--", "sh", "-c",
                      DEFAULT, mapped.binary)
    assert done.returncode == 0, done.stderr
    status, url = done.stdout.splitlines()
    assert json.loads(status)["held"]
    assert url == json.loads(mapped.run("doctor", "--json").stdout)["store"]
    assert url.startswith("file:/") and url.endswith("/locks.db")


# "" is for the comparison: the default, named by nobody.
@pytest.mark.parametrize("url", ["", "file:", "FILE:"])
@pytest.mark.parametrize("given", [True, False], ids=["option", "environment"])
def test_the_default_store_is_told_by_its_path(mapped, url, given):
    env, options = {"SNIB_URL": url}, []
    if given and url:
        env, options = {"SNIB_URL": mapped.url}, ["--store", url]
    name = "which-store:%s" % mapped.tmp
    done = mapped.run("run", *options, "-v", name, "--", "sh", "-c",
                      'echo "$SNIB_URL"', env=env)
    assert done.returncode == 0, done.stderr
    told = done.stdout.rstrip("\n")
    assert told.startswith("file:/") and told.endswith("/locks.db")
    assert "snib: store %s\n" % told in done.stderr
    done = mapped.run("acquire", *options, "--detached", "-t", "1s", "-o",
                      "grant", name, env=env)
    assert done.returncode == 0, done.stderr
    with open(mapped.path("grant")) as f:
        assert "\nstore=%s\n" % told in f.read()


# -- a URL that is none ---------------------------------------------------------------

WRONG = ["", "nonsense", ":", "http:", "http://example.org", "redis:",
         "redis://h:99999", "redis://h?no=1", "redlock://a", "file://x/y",
         "file:/x%zz", "file:/x.db?no=1", "memory:", "sqlite:/x.db"]


@pytest.mark.parametrize("url", ["sqlite:", "sqlite:/x.db", "SQLite:x"])
@pytest.mark.parametrize("args", [("run", "a", "--", "true"), ("list",),
                                  ("doctor",), ("doctor", "--schema")],
                         ids=" ".join)
def test_who_names_the_store_that_is_gone_is_told_where_it_went(mapped, args,
                                                                url):
    done = mapped.run(*args, env={"SNIB_URL": url})
    assert (done.returncode, done.stdout) == (78, "")
    assert "sqlite: is no store any more; write file:PATH" in done.stderr


def test_a_file_of_the_store_that_is_gone_is_refused_and_left_alone(mapped):
    with open(mapped.path("locks.db"), "wb") as file:
        file.write(b"SQLite format 3\0" + bytes(4080))
    os.chmod(mapped.path("locks.db"), 0o600)
    done = mapped.run("try", "a")
    assert done.returncode == 78
    assert ("locks.db is an SQLite database; older snibs kept locks in one: "
            "when none of them uses it, move it away with its -wal, -shm and "
            "-bells, or name another: file:PATH" in done.stderr), done.stderr
    with open(mapped.path("locks.db"), "rb") as file:
        assert file.read() == b"SQLite format 3\0" + bytes(4080)


@pytest.mark.parametrize("args", [("run", "a", "--", "true"),
                                  ("status", "a")],
                         ids=lambda args: args[0])
@pytest.mark.parametrize("url", WRONG)
def test_a_wrong_url_is_78_wherever_it_stands(mapped, args, url):
    """It is configuration, in an argument as well as in the environment."""
    with open(mapped.path("url"), "w") as file:
        file.write(url + "\n")
    os.chmod(mapped.path("url"), 0o600)
    ways = [({}, ("--store-file", mapped.path("url")))]
    if url:
        ways += [({"SNIB_URL": url}, ()), ({}, ("-s", url))]
    for env, option in ways:
        done = mapped.run(args[0], *option, *args[1:], env=env)
        assert done.returncode == 78, done.stderr
        assert done.stderr.count("\n") == 1
        assert "memory:NAME" not in done.stderr


def test_the_stores_that_are_offered_are_those_of_this_build(mapped):
    done = mapped.run("status", "-s", "http://x", "a")
    offered = done.stderr.split("expected ", 1)[1]
    nobody = "127.0.0.1:1"
    for scheme, url in (("file:", mapped.url), ("redis:", "redis://" + nobody),
                        ("redlock:", "redlock://" + ",".join([nobody] * 3))):
        built = "no store" not in mapped.run(
            "try", "-s", url, "a").stderr
        assert (scheme in offered) == built, offered
    assert "memory:" not in offered


def test_a_database_that_the_server_does_not_have(redis):
    url = redis.url.split("/0")[0] if redis.url.endswith("/0") else redis.url
    done = redis.run("try", "-s", url + "/99", "a")
    assert done.returncode == 78
    assert ("DB index is out of range: the server has no database of the number "
            "in the URL (redis://HOST/N)\n") in done.stderr
