"""Python reads the installed headers as they are, with no binding in between:
cffi parses what is left when comments, lines of the preprocessor and the two
words for the compiler (SNIB_API, SNIB_CHECK) are taken away. So the headers
have plain enums, plain structs, and nothing that only a C compiler can read.

The same is done with the headers of earlier releases (tests/abi), which the
library of today has to serve; and with copies of all of these in which each
struct that grows has a field less or a field more."""

import os
import pathlib
import re
import subprocess

import pytest

cffi = pytest.importorskip("cffi", reason="python3-cffi is not installed")
BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR", ""))
KEPT = pathlib.Path(os.environ["SNIB_SOURCE_DIR"], "tests", "abi")


def kept_headers():
    return sorted(folder.name for folder in KEPT.iterdir() if folder.is_dir())


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


@pytest.fixture(scope="module", params=["installed", *kept_headers()])
def headers(prefix, request):
    """snib.h first, then what others of them include."""
    folder = (prefix / "include" if request.param == "installed"
              else KEPT / request.param)
    first = [folder / "snib.h", folder / "snib" / "inspect.h"]
    return first + sorted(set((folder / "snib").glob("*.h")) - set(first))


# Structs that grow, which the caller allocates: options, and results.
RESULTS = ("snib_status", "snib_event", "snib_semaphore", "snib_elect_status",
           "snib_multi_status", "snib_recovery")
# Such a struct: its head, its members, its end.
GROWS = re.compile(
    rf"(struct (?:snib_\w+_options|snib_policy|{'|'.join(RESULTS)}) \{{)"
    r"([^}]*?;)([^;}]*;)?(\s*\};)")


def as_it_is(text):
    return text


def a_field_less(text):
    """As an older header would have it."""
    return GROWS.sub(r"\1\2\4", text)


def a_field_more(text):
    """As a newer header will have it."""
    return GROWS.sub(r"\1\2\3 int64_t added;\4", text)


@pytest.fixture(scope="module", params=[as_it_is, a_field_less, a_field_more],
                ids=lambda change: change.__name__)
def ffi(request, headers):
    made = read(headers, request.param)
    made.change = request.param
    made.text = "".join(header.read_text() for header in headers)
    made.installed = KEPT not in headers[0].parents
    return made


def read(headers, change):
    made = cffi.FFI()
    for header in headers:
        made.cdef(change(NOT_C.sub("", header.read_text())))
    return made


@pytest.fixture(scope="module")
def lib(ffi, prefix):
    return ffi.dlopen(str(next(prefix.rglob("libsnib.so"))))


def options(ffi, name, **fields):
    return ffi.new(f"struct {name} *",
                   {"size": ffi.sizeof(f"struct {name}"), **fields})


def calls(ffi, lib, client, **more):
    """Each call that takes options: its answer and its text, by the struct."""
    error = ffi.new("struct snib_error *")
    said = {}

    def told(name, code):
        said[name] = code, ffi.string(error.text).decode()

    url = ffi.new("char[]", b"memory:grown")
    other = ffi.new("struct snib_client **")
    told("client", lib.snib_client_open(
        options(ffi, "snib_client_options", url=url, **more), other, error))
    lib.snib_client_free(other[0])
    lock, plain = (ffi.new("struct snib_lock **") for _ in range(2))
    told("lock", lib.snib_lock_new(
        client, b"x", options(ffi, "snib_lock_options", lease_ms=1000, **more),
        lock, error))
    if lock[0]:
        lib.snib_lock_free(lock[0])
    assert lib.snib_lock_new(client, b"x", ffi.NULL, plain, error) == 0
    grant = ffi.new("struct snib_grant *")
    told("acquire", lib.snib_try(
        plain[0], options(ffi, "snib_acquire_options", **more), grant, error))
    if grant.ticket:
        lib.snib_release(plain[0], grant[0], ffi.NULL)
    multi = ffi.new("struct snib_multi **")
    told("multi", lib.snib_multi_new(
        plain, 1, options(ffi, "snib_multi_options", **more), multi, error))
    lib.snib_multi_free(multi[0])
    elect = ffi.new("struct snib_elect **")
    told("elect", lib.snib_elect_new(
        client, b"e", options(ffi, "snib_elect_options", **more), elect,
        error))
    lib.snib_elect_free(elect[0])
    member = ffi.new("struct snib_ring_membership **")
    told("ring", lib.snib_ring_try(
        client, b"r", 0, b"me",
        options(ffi, "snib_ring_options", **more), member, error))
    if member[0]:
        lib.snib_ring_leave(member[0], ffi.NULL)
    body = ffi.callback("int(void *, struct snib_grant)", lambda _, __: 7)
    result = ffi.new("int *")
    key = ffi.new("char[]", b"order:1")
    told("policy", lib.snib_policy_try(
        client, options(ffi, "snib_policy", key=key, **more),
        ffi.new("const char *[1]"), body, ffi.NULL, result, error))
    said["policy"] += (result[0],)
    lib.snib_lock_free(plain[0])
    if hasattr(lib, "snib_version_update"):
        step = ffi.callback("int(void *, struct snib_version_attempt *)",
                            lambda _, attempt: attempt.number == 1)
        told("version", lib.snib_version_update(
            options(ffi, "snib_version_options", **more), step, ffi.NULL,
            ffi.NULL, ffi.NULL, error))
    return said


@pytest.fixture
def client(ffi, lib):
    ret = ffi.new("struct snib_client **")
    url = ffi.new("char[]", b"memory:grown")
    assert lib.snib_client_open(options(ffi, "snib_client_options", url=url),
                                ret, ffi.NULL) == 0
    yield ret[0]
    lib.snib_client_free(ret[0])


def test_options_of_another_release_are_taken(ffi, lib, client):
    said = calls(ffi, lib, client)
    assert said.pop("policy") == (0, "", 7)
    assert len(said) >= 6 and set(said.values()) == {(0, "")}, said
    assert not ffi.installed or "version" in said


def test_a_field_that_the_library_does_not_know_must_be_zero(ffi, lib, client):
    if ffi.change is not a_field_more or not ffi.installed:
        return  # behind a kept header's fields stand some that it knows
    for name, (code, text, *_) in calls(ffi, lib, client, added=1).items():
        assert code == lib.SNIB_ERR_USAGE, (name, text)
        assert "a field behind them is set" in text, (name, text)


GUARD = b"\xab" * 64


class Result:
    """Room for a result that was never initialised, with a guard behind."""

    def __init__(self, ffi, name):
        self.ffi = ffi
        self.size = ffi.sizeof(f"struct {name}")
        self.room = ffi.new("char[]", b"\xab" * self.size + GUARD)
        self.at = ffi.cast(f"struct {name} *", self.room)

    def given(self):
        """What was written, once it is sure that nothing was beyond it."""
        assert bytes(self.ffi.buffer(self.room))[self.size:-1] == GUARD
        if self.ffi.change is a_field_more:
            assert self.at.added == 0
        return self.at


def test_results_of_another_release_are_filled(ffi, lib, client):
    error = ffi.new("struct snib_error *")
    lock = ffi.new("struct snib_lock **")
    many = ffi.new("struct snib_multi **")
    grant = ffi.new("struct snib_grant *")
    elect = ffi.new("struct snib_elect **")
    term = ffi.new("int64_t *")
    ticket = ffi.new("uint64_t *")
    status, size, leads, all_of, event = (
        Result(ffi, name) for name in ("snib_status", "snib_semaphore",
                                       "snib_elect_status",
                                       "snib_multi_status", "snib_event"))
    assert lib.snib_lock_new(client, b"x", ffi.NULL, lock, error) == 0
    assert lib.snib_multi_new(lock, 1, ffi.NULL, many, error) == 0
    assert lib.snib_elect_new(client, b"e", ffi.NULL, elect, error) == 0
    assert lib.snib_elect_try(elect[0], term, error) == 0
    assert lib.snib_try_start(lock[0], ffi.NULL, ffi.NULL, ticket, error) == 0
    while not lib.snib_client_next(client, event.at, event.size):
        pass
    assert event.given().kind == lib.SNIB_EVENT_GRANTED
    assert event.at.grant.ticket == ticket[0]
    grant[0] = event.at.grant
    lib.snib_grant_status(lock[0], grant[0], status.at, status.size)
    assert status.given().token == grant.token
    assert status.at.holds == 1 and status.at.left_ms > 20000
    lib.snib_multi_status(many[0], grant, all_of.at, all_of.size)
    assert all_of.given().state == lib.SNIB_STATE_HELD
    assert all_of.at.left_ms > 20000
    lib.snib_elect_status(elect[0], leads.at, leads.size)
    assert leads.given().state == lib.SNIB_ELECT_LEADER
    assert leads.at.term == term[0]
    assert lib.snib_semaphore_set(client, b"s", 0, 5, True, ffi.NULL,
                                  error) == 0
    assert lib.snib_semaphore_get(client, b"s", 0, size.at, size.size,
                                  error) == 0
    assert (size.given().size, size.at.used, size.at.available) == (5, 0, 5)
    lib.snib_elect_free(elect[0])
    lib.snib_multi_free(many[0])
    assert lib.snib_release(lock[0], grant[0], error) == 0
    lib.snib_lock_free(lock[0])


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
    declared = [name for name in names if f"{name}(" in ffi.text]
    assert len(declared) > 80
    assert declared == names or not ffi.installed
    assert [name for name in declared if not hasattr(lib, name)] == []


def test_structs_have_the_layout_that_the_compiler_gives_them(
        ffi, headers, tmp_path):
    if ffi.change is not as_it_is:
        return
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
    subprocess.run(["cc", "-I", headers[0].parent, source,
                    "-o", tmp_path / "layout"], check=True)
    told = subprocess.run([tmp_path / "layout"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.splitlines()
    assert told == [f"{ffi.offsetof(f'struct {struct}', name)}"
                    f" {ffi.sizeof(f'struct {struct}')}"
                    for struct, name in fields]
