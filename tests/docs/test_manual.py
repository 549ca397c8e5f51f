"""Each function of the public headers has a manual page of section 3 that says
what the header says."""
import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR", ROOT / "build" / "dev"))
HEADERS = sorted([*(ROOT / "include").glob("*.h"),
                  *(ROOT / "include" / "snib").glob("*.h")])
sys.path.insert(0, str(ROOT / "tools" / "man"))

import headers  # noqa: E402


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("man3")
    subprocess.run([sys.executable, ROOT / "tools" / "man" / "headers.py",
                    folder, *HEADERS], check=True)
    return {page.stem: page.read_text() for page in folder.iterdir()}


def words(text):
    """Without roff's and C's way of breaking lines."""
    for glyph, name in (("…", "..."), ("—", r"\(em"), ("·", r"\(pc"),
                        ("−", r"\(mi")):
        text = text.replace(glyph, name)
    text = re.sub(r"(?m)^\.\w.*$|^ \* ?|\\&|\\f[IR]", " ", text)
    return " ".join(re.sub(r"[*/]", " ", text.replace("\\e", "\\")).split())


@pytest.mark.parametrize("header", HEADERS, ids=lambda h: h.name)
def test_every_function_has_its_page(header, pages):
    declared = re.findall(r"^SNIB_API (?:SNIB_CHECK )?[^;]*?(snib_\w+)\(",
                          header.read_text(), re.M)
    assert declared
    for function in declared:
        page = pages[function]
        assert re.search(rf"^\.Nm {function}\b", page, re.M)
        synopsis = page.split(".Sh SYNOPSIS")[1].split(".Sh ")[0]
        assert re.search(rf"^[^.].*\b{function}\(", synopsis, re.M)
        assert "pkg-config --cflags --libs snib" in synopsis
        name = ("snib_" if header.parent.name == "snib" else "") + header.stem
        assert re.search(rf"^\.Nm {function}\b", pages[name], re.M)


@pytest.mark.parametrize("header", HEADERS, ids=lambda h: h.name)
def test_no_word_of_a_contract_is_lost(header, pages):
    text = header.read_text()
    name = ("snib_" if header.parent.name == "snib" else "") + header.stem
    page = words(pages[name])
    text = re.sub(r"\A/\*.*?\n \*\n", "/*", text, flags=re.S)  # the title
    for comment in re.findall(r"^/\*(?! --)((?:(?!\*/).)*)\*/\n"
                              r"(?!\n)", text, re.S | re.M):
        said = words(comment)
        assert said in page, f"{said}\nnot in\n{page}"


@pytest.mark.parametrize("header", HEADERS, ids=lambda h: h.name)
def test_a_name_line_ends_with_a_phrase(header, pages):
    """They were cut after 70 bytes, or inside of a parenthesis."""
    text = header.read_text()
    said = " ".join(re.sub(r"(?m)^ \* ?|/\*|\*/", " ", text).split())
    for function in re.findall(r"^SNIB_API (?:SNIB_CHECK )?[^;]*?(snib_\w+)\(",
                               text, re.M):
        line, = re.findall(r"^\.Nd (.*)", pages[function], re.M)
        line = line.replace(r"\(em", "—").replace("...", "…")
        for opens, closes in ("()", "[]"):
            assert line.count(opens) == line.count(closes), (function, line)
        assert line.count('"') % 2 == 0 == line.count("`") % 2, (function, line)
        end = " ".join(line.split()[-2:])
        assert line.startswith("of snib") or \
            re.search(re.escape(end) + r"([.,:;?]( |$)| \()", said), \
            (function, line)


def test_the_errors_are_a_list(pages):
    assert re.search(r"^ +BUSY +REFUSED +75 +held by another owner$",
                     pages["snib"], re.M)
    assert "SNIB_API" not in "".join(pages.values())


def test_the_table_of_errors_is_what_the_library_says():
    library = next(BUILD.rglob("libsnib.so"), None)
    if library is None:
        pytest.skip(f"no libsnib.so under {BUILD}")
    lib = ctypes.CDLL(str(library))
    lib.snib_err_name.restype = lib.snib_err_text.restype = ctypes.c_char_p
    text = (ROOT / "include" / "snib.h").read_text()
    codes, classes = (
        [re.sub("SNIB_(ERR|CLASS)_", "", name) for name in re.findall(
            r"SNIB_\w+", re.search(r"enum %s \{(.*?)\}" % enum, text, re.S)[1])]
        for enum in ("snib_err", "snib_class"))
    table = headers.ERROR.findall(text)
    assert [row[0] for row in table] == codes
    assert table == [(lib.snib_err_name(code).decode(),
                      classes[lib.snib_err_class(code)],
                      str(lib.snib_err_exit(code)),
                      lib.snib_err_text(code).decode())
                     for code in range(len(table))]
    assert lib.snib_err_name(len(table)) == b"?"


def test_every_page_is_ascii(pages):
    """Without a UTF-8 locale man loses each character that is not."""
    pages = pages | {page.name: page.read_text()
                     for page in (ROOT / "docs" / "man").glob("*.1")}
    assert len(pages) > 100
    lost = {name: sorted(set(re.findall(r"[^\x00-\x7f]", text)))
            for name, text in pages.items() if not text.isascii()}
    assert lost == {}


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_a_page_says_the_same_without_a_utf8_locale(pages):
    done = subprocess.run(
        ["groff", "-k", "-Tascii", "-mandoc", "-ww"], check=True,
        input=pages["snib_policy_run"], capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
    assert "field, value, ..., NULL" in " ".join(done.stdout.split())
    assert "special character" not in done.stderr
