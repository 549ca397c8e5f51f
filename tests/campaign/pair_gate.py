"""What the tests of pairs have in common: a bench for a module's pairs, and a
round with its verdict."""

import os

import pytest

import second
from pairs import Bench, chosen
from stores import Skip

SEED = int(os.environ.get("SNIB_CAMPAIGN_SEED", "1"))


@pytest.fixture(scope="module")
def bench():
    with Bench() as made:
        yield made


def param(text):
    """The pairs of that text, in their order, named."""
    return [pytest.param(pair, id=f"{pair.store}:{pair.fault}")
            for pair in chosen(text)]


def play(bench, pair):
    try:
        played = bench.play(pair, SEED, second.missing())
    except Skip as why:
        pytest.skip(str(why))
    print(played)
    assert played.ok, f"{played}\nhistory: {played.path}"
