"""Rules about names that must not stand in the text."""

import re

from tree import Finding, code_of, lines_with

LIBRARY = ("src/base", "src/core", "src/proto", "src/store", "src/net",
           "src/driver", "src/api")
# Unbounded, or with hidden state.
BANNED = ("strcpy", "stpcpy", "strcat", "sprintf", "vsprintf", "gets",
          "strtok", "tmpnam", "mktemp", "alloca")
ALLOCATION = ("malloc", "calloc", "realloc", "reallocarray", "free", "strdup",
              "strndup", "asprintf", "vasprintf", "getline")
HOST = ("printf", "vprintf", "fprintf", "vfprintf", "puts", "fputs",
        "putchar", "perror", "exit", "_exit", "quick_exit", "atexit",
        "signal", "sigaction", "setenv", "putenv", "setlocale")
# libmariadb changes it; what the program has set is put back.
PUTS_BACK = {"src/store/mysql/libmariadb.c": {"sigaction"},
             # in the process that it starts
             "src/driver/spawn.c": {"_exit"}}
TEXTS = (".c", ".h", ".cpp", ".hpp", ".py", ".sh", ".cmake", ".txt", ".md",
         ".json", ".lua", ".in", ".yml", ".yaml", "dev", "run")
# Words that the map's words (docs/ARCHITECTURE.md) have replaced: one word for
# one thing.
REPLACED = {
    "beside": "besides, next to, while",
    "broom": "cleaner", "chan": "connection", "company": "batch",
    "deaf": "unresponsive", "errand": "request", "heir": "next",
    "inquiry": "request", "lane": "owner, worker", "leash": "supervisor",
    "seat": "acquisition", "sheet": "snapshot", "site": "local lock",
    "stake": "claim", "tomb": "tombstone"}
# Spelled apart, so that this file passes its own rules.
UNFINISHED = "|".join(("TO" "DO", "FIX" "ME", "X" "XX", "HA" "CK"))
MACHINE = "/" "work/(main|shared)|" "bash_" "jobs"


def _calls(tree, folders, names, why, but=None):
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(names) + r")\s*\(")
    for path in tree.c_files(*folders):
        for line, match in lines_with(pattern, code_of(tree.read(path))):
            if match.group(1) in (but or {}).get(path, ()):
                continue
            yield Finding(f"{path}:{line}: {match.group(1)}: {why}")


def banned(tree):
    """No strcpy, sprintf, strcat, gets and the like in C files."""
    yield from _calls(tree, (), BANNED, "banned, use a bounded one")


def allocation(tree):
    """The library allocates through base/mem.h alone."""
    yield from _calls(tree, LIBRARY, ALLOCATION, "use base/mem.h",
                      {"src/base/mem.c": set(ALLOCATION)})


def guest(tree):
    """The library does not print, exit, or touch the process' settings."""
    yield from _calls(tree, LIBRARY, HOST, "not the library's business",
                      PUTS_BACK)


def unfinished(tree):
    """No notes about work left to do."""
    pattern = re.compile(rf"\b(?:{UNFINISHED})\b")
    for path in tree.files(".", TEXTS):
        for line, match in lines_with(pattern, tree.read(path)):
            yield Finding(f"{path}:{line}: {match.group()}")


def machine(tree):
    """Nothing about the machine on which this was written."""
    pattern = re.compile(MACHINE)
    for path in tree.files(".", TEXTS):
        for line, match in lines_with(pattern, tree.read(path)):
            yield Finding(f"{path}:{line}: {match.group()}")


def replaced(tree):
    """The library, the programs and their headers use no replaced word."""
    pattern = re.compile(r"(?<![a-z])(" + "|".join(REPLACED) +
                         r")(?:(?<!beside)s)?(?![a-z])", re.I)
    for path in tree.c_files("include", "src", ends=(".c", ".h", ".hpp")):
        for line, match in lines_with(pattern, tree.read(path)):
            word = match.group(1).lower()
            yield Finding(f"{path}:{line}: {word}: it is called "
                          f"{REPLACED[word]} now")
