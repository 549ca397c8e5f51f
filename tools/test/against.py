#!/usr/bin/env python3
"""Show that the tests of what was mended fail on an older commit.

usage: against.py REV [NAME…]

Builds REV's library, command and test programs in build/against/REV: its
whole tree, with the tests/ of this checkout in the place of its own (cases of
package.options look at a tree that has its own: they are about building it). A
commit from before the product's names changed cannot be built with tests that use
the new ones: it gets the tests and the findings as they were just before. Then it
runs each case of tests/findings.tsv (or those whose line has a NAME in it) and
expects it to fail: prints case and the line that failed. A test program that
does not compile against REV counts as failing, with the compiler's line; a
test driver that does not, is replaced by REV's own.

Exit status 1 when a case passes or cannot be run there; 64 usage, 69 no such
commit.
"""

import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# The commit that renamed nearly all of the product's names, and the tests.
RENAMED = "88d67c4"
CASE_SECONDS = 180
BUILT = ["snib_cli", "snib_shared", "snib_static", "snib-test-driver"]
ERROR = re.compile(r"^(\S+?:\d+:\d+: (?:fatal )?error: .*)$", re.M)


def read_findings(path, words=()):
    """[(ctest name, case, what was wrong)]"""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            fields = line.rstrip("\n").split("\t")
            if line.strip() and not line.startswith("#"):
                if len(fields) != 3 or not all(fields):
                    sys.exit(f"{path}: not three fields: {line!r}")
                if not words or any(word in line for word in words):
                    found.append(tuple(fields))
    return found


def text_of(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True,
                          errors="replace", check=False, **options).stdout


# -- the old tree ----------------------------------------------------------------


def unpack(rev, folder, *paths):
    os.makedirs(folder, exist_ok=True)
    packed = subprocess.run(["git", "archive", rev, *paths], cwd=ROOT,
                            stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout,
                   check=True)


def older_tests(rev):
    """The commit whose tests fit REV's names; "": those of this checkout do."""
    known = subprocess.run(["git", "rev-parse", "--verify", "--quiet",
                            f"{RENAMED}^"], cwd=ROOT, check=False,
                           stdout=subprocess.DEVNULL).returncode == 0
    after = subprocess.run(["git", "merge-base", "--is-ancestor", RENAMED, rev],
                           cwd=ROOT, check=False).returncode == 0
    return f"{RENAMED}^" if known and not after else ""


def lay_out(rev, tree):
    """REV's tree with the tests of this checkout, or older ones that fit it;
    unchanged files keep their time, so that a second run builds little."""
    fresh = tree + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    unpack(rev, fresh)
    shutil.rmtree(os.path.join(fresh, "tests"))
    if older_tests(rev):
        unpack(older_tests(rev), fresh, "tests")
    else:
        shutil.copytree(os.path.join(ROOT, "tests"),
                        os.path.join(fresh, "tests"),
                        ignore=shutil.ignore_patterns("__pycache__"))
    mirror(fresh, tree)
    shutil.rmtree(fresh)


def mirror(source, target):
    """Make target equal to source; write only what differs."""
    os.makedirs(target, exist_ok=True)
    names = set(os.listdir(source))
    for name in os.listdir(target):
        if name not in names:
            path = os.path.join(target, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    for name in names:
        here, there = os.path.join(source, name), os.path.join(target, name)
        if os.path.isdir(here):
            mirror(here, there)
        elif not same(here, there):
            shutil.copy(here, there)  # with its mode, not its time


def same(one, other):
    if not os.path.exists(other) or os.stat(one).st_mode != os.stat(
            other).st_mode:
        return False
    with open(one, "rb") as a, open(other, "rb") as b:
        return a.read() == b.read()


def targets_of(findings):
    """What has to be built for these cases."""
    wanted = list(BUILT)
    for suite, name in {tuple(t.split(".", 1)) for t, _, _ in findings}:
        if suite == "unit":
            wanted.append(f"unit.{name}")
        elif suite == "package":
            wanted.append("all")
        elif suite == "examples":
            wanted += ["examples/all", "demo/all"]
        elif suite == "sim":
            wanted.append("sim/all")
        elif os.path.exists(os.path.join(ROOT, "tests", suite,
                                         "CMakeLists.txt")):
            wanted.append(f"tests/{suite}/all")
    return list(dict.fromkeys(wanted))


def drop_programs(where):
    """So that none is run that was built from an earlier text of its test."""
    for top, _, names in os.walk(os.path.join(where, "tests")):
        for path in (os.path.join(top, name) for name in names):
            if os.access(path, os.X_OK) and not path.endswith(".o"):
                os.unlink(path)


def build(tree, where, wanted):
    """The log of the compiler; goes on after errors."""
    drop_programs(where)
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
               "-DSNIB_TESTS=ON"]
    log = os.path.join(os.path.dirname(where), "build.log")
    with open(log, "w", encoding="utf-8") as file:
        def call(*command):
            # A compiler cache that makes paths relative would hide them.
            return subprocess.run(command, stdout=file, check=False,
                                  stderr=subprocess.STDOUT, env=dict(
                                      os.environ, CCACHE_BASEDIR="")
                                  ).returncode
        if call("cmake", "-S", tree, "-B", where, *options):
            sys.exit(f"it does not configure; see {log}")
        known = text_of(["ninja", "-C", where, "-t", "targets", "all"])
        wanted = [t for t in wanted if f"\n{t}: " in "\n" + known]
        jobs = os.environ.get("SNIB_JOBS", "2")
        call("ninja", "-C", where, "-k", "0", "-j", jobs, *wanted)
        if not shutil.which("snib-test-driver", path=os.path.join(
                where, "tests", "driver")):
            return log, False
    return log, True


def build_with_a_driver(rev, tree, where, wanted):
    log, good = build(tree, where, wanted)
    if not good:
        print("the test driver does not build there: that commit's own is"
              " taken", flush=True)
        driver = os.path.join(tree, "tests", "driver")
        shutil.rmtree(driver)
        unpack(rev, tree, "tests/driver")
        for folder, _, files in os.walk(driver):
            for file in files:  # unpacked they are older than what was built
                os.utime(os.path.join(folder, file))
        log, good = build(tree, where, wanted)
    with open(log, encoding="utf-8", errors="replace") as file:
        return file.read()


# -- one case ----------------------------------------------------------------------


def run(test, command):
    """(exit status, output); a case that does not end is one that fails."""
    env = dict(os.environ)
    for item in test["properties"]:
        if item["name"] == "ENVIRONMENT":
            env.update(pair.split("=", 1) for pair in item["value"])
    if test.get("name") == "package.options":
        env["SNIB_SOURCE_DIR"] = os.path.join(
            os.path.dirname(env["SNIB_BUILD_DIR"]), "own")
    child = subprocess.Popen(command, stdout=subprocess.PIPE, env=env,
                             stderr=subprocess.STDOUT, text=True,
                             errors="replace", stdin=subprocess.DEVNULL,
                             start_new_session=True)
    try:
        out, _ = child.communicate(timeout=CASE_SECONDS)
        return child.returncode, out
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return None, f"it did not end within {CASE_SECONDS} s"


def of_pytest(test, case):
    """(failed?, why) of a case in a pytest file."""
    python, _, file = test["command"][:3]
    path = file if case == "-" else f"{file}::{case}"
    code, out = run(test, [python, os.path.join(HERE, "pytest_case.py"), path])
    if code is None:
        return True, out
    failed = re.findall(r"^FAILED .*?: (.*)$", out, re.M)
    skipped = re.findall(r"^SKIPPED .*?: (.*)$", out, re.M)
    sums = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", out,
                      re.M)
    if not sums or "not found: " in out:
        return False, "no such case: " + (out.strip().splitlines() or [""])[-1]
    passed, _, _ = map(int, sums[-1])
    if passed and case != "-":
        names = "some of its parameters" if failed else "it"
        return False, f"{names} passed"
    if failed:
        return True, failed[0]
    return False, "skipped: " + (skipped or ["?"])[0]


def of_program(test, case):
    """(failed?, why) of a case of cmocka's, or of a whole program."""
    code, out = run(test, test["command"])
    if case == "-":
        lines = [s for s in out.splitlines() if s.strip()] or [""]
        return code != 0, lines[-1] if code is None or code else "it passed"
    said = re.search(rf"^\[ RUN      \] {re.escape(case)}\n(.*?)"
                     rf"(^\[[^\n]*\] {re.escape(case)}$|\Z)", out,
                     re.M | re.S)
    if not said:
        if code is None or code < 0:
            return True, "the program ended before it: " + (
                f"signal {-code}" if code else out)
        return False, "no such case"
    lines = [s for s in re.sub(r"\[ +ERROR +\] --- ", "", said[1]).splitlines()
             if s.strip()]
    if "FAILED" in said[2]:
        return True, lines[0] if lines else "failed"
    if not said[2]:
        return True, (lines or ["the program ended here"])[-1]
    return False, "skipped" if "SKIPPED" in said[2] else "it passed"


def compiler_says(log, program):
    """The first error in a test program that was not built."""
    stem = program.split(".", 1)[-1]
    errors = ERROR.findall(log)
    for line in errors:
        if re.search(rf"\b(test_)?{re.escape(stem)}\.c:", line):
            return line
    return errors[0] if errors else None


def judge(tests, log, finding):
    name, case, _ = finding
    if name not in tests:
        return finding, False, "no such test there (is what it needs built?)"
    test = tests[name]
    if "pytest_case.py" in " ".join(test.get("command", [])):
        failed, why = of_pytest(test, case)
        missing = re.search(r"skipped: (\S+) is not built", why)
        if missing:
            error = compiler_says(log, missing[1])
            return finding, bool(error), error or why
        return finding, failed, why
    if not os.path.exists((test.get("command") or [""])[0]):
        error = compiler_says(log, name)
        return finding, bool(error), error or "it was not built"
    return finding, *of_program(test, case)


# -- all of them -------------------------------------------------------------------


def show(findings, tests, log):
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for finding, failed, why in pool.map(
                lambda one: judge(tests, log, one), findings):
            name, case, what = finding
            wrong += not failed
            line = why.replace(ROOT + "/", "")[:200]
            print(f"{'failed' if failed else 'NOT   '}  {name} {case}\n"
                  f"        {what}\n        {'-> ' if failed else '!! '}{line}",
                  flush=True)
    return wrong


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        sys.exit(64)
    asked = sys.argv[1]
    rev = text_of(["git", "rev-parse", "--short=12", "--verify", "--quiet",
                   asked + "^{commit}"], cwd=ROOT).strip()
    if not rev:
        print(f"{asked}: this checkout has no such commit", file=sys.stderr)
        sys.exit(69)
    place = os.path.join(ROOT, "build", "against", rev)
    tree, where = os.path.join(place, "tree"), os.path.join(place, "build")
    lay_out(rev, tree)
    findings = read_findings(os.path.join(tree, "tests", "findings.tsv"),
                             sys.argv[2:])
    if not findings:
        print("no such case in tests/findings.tsv", file=sys.stderr)
        sys.exit(64)
    print(f"{len(findings)} cases against {rev}; building it", flush=True)
    unpack(rev, os.path.join(place, "own"))
    log = build_with_a_driver(rev, tree, where, targets_of(findings))
    shown = text_of(["ctest", "--test-dir", where, "--show-only=json-v1"])
    tests = {test["name"]: test for test in json.loads(shown)["tests"]}
    wrong = show(findings, tests, log)
    print(f"{len(findings) - wrong} of {len(findings)} fail on {rev},"
          " as they should")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
