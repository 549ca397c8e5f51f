#!/usr/bin/env python3
"""Configure the tree with each option off, and build what is shipped.

usage: options.py [--build]

Each CMake option off alone, all off together, no store but memory:. Without
--build they are configured only. With it the library and the command are
built (no tests), the command is asked for its version and for a lock in each
store, what is smallest is installed, and two copies of the tree, in folders of
different names and with files of different ages, install the same bytes.

Works in build/options, in two folders at once. All that a variant made there is
deleted before the next one is configured, but for the objects: one is used again
where its command and each file that it was made of are the same, which Ninja
knows, and compiled where they are not.

The last line says `N passed, N failed, N skipped`. Exit status 1 when one fails.
"""

import concurrent.futures
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
PLACE = os.path.join(ROOT, "build", "options")
SHIPPED = ["snib_cli", "snib_shared", "snib_static"]
FOLDERS = queue.SimpleQueue()  # those in which nothing is being built


class Wrong(Exception):
    """What an option broke."""


def switches():
    """The options that are on by default, as CMakeLists.txt has them."""
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        text = file.read()
    found = re.findall(r"^(?:cmake_dependent_)?option\(\s*(SNIB_\w+)\s+"
                       r"\"[^\"]*\"\s+(\S+?)[\s)]", text, re.M)
    return [name for name, default in found if default != "OFF"]


def variants():
    """{name: the options that are off}"""
    every = switches()
    return {**{f"without {name}": [name] for name in every},
            "this host only": ["SNIB_WITH_REDIS", "SNIB_WITH_POSTGRES",
                               "SNIB_WITH_MYSQL", "SNIB_WITH_ETCD",
                               "SNIB_WITH_ZOOKEEPER", "SNIB_WITH_RABBITMQ"],
            "all off": every}


def call(log, *command, **options):
    with open(log, "a", encoding="utf-8") as file:
        if subprocess.run(command, stdout=file, stderr=subprocess.STDOUT,
                          check=False, **options).returncode:
            raise Wrong(f"{' '.join(command[:2])} failed; see {log}")


def clear(folder):
    """What a variant made is gone, but for objects and what Ninja knows of them."""
    for top, _, names in os.walk(folder):
        for one in names:
            if not one.endswith(".o") and one not in (".ninja_deps",
                                                      ".ninja_log"):
                os.remove(os.path.join(top, one))


def configure(name, off, folder):
    """What was said is in the log that is returned."""
    log = os.path.join(PLACE, name.replace(" ", "-") + ".log")
    clear(folder)
    open(log, "w", encoding="utf-8").close()
    call(log, "cmake", "-G", "Ninja", "-S", ROOT, "-B", folder,
         "-DCMAKE_BUILD_TYPE=Debug", *(f"-D{one}=OFF" for one in off))
    with open(log, encoding="utf-8", errors="replace") as file:
        said = file.read()
    for one in off:
        # As a part that is switched off, or as one that needs such a part.
        if f"off, switched off by {one}" not in said and not (
                one == "SNIB_SIM" and "SNIB_TESTS" in off):
            raise Wrong(f"{one}=OFF is not told in a line; see {log}")
    return log


def ask(program, store, want, words):
    """One lock of one store: its exit status and words."""
    with tempfile.TemporaryDirectory() as home:
        env = {key: value for key, value in os.environ.items()
               if not key.startswith("SNIB_")}
        command = [program, "try", "x"]
        if store:
            command[1:1] = ["--store", store.replace("DIR", home)]
        done = subprocess.run(command, env=dict(env, HOME=home), text=True,
                              stdin=subprocess.DEVNULL, timeout=20,
                              capture_output=True, check=False)
    if done.returncode != want or words not in done.stderr:
        raise Wrong(f"{' '.join(command[1:])}: exit {done.returncode},"
                    f" {done.stderr.strip()!r}; expected {want}, {words!r}")


def use(program, off):
    """The command of that build runs, and a store that it lacks is told."""
    done = subprocess.run([program, "version"], capture_output=True, text=True,
                          timeout=20, check=False)
    if done.returncode or not done.stdout.startswith("snib "):
        raise Wrong(f"snib version: exit {done.returncode}")
    ask(program, "file:DIR/x.db", 0, "")
    if "SNIB_WITH_REDIS" in off:
        ask(program, "redis://127.0.0.1:1", 78, "there is no store redis: in this build")
        ask(program, "redlock://127.0.0.1:1,127.0.0.1:2", 78,
            "there is no store redlock: in this build")
    else:
        ask(program, "redis://127.0.0.1:1", 69, "")
    if "SNIB_WITH_ETCD" in off:
        ask(program, "etcd://127.0.0.1:1", 78,
            "there is no store etcd: in this build")
    else:
        ask(program, "etcd://127.0.0.1:1", 69, "")
    if "SNIB_TLS" not in off and "SNIB_WITH_REDIS" in off and \
            "SNIB_WITH_ETCD" not in off:
        ask(program, "rediss://127.0.0.1:1", 78,
            "there is no store rediss: in this build")
    elif "SNIB_TLS" in off or "SNIB_WITH_REDIS" in off:
        ask(program, "rediss://127.0.0.1:1", 78, "this build has no TLS")
        ask(program, "redlocks://127.0.0.1:1,127.0.0.1:2", 78,
            "this build has no TLS")
    else:
        ask(program, "rediss://127.0.0.1:1", 69, "")
    if "SNIB_WITH_POSTGRES" in off:
        ask(program, "postgres://127.0.0.1:1/x", 78,
            "there is no store postgres: in this build")
    else:
        ask(program, "postgres://127.0.0.1:1/x", 69, "")
    if "SNIB_WITH_MYSQL" in off:
        ask(program, "mysql://127.0.0.1:1/x", 78,
            "there is no store mysql: in this build")
    else:
        ask(program, "mysql://127.0.0.1:1/x", 69, "")
    if "SNIB_WITH_ZOOKEEPER" in off:
        ask(program, "zookeeper://127.0.0.1:1", 78,
            "there is no store zookeeper: in this build")
    else:
        ask(program, "zookeeper://127.0.0.1:1", 69, "")
    if "SNIB_WITH_RABBITMQ" in off:
        ask(program, "amqp://127.0.0.1:1", 78,
            "there is no store amqp: in this build")
    else:
        ask(program, "amqp://127.0.0.1:1", 69, "")
    ask(program, "memory:x", 78, "memory:")


def build(name, off, folder, log):
    targets = [one for one in SHIPPED
               if one != "snib_cli" or "SNIB_CLI" not in off]
    if name == "all off":
        call(log, "ninja", "-C", folder, "all")
        call(log, "cmake", "--install", folder, "--prefix",
             os.path.join(folder, "prefix"))
        return
    call(log, "ninja", "-C", folder, *targets)
    if "SNIB_CLI" not in off:
        use(os.path.join(folder, "snib"), off)


def install_copy(name, seconds):
    """{path: bytes} of what a copy of the tree installs."""
    tree = os.path.join(PLACE, name)
    log = tree + ".log"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(
        "build", ".git", "__pycache__"))
    for top, _, names in os.walk(tree):
        for one in names:
            os.utime(os.path.join(top, one), (seconds, seconds))
    folder, prefix = os.path.join(tree, "out"), os.path.join(tree, "prefix")
    call(log, "cmake", "-G", "Ninja", "-S", tree, "-B", folder,
         "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-O1",
         *(f"-DSNIB_{part}=OFF" for part in
           ("TESTS", "DEMO", "BENCH", "EXAMPLES")))
    call(log, "ninja", "-C", folder, "all")
    call(log, "cmake", "--install", folder, "--prefix", prefix)
    found = {}
    for top, _, names in os.walk(prefix):
        for one in names:
            path = os.path.join(top, one)
            with open(path, "rb") as file:
                found[os.path.relpath(path, prefix)] = file.read()
    shutil.rmtree(tree)
    return found


def same_bytes():
    first = install_copy("copy", 1_000_000_000)
    second = install_copy("another-copy", 1_700_000_000)
    differ = [path for path in {**first, **second}
              if first.get(path) != second.get(path)]
    if differ or "bin/snib" not in first:
        raise Wrong(f"differ: {' '.join(sorted(differ)[:5]) or 'no snib'}")


def try_variant(name, off, with_build):
    folder = FOLDERS.get()
    try:
        log = configure(name, off, folder)
        if with_build:
            build(name, off, folder, log)
    finally:
        FOLDERS.put(folder)


def one(item, with_build):
    name, off = item
    began = time.monotonic()
    try:
        if off is None:
            same_bytes()
        else:
            try_variant(name, off, with_build)
    except (Wrong, subprocess.TimeoutExpired) as why:
        return False, f"FAILED {name}: {str(why).replace(ROOT + '/', '')}"
    return True, f"ok {name} ({time.monotonic() - began:.0f} s)"


def main():
    with_build = sys.argv[1:] == ["--build"]
    if sys.argv[1:] and not with_build:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        sys.exit(64)
    passed = failed = 0
    shutil.rmtree(PLACE, ignore_errors=True)
    folders = [os.path.join(PLACE, name) for name in ("one", "other")]
    for folder in folders:
        os.makedirs(folder)
        FOLDERS.put(folder)
    items = list(variants().items())
    if with_build:  # the longest first
        items.insert(0, ("in two folders", None))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for good, line in pool.map(lambda item: one(item, with_build),
                                   items):
            passed, failed = passed + good, failed + (not good)
            print(line, flush=True)
    for folder in folders:
        shutil.rmtree(folder)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
