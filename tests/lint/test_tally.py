"""The sum at the end of ./dev test counts what must count."""

import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
TALLY = os.path.join(ROOT, "tools", "test", "tally.py")
RUN_PYTEST = os.path.join(ROOT, "tools", "test", "pytest_case.py")

CMOCKA = """[==========] Running 3 test(s).
[ RUN      ] one
[       OK ] one
[ RUN      ] two
no server here
[  SKIPPED ] two
[ RUN      ] three
[  FAILED  ] three
[==========] 3 test(s) run.
[  PASSED  ] 1 test(s).
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] two
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] three
"""


def tally(tmp_path, *cases, text=None):
    """Exit status and lines for ctest entries (status, message, output)."""
    body = ""
    for number, (status, skip, out) in enumerate(cases):
        mark = f'<skipped message="{skip}"/>' if skip else ""
        body += (f'<testcase name="t{number}" status="{status}">{mark}'
                 f"<system-out>{out}</system-out></testcase>")
    files = []
    if cases:
        files.append(tmp_path / "part.xml")
        files[-1].write_text(f"<testsuite>{body}</testsuite>")
    if text is not None:
        files.append(tmp_path / "lint.txt")
        files[-1].write_text(text)
    done = subprocess.run([sys.executable, TALLY, *map(str, files)],
                          stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_cases_inside_a_program_count_one_by_one(tmp_path):
    code, lines = tally(tmp_path, ("fail", "", CMOCKA))
    assert (code, lines[-1]) == (1, "1 passed, 1 failed, 1 skipped")
    assert "FAILED  part: t0: three" in lines
    assert "skipped part: t0: two: no server here" in lines


def test_a_program_that_tells_no_cases_counts_as_one(tmp_path):
    code, lines = tally(tmp_path, ("run", "", "fine"), ("fail", "", "bad"))
    assert (code, lines[-1]) == (1, "1 passed, 1 failed, 0 skipped")


def test_a_crash_behind_good_cases_is_a_failure(tmp_path):
    good = "[  PASSED  ] 5 test(s)."
    code, lines = tally(tmp_path, ("fail", "", good))
    assert (code, lines[-1]) == (1, "5 passed, 1 failed, 0 skipped")


def test_a_program_that_was_not_built_is_a_failure(tmp_path):
    code, lines = tally(tmp_path, ("run", "", "x"),
                        ("notrun", "Unable to find executable", ""))
    assert (code, lines[-1]) == (1, "1 passed, 1 failed, 0 skipped")


def test_a_skip_shows_its_reason_and_does_no_harm(tmp_path):
    code, lines = tally(tmp_path, ("run", "", "x"),
                        ("notrun", "SKIP_RETURN_CODE=77", "no redis here"))
    assert (code, lines[-1]) == (0, "1 passed, 0 failed, 1 skipped")
    assert "skipped part: t1: no redis here" in lines


def test_a_run_in_which_nothing_passed_is_no_success(tmp_path):
    code, lines = tally(tmp_path, ("notrun", "SKIP_RETURN_CODE=77", "none"))
    assert (code, lines[-1]) == (1, "0 passed, 0 failed, 1 skipped")


def test_a_text_without_a_result_is_a_failure(tmp_path):
    code, lines = tally(tmp_path, text="Traceback …\n")
    assert (code, lines[-1]) == (1, "0 passed, 1 failed, 0 skipped")
    code, lines = tally(tmp_path, text="FAILED x\n2 passed, 1 failed,"
                                       " 0 skipped\n")
    assert (code, lines[-1]) == (1, "2 passed, 1 failed, 0 skipped")


def test_pytest_files_are_counted_by_item(tmp_path):
    file = tmp_path / "test_x.py"
    file.write_text("import pytest\n"
                    "def test_a(): pass\n"
                    "def test_b(): pytest.skip('no such server')\n"
                    "def test_c(): assert 0\n"
                    "@pytest.fixture\ndef bad():\n    yield\n    assert 0\n"
                    "def test_d(bad): pass\n")
    done = subprocess.run([sys.executable, RUN_PYTEST, str(file)],
                          stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "1 passed, 2 failed, 1 skipped"
    assert "SKIPPED test_x.py::test_b: no such server" in done.stdout


def test_a_pytest_file_that_cannot_be_read_fails(tmp_path):
    file = tmp_path / "test_x.py"
    file.write_text("import nothing_like_this\n")
    done = subprocess.run([sys.executable, RUN_PYTEST, str(file)],
                          stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"


@pytest.mark.parametrize("skip, code", [
    ("two: no server here", 0),
    ("two: no server here, nor there", 0),
    ("two: another reason", 1),
    ("three: no server here", 1),
    ("of_root[a]: needs root", 0),
])
def test_one_more_skip_fails_the_run(tmp_path, skip, code):
    allowed = tmp_path / "skips.tsv"
    allowed.write_text("# when\nlint\ttwo\tno server\talways\n"
                       "lint\t*root*\tneeds root\tas a plain user\n")
    text = tmp_path / "lint.txt"
    text.write_text(f"SKIPPED test_x.py::{skip}\n"
                    "1 passed, 0 failed, 1 skipped\n")
    xml = tmp_path / "dev.xml"
    xml.write_text('<testsuite><testcase name="lint" status="run">'
                   f"<system-out>{text.read_text()}</system-out></testcase>"
                   "</testsuite>")
    done = subprocess.run(
        [sys.executable, TALLY, "--skips", str(allowed), str(xml)],
        stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == code, done.stdout
    assert done.stdout.splitlines()[-1] == (
        f"1 passed, {code} failed, 1 skipped")
    assert ("tests/skips.tsv does not allow" in done.stdout) == bool(code)


def test_what_is_skipped_everywhere_is_allowed(tmp_path):
    sys.path.insert(0, os.path.dirname(TALLY))
    import tally as tool
    allowed = tool.read_skips(os.path.join(ROOT, "tests", "skips.tsv"))
    skip = ("dev: campaign.campaign: test_campaign.py::test_memory_keeps_its"
            "_promises: memory: one process only; its locks are not shared")
    assert tool.not_allowed([skip], allowed) == []
    assert tool.not_allowed([skip.replace("memory_", "")], allowed)
