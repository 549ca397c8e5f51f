"""The map: what is asked anew, and what is kept."""
import pytest

import cover
import draw
import splice
from mutant import Edit, Mutant

SOURCE = "int f(int a, int b)\n{\n    return a + b;\n}\n"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree of one file; instrument() there; the calls of a compiler."""
    asked = []

    def compiled(source, mutants, name, arguments, scratch, marks):
        asked.append(name)
        return f"marked {sorted(marks.values())}", set()

    monkeypatch.setattr(splice, "compiled", compiled)
    root = tmp_path / "tree"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.c").write_text(SOURCE)
    (root / "src" / "a.h").write_text("")
    found = cover.Map(str(tmp_path / "map.json.gz"))

    def instrument(arguments=("-O1",)):
        start = (root / "src" / "a.c").read_text().index("a + b")
        mutant = Mutant("src/a.c", "f", "operator", 3, "return a + b;",
                        "a + b", "a - b",
                        [Edit(start, start + 5, "a - b", "value")], 1)
        return cover.instrument(found, str(root), [mutant],
                                {"src/a.c": list(arguments)}, str(tmp_path))
    return root, instrument, asked


def test_a_file_is_marked_once(tree):
    _, instrument, asked = tree
    first = instrument()
    assert first == {"src/a.c": b"marked [0]"}
    assert instrument() == first and len(asked) == 1


def test_a_file_that_changed_is_marked_again(tree):
    root, instrument, asked = tree
    instrument()
    (root / "src" / "a.c").write_text("\n" + SOURCE)
    instrument()
    assert len(asked) == 2


def test_a_header_or_an_option_that_changed_counts_too(tree):
    root, instrument, asked = tree
    instrument()
    (root / "src" / "a.h").write_text("#define A 1\n")
    instrument()
    instrument(["-O2"])
    assert len(asked) == 3
    assert draw.digest_of_headers(str(root)) == draw.digest_of_headers(
        str(root))
