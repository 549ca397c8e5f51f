"""What ./dev test --against calls a failing case, and what not."""

import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "test"))

import against  # noqa: E402

CMOCKA = """[ RUN      ] good
[       OK ] good
[ RUN      ] bad
[  ERROR   ] --- 0x1 != 0x2
[   LINE   ] --- test.c:7: error: Failure!
[  FAILED  ] bad
[ RUN      ] dead
dead: assertion `x' failed
"""


def program(tmp_path, text):
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
    return {"name": "unit.x", "command": [str(path)],
            "properties": [{"name": "ENVIRONMENT", "value": ["WORD=a=b"]}]}


@pytest.mark.parametrize("case, want", [
    ("good", (False, "it passed")),
    ("bad", (True, "0x1 != 0x2")),
    ("dead", (True, "dead: assertion `x' failed")),
    ("later", (True, "the program ended before it: signal 6")),
])
def test_cases_of_a_program(tmp_path, case, want):
    test = program(tmp_path, f"cat <<'END'\n{CMOCKA}END\nkill -ABRT $$\n")
    assert against.of_program(test, case) == want


def test_a_case_that_is_not_there_is_no_failure(tmp_path):
    test = program(tmp_path, f"cat <<'END'\n{CMOCKA}END\nexit 2\n")
    assert against.of_program(test, "later") == (False, "no such case")


def test_a_whole_program(tmp_path):
    assert against.of_program(
        program(tmp_path, 'echo "$WORD"; exit 1'), "-") == (True, "a=b")
    assert not against.of_program(program(tmp_path, "exit 0"), "-")[0]


def test_a_case_that_hangs_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(against, "CASE_SECONDS", 0.2)
    failed, why = against.of_program(program(tmp_path, "sleep 60"), "-")
    assert failed and why == "it did not end within 0.2 s"


@pytest.mark.parametrize("case, failed, why", [
    ("test_wrong", True, "assert 1 == 2"),
    ("test_right", False, "it passed"),
    ("test_both", False, "some of its parameters passed"),
    ("test_both[2]", True, "assert 2 == 1"),
    ("test_left_out", False, "skipped: no server"),
    ("test_none", False, "no such case: 0 passed, 1 failed, 0 skipped"),
])
def test_cases_of_a_pytest_file(tmp_path, case, failed, why):
    file = tmp_path / "test_x.py"
    file.write_text("import pytest\n"
                    "def test_wrong(): assert 1 == 2\n"
                    "def test_right(): pass\n"
                    "@pytest.mark.parametrize('x', [1, 2])\n"
                    "def test_both(x): assert x == 1\n"
                    "def test_left_out(): pytest.skip('no server')\n")
    test = {"command": [sys.executable, "pytest_case.py", str(file)],
            "properties": []}
    assert against.of_pytest(test, case) == (failed, why)


def test_the_compiler_line_of_what_was_not_built():
    log = ("/x/tests/driver/io.c:1:2: error: other\n"
           "/x/tests/conformance/lock.c:3:4: error: no member 'cause'\n")
    assert "no member" in against.compiler_says(log, "conformance.lock")
    assert against.compiler_says("fine\n", "unit.x") is None


def test_a_commit_from_before_the_renaming_gets_the_tests_from_before():
    whole = against.text_of(["git", "rev-list", "-1", against.RENAMED],
                            cwd=ROOT, stderr=subprocess.DEVNULL).strip()
    if not whole:
        pytest.skip("this checkout has no history")
    assert against.older_tests(against.RENAMED) == ""
    assert against.older_tests("HEAD") == ""
    assert against.older_tests(f"{whole}^") == f"{against.RENAMED}^"
    assert against.older_tests(f"{whole}~9") == f"{against.RENAMED}^"
