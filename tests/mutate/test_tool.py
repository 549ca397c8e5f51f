"""The whole tool on a small project with known survivors and known kills."""
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys

import pytest

import mutate
from conftest import ROOT

from built import SANITIZED, preset_of

SMALL_C = """\
#include "base/small.h"
#include <signal.h>
int small_least(int a, int b)
{
    if (a < b) {
        return a;
    }
    return b;
}
int small_limit(int n)
{
    return n > 100 ? 100 : n;
}
int small_greet(int n)
{
    return n + 3;
}
int small_unused(int n)
{
    return n + 40;
}
int small_careful(int armed)
{
    if (armed) {
        kill(-1, SIGKILL);
        return 9;
    }
    return armed;
}
const char small_place[] = "at " SMALL_PLACE; /* in quotes on the command line */
"""
FILES = {
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.25)
project(small C)
if(SNIB_SANITIZE)
    add_compile_options(-fsanitize=${SNIB_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${SNIB_SANITIZE})
endif()
include(src/store/redis/embed.cmake)
add_library(small STATIC src/base/small.c src/core/sum.c
            src/store/redis/send.c)
target_include_directories(small PUBLIC src "${SNIB_REDIS_OUT}")
set_source_files_properties(src/base/small.c PROPERTIES COMPILE_DEFINITIONS
                            "SMALL_PLACE=\\"/usr/lib\\"")
snib_embed_scripts(small)
add_executable(unit.small tests/unit/test_small.c)
target_link_libraries(unit.small small)
add_executable(unit.value_rules tests/unit/test_value_rules.c)
target_link_libraries(unit.value_rules small)
add_executable(greet tests/greet.c)
target_link_libraries(greet small)
enable_testing()
add_test(NAME unit.small COMMAND unit.small)
add_test(NAME unit.value_rules COMMAND unit.value_rules)
add_test(NAME cli.greet COMMAND "@PYTHON@" "@CASE@"
         "${CMAKE_CURRENT_SOURCE_DIR}/tests/cli/test_greet.py")
set_tests_properties(cli.greet PROPERTIES ENVIRONMENT
                     "GREET=$<TARGET_FILE:greet>")
""",
    "CMakePresets.json": """\
{"version": 6, "configurePresets": [{"name": "dev"}, {"name": "asan",
 "cacheVariables": {"SNIB_SANITIZE": "address,undefined"}}]}
""",
    ".gitignore": "/build/\n",
    "src/base/small.h": """\
int small_least(int a, int b);
int small_limit(int n);
int small_greet(int n);
int small_unused(int n);
int small_careful(int armed);
int small_sum(int n);
""",
    "src/base/small.c": SMALL_C,
    "src/core/sum.c": """\
#include "base/small.h"
static int table[4] = {1, 2, 3, 4};
int small_sum(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        sum += table[i];
    }
    return sum > 9;
}
""",
    "src/store/redis/send.c": """\
#include "redis_scripts.h"
const char *small_script(int n);
const char *small_script(int n)
{
    return snib__redis_scripts[n].text;
}
""",
    "tests/unit/test_small.c": """\
#include "base/small.h"
int main(void)
{
    return !(small_least(1, 2) == 1 && small_least(2, 1) == 1 &&
             small_limit(5) == 5 && small_careful(0) == 0 &&
             small_sum(4) == 1);
}
""",
    "tests/unit/test_value_rules.c": """\
#include "redis_scripts.h"
#include <string.h>
const char *small_script(int n);
int main(void)
{
    const char *text = small_script(SNIB__SCRIPT_RENEW);
    return !strstr(text, "#KEYS > 256") ||
           strlen(snib__redis_scripts[SNIB__SCRIPT_RENEW].sha1) != 40;
}
""",
    "tests/greet.c": """\
#include "base/small.h"
int main(void)
{
    return small_greet(4);
}
""",
    "tests/cli/test_greet.py": """\
import os
import subprocess


def test_greets():
    assert subprocess.run([os.environ["GREET"]]).returncode == 7


def test_has_nothing_to_do_with_it():
    assert os.getpid() > 1
""",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("@PYTHON@", sys.executable).replace(
            "@CASE@", os.path.join(ROOT, "tools", "test",
                                   "pytest_case.py")))
    redis = os.path.join(ROOT, "src", "store", "redis")
    shutil.copy(os.path.join(redis, "embed.cmake"),
                folder / "src" / "store" / "redis")
    shutil.copytree(os.path.join(redis, "scripts"),
                    folder / "src" / "store" / "redis" / "scripts")
    for words in (["init", "-q"], ["add", "."],
                  ["-c", "user.name=x", "-c", "user.email=x@example.org",
                   "commit", "-q", "-m", "small"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


EVERYTHING = ["--only", "src/base", "--count", "500", "--seed", "1"]


@pytest.fixture(scope="module")
def whole(project, tmp_path_factory):
    """Everything judged, once: (exit status, what was said, the file)."""
    if mutate.missing():
        pytest.skip(mutate.missing())
    out = tmp_path_factory.mktemp("whole") / "out.jsonl"
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        status = mutate.main([*EVERYTHING, "--out", str(out)],
                             root=str(project))
    return status, told.getvalue(), out.read_text()


@pytest.fixture
def run(tool_or_skip, project, capfd, tmp_path):
    def run(*words):
        out = tmp_path / "out.jsonl"
        status = tool_or_skip.main([*words, "--out", str(out)],
                                   root=str(project))
        told = capfd.readouterr()
        lines = [json.loads(line) for line in
                 out.read_text().splitlines()] if out.exists() else []
        return status, told.out + told.err, lines
    return run


def verdicts(lines):
    return {(v["function"], v["change"]): v["verdict"] for v in lines}


def test_known_survivors_survive_and_known_kills_die(whole):
    status, told, text = whole
    lines = [json.loads(line) for line in text.splitlines()]
    found = verdicts(lines)
    by = {(v["function"], v["change"]): v.get("by") for v in lines}
    places = {(v["function"], v["rule"], v["line"]) for v in lines}
    assert status == 0, told
    assert len(places) > 12
    for function, verdict in [("small_greet", "killed"),
                              ("small_unused", "not covered")]:
        assert {v for (f, c), v in found.items() if f == function and
                "return" not in c} == {verdict}, told
    assert {by[k] for k in by if k[0] == "small_greet"} == {
        "cli.greet::test_greets"}
    # The test asks for 5: the comparison is looked at, the limit never used.
    assert sorted(v["verdict"] for v in lines if v["function"] ==
                  "small_limit" and v["rule"] == "constant") == [
                      "not covered", "survived"], told
    assert "src/base" in told and "Not found:" in told


def test_one_program_alone_says_what_it_finds_by_itself(run):
    _, listed, _ = run("--list", "--all", "--only", "src/base")
    greet, least = [next(line.split()[0] for line in listed.splitlines()
                         if function in line and line.endswith(change))
                    for function, change in [("small_greet", "3 -> 4"),
                                             ("small_least", "a < b -> true")]]
    status, told, lines = run("--run", f"{greet},{least}",
                              "--by", "unit.small")
    assert status == 0, told
    assert {v["number"]: (v["verdict"], v.get("by")) for v in lines} == {
        int(greet): ("survived", None),
        int(least): ("killed", "unit.small")}, told
    status, told, _ = run("--run", greet, "--by", "unit.no_such")
    assert status == 1 and "ctest's is named unit.no_such" in told


def test_same_machine_code_is_equivalent_and_a_mark_counts_as_well(
        run, project):
    _, listed, _ = run("--list", "--all")
    lines = [line for line in listed.splitlines() if "small_limit" in line]
    same = next(line.split()[0] for line in lines
                if line.endswith("n > 100 -> n >= 100"))
    other, twin = [line.split()[0] for line in lines
                   if line.endswith("100 -> 101")]
    _, told, found = run("--run", f"{same},{other}")
    assert {(v["verdict"], v.get("why")) for v in found} == {
        ("equivalent", "the same machine code"), ("survived", None)}, told
    _, shown, _ = run("--show", other)
    assert "-    return n > 100 ? 100 : n;" in shown
    mark = shown[shown.index("src/base/small.c small_limit\n"):].strip()
    path = project / "tests" / "mutants-equivalent.txt"
    mark = mark.replace("why:", "why: nobody asks for more than 5")
    path.write_text(mark + " not yet\n")
    status, told, _ = run("--marks")
    assert status == 1 and "no second reader has agreed" in told
    mark += " agreed\n"
    path.write_text(mark)
    try:
        assert run("--marks")[0] == 0
        _, _, found = run("--run", f"{other},{twin}")
        assert {v["number"]: v["verdict"] for v in found} == {
            int(other): "equivalent", int(twin): "not covered"}
        path.write_text(mark.replace("n > 100", "n >= 7"))
        status, told, _ = run("--marks")
        assert status == 1 and "stale: src/base/small.c small_limit" in told
    finally:
        path.unlink()


def test_a_mutant_that_kills_everything_kills_nothing_of_ours(run):
    _, listed, _ = run("--list", "--all")
    number = next(line.split()[0] for line in listed.splitlines()
                  if "small_careful" in line and
                  line.endswith("armed -> true"))
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        _, told, found = run("--run", number)
        assert [v["verdict"] for v in found] == ["killed"], told
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_what_only_a_sanitizer_sees_is_found_by_it(run):
    _, listed, _ = run("--list", "--all", "--only", "src/core")
    lines = [line for line in listed.splitlines() if "small_sum" in line]
    beyond, unseen = [next(line.split()[0] for line in lines
                           if line.endswith(change))
                      for change in ("i < n -> i <= n", "9 -> 8")]
    _, told, found = run("--run", f"{beyond},{unseen}")
    by_number = {v["number"]: v for v in found}
    seen = by_number[int(beyond)]
    assert (seen["verdict"], seen["by"]) == ("killed", "asan:unit.small"), told
    assert "runtime error: index 4 out of bounds" in seen["why"] or \
        "AddressSanitizer: global-buffer-overflow" in seen["why"]
    other = by_number[int(unseen)]
    assert (other["verdict"], other["sanitized"]) == ("survived", 1), told
    assert "Found by the build with sanitizers alone: 1" in told


def test_sanitizers_are_told_what_the_gate_tells_them():
    with open(os.path.join(ROOT, "dev"), encoding="utf-8") as file:
        gate = file.read()
    for name, value in SANITIZED.items():
        assert f"export {name}={value}\n" in gate
    assert "-DSNIB_SANITIZE=address,undefined" in preset_of(ROOT)


def test_mutants_of_a_script_are_in_the_processes_that_send_it(run):
    _, listed, _ = run("--list", "--all")
    lines = [line for line in listed.splitlines() if "renew.lua:" in line]
    seen = next(n for n in lines if n.endswith("[constant] 256 -> 257"))
    at = seen.split()[1]
    unseen = next(n for n in lines if at in n
                  and n.endswith("[operator] ~= -> =="))
    seen, unseen = seen.split()[0], unseen.split()[0]
    _, told, found = run("--run", f"{seen},{unseen}")
    assert {v["number"]: v["verdict"] for v in found} == {
        int(seen): "killed", int(unseen): "survived"}, told


def test_what_was_judged_is_not_judged_again(run, whole, tmp_path):
    lines = whole[2].splitlines(keepends=True)
    kept = len(lines) - 2
    at, first = next((i, v) for i, v in enumerate(map(json.loads, lines[:kept]))
                     if v["verdict"] != "equivalent")
    lines[at] = lines[at].replace(first["verdict"], "equivalent")
    out = tmp_path / "out.jsonl"
    out.write_text("".join(lines[:kept]) + lines[kept][:20])  # cut off
    _, told, again = run(*EVERYTHING, "--resume")
    assert f"{kept} were judged before" in told
    assert verdicts(again)[first["function"], first["change"]] == "equivalent"
    assert len(verdicts(again)) == len(verdicts(map(json.loads, lines)))
    out.unlink()
    _, told, none = run(*EVERYTHING, "--minutes", "0")
    assert none == [] and f"{len(lines)} of {len(lines)} drawn were not " \
        "judged" in told


def test_diff_draws_from_changed_lines_only(run, project):
    path = project / "src" / "base" / "small.c"
    path.write_text(SMALL_C.replace("n > 100 ? 100 : n",
                                    "n > 90 ? 90 : n"))
    try:
        status, told, _ = run("--diff", "HEAD", "--list")
        lines = [line for line in told.splitlines() if "src/" in line]
        assert status == 0 and len(lines) >= 4
        assert all("src/base/small.c:12 small_limit" in line
                   for line in lines)
        _, told, found = run("--diff", "HEAD")
        assert {v["line"] for v in found} == {12}
        # Not in the map yet: what reached the function reaches the new text.
        assert "not covered" not in {v["verdict"] for v in found}, told
    finally:
        path.write_text(SMALL_C)


@pytest.mark.parametrize("words", [
    ["--count", "0"], ["--count", "many"], ["--rule", "none"], ["--nonsense"]])
def test_bad_options_are_64(tool_or_skip, words, capfd):
    with pytest.raises(SystemExit) as end:
        tool_or_skip.main(words)
    assert end.value.code == 64
    assert "--help" in capfd.readouterr().err


@pytest.mark.parametrize("least, status", [("99.5", 1), ("10", 0)])
def test_fail_under_is_an_exit_status(run, whole, tmp_path, least, status):
    (tmp_path / "out.jsonl").write_text(whole[2])
    assert run(*EVERYTHING, "--resume", "--fail-under", least)[0] == status


def test_dev_has_the_command(tool_or_skip):
    done = subprocess.run([os.path.join(ROOT, "dev"), "mutate", "--nonsense"],
                          env={**os.environ, "SNIB_NO_INSTALL": "1"},
                          capture_output=True, text=True)
    assert done.returncode == 64 and "--nonsense" in done.stderr
