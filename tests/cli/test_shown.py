"""What others wrote is shown, on terminals and in JSON; what cannot be shown
is an error."""

import json
import os
import pty
import subprocess

import pytest

from conftest import eventually, read_all

# CSI in one byte, right-to-left marks and overrides, BOM.
HARMFUL = "\u009b31m\u200e\u200f\u061c\u202e\u2066\ufeff"


@pytest.mark.parametrize("sub", ["status", "why", "list"])
def test_json_is_ascii(mapped, sub):
    mapped.hold("a" + HARMFUL, "--reason", "ä" + HARMFUL)
    done = mapped.run(sub, "--json", *(["a" + HARMFUL] if sub != "list" else []))
    assert done.stdout.isascii() and "\\u009B" in done.stdout
    told = json.loads(done.stdout)
    one = told["locks"][0] if sub == "list" else told
    assert one["name"] == "a" + HARMFUL
    assert one["holders"][0]["reason"] == "ä" + HARMFUL


def test_text_shows_marks_that_turn_a_line_round(mapped):
    mapped.hold("a", "--reason", "x" + HARMFUL + "y")
    for sub in ("status", "why", "list"):
        said = mapped.run(sub, *(["a"] if sub != "list" else [])).stdout
        assert not set(HARMFUL) & set(said) - set("31m")
        assert "\\xE2\\x80\\x8E\\xE2\\x80\\x8F\\xD8\\x9C" in said


@pytest.mark.parametrize("args", [
    ("status", "a"), ("why", "a"), ("list",), ("doctor",), ("deadlocks",),
    ("latch", "a"), ("semaphore", "a"), ("version",)], ids=" ".join)
def test_json_begins_with_its_schema(mapped, args):
    mapped.hold("a")
    done = mapped.run(args[0], "--json", *args[1:])
    assert done.stdout.startswith('{"schema":1,'), done.stdout
    assert done.stdout.count('"schema"') == 1


MALLOC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <errno.h>
static long left = -2;
void *malloc(size_t n)
{
    static void *(*real)(size_t);
    if (!real) real = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    if (left == -2) { const char *s = getenv("FAIL_AT"); left = s ? atol(s) : -1; }
    if (left >= 0 && (left == 0 || --left == 0)) { errno = ENOMEM; return 0; }
    return real(n);
}
"""


@pytest.fixture(scope="session")
def malloc_shim(tmp_path_factory):
    folder = tmp_path_factory.mktemp("malloc")
    source = folder / "malloc.c"
    source.write_text(MALLOC)
    made = folder / "malloc.so"
    done = subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(made),
                           str(source), "-ldl"], capture_output=True)
    if done.returncode:
        pytest.skip("no C compiler for the failing malloc (cc)")
    return str(made)


@pytest.mark.parametrize("args", [("status", "--json", "a"),
                                  ("doctor", "--json")], ids=" ".join)
def test_json_without_memory_is_an_error(mapped, malloc_shim, args):
    """No memory from the n-th malloc on, for each n near the end of the run,
    where the JSON is made: it is printed whole, or the exit status tells."""
    mapped.hold("a")
    whole = set(json.loads(mapped.run(*args).stdout))

    def run(at):
        return mapped.run(*args, env={"LD_PRELOAD": malloc_shim,
                                      "FAIL_AT": str(at)})

    enough = 64
    while run(enough).returncode != 0:
        enough *= 2
        assert enough < 1 << 20
    least = enough // 2
    while enough - least > 1:
        middle = (enough + least) // 2
        if run(middle).returncode == 0 and run(middle).stdout:
            enough = middle
        else:
            least = middle
    for at in range(enough, max(enough - 60, 0), -1):
        done = run(at)
        if done.returncode == 0:
            assert set(json.loads(done.stdout)) == whole, at
            continue
        assert done.returncode > 0, (at, done)
        assert done.stdout or done.stderr, (at, done)
        if done.stdout:
            assert done.stdout.startswith("{"), (at, done)
            assert set(json.loads(done.stdout)) == whole, at


def test_no_wait_that_cannot_be_ended(mapped, tmp_path_factory):
    """latch --await without a signalfd would ignore INT and TERM."""
    source = tmp_path_factory.mktemp("nosigfd") / "nosigfd.c"
    source.write_text("#include <errno.h>\n"
                      "int signalfd(int f, const void *m, int g)"
                      "{ errno = EMFILE; return -1; }\n")
    made = str(source)[:-2] + ".so"
    if subprocess.run(["cc", "-shared", "-fPIC", "-o", made, str(source)],
                      capture_output=True).returncode:
        pytest.skip("no C compiler")
    assert mapped.run("latch", "--set", "1", "a").returncode == 0
    done = mapped.run("latch", "--await", "a", env={"LD_PRELOAD": made},
                      timeout=20)
    assert done.returncode == 70
    assert "cannot start" in done.stderr


def on_a_terminal(snib, *args):
    """What it prints there."""
    master, slave = pty.openpty()
    done = subprocess.run([snib.binary, *args], env=snib.env, stdout=slave,
                          stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          timeout=30)
    os.close(slave)
    said = read_all(master)
    os.close(master)
    assert done.returncode == 0
    return said.decode().replace("\r\n", "\n").splitlines()


def test_list_has_columns_on_a_terminal(mapped):
    mapped.hold("short")
    mapped.hold("a-longer-name")
    lines = on_a_terminal(mapped, "list")
    assert lines[0].split() == ["NAME", "LEASE", "WAITING", "STATE"]
    assert len({line.index(word) for line, word in
                ((lines[0], "STATE"), (lines[1], "held by"),
                 (lines[2], "held by"))}) == 1
    assert mapped.run("list").stdout.splitlines()[0].startswith(
        "a-longer-name: held by")


def test_a_closed_latch_is_no_free_lock(mapped):
    assert mapped.run("latch", "--set", "2", "a").returncode == 0
    done = mapped.run("why", "a")
    assert done.stdout == ("a: a closed latch, 2 steps to go: nobody passes "
                           "before.\n")
    assert json.loads(mapped.run("why", "--json", "a").stdout)["latch"] == 2
    done = mapped.run("try", "a")
    assert done.returncode == 75
    assert done.stderr == "snib: a: not acquired: a closed latch, 2 steps to go\n"
    done = mapped.run("run", "-w", "0", "a", "--", "true")
    assert "a closed latch, 2 steps to go" in done.stderr
    done = mapped.run("force-release", "--yes", "--reason", "x", "a")
    assert "a closed latch, 2 steps to go; snib latch --open opens it" in \
        done.stderr
    assert "free" not in done.stderr


def test_a_forced_release_of_a_lock_delay_says_what_it_did(mapped):
    mapped.run("acquire", "-q", "--detached", "-t", "1500ms",
               "--lock-delay", "1h", "a")
    eventually(lambda: "closed" in mapped.status("a"), "the lock-delay")
    done = mapped.run("force-release", "--yes", "--reason", "x", "a")
    assert done.returncode == 0
    assert "a: open, its lock-delay is ended" in done.stderr
    assert mapped.run("try", "a").returncode == 0


def test_since_when_is_told_as_a_time_span(mapped):
    mapped.hold("a")
    assert ", since " not in mapped.run("why", "a").stdout
    assert ", for " in mapped.run("why", "a").stdout
