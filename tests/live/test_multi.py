"""Several locks as one while the way to the server loses answers."""

import os
import pathlib
import random
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR", "build/dev"))


@pytest.fixture(scope="session")
def program():
    found = [p for p in BUILD.rglob("conformance.multi_crowd") if p.is_file()]
    if not found:
        pytest.skip(f"conformance.multi_crowd is not built under {BUILD}")
    return found[0]


def random_match(seed, share):
    """A rule's `where`: that share of the messages, the same ones each time."""
    rng = random.Random(seed)
    return lambda frame: rng.random() < share


@pytest.mark.parametrize("case", ["threads_in_random_orders",
                                  "processes_in_random_orders"])
@pytest.mark.parametrize("fault", ["reply", "request", "split"])
def test_exact_counts_and_nothing_left(program, proxy, case, fault):
    """Answers lost with their connection, requests cut in the middle of a
    batch, both in small pieces: exclusion holds, nobody waits for ever, and
    all is free in the end."""
    if fault == "reply":
        rule = proxy.drop_reply(command="EVALSHA", then="rst",
                                where=random_match(1, 0.05))
    elif fault == "request":
        rule = proxy.cut_request(40, command="EVALSHA",
                                 where=random_match(2, 0.05))
    else:
        rule = proxy.split_requests(7, command="EVALSHA",
                                    where=random_match(3, 0.5))
    done = subprocess.run([program, "-f", proxy.url, case],
                          timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # How many requests there are, and so how many of them fail, depends on how
    # many the threads put into one: 200 and more were seen.
    assert rule.fired >= 1
