"""Rules that a program of its own checks: compilers, clang-format, …"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

from tree import Finding, Skip

# The headers of libpq and libmariadb: Debian has folders for them.
INCLUDES = ["-Iinclude", "-Isrc", "-I/usr/include/postgresql",
            "-I/usr/include/mariadb"]
C11 = ["-std=c11", "-D_GNU_SOURCE=", "-Wall", "-Wextra", "-Werror"]
CXX17 = ["-std=c++17", "-Wall", "-Wextra", "-Werror"]
# Each check has found a real bug somewhere and is quiet on sound code. Left
# out of bugprone: what judges taste (easily-swappable-parameters, …).
TIDY = ",".join((
    "-*", "bugprone-*", "-bugprone-easily-swappable-parameters",
    "-bugprone-assignment-in-if-condition", "-bugprone-reserved-identifier",
    "-bugprone-narrowing-conversions", "-bugprone-macro-parentheses",
    "-bugprone-implicit-widening-of-multiplication-result",
    "-bugprone-branch-clone", "-bugprone-sizeof-expression",
    "-bugprone-suspicious-string-compare", "-bugprone-signed-char-misuse",
    "-bugprone-not-null-terminated-result", "cert-flp30-c",
    "misc-redundant-expression", "misc-misplaced-const",
    "performance-type-promotion-in-math-fn",
    "readability-misleading-indentation", "readability-duplicate-include"))


def _tool(*names):
    for name in names:
        if shutil.which(name):
            return name
    raise Skip(f"{names[0]} is not installed")


def _run(tree, command, text=None):
    return subprocess.run(command, cwd=tree.root, input=text, text=True,
                          errors="replace", stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)


def _parallel(function, items):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(function, items):
            yield from found


def _messages(output, prefix=""):
    """The lines of a compiler-like tool that carry a message."""
    for line in output.splitlines():
        if re.match(r"\S+?:\d+(:\d+)?: ", line) and ": note: " not in line:
            yield Finding(prefix + line)


def _generated(tree, folder):
    """What the build generates and headers include."""
    script = tree.path("src/store/redis/embed.cmake")
    if os.path.exists(script) and shutil.which("cmake"):
        _run(tree, ["cmake", f"-DOUT={folder}", "-P", script])
    return [f"-I{folder}"]


def headers(tree):
    """Each header compiles alone; public ones as C++17, too."""
    cc = _tool("cc", "gcc", "clang")
    cxx = shutil.which("c++") or shutil.which("g++")
    jobs = [(path, [cc, *C11, "-xc"])
            for path in tree.c_files("include", "src", ends=(".h",))]
    if cxx:
        jobs += [(path, [cxx, *CXX17, "-xc++"])
                 for path in tree.c_files("include", ends=(".h", ".hpp"))]
    with tempfile.TemporaryDirectory() as folder:
        made = _generated(tree, folder)

        def compile_one(job):
            path, command = job
            # Twice: a header without a guard shows.
            text = f'#include "{path}"\n#include "{path}"\n'
            done = _run(tree, [*command, "-fsyntax-only", "-I.", *INCLUDES,
                               *made, "-"], text)
            if done.returncode:
                yield Finding(f"{path}:1: does not compile alone\n"
                              + done.stdout.rstrip())

        yield from _parallel(compile_one, jobs)


def formatting(tree):
    """clang-format would change nothing, in C and C++."""
    tool = _tool("clang-format", "clang-format-14")

    def some(paths):
        done = _run(tree, [tool, "--dry-run", "-Werror", *paths])
        found = {}
        for path, line in re.findall(r"^(.+?):(\d+):\d+: error", done.stdout,
                                     re.M):
            found.setdefault(path, line)
        if done.returncode and not found:
            yield Finding(f"{paths[0]}:1: {done.stdout.strip()[:200]}")
        for path, line in found.items():
            yield Finding(f"{path}:{line}: not formatted (./dev format)")

    paths = sorted(tree.c_files(ends=(".c", ".h", ".cpp", ".hpp")))
    yield from _parallel(some, [paths[i:i + 40]
                                for i in range(0, len(paths), 40)])


def tidy(tree):
    """clang-tidy, a small set of checks, finds nothing in src."""
    tool = _tool("clang-tidy", "clang-tidy-14")
    with tempfile.TemporaryDirectory() as folder:
        made = _generated(tree, folder)

        def one(path):
            done = _run(tree, [tool, "--quiet", f"--checks={TIDY}", path,
                               "--", "-std=c11", "-D_GNU_SOURCE=", *INCLUDES,
                               *made])
            yield from _messages(done.stdout.replace(tree.root + "/", ""))

        yield from _parallel(one, tree.c_files("src", ends=(".c",)))


def cppcheck(tree):
    """cppcheck finds nothing in src."""
    tool = _tool("cppcheck")
    if not tree.c_files("src", ends=(".c",)):
        return
    done = _run(tree, [
        tool, "--quiet", "--std=c11", "--language=c", "-j2",
        "--enable=warning,performance,portability", "--inline-suppr",
        "--template={file}:{line}: {severity}: {message} [{id}]",
        "--suppress=missingIncludeSystem", "-D_GNU_SOURCE=", "-D__linux__",
        *INCLUDES, "src"])
    yield from _messages(done.stdout)
    if done.returncode:
        yield Finding(f"src:1: cppcheck ended with {done.returncode}")


def manual(tree):
    """mandoc finds nothing to warn about in the manual pages."""
    pages = tree.files("docs/man", (".1", ".3", ".5", ".7", ".8"))
    if not pages:
        raise Skip("there are no manual pages")
    tool = _tool("mandoc")
    with tempfile.TemporaryDirectory() as folder:
        made = tree.path("tools/man/headers.py")
        if os.path.exists(made):
            _run(tree, [sys.executable, made, folder,
                        *(path for path in tree.files("include", (".h",))
                          if not path.startswith("include/snib/steps/"))])
            for name in sorted(os.listdir(folder)):
                with open(os.path.join(folder, name),
                          encoding="utf-8") as page:
                    if not page.read(4).startswith(".so"): # leads elsewhere
                        pages.append(page.name)
        done = _run(tree, [tool, "-T", "lint", "-W", "warning", *pages])
    yield from (Finding(re.sub(r"^mandoc: ", "", line))
                for line in done.stdout.splitlines() if line.strip())


def shell(tree):
    """shellcheck finds nothing in the shell scripts."""
    scripts = []
    for path in tree.files():
        if path.endswith(".sh") or "." not in os.path.basename(path):
            with open(tree.path(path), "rb") as file:
                first = file.readline(80)
            if re.match(rb"#!.*\b(ba|da)?sh\b", first):
                scripts.append(path)
    if not scripts:
        return
    tool = _tool("shellcheck")
    done = _run(tree, [tool, "-x", "-f", "gcc", *scripts])
    yield from _messages(done.stdout)
