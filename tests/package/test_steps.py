"""The headers of snib/steps, which programs compile with the client of their
database, are C99 and C++ without a warning; libsnib needs none of these clients.
"""

import os
import pathlib
import shutil
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("SNIB_BUILD_DIR", ""))
STEPS = {"step": None, "libpq": "/usr/include/postgresql/libpq-fe.h",
         "libmariadb": "/usr/include/mariadb/mysql.h",
         "sqlite": "/usr/include/sqlite3.h"}
STEPS = {name: path for name, path in STEPS.items()
         if path is None or os.path.exists(path)}
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion",
          "-Wcast-qual", "-Wformat=2", "-Werror", "-fsyntax-only"]
COMPILERS = [[name, f"-std={standard}", f"-x{language}", *more]
             for name, language, standards, more in (
                 ("gcc", "c", ("c99", "c11", "gnu17"), ["-Wstrict-prototypes"]),
                 ("clang", "c", ("c99", "c11"), ["-Wstrict-prototypes"]),
                 ("g++", "c++", ("c++11", "c++17", "c++20"), []),
                 ("clang++", "c++", ("c++11", "c++17"), []))
             if shutil.which(name) for standard in standards]


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", folder],
                   check=True, stdout=subprocess.DEVNULL)
    return folder


def test_they_are_installed(prefix):
    found = sorted(path.stem for path in
                   (prefix / "include" / "snib" / "steps").iterdir())
    assert found == ["libmariadb", "libpq", "sqlite", "step"]


@pytest.mark.parametrize("step", STEPS)
def test_each_compiles_without_a_warning(prefix, step):
    assert COMPILERS
    clients = [f"-isystem{os.path.dirname(path)}" for path in STEPS.values()
               if path and os.path.dirname(path) != "/usr/include"]
    for compiler in COMPILERS:
        # Twice: a header without a guard shows.
        done = subprocess.run(
            [*compiler, *STRICT, "-I", prefix / "include", *clients, "-"],
            input=2 * f"#include <snib/steps/{step}.h>\n"
            + "int main(void) { return 0; }\n",
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, (compiler, done.stdout)


def test_a_step_of_ones_own_needs_libsnib_alone(prefix, tmp_path):
    source = tmp_path / "own.c"
    source.write_text("""#include <string.h>
#include <snib/steps/step.h>
static int once(void *data, struct snib_version_attempt *a)
{
    ++*(int *)data;
    return a->number < 3 ? snib_step_again(a, SNIB_ERR_OK, "x", 0) : 1;
}
int main(void)
{
    struct snib_version_options o;
    struct snib_error e;
    int n = 0;
    memset(&o, 0, sizeof o);
    o.size = sizeof o;
    o.wait_ms = INT64_MAX;
    return snib_version_update(&o, once, &n, 0, 0, &e) ? 1 : n;
}
""")
    library = next(prefix.rglob("libsnib.so"))
    for compiler in (["cc", "-std=c99"], ["c++", "-std=c++11", "-xc++"]):
        if not shutil.which(compiler[0]):
            continue
        program = tmp_path / compiler[0]
        subprocess.run([*compiler, "-Wall", "-Wextra", "-Werror",
                        "-I", prefix / "include", source, "-xnone", library,
                        f"-Wl,-rpath,{library.parent}", "-o", program],
                       check=True)
        assert subprocess.run([program]).returncode == 3
