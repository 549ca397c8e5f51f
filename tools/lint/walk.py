#!/usr/bin/env python3
"""The way of one acquire through the library, as a reader has to follow it.

usage: walk.py [--tree] [--limits]

Compiles the library with a hook at each function's begin, starts a Redis, and
prints what the calling thread enters for one acquire of a free lock: the files
in the order in which they are first entered, with their functions. --tree: each
call, indented. A *climb* is a call into a file that was entered before the file
of its caller: there a reader has to turn back. src/base counts as known.

--limits: fails when there are more files or climbs than tools/lint/limits.tsv
allows, or fewer (the limits only go down). The goal: 6 files, no climb.
Exit status: 0, 1, 69 without gcc or redis-server."""
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from harness.redis_server import RedisServer, redis_missing  # noqa: E402

CC = ["gcc", "-std=gnu11", "-O0", "-g1", "-w", "-fno-inline", "-D_GNU_SOURCE=",
      "-DSNIB_WITH_REDIS=1", "-Iinclude", "-Isrc"]
FOLDERS = ("base", "core", "core/rules", "proto", "net", "driver",
           "api",
           "store", "store/memory", "store/file", "store/redis", "store/quorum",
           "store/cluster")


def run(command, **more):
    return subprocess.run(command, cwd=ROOT, text=True, check=True,
                          stdout=subprocess.PIPE, **more).stdout


def build(folder):
    run(["cmake", f"-DOUT={folder}", "-P", "src/store/redis/embed.cmake"],
        stderr=subprocess.DEVNULL)
    sources = [f"src/{part}/{name}" for part in FOLDERS
               for name in sorted(os.listdir(f"{ROOT}/src/{part}"))
               if name.endswith(".c")]
    sources += [f"{folder}/redis_scripts.c", "tools/lint/walk.c"]
    jobs, objects = [], []
    for source in sources:
        objects.append(f"{folder}/{len(objects)}.o")
        while len(jobs) >= (os.cpu_count() or 1):
            if jobs.pop(0).wait():
                sys.exit("walk.py: the library does not compile")
        jobs.append(subprocess.Popen(
            [*CC, f"-I{folder}", "-finstrument-functions",
             "-finstrument-functions-exclude-file-list=src/base/", "-c",
             source, "-o", objects[-1]], cwd=ROOT))
    for job in jobs:
        if job.wait():
            sys.exit("walk.py: the library does not compile")
    program = f"{folder}/walk"
    run(["gcc", "-o", program, *objects, "-lhiredis", "-lpthread"])
    return program


def steps(program, said):
    """[(depth, function, file)] of what the program said."""
    lines = said.split("\n")
    main = int(lines[0].split()[1], 16)
    at = next(int(line.split()[0], 16) for line in
              run(["nm", program]).split("\n") if line.endswith(" T main"))
    found = [(int(a), int(b, 16) - main + at)
             for a, b in (line.split() for line in lines[1:] if line)]
    names = run(["addr2line", "-f", "-e", program],
                input="\n".join(hex(a) for _, a in found)).split("\n")
    out = []
    for i, (depth, _) in enumerate(found):
        file = re.sub(r"^.*?(src|tools)/", r"\1/", names[2 * i + 1].split(":")[0])
        out.append((depth, names[2 * i], file))
    return out


def climbs_of(walk):
    """{(caller's function, callee's)} that go back to a file from before."""
    first, stack, found = {}, [], []
    for depth, function, file in walk:
        del stack[depth:]
        if file.endswith(".h"):  # a header's function is its caller's
            file = stack[-1][1] if stack else file
        first.setdefault(file, len(first))
        if stack and first[file] < first[stack[-1][1]]:
            found.append((stack[-1][0], function))
        while len(stack) < depth:
            stack.append(stack[-1])
        stack.append((function, file))
    return list(dict.fromkeys(found))


def allowed():
    with open(f"{ROOT}/tools/lint/limits.tsv", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return {row[1]: int(row[2]) for row in rows if row[0] == "walk"}


def main():
    if redis_missing():
        print(f"walk.py: {redis_missing()}")
        return 69
    with tempfile.TemporaryDirectory() as folder:
        program = build(folder)
        server = RedisServer()
        try:
            said = run([program, server.url])
        finally:
            server.close()
        walk = steps(program, said)
    files = {}
    for depth, function, file in walk:
        if "--tree" in sys.argv:
            print("  " * depth + f"{function} ({file})")
        if not file.endswith(".h"):
            files.setdefault(file, dict())[function] = 1
    for file, functions in files.items():
        print(f"{file}: {' '.join(functions)}")
    climbs = climbs_of(walk)
    number = {"files": len(files), "climbs": len(climbs)}
    print(f"{sum(map(len, files.values()))} functions, {number['files']} files, "
          f"{number['climbs']} climbs")
    for caller, callee in climbs:
        print(f"  climb: {caller} -> {callee}")
    if "--limits" in sys.argv:
        for what, most in allowed().items():
            if number[what] != most:
                print(f"FAILED {what}: {number[what]}, tools/lint/limits.tsv "
                      f"says {most}" + ("; lower it" if number[what] < most
                                        else ""))
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
