"""tools/mutate, looked at from outside: its rules, its builds, its verdicts."""
import os
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tools", "mutate"))

import mutate  # noqa: E402
import rules_c  # noqa: E402


@pytest.fixture
def c_mutants(tmp_path):
    """c_mutants(text): (path, its mutants)."""
    if rules_c.MISSING:
        pytest.skip(rules_c.MISSING)

    def find(text, name="small.c"):
        path = tmp_path / name
        path.write_text(text)
        found = rules_c.mutants_of(name, str(tmp_path), ["-std=c11"])
        for number, mutant in enumerate(found, 1):
            mutant.number = number
        return path, found
    return find


@pytest.fixture
def tool_or_skip():
    why = mutate.missing()
    if why:
        pytest.skip(why)
    return mutate
