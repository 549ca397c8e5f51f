"""The snippets of docs/KINDS.md compile, each as the body of a function, and
do what the page says on a file of this host."""
import os
import pathlib
import re
import shutil
import subprocess
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "KINDS.md").read_text()
BLOCKS = re.findall(r"<!-- run: c -->\n```c\n(.*?)```",
                    TEXT, re.S)
CPP = re.findall(r"<!-- run: cpp -->\n```cpp\n(.*?)```", TEXT, re.S)
SHELL = re.findall(r"<!-- run: sh -->\n```sh\n(.*?)```", TEXT, re.S)
BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR", ROOT / "build" / "dev"))
HEAD = """
#include <snib.h>
#include <snib/latch.h>
#include <snib/semaphore.h>
#include <stdio.h>
static int fail(const struct snib_error *e)
{
    fprintf(stderr, "%s\\n", e->text);
    return 1;
}
"""
PART = """
static int part_%d(struct snib_client *client)
{
    struct snib_error err = {0};
%s
    return 0;
}
"""
MAIN = """
int main(void)
{
    struct snib_client *client;
    if (snib_client_open(NULL, &client, NULL))
        return 2;
    int bad = %s;
    snib_client_free(client);
    return bad;
}
"""


IN_CPP = """
#include <snib.hpp>
#include <iostream>
#include <shared_mutex>
int main()
{
    using namespace std::chrono_literals;
    snib::client client;
%s
}
"""


def build_and_run(compiler, source, tmp_path):
    """What the program prints, built against this build's library."""
    library = next(BUILD.rglob("libsnib.so"), None)
    if library is None:
        pytest.skip(f"no libsnib.so under {BUILD}")
    subprocess.run(
        [*compiler, "-Wall", "-Wextra", "-Werror", "-I", ROOT / "include",
         source, "-L", library.parent, "-lsnib", "-o", tmp_path / "kinds"],
        check=True)
    env = dict(os.environ, SNIB_URL=f"file:{tmp_path}/locks.db",
               LD_LIBRARY_PATH=f"{library.parent}:"
               + os.environ.get("LD_LIBRARY_PATH", ""))
    done = subprocess.run([tmp_path / "kinds"], env=env, timeout=20,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_snippets_run(tmp_path):
    assert len(BLOCKS) == 3
    assert "60000" in BLOCKS[2]
    parts = [textwrap.indent(block.replace("60000", "50"), "    ")
             for block in BLOCKS]
    source = tmp_path / "kinds.c"
    source.write_text(
        HEAD + "".join(PART % pair for pair in enumerate(parts))
        + MAIN % " || ".join(f"part_{i}(client)" for i in range(len(parts))))
    lines = build_and_run(["cc"], source, tmp_path)
    assert re.fullmatch(r"writing with token \d+", lines[0])
    assert lines[1:3] == ["3 of 5 left", "0 to go"]
    assert lines[3].startswith("not met: ")


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_the_cpp_snippet_runs(tmp_path):
    source = tmp_path / "kinds.cpp"
    source.write_text(IN_CPP % textwrap.indent(*CPP, "    "))
    line, = build_and_run(["c++", "-std=c++17"], source, tmp_path)
    assert re.fullmatch(r"writing with token \d+", line)


def test_the_shell_lines_run(tmp_path):
    binary = os.environ.get("SNIB_BIN") or shutil.which("snib")
    if not binary:
        pytest.skip("no snib binary: set SNIB_BIN")
    assert len(SHELL) == 1
    env = dict(os.environ, SNIB_URL=f"file:{tmp_path}/locks.db")
    env["PATH"] = f"{pathlib.Path(binary).parent}:{env['PATH']}"
    done = subprocess.run(["bash", "-ec", SHELL[0]], env=env, cwd=tmp_path,
                          timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["others read, too", "nobody else reads or writes"]
    pages = [re.fullmatch(r"page (\d) by printer ([01])", line)
             for line in lines if line.startswith("page")]
    assert sorted(page[1] for page in pages) == list("1234")
    assert lines[-1] == "imported"
