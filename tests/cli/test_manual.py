"""The manual pages say what the program does."""

import json
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
        "store", "version", "help"]


def page(name):
    with open(os.path.join(MAN, name + ".1")) as f:
        return f.read()


@pytest.mark.parametrize("sub", SUBS)
def test_a_page_has_the_options_of_help_and_no_others(mapped, sub):
    said = mapped.run(sub, "--help").stdout
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


def test_the_main_page_names_every_sub_command(mapped):
    listed = re.findall(r"^  ([a-z-]+) +[A-Z]", mapped.run("help").stdout,
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


# A page, and what prints each field that it tells of. The names are free.
JSON = {
    "status": ['"$0" run h1 -- "$0" status --json h1',
               '"$0" run --kind semaphore --capacity 2 h2 -- '
               '"$0" status --json h2',
               '"$0" latch -q --set 1 h3; "$0" status --json h3'],
    "acquire": ['"$0" acquire --json --detached -t 1s a1',
                '"$0" acquire --json --detached -t 1s --kind semaphore '
                '--capacity 1 a2'],
    "renew": ['"$0" renew --json $("$0" acquire --detached -t 1s r1)'],
    "check": ['"$0" run c1 -- "$0" check --json'],
    "elect": ['"$0" elect -1 e1 -- "$0" elect -1 --observe --json e1'],
    "semaphore": ['"$0" semaphore --set 2 --json s1',
                  '"$0" semaphore --json s1'],
    "latch": ['"$0" latch --set 2 --json l1'],
    "barrier": ['"$0" barrier --parties 1 --json b1'],
    "force-release": ['"$0" force-release --yes --reason x --json f1'],
}


def fields(value):
    if isinstance(value, list):
        return set().union(*map(fields, value))
    if isinstance(value, dict):
        return set(value).union(*map(fields, value.values()))
    return set()


@pytest.mark.parametrize("sub", sorted(JSON))
def test_a_page_tells_of_each_field_of_the_json(mapped, sub):
    said = page("snib-" + sub).partition(".Sh DESCRIPTION")[2]
    said = said.replace(r"\(dq", '"')
    for script in JSON[sub]:
        done = subprocess.run(["sh", "-c", script, mapped.binary],
                              env=mapped.env, cwd=mapped.tmp, timeout=60,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found = fields(json.loads(done.stdout))
        assert "schema" in found and len(found) > 1
        assert [f for f in sorted(found)
                if not re.search(r"\b%s\b" % f, said)] == []


def synopses(sub):
    """The forms of use, each as one line of words."""
    text = page("snib-" + sub).partition(".Sh SYNOPSIS")[2].partition(".Sh ")[0]
    return [re.sub(r"\s+", " ", re.sub(r"^\.", "", form, flags=re.M)).strip()
            for form in text.split(".Nm snib %s\n" % sub)[1:]]


@pytest.mark.parametrize("sub", SUBS)
def test_a_page_speaks_of_durations_where_an_option_takes_one(mapped, sub):
    says = "Durations carry a unit" in page("snib-" + sub)
    assert says == ("Durations carry a unit" in mapped.run(sub, "--help").stdout)


@pytest.mark.parametrize("variable", ["SNIB_WAIT", "SNIB_TTL"])
def test_the_main_page_names_who_reads_a_default(mapped, variable):
    text = page("snib").partition(".It Ev %s\n" % variable)[2]
    said = text.partition("\n.It ")[0].partition("\n.El")[0]
    reads = {sub for sub in SUBS
             if "default: " + variable in " ".join(
                 mapped.run(sub, "--help").stdout.split())}
    assert set(re.findall(r"^\.Cm (\w+)", said, re.M)) == reads


def test_each_cause_of_the_status_line_is_explained():
    with open(os.path.join(MAN, "../../src/cli/supervisor/supervisor_step.h")) as f:
        causes = re.findall(r'^    X\(\w+, "([\w-]+)"\)', f.read(), re.M)
    assert len(causes) > 20
    text = page("snib-run").partition(".Sh STATUS LINE")[2].partition(".Sh ")[0]
    told = re.findall(r"[\w-]+", " ".join(re.findall(r"^\.It Cm (.*)", text,
                                                     re.M)))
    assert set(told) == set(causes)


@pytest.mark.parametrize("name", ["snib"] + ["snib-" + s for s in SUBS
                                             if s != "elect"])
def test_all_pages_say_the_same_of_a_store_that_fails(name):
    for said in re.findall(r"^\.It 69\n((?:[^.].*\n)*)", page(name), re.M):
        assert " ".join(said.split()).startswith(
            "The store could not be reached, refuses to work, or holds what "
            "is not ours; or its answer is not known.")


@pytest.mark.parametrize("name", ["snib-" + s for s in SUBS])
def test_a_page_that_says_keeper_says_what_it_is(name):
    text = page(name)
    if re.search(r"(?<!no-)\bkeeper\b", text):
        assert "holder process is called keeper" in text or (
            "older word for the holder process" in text)
        assert "snib-keeper" in text


@pytest.mark.parametrize("sub", ["run", "try", "acquire", "wait", "latch",
                                 "barrier"])
def test_a_page_tells_which_exit_statuses_busy_exit_takes(mapped, sub):
    assert "0 to 255" in " ".join(page("snib-" + sub).split())
    assert "0 to 255" in " ".join(mapped.run(sub, "--help").stdout.split())


def test_acquire_names_each_variable_that_its_text_sets(mapped):
    done = mapped.run("acquire", "--sh", "-t", "1s", "--kind", "semaphore",
                      "--capacity", "1", "n")
    sets = set(re.findall(r"\b(SNIB_\w+)=", done.stdout))
    assert "SNIB_SLOT" in sets
    text = page("snib-acquire").partition(".It Fl -sh")[2].partition(".It Fl")[0]
    assert sets <= set(re.findall(r"SNIB_\w+", text))


def test_try_without_a_command_is_shown_with_one_name_only(mapped):
    assert "Op Ar options Ar name Op Ar command ..." in synopses("try")
    assert not [form for form in synopses("try")
                if "name ..." in form and "Op Fl - Ar command" in form]
    done = mapped.run("try", "a", "b", "--")
    assert done.returncode == 64
    assert "the command after -- is missing" in done.stderr
