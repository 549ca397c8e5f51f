"""Several locks as one, on each store and on pairs of stores: one test a case
of multi.c.
labels: thread"""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
CASES = re.findall(r"cmocka_unit_test\((\w+)\)", (HERE / "multi.c").read_text())
BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR",
                                    HERE.parents[1] / "build" / "dev"))
PAIRS = ["memory memory", "sqlite sqlite2", "redis redis", "redis sqlite",
         "memory redis"]


@pytest.fixture(scope="session")
def program():
    found = [p for p in BUILD.rglob("snib_conformance_multi") if p.is_file()]
    if not found:
        pytest.skip(f"snib_conformance_multi is not built under {BUILD}")
    return found[0]


@pytest.fixture(scope="session")
def urls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("db")
    urls = {"memory": "memory:multi", "sqlite": f"sqlite:{folder}/locks.db",
            "sqlite2": f"sqlite:{folder}/others.db"}
    if not shutil.which("redis-server"):
        yield urls
        return
    from harness.redis_server import RedisServer
    with RedisServer() as server:
        urls["redis"] = f"redis://127.0.0.1:{server.port}/0"
        yield urls


def url_of(urls, store):
    if store not in urls:
        pytest.skip("redis-server is not installed")
    return urls[store]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("case", CASES)
def test_case(program, urls, pair, case):
    here, there = (url_of(urls, store) for store in pair.split())
    done = subprocess.run([program, here, there, case], timeout=120,
                          capture_output=True, text=True)
    text = done.stdout + done.stderr
    if re.search(r"\[  SKIPPED \]|skipped: ", text):
        pytest.skip((re.findall(r"skipped: (.*)", text) or ["see case"])[0])
    assert done.returncode == 0, text
    assert "1 test(s) run" in text
