"""Bad input: refused before anything is sent, with a word that helps."""

import json
import os
import re
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import eventually

UNITS = {"ms": 1, "s": 1000, "m": 60000, "h": 3600000}
DAY = 24 * 3600 * 1000


@pytest.mark.parametrize("args, word", [
    (("nonsense",), "unknown sub-command"),
    (("--nonsense",), "unknown option"),
    (("-Z",), "unknown option"),
    (("store",), "expected ready [URL]"),
    (("store", "raedy"), "unknown word 'raedy'; expected ready [URL]"),
    (("watch",), "not in this release"),
    (("top",), "not in this release"),
    (("bench",), "not in this release"),
    (("serve",), "not in this release"),
    (("demo",), "not in this release"),
    (("completion", "bash"), "not in this release"),
    (("run",), "expected NAME"),
    (("run", "a"), "command is missing"),
    (("run", "a", "--"), "command is missing"),
    (("run", "--", "true"), "no lock name before --"),
    (("run", "", "true"), "empty"),
    (("run", "x" * 513, "true"), "513 bytes"),
    (("run", "x" * 100_000, "true"), "100000 bytes"),
    (("run", "--nope", "a", "true"), "unknown option --nope"),
    (("run", "--wai", "1s", "a", "true"), "unknown option"),
    (("run", "-w"), "needs"),
    (("run", "-w", "5", "a", "true"), "without a unit"),
    (("run", "-w", "5x", "a", "true"), "unknown unit"),
    (("run", "-w", "-5s", "a", "true"), "not a duration"),
    (("run", "-w", "1.5s", "a", "true"), "whole numbers"),
    (("run", "-w", "", "a", "true"), "not a duration"),
    (("run", "-w", "99999999999999999999h", "a", "true"), "hundred years"),
    (("run", "-w", "9223372036854775807h", "a", "true"), "hundred years"),
    (("run", "-w", "1s", "-w", "2s", "a", "true"), "twice"),
    (("run", "-t", "0", "a", "true"), "0 is not possible"),
    (("run", "-t", "forever", "a", "true"), "forever is not possible"),
    (("run", "-t", "1ms", "a", "true"), "from 250ms to 24h, not 1ms"),
    (("run", "-t", "25h", "a", "true"), "from 250ms to 24h, not 25h"),
    (("renew", "-t", "49ms", "g"), "from 50ms to 24h, not 49ms"),
    (("run", "-t", "10s", "-g", "5001ms", "a", "true"),
     "half the --ttl, not 5001ms of 10s"),
    (("run", "-g", "16s", "a", "true"), "half the --ttl, not 16s of 30s"),
    (("run", "--kind", "nope", "a", "true"), "mutex"),
    (("run", "-n", "2", "a", "true"), "semaphore"),
    (("run", "--kind", "read", "-n", "2", "a", "true"), "semaphore"),
    (("run", "--capacity", "2", "a", "true"), "semaphore"),
    (("run", "--kind", "semaphore", "-n", "0", "a", "true"), "permits, not 0"),
    (("run", "--kind", "semaphore", "--capacity", "0", "a", "true"),
     "permits, not 0"),
    (("run", "--kind", "semaphore", "-n", "3", "--capacity", "2", "a", "true"),
     "--permits 3 of --capacity 2"),
    (("try", "--kind", "semaphore", "-n", "3", "--capacity", "2", "a"),
     "--permits 3 of --capacity 2"),
    (("acquire", "--kind", "semaphore", "-n", "3", "--capacity", "2", "a"),
     "--permits 3 of --capacity 2"),
    (("run", "--kind", "semaphore", "-n", "1000000001", "a", "true"),
     "whole number"),
    (("run", "--priority", "101", "a", "true"), "whole number"),
    (("run", "--priority", "-1", "a", "true"), "whole number"),
    (("run", "--lock-delay", "25h", "a", "true"), "24h"),
    (("run", "--lock-delay", "5", "a", "true"), "without a unit"),
    (("wait", "-n", "2", "a"), "semaphore"),
    (("wait", "--kind", "nope", "a"), "mutex"),
    (("semaphore",), "expected NAME"),
    (("semaphore", ""), "empty"),
    (("semaphore", "--set", "1", "--init", "2", "a"), "exclude"),
    (("semaphore", "--set", "1", "--add", "2", "a"), "exclude"),
    (("semaphore", "--add", "0", "a"), "change nothing"),
    (("semaphore", "--add", "x", "a"), "whole number"),
    (("semaphore", "--add", "-1000000001", "a"), "whole number"),
    (("semaphore", "--set", "-1", "a"), "whole number"),
    (("latch",), "expected NAME"),
    (("latch", "--set", "0", "a"), "0 steps"),
    (("latch", "--down=0", "a"), "0 steps"),
    (("latch", "--down=x", "a"), "whole number from 1 to"),
    (("latch", "--down", "2", "a"), "a number of steps is written --down=N"),
    (("latch", "--set", "-1", "a"), "whole number from 1 to"),
    (("barrier", "-n", "-2", "a"), "whole number from 1 to"),
    (("run", "--kind", "semaphore", "-n", "-1", "a", "true"),
     "whole number from 1 to"),
    (("run", "--kind", "semaphore", "--capacity", "-1", "a", "true"),
     "whole number from 1 to"),
    (("list", ""), "the glob is empty"),
    (("release", "nonsense"), "expected a grant"),
    (("run", "%s" % ("n" * 513), "true"), "513 bytes; 512 are possible"),
    (("run", "a", "b", "a", "--", "true"), "lock 'a' is named twice"),
    (("latch", "--down", "--open", "a"), "exclude"),
    (("latch", "-w", "1s", "a"), "needs --await"),
    (("latch", "--down", "-w", "1s", "a"), "needs --await"),
    (("latch", "--await", "-E", "1", "--busy-ok", "a"), "exclude"),
    (("barrier", "a"), "--parties N is missing"),
    (("barrier", "-n", "0", "a"), "expected 1"),
    (("barrier", "-n", "2", "-w", "0", "a"), "0 is not possible"),
    (("barrier", "-n", "2", "-E", "1", "--busy-ok", "a"), "exclude"),
    (("release", "snib1:nokeeper.semaphore.0:a:b:c"), "not a grant"),
    (("release", "snib1:nokeeper.nope:a:b:c"), "not a grant"),
    (("run", "-n", "many", "a", "true"), "whole number"),
    (("run", "-E", "256", "a", "true"), "255"),
    (("run", "-E", "-1", "a", "true"), "whole number"),
    (("run", "-E", "1", "--busy-ok", "a", "true"), "exclude"),
    (("run", "--on-lost", "shrug", "a", "true"), "kill, ignore"),
    (("run", "--on-lost", "signal:NOPE", "a", "true"),
     "--on-lost: 'NOPE' is no signal; expected a name such as TERM"),
    (("run", "--on-lost", "signal:0", "a", "true"), "'0' is no signal"),
    (("run", "-c", "true"), "-c SCRIPT NAME…"),
    (("run", "--status-fd", "77", "a", "true"), "not an open"),
    (("run", "--quiet=yes", "a", "true"), "takes no value"),
    (("run", "--store", "", "a", "true"), "empty"),
    (("status",), "expected NAME"),
    (("list", "a", "b"), "unexpected argument 'b'"),
    (("try",), "expected NAME"),
    (("try", "a", "--"), "missing"),
    (("acquire",), "expected NAME"),
    (("acquire", "--detached", "a"), "needs --ttl"),
    (("acquire", "--detached", "-t", "5s", "--holder-pid", "1", "a"),
     "exclude each other"),
    (("release", "snib1:nokeeper:a:b:c"), "not a grant"),
    (("acquire", "--holder-pid", "0", "a"), "no process"),
    (("acquire", "--holder-pid", "4194304", "a"), "4194304"),
    (("release", "/no/such/file"), "No such file"),
    (("release", "/etc/passwd"), "not a token file"),
    (("release", "snib1:garbage"), "not a grant"),
    (("renew", "-t", "25h", "snib1:garbage"), "24h"),
    (("check",), "not inside"),
    (("force-release", "--yes", "a"), "--reason"),
    (("help", "nope"), "unknown sub-command"),
])
def test_wrong_use_is_64_and_says_what_is_wrong(mapped, args, word):
    done = mapped.run(*args)
    assert done.returncode == 64, done.stderr
    assert word in done.stderr
    assert done.stdout == ""
    assert len(done.stderr) < 1024
    assert done.stderr.endswith("\n") and done.stderr.count("\n") == 1
    assert not os.path.exists(mapped.path("locks.db"))


@pytest.mark.parametrize("url", ["nonsense", "nope://x", "redis://:bad port",
                                 "redis://h:99999", "://",
                                 "http://example.org"])
def test_a_bad_url_is_78(mapped, url):
    done = mapped.run("run", "-w", "0", "-s", url, "a", "true")
    assert done.returncode == 78, (done.returncode, done.stderr)
    assert done.stderr.strip()


@pytest.mark.parametrize("url", [
    "redis://anna:geheim@h/0", "redis://:geheim@h", "rediss://a:geheim@h,i",
    "redis://h/?password=geheim", "redis://h/0?db=1&AUTH=geheim",
    "redis://a:gehe@im@h"])
def test_a_password_in_an_argument_is_refused_and_not_repeated(mapped, url):
    done = mapped.run("run", "-s", url, "a", "true")
    assert done.returncode == 64
    assert "password" in done.stderr and "--store-file" in done.stderr
    assert "gehe" not in done.stderr


def test_a_store_file_is_read(mapped):
    path = mapped.path("url")
    with open(path, "w") as f:
        f.write(mapped.url + "\nsecond line\n")
    os.chmod(path, 0o600)
    done = mapped.run("run", "--store-file", path, "a", "true",
                      env={"SNIB_URL": "nonsense"})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_store_file_that_others_may_read_is_78(mapped, mode):
    path = mapped.path("url")
    with open(path, "w") as f:
        f.write(mapped.url)
    os.chmod(path, mode)
    done = mapped.run("run", "--store-file", path, "a", "true")
    assert done.returncode == 78
    assert done.stderr.endswith(f"others may read it; do: chmod 600 {path}\n")


@pytest.mark.parametrize("path, word", [("/no/such", "No such file"),
                                        ("/dev/null", "not a regular file"),
                                        ("/", "not a regular file")])
def test_a_store_file_that_is_none_is_78(mapped, path, word):
    done = mapped.run("run", "--store-file", path, "a", "true")
    assert done.returncode == 78
    assert word in done.stderr


def test_store_and_store_file_exclude_each_other(mapped):
    done = mapped.run("run", "-s", "file:x", "--store-file", "/x", "a", "b")
    assert done.returncode == 64


def test_global_options_may_stand_before_the_sub_command(mapped):
    done = mapped.run("-q", "-s", mapped.url, "run", "a", "true",
                      env={"SNIB_URL": "nonsense"})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("sub", ["run", "try", "acquire", "release", "renew",
                                 "check", "wait", "status", "list",
                                 "force-release", "doctor", "version", "help"])
def test_every_sub_command_explains_itself(mapped, sub):
    one = mapped.run(sub, "--help")
    two = mapped.run("help", sub)
    assert one.returncode == two.returncode == 0
    assert one.stdout == two.stdout
    assert one.stdout.startswith("Usage: snib %s" % sub)
    assert one.stderr == ""
    assert all(len(line) <= 80 for line in one.stdout.splitlines())


def test_help_lists_all(mapped):
    done = mapped.run("--help")
    assert done.returncode == 0
    for sub in ("run", "try", "doctor", "force-release"):
        assert "\n  " + sub + " " in done.stdout
    assert mapped.run("help").stdout == done.stdout


def test_help_lists_the_global_options(mapped):
    said = mapped.run("--help").stdout
    head, options = said.split("\nGlobal options:\n")
    assert "[GLOBAL OPTIONS]" in head
    said = options.split("\n\n")[0]
    assert re.findall("^  (?:-(.),|   ) --([a-z-]+)", said, re.M) == [
        ("s", "store"), ("", "store-file"), ("q", "quiet"), ("v", "verbose"),
        ("", "version"), ("h", "help")]
    for letter, name in (("-s", "--store"), ("-q", "--quiet")):
        for option in (letter, name):
            more = [mapped.url] if letter == "-s" else []
            assert mapped.run(option, *more, "run", "a", "--",
                              "true").returncode == 0


def test_help_of_the_command_is_the_commands(mapped):
    done = mapped.run("run", "a", "printf", "%s", "--help")
    assert done.stdout == "--help"


@pytest.mark.parametrize("name", ["}x", "{", "{}", "a}b{c", "%", "%41", "é",
                                  "a\nb", "\x01", " ", "x" * 512, "*", "--x",
                                  "a:b", "'", '"', "\\", "\u202e"])
def test_any_name_of_1_to_512_bytes_is_a_lock(store, name):
    done = store.run("run", "-w", "5s", name, "--", "sh", "-c",
                     '"$0" try -q "$SNIB_NAME"; echo $?; printf %s '
                     '"$SNIB_NAME"', store.binary) \
        if not name.startswith("-") else None
    if done is None:
        return  # options stop at the first operand: -- ends the names
    assert done.returncode == 0, done.stderr
    code, _, shown = done.stdout.partition("\n")
    assert code == "75", "another try is refused"
    assert shown == name


SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[
    HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@SLOW
@given(number=st.integers(0, 10**22), unit=st.sampled_from(sorted(UNITS)))
def test_a_duration_is_taken_or_refused_by_its_value(mapped, number, unit):
    ms = number * UNITS[unit]
    done = mapped.run("run", "-t", "%d%s" % (number, unit), "a", "true")
    assert done.returncode == (0 if 250 <= ms <= DAY else 64), done.stderr


@SLOW
@given(text=st.text(st.characters(blacklist_characters="\0",
                                  blacklist_categories=("Cs",)), max_size=30))
def test_any_text_as_a_duration_is_taken_or_refused(mapped, text):
    done = mapped.run("wait", "-w", text, "free")
    assert done.returncode in (0, 64)
    if done.returncode == 64:
        assert done.stderr.count("\n") == 1


@SLOW
@given(name=st.text(st.characters(blacklist_characters="\0",
                                  blacklist_categories=("Cs",)),
                    min_size=1, max_size=40).filter(
                        lambda n: not n.startswith("-")))
def test_any_text_as_a_name_is_a_lock_of_its_own(mapped, name):
    done = mapped.run("run", name, "--", "printenv", "SNIB_NAME")
    assert done.returncode == 0, done.stderr
    # the pipe is read as text: any line end arrives as \n
    assert done.stdout == re.sub("\r\n?", "\n", name + "\n")


@SLOW
@given(args=st.lists(st.text(string.printable.replace("\0", ""), max_size=12),
                     max_size=5))
def test_any_arguments_of_status_end_with_a_known_code(mapped, args):
    done = mapped.run("status", *args)
    assert done.returncode in (0, 64, 69, 78), (args, done.stderr)


UNREACHABLE = [
    ("run", "-w", "0", "a", "true"), ("run", "-w", "1s", "a", "true"),
    ("run", "-w", "0", "a", "b", "--", "true"), ("try", "a"),
    ("try", "a", "true"), ("acquire", "-w", "0", "a"),
    ("wait", "-w", "0", "a"), ("status", "a"),
    ("list",), ("why", "a"), ("deadlocks",), ("semaphore", "a"),
    ("semaphore", "--set", "2", "a"), ("latch", "a"), ("latch", "--set", "2",
                                                       "a"),
    ("latch", "--await", "-w", "0", "a"),
    ("barrier", "-n", "2", "-w", "1s", "a"),
    ("elect", "--once", "-w", "1s", "a", "true"),
    ("force-release", "-y", "--reason", "x", "a"),
    ("store", "ready", "redis://127.0.0.1:1?recovery=30s")]


@pytest.mark.parametrize("args", UNREACHABLE, ids=" ".join)
def test_an_unreachable_store_is_said_with_what_to_do(mapped, args):
    done = mapped.run(*args, env={"SNIB_URL": "redis://127.0.0.1:1"})
    assert done.returncode == 69, done.stderr
    last = done.stderr.splitlines()[-1]
    assert re.search(r"[Cc]onnection refused\)?; does the server run", last)
    assert "127.0.0.1:1" in last or "barrier" in args
    assert "--store, SNIB_URL" in last
    assert "snib doctor" in last


def test_a_refused_login_points_to_the_doctor(redis):
    host = redis.url.split("//", 1)[1]
    done = redis.run("run", "a", "true",
                     env={"SNIB_URL": "redis://nobody:wrong@%s" % host})
    assert done.returncode == 77
    assert "WRONGPASS" in done.stderr and "(see: snib doctor)" in done.stderr


def test_an_unknown_scheme_is_78_and_the_known_ones_are_said(mapped):
    done = mapped.run("run", "-s", "foo://x", "a", "true")
    assert done.returncode == 78
    assert "there is no store foo: in this build; expected file:" in done.stderr


@pytest.mark.parametrize("scheme, meant", [
    ("redis-cluster", "redis+cluster"), ("rediscluster", "redis+cluster"),
    ("resis", "redis"), ("fille", "file"), ("redlok", "redlock"),
    ("valkey", "redis"), ("foo", None), ("x", None), ("kafka", None),
    ("redis-something", None)])
def test_a_slip_in_the_scheme_is_told_with_what_was_meant(
        redis, scheme, meant):
    done = redis.run("try", "-s", f"{scheme}://h", "a")
    assert done.returncode == 78
    assert f"there is no store {scheme}: in this build; " in done.stderr
    assert ("meant?" in done.stderr) == (meant is not None)
    assert meant is None or f"was {meant}: meant?" in done.stderr
    assert "libhiredis" not in done.stderr


@pytest.mark.parametrize("called, scheme", [
    ("rabbitmq", "amqp"), ("mariadb", "mysql"), ("zk", "zookeeper"),
    ("pgsql", "postgres"), ("pg", "postgres")])
def test_what_a_server_is_called_is_told_with_its_scheme(
        mapped, called, scheme):
    done = mapped.run("try", "-s", f"{called}://h", "a")
    assert done.returncode == 78
    if mapped.run("try", "-s", f"{scheme}://127.0.0.1:1", "a").returncode == 78:
        pytest.skip(f"{scheme}: is not in this build")
    assert f"no store {called}: in this build; was {scheme}: meant?" \
        in done.stderr


def test_more_permits_than_the_semaphore_has_are_not_to_be_had_now(store):
    """Its size is the store's, and may be raised: no mistake of the call."""
    assert store.run("semaphore", "-q", "--set", "5", "s").returncode == 0
    done = store.run("wait", "--kind", "semaphore", "-n", "6", "s")
    assert done.returncode == 75
    assert done.stderr == ("snib: s: 6 permits were asked for and the "
                           "semaphore has 5 in all; ask for fewer or make it "
                           "larger\n")
    for sub in ("try", "run"):
        again = store.run(sub, "--kind", "semaphore", "-n", "6", "s", "true")
        assert (again.returncode, again.stderr) == (75, done.stderr)
    again = store.run("try", "--kind", "semaphore", "-n", "6", "s")
    assert (again.returncode, again.stderr) == (75, done.stderr)


def test_one_permit_of_none_is_said_in_the_singular(store):
    assert store.run("semaphore", "-q", "--set", "0", "s").returncode == 0
    said = ("snib: s: 1 permit was asked for and the semaphore has 0 in all; "
            "make it larger\n")
    for args in (["wait"], ["try"], ["run"], ["acquire"]):
        done = store.run(*args, "--kind", "semaphore", "s",
                         *(["true"] if args == ["run"] else []))
        assert (done.returncode, done.stderr) == (75, said)


EMPTY = "the semaphore has 0 in all"


@pytest.mark.parametrize("more, status", [
    (["-E", "9"], 9), (["--busy-ok"], 0), (["-w", "0"], 75)], ids=str)
@pytest.mark.parametrize("sub", ["run", "try", "acquire", "wait"])
def test_a_semaphore_of_none_ends_as_a_lock_that_is_held(store, sub, more,
                                                         status):
    """With its own words, which --busy-ok does not hide: to wait is no help."""
    assert store.run("semaphore", "-q", "--set", "0", "s").returncode == 0
    if sub == "try" and more[0] == "-w":
        more = []
    done = store.run(sub, *more, "--kind", "semaphore", "s",
                     *(["true"] if sub == "run" else []))
    assert done.returncode == status, done.stderr
    assert EMPTY in done.stderr


def test_a_semaphore_of_none_is_busy_to_the_status_line(store):
    assert store.run("semaphore", "-q", "--set", "0", "s").returncode == 0
    r, w = os.pipe()
    done = store.run("run", "--status-fd", str(w), "--kind", "semaphore", "s",
                     "true", pass_fds=(w,))
    os.close(w)
    with os.fdopen(r) as f:
        told = json.loads(f.read())
    assert done.returncode == 75, done.stderr
    assert (told["exit"], told["cause"], told["ran"]) == (75, "busy", False)


def test_a_semaphore_of_none_among_several_is_named(store):
    assert store.run("semaphore", "-q", "--set", "0", "s").returncode == 0
    done = store.run("run", "--kind", "semaphore", "--capacity", "2", "r", "s",
                     "--", "true")
    assert done.returncode == 75, done.stderr
    assert done.stderr.startswith("snib: s: 1 permit was asked for")
    assert EMPTY in done.stderr


def test_who_waits_while_the_semaphore_is_set_to_none_is_told(store):
    store.hold("s", "--kind", "semaphore", "--capacity", "1")
    p = store.start("run", "-q", "--kind", "semaphore", "s", "true")
    eventually(lambda: store.waiters("s") == 1)
    assert store.run("semaphore", "-q", "--set", "0", "s").returncode == 0
    _, said = p.communicate(timeout=30)
    assert p.returncode == 75, said
    assert EMPTY in said


def test_a_size_below_0_says_what_can_be_added(store):
    assert store.run("semaphore", "-q", "--set", "5", "s").returncode == 0
    done = store.run("semaphore", "--add", "-9", "s")
    assert done.returncode == 64
    assert "has 5 permits in all; -9 would make that less than 0; add from " \
        "-5 to 999999995" in done.stderr


@pytest.mark.parametrize("sub", ["run", "elect", "acquire", "latch"])
def test_help_has_no_line_that_is_too_long_or_ends_in_a_blank(mapped, sub):
    for line in mapped.run(sub, "--help").stdout.splitlines():
        assert len(line) < 80 and line == line.rstrip()
