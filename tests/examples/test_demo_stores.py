"""./dev demo --store STORE: the sale keeps its promises on each server that it
starts, and says what is wrong with a store that it has not."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

from conftest import ROOT
from harness.etcd_server import etcd_missing
from harness.mysql_server import mysql_missing
from harness.postgres_server import postgres_missing
from harness.rabbitmq_server import rabbitmq_missing
from harness.zookeeper_server import zookeeper_missing

MISSING = {"postgres": postgres_missing, "mysql": mysql_missing,
           "etcd": etcd_missing, "zookeeper": zookeeper_missing,
           "rabbitmq": rabbitmq_missing}
SCHEME = {"rabbitmq": "amqp"}  # where it is not the store's name
BUILD = os.environ.get("SNIB_BUILD_DIR", "")


@pytest.fixture
def scratch():
    """Where the users of the databases come through, unlike pytest's own."""
    path = tempfile.mkdtemp(prefix="snib-demo-test-")
    os.chmod(path, 0o755)
    yield pathlib.Path(path)
    shutil.rmtree(path)


def demo(*args, program=f"{ROOT}/demo/run", **env):
    if not os.access(f"{BUILD}/demo/snib-demo-sale", os.X_OK):
        pytest.skip("the demo is not built")
    return subprocess.run([program, *args], capture_output=True, text=True,
                          timeout=300, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, **env})


def processes_in(path):
    """Of processes whose command line names it."""
    found = []
    for one in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = one.read_bytes()
        except OSError:
            continue
        if str(path).encode() in line:
            found.append(line)
    return found


@pytest.mark.parametrize("store", MISSING)
def test_the_sale_sells_the_stock_on(store, scratch):
    reason = MISSING[store]()
    if reason:
        pytest.skip(reason)
    done = demo("--requests", "2500", "--store", store, TMPDIR=str(scratch))
    scheme = SCHEME.get(store, store)
    if f"there is no store {scheme}: in this build" in done.stderr:
        pytest.skip(f"{store} is not in this build")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout and "SKIPPED" not in done.stdout
    rows = re.findall(rf"(?m)^{scheme}(, with faults)? +2500 +800 +0 +0 +(\d+) ",
                      done.stdout)
    assert [faults for faults, _ in rows] == ["", ", with faults"], done.stdout
    assert [int(refused) > 0 for _, refused in rows] == [False, True]
    assert list(scratch.iterdir()) == []
    assert processes_in(scratch) == []


@pytest.mark.parametrize("program", [f"{ROOT}/demo/run", f"{ROOT}/dev"])
@pytest.mark.parametrize("args", [["--store", "amqp"], ["--store=sqlite"],
                                  ["--store="], ["--store"]])
def test_a_store_that_the_demo_lacks_is_a_wrong_argument(program, args):
    words = (["demo"] if program.endswith("dev") else []) + args
    done = demo(*words, program=program)
    assert (done.returncode, done.stdout) == (64, "")
    name = (args + [""])[1] if args[0] == "--store" else args[0][8:]
    assert done.stderr == (
        f'the demo has no store "{name}"; expected --store redis, postgres, '
        "mysql, etcd, zookeeper or rabbitmq\n")


def test_other_wrong_arguments_are_the_same_on_each_store(scratch):
    done = demo("--store=redis", "--requests", "7", TMPDIR=str(scratch))
    assert done.returncode == 64 and "usage:" in done.stderr
    assert list(scratch.iterdir()) == []


def test_a_server_that_is_not_installed_is_named_with_its_package(scratch):
    """A folder of programs that has all but Java."""
    programs = scratch / "bin"
    programs.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for one in pathlib.Path(folder).iterdir():
            if one.name != "java" and not (programs / one.name).exists():
                (programs / one.name).symlink_to(one)
    done = demo("--store", "zookeeper", TMPDIR=str(scratch), PATH=str(programs))
    assert done.returncode == 69, done.stdout + done.stderr
    assert done.stderr == (
        "demo/run: zookeeper: its server is not installed (Debian: apt install"
        " zookeeper default-jre-headless)\n")
    assert list(scratch.iterdir()) == [programs]
