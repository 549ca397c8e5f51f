"""The manual pages say what the program does."""

import os
import re
import shutil
import subprocess

import pytest

MAN = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                   "../../docs/man")
SUBS = ["run", "try", "elect", "acquire", "release", "renew", "check", "semaphore",
        "latch", "barrier", "wait",
        "status", "list", "why", "deadlocks", "force-release", "doctor",
        "version", "help"]


def page(name):
    with open(os.path.join(MAN, name + ".1")) as f:
        return f.read()


@pytest.mark.parametrize("sub", SUBS)
def test_a_page_has_the_options_of_help_and_no_others(sqlite, sub):
    said = sqlite.run(sub, "--help").stdout
    in_help = set(re.findall(r"^  (?:-(\w),|   ) --([\w-]+)", said, re.M))
    in_page = set()
    for line in page("snib-" + sub).splitlines():
        if line.startswith(".It Fl"):
            letter = re.search(r"^\.It Fl (\w) ", line)
            name = re.search(r"Fl -([\w-]+)", line)
            in_page.add((letter.group(1) if letter else "", name.group(1)))
    assert in_page == in_help


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc here")
@pytest.mark.parametrize("name", ["snib"] + ["snib-" + s for s in SUBS])
def test_mandoc_finds_nothing_wrong_with_a_page(name):
    done = subprocess.run(["mandoc", "-T", "lint", name + ".1"], cwd=MAN,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    words = [w for w in done.stdout.splitlines() if "mandoc.db" not in w
             and "not found: Xr snib 3" not in w]  # made of the headers
    assert words == []


def test_the_main_page_names_every_sub_command(sqlite):
    listed = re.findall(r"^  ([a-z-]+) +[A-Z]", sqlite.run("help").stdout,
                        re.M)
    assert set(SUBS) <= set(listed)
    for sub in SUBS:
        assert ".Xr snib-%s 1" % sub in page("snib")


def test_the_cron_line_finds_snib():
    """cron's own PATH is /usr/bin:/bin; snib is installed in /usr/local."""
    table = re.search(r"^\.Bd[^\n]*\n((?:(?!\.Ed).*\n)*?0 3 \* \* \* snib run.*)",
                      page("snib-run").partition(".Sh EXAMPLES")[2], re.M)
    paths = re.findall(r"^PATH=(.*)$", table.group(1), re.M)
    assert len(paths) == 1, "no PATH before the line of cron"
    assert "/usr/local/bin" in paths[0].split(":")
