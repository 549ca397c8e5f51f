"""The programs that cpp.mutexes_…, cpp.results_… run on memory: say the same on
a lock file and on Redis."""

import os
import pathlib
import re
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR", ""))


@pytest.fixture(params=["file", "redis"])
def url(request, tmp_path):
    if request.param == "file":
        return f"file:{tmp_path}/locks.db"
    return request.getfixturevalue("redis").url


@pytest.mark.parametrize("program", ["mutexes", "results", "results_plain"])
def test_program(program, url):
    path = BUILD / "tests" / "cpp" / f"cpp.{program}_g++"
    if not path.exists():
        pytest.skip(f"{path.name} is not built")
    done = subprocess.run([path, url], text=True, timeout=100,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^[1-9]\d* passed, 0 failed, 0 skipped$",
                     done.stdout, re.M)
