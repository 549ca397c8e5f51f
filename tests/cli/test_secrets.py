"""A password in the store's URL: never in an argument, on a screen, in an
error, a log, the environment or the descriptors of the command."""

import os
import subprocess

import pytest

from conftest import Snib, children_of, environment_of, eventually, read_pid

SECRET = "hunter2-s3cr3t"


@pytest.fixture
def guarded(snib_bin, tmp_path):
    """A server with a password, and a Snib whose SNIB_URL has it."""
    from harness.redis_server import RedisServer, redis_missing
    if redis_missing():
        pytest.skip(redis_missing())
    with RedisServer() as server:
        server.command("CONFIG", "SET", "requirepass", SECRET)
        port = server.address[1]
        made = Snib(snib_bin, f"redis://:{SECRET}@127.0.0.1:{port}",
                    str(tmp_path))
        made.port = port
        yield made
        made.end()


def argv_of(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()


def descends(pid):
    found = [pid]
    for child in children_of(pid):
        found += descends(child)
    return found


def test_no_process_has_it_in_its_arguments(guarded):
    p = guarded.hold("n")
    for pid in descends(p.pid):
        assert SECRET.encode() not in argv_of(pid)


def test_the_command_has_it_nowhere(guarded):
    p = guarded.start("run", "-q", "n", "--", "sh", "-c",
                      'env >env; ls -l /proc/$$/fd >fds; echo $$ >pid.new;'
                      ' mv pid.new pid; exec sleep 1000')
    pid = read_pid(guarded.path("pid"))
    with open(guarded.path("env"), encoding="utf-8") as file:
        words = file.read()
    assert SECRET not in words and "SNIB_TOKEN=" in words
    assert not any(SECRET in value for value in environment_of(pid).values())
    # Its own three, the listing's own, and what snib check asks through.
    with open(guarded.path("fds"), encoding="utf-8") as file:
        kinds = [line.split(" -> ")[1] for line in file if " -> " in line]
    assert not [k for k in kinds if ".db" in k], kinds
    assert sum("socket:" in k for k in kinds) <= 1, kinds
    p.terminate()
    p.wait(20)


@pytest.mark.parametrize("args", [
    ("status", "n"), ("list",), ("why", "n"), ("doctor",), ("try", "n"),
    ("list", "--json"), ("version",), ("run", "-v", "n", "--", "true")],
    ids=lambda args: args[0])
def test_no_output_has_it(guarded, args):
    done = guarded.run(*args)
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("url", [
    f"redis://:{SECRET}@127.0.0.1:1", f"redis://u:{SECRET}@no-such-host.invalid",
    f"redis://:{SECRET}@127.0.0.1:1/x", f"redis://:{SECRET}@127.0.0.1:1?x=1",
    f"redlock://:{SECRET}@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
    f"redlock://:{SECRET}@127.0.0.1:1", f"mystery://:{SECRET}@h/",
    f"redis://:{SECRET}@/", f"redis://a:b:{SECRET}@h:99999"])
def test_no_error_has_it(mapped, url):
    for args in (("try", "n"), ("doctor",)):
        done = mapped.run(*args, env={"SNIB_URL": url}, timeout=30)
        assert done.returncode not in (0, 75)
        assert SECRET not in done.stdout + done.stderr


def test_a_wrong_one_is_not_repeated(guarded):
    wrong = "wr0ng-p4ss"
    url = f"redis://:{wrong}@127.0.0.1:{guarded.port}"
    done = guarded.run("try", "n", env={"SNIB_URL": url})
    assert done.returncode == 77
    assert wrong not in done.stdout + done.stderr


def test_a_file_that_others_may_read_is_refused(guarded):
    path = guarded.path("store")
    with open(path, "w", encoding="utf-8") as file:
        file.write(guarded.url + "\n")
    os.chmod(path, 0o644)
    done = guarded.run("--store-file", path, "try", "n",
                       env={"SNIB_URL": ""})
    assert done.returncode not in (0, 75)
    assert "600" in done.stderr and SECRET not in done.stderr
    os.chmod(path, 0o600)
    assert guarded.run("--store-file", path, "try", "n",
                       env={"SNIB_URL": ""}).returncode == 0


@pytest.mark.parametrize("spelling", [
    "redis://:{}@h", "REDIS://:{}@h", "redis://u:{}@h/0", "redis://%75:{}@h",
    "redlock://:{}@a,b,c", "redis+unix://:{}@/x.sock"])
def test_an_argument_with_one_is_refused(mapped, spelling):
    url = spelling.format(SECRET)
    for args in (("--store", url, "try", "n"), (f"--store={url}", "try", "n"),
                 ("-s", url, "try", "n")):
        done = mapped.run(*args)
        assert done.returncode in (64, 78), done.stderr
        assert SECRET not in done.stdout + done.stderr


def test_the_command_begins_with_signals_as_they_were(mapped):
    """Nothing blocked or ignored that its parent did not block or ignore."""
    def masks(*prefix):
        out = subprocess.run([*prefix, "cat", "/proc/self/status"],
                             env=mapped.env, cwd=mapped.tmp, check=True,
                             stdout=subprocess.PIPE, text=True, timeout=30,
                             stdin=subprocess.DEVNULL).stdout
        return [line for line in out.splitlines()
                if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
    assert masks(mapped.binary, "run", "n", "--") == masks()


def test_the_holder_keeps_only_what_it_needs(guarded):
    """Not the terminal's input, nor the caller's output."""
    p = guarded.hold("n")

    def open_files():
        fd = f"/proc/{p.keeper}/fd"
        return {int(n): os.readlink(f"{fd}/{n}") for n in os.listdir(fd)}
    files = eventually(lambda: open_files() or None, "the holder's files")
    assert files.get(0, "/dev/null") == "/dev/null", files
    assert files.get(1, "/dev/null") == "/dev/null", files


@pytest.mark.parametrize("url", ["redis://%s@127.0.0.1", "redlock://%s@h,i",
                                 "redis+unix://%s@/run/redis.sock"])
@pytest.mark.parametrize("command", [
    ("run", "n", "--", "true"), ("try", "n"), ("-v", "status", "n"),
    ("doctor",), ("acquire", "n")])
def test_a_password_that_stands_as_the_user_is_not_shown(mapped, url, command):
    """A user without a password is of no use to any store: it is a password,
    before which the colon is missing."""
    done = mapped.run(*command, env={"SNIB_URL": url % SECRET})
    assert done.returncode == 78
    assert SECRET not in done.stdout + done.stderr
    assert ("***@" in done.stderr and "expected redis://:PASSWORD@HOST or "
            "redis://USER:PASSWORD@HOST" in done.stderr), done.stderr
