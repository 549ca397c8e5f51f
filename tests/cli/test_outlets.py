"""Where output goes: files, devices, closed and full descriptors."""

import os
import resource
import stat
import subprocess

import pytest

from conftest import eventually


def full_pipe():
    r, w = os.pipe()
    os.set_blocking(w, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(w, b"x" * 4096)
    os.set_blocking(w, True)
    return r, w


def make_fifo(path):
    os.mkfifo(path)


def make_link(path):
    with open(path + ".target", "w") as f:
        f.write("mine")
    os.symlink(path + ".target", path)


def make_dangling(path):
    os.symlink("/no/such/file", path)


def make_device(path):
    if os.geteuid() != 0:
        pytest.skip("only root makes a device")
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("no device can be made here")


def make_folder(path):
    os.mkdir(path)


@pytest.mark.parametrize("make", [make_fifo, make_link, make_dangling,
                                  make_device, make_folder])
def test_a_token_file_takes_the_place_of_a_regular_file_only(mapped, make):
    path = mapped.path("out")
    make(path)
    before = os.lstat(path)
    done = mapped.run("acquire", "-q", "-o", path, "a")
    assert done.returncode == 78, done.stderr
    assert "no regular file" in done.stderr
    assert "nothing was acquired" in done.stderr
    after = os.lstat(path)
    assert (after.st_mode, after.st_ino) == (before.st_mode, before.st_ino)
    assert mapped.status("a")["token"] == 0, "it was acquired at first"


@pytest.mark.parametrize("path, why", [
    ("not/there/out", "No such file or directory"),
    ("file/out", "Not a directory"), ("", "No such file or directory"),
    ("file/", "Not a directory")], ids=repr)
def test_a_token_file_that_cannot_be_made_is_told_before_the_wait(mapped, path,
                                                                  why):
    """It waited for its turn, acquired, and only then looked."""
    with open(mapped.path("file"), "w"):
        pass
    mapped.hold("a")
    done = mapped.run("acquire", "-o", path, "a", timeout=20)
    assert (done.returncode, done.stderr) == (
        78, "snib: --token-file %s: %s; nothing was acquired\n" % (path, why))


def test_a_token_file_in_a_directory_that_is_not_writable(mapped):
    os.mkdir(mapped.path("fixed"), 0o555)
    mapped.hold("a")
    if os.geteuid() == 0:  # whom no mode keeps out
        subprocess.run(["chown", "-R", "nobody", mapped.tmp], check=True)
        done = mapped.run("acquire", "-s", "file:other.db", "-o", "fixed/out",
                          "b", user="nobody")
    else:
        done = mapped.run("acquire", "-o", "fixed/out", "a")
    assert (done.returncode, done.stderr) == (
        78, "snib: --token-file fixed/out: Permission denied; nothing was "
        "acquired\n")


@pytest.mark.parametrize("directory", ["", "./", "sub/", "/proc/self/cwd/"])
def test_a_token_file_in_a_directory_that_is_there(mapped, directory):
    os.mkdir(mapped.path("sub"))
    done = mapped.acquire("-o", directory + "out", "a")
    assert done.returncode == 0, done.stderr
    assert mapped.run("release", directory + "out").returncode == 0


def test_a_token_file_takes_the_place_of_an_old_one(mapped):
    path = mapped.path("out")
    for _ in range(2):
        assert mapped.acquire("-o", path, "a").returncode == 0
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
        assert mapped.run("release", path).returncode == 0
    assert [f for f in os.listdir(mapped.tmp) if f.startswith("out")] == ["out"]


@pytest.mark.parametrize("old", [None, "mine"], ids=str)
def test_a_token_file_that_is_half_written_is_taken_away(redis, old):
    """A full disk, as the limit of the size of files makes it."""
    if old is not None:
        with open(redis.path("out"), "w") as f:
            f.write(old)
    before = os.listdir(redis.tmp)
    done = redis.run("acquire", "-q", "-o", "out", "a",
                     preexec_fn=lambda: resource.setrlimit(
                         resource.RLIMIT_FSIZE, (100, 100)))
    assert done.returncode == 70, done.stderr
    assert done.stderr == ("snib: --token-file out: File too large; released "
                           "again\n")
    assert os.listdir(redis.tmp) == before
    if old is not None:
        with open(redis.path("out")) as f:
            assert f.read() == old
    assert not redis.held("a")


def nothing_more(path):
    pass


def make_other(path):
    os.unlink(path)
    with open(path, "w") as f:
        f.write("mine")


def make_link_instead(path):
    os.rename(path, path + ".moved")
    os.symlink(path + ".moved", path)


@pytest.mark.parametrize("then", [nothing_more, make_other, make_link_instead])
def test_a_token_file_does_not_outlive_a_stdout_that_fails(mapped, then):
    """The grant in it was given back; a file that is another's stays."""
    path = mapped.path("out")
    r, w = full_pipe()
    p = mapped.start("acquire", "-q", "--json", "-o", path, "a", stdout=w)
    os.close(w)
    eventually(lambda: os.path.exists(path))
    then(path)
    os.close(r)
    _, said = p.communicate(timeout=60)
    assert p.returncode == 70, said
    assert said.endswith("; released again\n"), said
    assert os.path.lexists(path) == (then != nothing_more)
    assert not mapped.held("a")


def with_closed_stdout(mapped, *args):
    """(exit status, stderr)"""
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" >&-', mapped.binary, *args],
        env=mapped.env, cwd=mapped.tmp, stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, timeout=60)
    return done.returncode, done.stderr


def with_full_stdout(mapped, *args):
    with open("/dev/full", "w") as full:
        p = mapped.start(*args, stdout=full)
        _, said = p.communicate(timeout=60)
    return p.returncode, said


@pytest.mark.parametrize("more", [(), ("--json",), ("-t", "9s", "--json")])
def test_acquire_with_a_closed_stdout_acquires_nothing(mapped, more):
    code, said = with_closed_stdout(mapped, "acquire", *more, "a")
    assert code == 70
    assert "stdout is closed" in said and "nothing was acquired" in said
    assert not mapped.held("a")


PRINTING = [
    ("version",), ("--version",), ("version", "--json"), ("--help",), ("help",),
    ("run", "--help"), ("help", "run"), ("status", "a"), ("list",),
    ("status", "--json", "a"), ("list", "--json"), ("why", "a"), ("doctor",),
    ("deadlocks",), ("why", "--json", "a"), ("latch", "a"),
    ("semaphore", "a"), ("doctor", "--json"), ("deadlocks", "--json"),
]


@pytest.mark.parametrize("run", [with_closed_stdout, with_full_stdout])
@pytest.mark.parametrize("args", PRINTING, ids=" ".join)
def test_what_cannot_be_printed_is_no_success(mapped, run, args):
    mapped.hold("a")
    code, said = run(mapped, *args)
    assert code == 70, said
    assert said.count("cannot write to stdout: ") == 1, said


def test_a_command_with_a_closed_stdout_fails_where_it_would_without_snib(
        mapped):
    code, said = with_closed_stdout(mapped, "run", "a", "--", "sh", "-c",
                                    "echo lost 2>/dev/null || exit 9")
    assert code == 9, said


@pytest.mark.parametrize("args", [
    ("run", "a", "--", "true"), ("try", "a"), ("acquire", "a"),
    ("status", "a"), ("wait", "a"), ("list",), ("doctor",)], ids=" ".join)
def test_the_store_of_one_process_is_refused(mapped, args):
    for url in ("memory:", "memory:x", "MEMORY:x"):
        done = mapped.run(*args, env={"SNIB_URL": url})
        assert done.returncode == 78, done.stderr
        assert "excludes nobody" in done.stderr


@pytest.mark.parametrize("sub", ["run", "try"])
def test_a_status_line_that_is_not_written_is_told(mapped, sub):
    """The command's end stays what it is."""
    with open("/dev/full", "w") as full:
        p = mapped.start(sub, "--status-fd", "1", "a", "--", "sh", "-c",
                         "exit 3", stdout=full)
        _, said = p.communicate(timeout=60)
    assert p.returncode == 3
    assert said == ("snib: --status-fd 1: the line could not be written: No "
                    "space left on device\n")


def test_released_again_is_said_when_it_is(redis):
    """Whatever is sent takes its time; who comes next is nearer."""
    from harness.fault_proxy import FaultProxy
    with FaultProxy(redis.server.address) as proxy:
        proxy.delay_request(0.1, times=None)
        with open("/dev/full", "w") as full:
            done = redis.start("acquire", "-q", "a", stdout=full,
                               env={"SNIB_URL": proxy.url})
            assert done.wait(60) == 70
        tried = redis.run("try", "a", "--", "true")
        said = done.stderr.read()
        assert said.endswith("; released again\n"), said
        assert tried.returncode == 0, tried.stderr


def test_a_release_that_is_not_confirmed_is_not_said_to_be_one(redis):
    """Its stdout is full, so that it writes the grant when we have stopped the
    server, and to nobody."""
    r, w = full_pipe()
    with open(redis.path("said"), "w") as stderr:
        p = redis.start("acquire", "-q", "-t", "1m", "a", stdout=w,
                        stderr=stderr)
    os.close(w)
    eventually(lambda: redis.held("a"))
    redis.server.freeze()
    os.close(r)
    code = p.wait(20)
    redis.server.thaw()
    with open(redis.path("said")) as stderr:
        said = stderr.read()
    assert code == 70, said
    assert "not released yet" in said and "released again" not in said
    eventually(lambda: not redis.held("a"), "the holder gives it back")
