"""status, list, force-release, doctor, version: words and JSON."""

import json
import os
import pty
import re
import socket
import subprocess
import time

import pytest

from conftest import eventually


def test_status_of_a_free_lock(store):
    done = store.run("status", "a")
    assert done.returncode == 0 and done.stdout == "a: free\n"
    view = store.status("a")
    assert view["schema"] == 1
    assert view["held"] is False
    assert view["holders"] == view["waiters"] == []


def test_status_shows_holder_and_queue(store):
    p = store.hold("a", "--reason", "release 4.2")
    store.start("run", "-q", "--reason", "me too", "a", "true")
    eventually(lambda: store.waiters("a") == 1)
    view = store.status("a")
    holder, = view["holders"]
    assert holder["host"] == socket.gethostname()
    assert holder["pid"] in (p.keeper, p.pid, p.command)
    assert holder["reason"] == "release 4.2"
    assert holder["user"] != ""
    assert holder["program"].endswith("sh")
    assert 0 < holder["token"] <= view["token"]
    assert 0 < holder["left_ms"] <= 30000
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
                        holder["since"])
    waiter, = view["waiters"]
    assert waiter["reason"] == "me too"
    words = store.run("status", "a").stdout
    assert words.startswith("a: held by ")
    assert '"release 4.2"' in words and '"me too"' in words
    assert str(holder["token"]) in words


def test_list_shows_what_the_glob_matches(store):
    for name in ("app/a", "app/b", "other"):
        store.hold(name)
    told = json.loads(store.run("list", "--json").stdout)
    assert told["schema"] == 1
    assert sorted(l["name"] for l in told["locks"]) == \
        ["app/a", "app/b", "other"]
    lines = store.run("list", "app/*").stdout.splitlines()
    assert sorted(line.split(":")[0] for line in lines) == ["app/a", "app/b"]
    assert store.run("list", "nothing*").stdout == ""


def test_names_that_are_no_text_are_shown_and_kept_in_hex(mapped):
    name = os.fsdecode(b"x\xff\xfey")
    mapped.hold(name)
    lock, = json.loads(mapped.run("list", "--json").stdout)["locks"]
    assert lock["name"] == "x\ufffd\ufffdy"
    assert bytes.fromhex(lock["name_hex"]) == b"x\xff\xfey"
    assert "x\\xFF\\xFEy: held" in mapped.run("list").stdout


def test_force_release_needs_yes_and_a_reason(store):
    store.hold("a")
    done = store.run("force-release", "a")
    assert done.returncode == 64
    assert "--yes --reason" in done.stderr
    assert store.held("a")


def test_force_release_shows_the_holder_and_that_it_is_you(store):
    store.hold("a")
    token = store.status("a")["token"]
    done = store.run("force-release", "--yes", "--reason", "r", "a")
    assert done.returncode == 0
    assert "held by" in done.stderr and "(this is you)" in done.stderr
    after = store.run("run", "-w5s", "a", "--", "printenv", "SNIB_TOKEN")
    assert int(after.stdout) > token


def test_a_forced_release_ends_the_command_long_before_its_renewal(store):
    """It got the lock at once and has never waited: it hears all the same."""
    p = store.hold("a")  # 30s, renewed each 10s
    done = store.run("force-release", "--yes", "--reason", "r", "a")
    assert done.returncode == 0
    begun = time.monotonic()
    assert p.wait(20) == 76
    assert time.monotonic() - begun < 5


def test_force_release_of_a_free_lock_does_nothing(store):
    done = store.run("force-release", "--yes", "--reason", "r", "a")
    assert done.returncode == 0
    assert "free" in done.stderr


def test_force_release_mends_what_cannot_be_shown(redis):
    """Who is sent to it by the error must not be met by the error."""
    redis.server.command("SET", "snib:{a}:t", "junk")
    done = redis.run("try", "a", "--", "true")
    assert "snib force-release" in done.stderr, done.stderr
    done = redis.run("force-release", "a")
    assert done.returncode == 64
    assert "a: its state at the store is damaged" in done.stderr
    assert "nobody to ask" in done.stderr
    done = redis.run("force-release", "--yes", "--reason", "x", "a")
    assert done.returncode == 0, done.stderr
    assert "a: its state at the store is damaged" in done.stderr
    assert redis.run("try", "a", "--", "true").returncode == 0


@pytest.mark.parametrize("typed, code, held", [("a", 0, False),
                                               ("b", 64, True),
                                               ("", 64, True)])
def test_force_release_on_a_terminal_asks_for_the_name(mapped, typed, code,
                                                       held):
    mapped.hold("a", "--on-lost", "ignore")
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(mapped.binary, [mapped.binary, "force-release", "a"],
                  mapped.env)
    seen = b""
    while b"Type the lock" not in seen:
        seen += os.read(fd, 4096)
    os.write(fd, typed.encode() + b"\n")
    try:
        while os.read(fd, 4096):
            pass
    except OSError:
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == code
    os.close(fd)
    assert mapped.held("a") is held


def test_doctor_reports_each_finding_with_its_level(store):
    done = store.run("doctor", "--json")
    told = json.loads(done.stdout)
    assert told["schema"] == 1 and told["findings"]
    for finding in told["findings"]:
        assert finding["level"] in ("ok", "warn", "fail")
        assert finding["check"] and finding["text"]
        assert finding["level"] == "ok" or finding["remedy"]
    failed = any(f["level"] == "fail" for f in told["findings"])
    assert done.returncode == (78 if failed else 0)
    words = store.run("doctor")
    assert words.returncode == done.returncode
    assert words.stdout.startswith("store ")


def test_doctor_quiet_tells_only_what_is_wrong(mapped):
    assert mapped.run("doctor", "-q").stdout == ""
    done = mapped.run("doctor", "-q", "-s", "file:here.db")
    assert done.returncode == 0
    level, line = done.stdout.split(None, 1)
    assert level == "warn" and line.count("\n") == 2, done.stdout


ROOT = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]

FULL_DISK = """
mount -t tmpfs -o size=2500k,mode=700 none "$1"
export SNIB_URL="file:$1/locks.db"
"$0" run a -- true
cat /dev/zero >"$1/big" 2>/dev/null
"$0" doctor -s "file:$1/new.db" 2>&1 >/dev/null | sed 's/^/new: /' >&2
i=0; while [ $i -lt 2000 ] && "$0" latch -q --set 1 "l$i"; do i=$((i+1)); done
"$0" doctor --json
echo "$?"
rm "$1/big"
"$0" doctor -q
"""


def test_doctor_sees_that_the_disk_is_full(mapped, tmp_path):
    """What failed for want of space pointed to it, and all was well there."""
    done = subprocess.run(
        ["unshare", *ROOT, "--mount", "sh", "-c", FULL_DISK, mapped.binary,
         str(tmp_path)], env=mapped.env, capture_output=True, text=True,
        timeout=60)
    assert "no space left" in done.stderr and "snib doctor" in done.stderr
    new, = re.findall("(?m)^new: (.*)", done.stderr)
    assert "no space" in new.lower() and "snib doctor" not in new
    told, code, *later = done.stdout.splitlines()
    disk, = [f for f in json.loads(told)["findings"] if f["check"] == "disk"]
    assert (disk["level"], code) == ("fail", "78")
    assert disk["text"].startswith("0 KiB free; the file has ")
    assert "make room" in disk["remedy"]
    assert later[0].split()[:2] == ["warn", "disk"]
    assert not any(line.startswith("fail") for line in later)


def test_doctor_of_an_unreachable_store_is_69(mapped):
    done = mapped.run("doctor", "-s", "redis://127.0.0.1:1")
    assert done.returncode == 69, done.stderr
    assert (done.stdout + done.stderr).count("Connection refused") == 1
    assert done.stderr == (
        "snib: the store could not be looked at; does the server run, and is "
        "the URL right (--store, SNIB_URL)?\n")  # not: see snib doctor
    done = mapped.run("doctor", "--json", "-s", "redis://127.0.0.1:1")
    assert done.returncode == 69
    assert "Connection refused; does the server run" in done.stderr


@pytest.mark.parametrize("sub", ["status", "list"])
def test_looking_at_an_unreachable_store_is_69(mapped, sub):
    args = ["-s", "redis://127.0.0.1:1"] + (["a"] if sub == "status" else [])
    done = mapped.run(sub, *args)
    assert done.returncode == 69, done.stderr


def test_version_as_words_and_json(mapped):
    done = mapped.run("version")
    assert re.fullmatch(r"snib \d+\.\d+\.\d+ \(libsnib \S+\)\n", done.stdout)
    assert mapped.run("--version").stdout == done.stdout
    for option in ("-q", "-v"):
        assert mapped.run("version", option).stdout == done.stdout
    for sub in ("run", "try", "acquire", "check", "list", "doctor", "latch"):
        asked = mapped.run(sub, "-q", "--version")
        assert (asked.returncode, asked.stdout) == (0, done.stdout), sub
    own = mapped.run("run", "a", "printf", "%s", "--version")
    assert own.stdout == "--version", "a command's own stays its own"
    told = json.loads(mapped.run("version", "--json").stdout)
    assert told["schema"] == 1 and told["program"] in done.stdout


def test_a_full_disk_under_stdout_is_70(mapped):
    mapped.hold("a")
    with open("/dev/full", "w") as full:
        p = mapped.start("status", "a", stdout=full)
        assert p.wait(20) == 70


def test_a_lock_that_cannot_be_shown_is_not_taken_for_free(redis):
    redis.hold("held")
    redis.server.command("LPUSH", "snib:{wt}", "x")
    redis.server.command("HSET", "snib:{torn}", "x", "y")
    says = {"wt": "of another type, so not ours",
            "torn": "snib force-release mends it"}
    done = redis.run("list")
    assert done.returncode == 69
    assert re.fullmatch("held: held by .*\n", done.stdout), done.stdout
    for name, what in says.items():
        assert re.search(f"(?m)^snib: {name}: .*{what}", done.stderr), done
        why = redis.run("why", name)
        assert (why.returncode, why.stdout) == (69, ""), why
        assert what in why.stderr
    told = json.loads(redis.run("list", "--json").stdout)["locks"]
    assert [(one["name"], "damage" in one, one.get("held")) for one in told] \
        == [("held", False, True), ("torn", True, None), ("wt", True, None)]
    assert redis.run("list", "h*").returncode == 0
    assert redis.run("why", "held").returncode == 0
    assert "free" in redis.run("why", "other").stdout


@pytest.mark.parametrize("name, pattern", [
    ("dam", "snib:{dam}*"), ("a*[b]'c", "snib:{a??b??c}*")])
def test_a_key_of_another_type_is_found_by_the_pattern_that_is_said(
        redis, name, pattern):
    """And is not ours to remove."""
    keys = [f"snib:{{{each}}}:w" for each in (name, "other")]
    for key in keys:
        redis.server.command("SET", key, "x")
    done = redis.run("force-release", "--yes", "--reason", "x", name)
    assert done.returncode == 69
    assert "of another type, so not ours" in done.stderr
    assert f"--pattern '{pattern}', TYPE of each" in done.stderr
    found = redis.server.command("SCAN", "0", "MATCH", pattern,
                                 "COUNT", "1000")[1]
    assert keys[0].encode() in found and keys[1].encode() not in found
    assert redis.server.command("GET", keys[0]) == b"x"


@pytest.mark.parametrize("args", [
    ("try", "a"), ("status", "a"), ("list",), ("why", "a"), ("deadlocks",),
    ("force-release", "-y", "--reason", "x", "a"), ("semaphore", "a"),
    ("semaphore", "--set", "3", "s"), ("latch", "--set", "2", "l"),
    ("barrier", "-w", "1s", "--parties", "2", "b"), ("wait", "-w", "1s", "a"),
    ("elect", "--observe", "a"), ("doctor",), ("run", "a", "--", "true")],
    ids=lambda args: "-".join(args[:2]))
def test_a_limit_for_files_is_told(mapped, args):
    """The signal of that limit ended it without a word."""
    done = with_small_files(mapped, args)
    assert done.returncode == 70, (done.returncode, done.stderr)
    assert "larger than this process may make a file (ulimit -f)" in done.stderr


def test_a_limit_for_files_is_no_obstacle_in_a_file_with_room(mapped):
    assert mapped.run("run", "a", "--", "true").returncode == 0
    done = with_small_files(mapped, ("run", "a", "--", "true"))
    assert (done.returncode, done.stderr) == (0, "")


def with_small_files(mapped, args):
    return subprocess.run(
        ["sh", "-c", 'ulimit -f 1; exec "$0" "$@"', mapped.binary, *args],
        env=mapped.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, timeout=60)


def test_since_is_the_same_at_each_look(store):
    """It was reckoned back from when the answer came: another ms each time."""
    store.hold("a")
    store.start("run", "-q", "a", "true")
    eventually(lambda: store.waiters("a") == 1)
    seen = [store.status("a") for _ in range(10)]
    for who in "holders", "waiters":
        assert len({one[who][0]["since_ms"] for one in seen}) == 1, seen
