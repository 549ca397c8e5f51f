"""A program of an earlier release runs with the library of today.

tests/abi has the headers of each release whose interface was final, and a
program of that time. What they promised a compiler is held: functions and their
arguments, the values of enumerators and macros, the places of fields."""

import os
import pathlib
import re
import subprocess

import pytest
from test_cffi import (GROWS, NOT_C, a_field_less, a_field_more, as_it_is,
                       kept_headers, read)

cffi = pytest.importorskip("cffi", reason="python3-cffi is not installed")
SOURCE = pathlib.Path(os.environ["SNIB_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["SNIB_BUILD_DIR"])
KEPT = SOURCE / "tests" / "abi"
# These are copied by value, lie in arrays of the caller, or are filled without
# being told their size.
NEVER_GROW = ("snib_error", "snib_grant", "snib_scope", "snib_store_status",
              "snib_ring_member", "snib_value_next")
# The library allocates these.
OURS = ("snib_view", "snib_party", "snib_finding", "snib_server", "snib_leader",
        "snib_value", "snib_cycle", "snib_wait", "snib_login",
        "snib_version_attempt")
MACRO = re.compile(r"^#define (SNIB_\w+)(?!\()[ \t]+(.+?)\s*$", re.M)
LIST = {"SNIB_VERSION", "SNIB_VERSION_MAJOR", "SNIB_VERSION_MINOR",
        "SNIB_VERSION_PATCH"}


def headers_of(folder):
    first = [folder / "snib.h", folder / "snib" / "inspect.h"]
    return first + sorted(set((folder / "snib").glob("*.h")) - set(first))


@pytest.fixture(scope="module", params=kept_headers())
def then(request):
    return KEPT / request.param


@pytest.fixture(scope="module")
def both(then):
    return (read(headers_of(then), as_it_is),
            read(headers_of(SOURCE / "include"), as_it_is))


def functions(ffi, folder):
    """The declaration of each function, as text."""
    text = NOT_C.sub("", "".join(h.read_text() for h in headers_of(folder)))
    text = re.sub(r"\s+", " ", text)
    return dict(
        (name, re.sub(r" (?:\w+)(?=[,)\[])", "", f"{result}({rest})"))
        for result, name, rest in re.findall(
            r"([\w *]+?)\b(snib_\w+)\(((?:[^()]|\([^()]*\))*)\);", text))


def test_each_function_is_declared_as_it_was(both, then):
    was = functions(both[0], then)
    now = functions(both[1], SOURCE / "include")
    assert len(was) > 80
    assert {name: now.get(name) for name in was} == was


def test_each_enumerator_has_its_value(both):
    was, now = both
    enums = [name for name in was.list_types()[0]
             if was.typeof(name).kind == "enum"]
    assert len(enums) > 8
    for name in enums:
        old, new = was.typeof(name).relements, now.typeof(name).relements
        assert {key: new.get(key) for key in old} == old, name


def test_each_field_is_where_it_was(both):
    was, now = both
    seen = 0
    for name in was.list_types()[1]:
        fields = was.typeof(f"struct {name}").fields
        if not fields:
            continue
        new = dict(now.typeof(f"struct {name}").fields)
        for field, at in fields:
            assert field in new, (name, field)
            assert new[field].offset == at.offset, (name, field)
            assert new[field].type.cname == at.type.cname, (name, field)
            seen += 1
        sizes = [ffi.sizeof(f"struct {name}") for ffi in both]
        assert sizes[0] <= sizes[1], name
        assert sizes[0] == sizes[1] or name not in NEVER_GROW, name
    assert seen > 100


def test_of_each_struct_it_is_said_how_it_grows():
    """By test_cffi, which adds a field and takes one away; or here."""
    text = NOT_C.sub("", "".join(
        h.read_text() for h in headers_of(SOURCE / "include")))
    growing = [head.split()[1] for head, *_ in GROWS.findall(text)]
    assert len(growing) > 10
    assert sorted([*growing, *NEVER_GROW, *OURS]) == sorted(
        re.findall(r"^struct (\w+) \{", text, re.M))


def test_the_header_names_the_structs_that_never_grow():
    text = (SOURCE / "include" / "snib.h").read_text()
    found, = re.findall(r"struct ([^.]*?)\s+never(?:[ \n*]+)grow\.", text)
    assert tuple(re.findall(r"snib_\w+", found)) == NEVER_GROW


def test_each_macro_is_what_it_was(then):
    was, now = (dict(MACRO.findall("".join(
        h.read_text() for h in headers_of(folder))))
        for folder in (then, SOURCE / "include"))
    was = {name: " ".join(value.split()) for name, value in was.items()
           if name not in LIST}
    assert len(was) > 10
    assert {name: " ".join(now.get(name, "").split()) for name in was} == was


@pytest.mark.parametrize("change", [as_it_is, a_field_less, a_field_more],
                         ids=lambda change: change.__name__)
def test_its_program_runs(then, change, tmp_path):
    """Compiled against those headers, linked to the library of today."""
    for header in headers_of(then):
        made = tmp_path / header.relative_to(then)
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(change(header.read_text()))
    prefix = tmp_path / "prefix"
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix],
                   check=True, stdout=subprocess.DEVNULL)
    library = next(prefix.rglob("libsnib.so"))
    subprocess.run(["cc", "-std=gnu11", "-Wall", "-Werror", "-I", tmp_path,
                    KEPT / "program.c", library,
                    f"-Wl,-rpath,{library.parent}", "-o", tmp_path / "program"],
                   check=True)
    ran = subprocess.run([tmp_path / "program"], text=True, timeout=60,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert ran.returncode == 0 and "NO " not in ran.stdout, ran.stdout
    assert ran.stdout.count("yes ") > 40, ran.stdout
