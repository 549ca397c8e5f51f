"""Python reads the installed headers as they are, with no binding in between:
cffi parses what is left when comments, lines of the preprocessor and the two
words for the compiler (SNIB_API, SNIB_CHECK) are taken away. So the headers
have plain enums, plain structs, and nothing that only a C compiler can read."""

import os
import pathlib
import re
import subprocess

import pytest

cffi = pytest.importorskip("cffi", reason="python3-cffi is not installed")
BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR", ""))
NOT_C = re.compile(r"""
    /\*.*?\*/ |                             # comments
    ^\#(?:[^\n]*\\\n)*[^\n]*$ |             # the preprocessor, \ at its ends
    ^extern\ "C"\ \{$ | ^\}$ |              # for C++
    \b(?:SNIB_API|SNIB_CHECK)\b""", re.S | re.M | re.X)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", folder],
                   check=True, stdout=subprocess.DEVNULL)
    return folder


@pytest.fixture(scope="module")
def headers(prefix):
    """snib.h first: the others need it."""
    folder = prefix / "include"
    return [folder / "snib.h", *sorted((folder / "snib").glob("*.h"))]


@pytest.fixture(scope="module")
def ffi(headers):
    made = cffi.FFI()
    for header in headers:
        made.cdef(NOT_C.sub("", header.read_text()))
    return made


@pytest.fixture(scope="module")
def lib(ffi, prefix):
    return ffi.dlopen(str(next(prefix.rglob("libsnib.so"))))


def options(ffi, name, **fields):
    return ffi.new(f"struct {name} *",
                   {"size": ffi.sizeof(f"struct {name}"), **fields})


def test_it_opens_acquires_and_releases(ffi, lib):
    url = ffi.new("char[]", b"memory:cffi")
    error = ffi.new("struct snib_error *")
    client = ffi.new("struct snib_client **")
    lock = ffi.new("struct snib_lock **")
    grant = ffi.new("struct snib_grant *")
    done = lib.SNIB_ERR_OK
    assert lib.snib_client_open(options(ffi, "snib_client_options", url=url),
                                client, error) == done
    assert lib.snib_lock_new(client[0], b"name", ffi.NULL, lock, error) == done
    assert lib.snib_acquire(lock[0], ffi.NULL, grant, error) == done
    assert grant.token > 0 and lib.snib_grant_held(lock[0], grant[0])
    assert lib.snib_release(lock[0], grant[0], error) == done
    assert not lib.snib_grant_held(lock[0], grant[0])
    assert lib.snib_release(lock[0], grant[0], error) == lib.SNIB_ERR_NOT_HELD
    assert ffi.string(error.text) == b"this grant was released before"
    lib.snib_lock_free(lock[0])
    lib.snib_client_free(client[0])


def test_each_enumerator_is_there(ffi, headers):
    text = NOT_C.sub("", "".join(header.read_text() for header in headers))
    enums = re.findall(r"typedef enum (\w+) \{(.*?)\}", text, re.S)
    assert len(enums) > 8
    for name, body in enums:
        assert sorted(ffi.typeof(name).relements) == sorted(
            re.findall(r"\bSNIB_\w+", body)), name
    assert ffi.typeof("snib_err").relements["SNIB_ERR_OK"] == 0


def test_each_function_is_there(ffi, lib):
    """By the list of what the library exports."""
    listed = pathlib.Path(os.environ["SNIB_SOURCE_DIR"], "cmake",
                          "exported.symbols").read_text().split("\n")
    names = [line for line in listed if line.startswith("snib_")]
    assert len(names) > 80
    assert [name for name in names if not hasattr(lib, name)] == []


def test_structs_have_the_layout_that_the_compiler_gives_them(
        ffi, headers, prefix, tmp_path):
    fields = [(struct, name) for struct in sorted(ffi.list_types()[1])
              for name, _ in ffi.typeof(f"struct {struct}").fields or ()]
    assert len(fields) > 100
    lines = "".join(
        f'    printf("%zu %zu\\n", offsetof(struct {struct}, {name}),'
        f' sizeof(struct {struct}));\n' for struct, name in fields)
    source = tmp_path / "layout.c"
    source.write_text(
        "#include <stdio.h>\n"
        + "".join(f'#include "{header}"\n' for header in headers)
        + "int main(void)\n{\n" + lines + "    return 0;\n}\n")
    subprocess.run(["cc", "-I", prefix / "include", source,
                    "-o", tmp_path / "layout"], check=True)
    told = subprocess.run([tmp_path / "layout"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.splitlines()
    assert told == [f"{ffi.offsetof(f'struct {struct}', name)}"
                    f" {ffi.sizeof(f'struct {struct}')}"
                    for struct, name in fields]
