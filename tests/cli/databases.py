"""What the command line says is the same in each SQL database, as tests that the
module of a store takes over, with those of servers.py. It has the fixtures

    server  a real one, in which the user `known` has the password SECRET
    query   query(text) is what a statement answers; the tables are snib.lock, …
"""

import json

from conftest import eventually
from servers import *  # noqa: F401,F403
from servers import SECRET  # noqa: F401


def test_a_command_runs_under_a_lock(at):
    done = at().run("run", "n", "--", "sh", "-c", "echo $SNIB_TOKEN")
    assert done.returncode == 0 and int(done.stdout) > 1 << 50


def test_list_and_status_show_holders_and_waiters(at):
    snib = at()
    snib.hold("a b")
    assert snib.status("a b")["holders"][0]["token"] > 0
    other = snib.start("run", "a b", "--", "true")
    eventually(lambda: snib.waiters("a b"), "a waiter")
    done = snib.run("list", "--json", "a*")
    locks = json.loads(done.stdout)["locks"]
    assert [one["name"] for one in locks] == ["a b"]
    assert json.loads(snib.run("list", "--json", "z*").stdout)["locks"] == []
    other.kill()


def test_force_release_tells_the_holder(at):
    snib = at()
    held = snib.hold("forced")
    assert snib.run("force-release", "--yes", "--reason", "why not",
                    "forced").returncode == 0
    assert held.wait(20) == 76


def test_when_a_size_was_set_is_when_its_name_was_used(at, query):
    """Else the cleaner would forget it: nobody has had a permit yet."""
    snib, tokens = at(), [1 << 50]
    for size in "56":
        assert snib.run("semaphore", "--set", size, "sized").returncode == 0
        tokens.append(int(query(
            "SELECT token FROM snib.lock WHERE name='sized'")))
    assert tokens == sorted(set(tokens))


def test_a_password_is_in_no_output(at, server):
    snib = at(server.url.replace("snib@", f"known:{SECRET}@"))
    said = ""
    for args in (["try", "n", "--", "true"], ["-v", "doctor"], ["doctor"],
                 ["status", "n"], ["run", "-v", "n", "--", "env"]):
        done = snib.run(*args)
        said += done.stdout + done.stderr
    assert "***" in said and SECRET not in said


def test_the_check_up_of_no_server_says_so(at, server):
    done = at(server.url.replace(f":{server.port}/", ":1/")).run("doctor")
    assert done.returncode == 69 and "fail  reachable" in done.stdout
