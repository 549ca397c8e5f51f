"""The conformance cases of value.c on every store: one test a case."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

HERE = pathlib.Path(__file__).parent
CASES = re.findall(r"cmocka_unit_test\((\w+)\)",
                   (HERE / "value.c").read_text())
BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR",
                                    HERE.parents[1] / "build" / "dev"))


@pytest.fixture(scope="session")
def program():
    found = [p for p in BUILD.rglob("snib_conformance_value") if p.is_file()]
    if not found:
        pytest.skip(f"snib_conformance_value is not built under {BUILD}")
    return found[0]


@pytest.fixture(scope="session")
def urls(tmp_path_factory):
    urls = {"memory": "memory:conformance",
            "sqlite": f"sqlite:{tmp_path_factory.mktemp('db')}/locks.db"}
    if not shutil.which("redis-server"):
        yield urls
        return
    from harness.redis_server import RedisServer
    with RedisServer() as server:
        urls["redis"] = f"redis://127.0.0.1:{server.port}/0"
        urls["redis+unix"] = f"redis+unix://{server.unix_path}?db=0"
        yield urls


@pytest.mark.parametrize("store", ["memory", "sqlite", "redis", "redis+unix"])
@pytest.mark.parametrize("case", CASES)
def test_case(program, urls, store, case):
    if store not in urls:
        pytest.skip("redis-server is not installed")
    done = subprocess.run([program, urls[store], case], timeout=60,
                          capture_output=True, text=True)
    text = done.stdout + done.stderr
    if re.search(r"\[  SKIPPED \]|skipped: ", text):
        pytest.skip((re.findall(r"skipped: (.*)", text) or ["see case"])[0])
    assert done.returncode == 0, text
    assert "1 test(s) run" in text
