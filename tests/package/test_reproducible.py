"""No path of the machine that built it in what is shipped. (That two builds in
two folders give the same bytes is shown by tools/test/options.py --build.)"""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = os.environ.get("SNIB_SOURCE_DIR", "")
BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR", ""))


@pytest.mark.parametrize("name", ["libsnib.so", "libsnib.a", "snib"])
def test_no_path_of_the_build_is_shipped(name, tmp_path):
    assert ROOT
    shutil.copy(BUILD / name, tmp_path)  # as a package has it: no debug info
    subprocess.run(["strip", "--strip-debug", tmp_path / name], check=True)
    data = (tmp_path / name).read_bytes()
    assert b"core/engine" in data  # assertions do name their file
    for folder in (ROOT, str(BUILD)):
        assert data.count(folder.encode()) == 0
