"""What the fuzz targets ran is counted once, and the page says the sum."""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, os.path.join(ROOT, "tools", "fuzz"))

import count  # noqa: E402

PAGE = f"before\n{count.BEGIN}\nold\n{count.END}\nafter\n"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name in ("docs", "tests/fuzz", "build/fuzz"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / count.PROOF).write_text(PAGE)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["count.py", *words])
        count.main(tmp_path)
    run.root = tmp_path
    run.ran = tmp_path / "build/fuzz/runs.tsv"
    return run


def test_runs_are_summed_by_target_and_revision(tree):
    tree.ran.write_text("fuzz_a\tr1\t1000\t5\nfuzz_a\tr1\t3000\t5\n"
                        "fuzz_a\tr2\t500\t10\nfuzz_b\tr1\t7\t0.50\n")
    tree("--add")
    assert (tree.root / count.KEPT).read_text().splitlines()[1:] == [
        "fuzz_a\tr1\t4000\t10.00", "fuzz_a\tr2\t500\t10.00",
        "fuzz_b\tr1\t7\t0.50"]
    page = (tree.root / count.PROOF).read_text()
    assert "| `fuzz_a` | 4,500 | 20 s | 225 | 5 days |" in page
    assert "| all | 4,507 | 20 s | | |" in page
    assert page.startswith("before\n") and page.endswith("after\n")
    assert "old" not in page


def test_nothing_is_counted_twice(tree):
    tree.ran.write_text("fuzz_a\tr1\t1000\t5\n")
    tree("--add")
    with pytest.raises(SystemExit, match="nothing was run"):
        tree("--add")
    tree.ran.write_text("fuzz_a\tr1\t10\t1\n")
    tree("--add")
    assert "fuzz_a\tr1\t1010\t6.00" in (tree.root / count.KEPT).read_text()


@pytest.mark.parametrize("line", ["fuzz_a\tr1\t1000", "fuzz_a\tr1\t\t5",
                                  "fuzz_a\tr1\tmany\t5"])
def test_a_line_that_is_none_is_said(tree, line):
    tree.ran.write_text(line + "\n")
    with pytest.raises(SystemExit, match="runs.tsv:1: not target"):
        tree("--add")
    assert not (tree.root / count.KEPT).exists()


def test_a_page_that_is_not_current_is_told(tree):
    tree.ran.write_text("fuzz_a\tr1\t1000\t5\n")
    tree("--add")
    with pytest.raises(SystemExit) as ended:
        tree("--check")
    assert not ended.value.code
    (tree.root / count.KEPT).write_text("fuzz_a\tr1\t2000\t5\n")
    with pytest.raises(SystemExit, match="not current"):
        tree("--check")


def test_the_page_of_this_tree_is_current(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["count.py", "--check"])
    with pytest.raises(SystemExit) as ended:
        count.main()
    assert not ended.value.code
