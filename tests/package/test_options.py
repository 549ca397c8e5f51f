"""What is optional can be missing: the tree configures, says in one line each
what is off, and what is left builds. (tools/test/options.py switches the
options off; here the packages are not there.)"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(os.environ.get(
    "SNIB_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
if not shutil.which("pkg-config"):
    pytest.skip("pkg-config is not installed", allow_module_level=True)


def pkg_config_file(name):
    folder = subprocess.run(
        ["pkg-config", "--variable=pcfiledir", name], text=True, check=True,
        stdout=subprocess.PIPE).stdout.strip()
    return pathlib.Path(folder) / f"{name}.pc"


@pytest.fixture
def configure(tmp_path):
    """configure(packages there, options): (folder, what CMake printed)."""
    def run(there, *options):
        pc = tmp_path / "pc"
        pc.mkdir()
        for name in there:
            (pc / f"{name}.pc").symlink_to(pkg_config_file(name))
        env = dict(os.environ, PKG_CONFIG_LIBDIR=str(pc))
        env.pop("PKG_CONFIG_PATH", None)
        done = subprocess.run(
            ["cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path / "build",
             "-DCMAKE_BUILD_TYPE=Debug", *options], env=env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout[-2000:]
        return tmp_path / "build", done.stdout
    return run


def test_nothing_but_what_the_command_needs_is_installed(configure):
    _, said = configure(["hiredis"], "-DSNIB_CMOCKA=OFF")
    off = re.findall(r"^-- snib: ([a-z ]+): off, (.*)$", said, re.M)
    assert [name for name, _ in off] == [
        "simulator", "unit and conformance tests"]
    assert all("(Debian: " in why for _, why in off)


def test_without_lua_the_tests_of_the_model_are_left_out(configure):
    folder, _ = configure(["hiredis", "cmocka"])
    done = subprocess.run(["ninja", "-C", folder, "tests/sim_model/all"],
                          text=True, stdout=subprocess.PIPE)
    assert done.returncode == 0, done.stdout[-2000:]


def test_the_release_preset_builds_what_is_shipped_and_the_demo(tmp_path):
    subprocess.run(["cmake", "--preset", "release", "-B", tmp_path],
                   cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    targets = subprocess.run(["ninja", "-C", tmp_path, "-t", "targets", "all"],
                             text=True, check=True, stdout=subprocess.PIPE)
    programs = re.findall(r"^(\S+): C_EXECUTABLE_LINKER", targets.stdout, re.M)
    assert sorted(programs) == ["demo/snib-demo-sale", "snib",
                                "snib-witness"]


def test_a_sanitizer_sees_signed_overflow(tmp_path):
    subprocess.run(
        ["cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path,
         "-DSNIB_SANITIZE=undefined", "-DSNIB_TESTS=OFF",
         "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"],
        check=True, stdout=subprocess.DEVNULL)
    commands = (tmp_path / "compile_commands.json").read_text()
    assert "-fsanitize=undefined" in commands
    assert not re.findall("-fno-strict-overflow|-fwrapv", commands)


def test_the_options_are_found():
    sys.path.insert(0, str(ROOT / "tools" / "test"))
    import options
    assert {"SNIB_CLI", "SNIB_TESTS", "SNIB_SIM", "SNIB_WITH_REDIS",
            "SNIB_TLS", "SNIB_WITH_POSTGRES", "SNIB_WITH_MYSQL",
            "SNIB_WITH_ETCD", "SNIB_WITH_ZOOKEEPER",
            "SNIB_WITH_RABBITMQ"} <= set(options.switches())
    assert options.variants()["all off"] == options.switches()
