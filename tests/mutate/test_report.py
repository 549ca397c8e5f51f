"""The report, the marks of equivalent mutants, the draw."""
import json
import os

import pytest

from conftest import ROOT

import draw
import marks
import report
from mutant import Edit, Mutant


def mutant(path="src/core/a.c", number=1, start=0, rule="operator"):
    return Mutant(path, "f", rule, 3, "return a + b;", "a + b", "a - b",
                  [Edit(start, start + 5, "a - b", "value")], number)


def verdicts():
    words = ["killed", "killed", "timed out", "survived", "equivalent",
             "not covered"]
    return [(mutant("src/core/a.c" if n < 4 else "src/api/b.c", n),
             {"verdict": word, "by": "unit.x", "tests": 2})
            for n, word in enumerate(words)]


def test_table_counts_by_folder_and_leaves_out_the_equivalent():
    text, share = report.table(verdicts(), lambda m: m.folder, "folder")
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()}
    assert rows["src/core"] == "4 2 1 1 0 0 75.0 %".split()
    assert rows["src/api"] == "2 0 0 0 1 1 0.0 %".split()
    assert rows["all"] == "6 2 1 1 1 1 60.0 %".split()
    assert share == 60


def test_nothing_drawn_has_no_share():
    text, share = report.table([], lambda m: m.path, "file")
    assert share is None and text.splitlines()[-1].endswith("-")


def test_a_line_of_the_report_has_what_a_program_needs():
    line = json.loads(report.line_of(mutant(number=7), {
        "verdict": "killed", "by": "unit.x"}))
    assert (line["number"], line["verdict"], line["by"]) == (7, "killed",
                                                             "unit.x")
    assert line["change"] == "a + b -> a - b"
    assert line["path"] == "src/core/a.c" and line["line"] == 3


def test_diff_shows_the_one_line():
    source = b"int f(int a, int b)\n{\n    return a + b;\n}\n"
    text = report.diff(source, mutant(start=source.index(b"a + b")))
    assert "-    return a + b;\n+    return a - b;\n" in text
    assert text.count("\n-") == 1 and text.count("\n+") == 2


def marked(tmp_path, text):
    (tmp_path / "tests").mkdir(exist_ok=True)
    (tmp_path / marks.PATH).write_text(text)
    return marks.read(str(tmp_path))


GOOD = ("src/core/a.c f\nrule: operator\nline: return a + b;\n"
        "change: a + b -> a - b\nwhy: b is 0 here:\n  see g\nread: agreed\n")


def test_mark_is_found_by_content_and_has_its_reason(tmp_path):
    found = marked(tmp_path, "# what this is\n\n" + GOOD)
    assert found == {mutant().mark: "b is 0 here: see g"}
    assert marks.stale(found, [mutant(start=400)]) == []


def test_block_of_a_mutant_becomes_a_mark_with_a_reason(tmp_path):
    block = marks.block_of(mutant()).replace("why: ", "why: because")
    found = marked(tmp_path, block + "agreed\n")
    assert found == {mutant().mark: "because"}


def test_mark_of_what_is_no_longer_there_is_stale(tmp_path):
    found = marked(tmp_path, GOOD.replace("return a + b", "return b + a"))
    assert marks.stale(found, [mutant()]) == list(found)


@pytest.mark.parametrize("text", [
    GOOD.replace("why: b is 0 here:\n  see g\nread: agreed\n", ""),
    GOOD.replace("b is 0 here:\n  see g\n", "\n"),
    GOOD.replace("src/core/a.c f", "src/core/a.c"),
    GOOD.replace("agreed", "doubted"),
    GOOD + "\n" + GOOD,
])
def test_mark_without_a_part_or_twice_is_refused(tmp_path, text):
    with pytest.raises(marks.BadMark):
        marked(tmp_path, text)


def test_marks_of_the_tree_are_about_lines_that_are_there():
    """Quickly; `./dev mutate --marks` compares the whole of each mark."""
    for (path, function, _, line, _) in marks.read(ROOT):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
        lines = [one.strip() for one in text.splitlines()]
        assert function == "(script)" or function in text, (path, function)
        assert line in lines, (path, line)


def test_no_file_is_no_marks(tmp_path):
    assert marks.read(str(tmp_path)) == {}


def test_a_seed_is_a_draw_and_a_place_is_drawn_once():
    all_ = [mutant(number=n, start=n // 3 * 10) for n in range(300)]
    one, again, other = (draw.shuffled(all_, s) for s in ("a", "a", "b"))
    assert [m.number for m in one] == [m.number for m in again]
    assert [m.number for m in one] != [m.number for m in other]
    assert len(one) == 100 == len({m.place for m in one})
