"""Mutants of the Lua scripts: their texts lie in files, and a process takes
those of the mutant that it is (MUTANT_OF_SNIB) in place of its own, before
main(). Tests that read the scripts as files get the file replaced (a bind
mount in their namespace)."""
import hashlib
import os
import re
import shutil
import subprocess

from built import write
from mutant import patched

FOLDER = "src/store/redis/scripts"
TESTS = "tests/sim_model"
TAKE = """
/* The scripts of a mutant, in place of those that are built in. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static char *mutant_text(const char *name, const char *end)
{
    const char *number = getenv("MUTANT_OF_SNIB");
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/%s.%s", MUTANT_SCRIPTS,
             number ? number : "0", name, end);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    if (!text || pread(fd, text, (size_t)size, 0) != size) {
        abort();
    }
    close(fd);
    return text;
}

__attribute__((constructor)) static void mutant_scripts(void)
{
    /* Read from memory, since a compiler knows that the table is constant. */
    struct snib__redis_script *volatile table =
        (struct snib__redis_script *)(void *)snib__redis_scripts;
    struct snib__redis_script *all = table;
    const char *number = getenv("MUTANT_OF_SNIB");
    if (!number || atoi(number) < MUTANT_SCRIPTS_FIRST) {
        return;
    }
    for (int k = 0; k < SNIB__SCRIPTS; k++) {
        char *text = mutant_text(all[k].name, "lua");
        if (text) {
            size_t page = (size_t)sysconf(_SC_PAGESIZE);
            char *from = (char *)((size_t)&all[k] / page * page);
            if (mprotect(from, (size_t)((char *)(&all[k] + 1) - from),
                         PROT_READ | PROT_WRITE)) {
                abort();
            }
            all[k].text = text;
            for (all[k].size = 0; text[all[k].size]; all[k].size++) {
            }
            all[k].sha1 = mutant_text(all[k].name, "sha1");
        }
    }
}
"""


def assembled(redis_folder, scratch):
    """{name: text} as embed.cmake makes them of the scripts in a folder."""
    out = os.path.join(scratch, "embedded")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    done = subprocess.run(
        ["cmake", f"-DOUT={out}", "-P",
         os.path.join(redis_folder, "embed.cmake")],
        capture_output=True, text=True)
    if done.returncode:
        raise ValueError(f"embed.cmake: {done.stderr}")
    texts = {}
    for name in os.listdir(out):
        found = re.match(r"^redis_(\w+)\.lua$", name)
        if found:
            with open(os.path.join(out, name), "rb") as file:
                texts[found[1]] = file.read()
    return texts


def prepare(root, mutants, base):
    """Writes the texts of these mutants into base/NUMBER; the lines that a C
    file which uses the scripts needs at its end."""
    lua = [m for m in mutants if m.path.endswith(".lua")]
    shutil.rmtree(base, ignore_errors=True)
    if not lua:
        return ""
    work = os.path.join(base, "work")
    shutil.copytree(os.path.join(root, os.path.dirname(FOLDER)), work)
    plain = assembled(work, base)
    for mutant in lua:
        path = os.path.join(work, "scripts", os.path.basename(mutant.path))
        with open(path, "rb") as file:
            source = file.read()
        new = patched(source, mutant)
        write(path, new)
        for name, text in assembled(work, base).items():
            if text != plain[name]:
                at = os.path.join(base, str(mutant.number), name)
                write(at + ".lua", text)
                write(at + ".sha1", hashlib.sha1(text).hexdigest().encode())
        write(path, source)
        write(os.path.join(base, str(mutant.number), "source"), new)
    first = min(m.number for m in lua)
    return (f'#define MUTANT_SCRIPTS "{base}"\n'
            f"#define MUTANT_SCRIPTS_FIRST {first}\n" + TAKE)


def users_of_scripts(root, paths):
    """The C files that get those lines: one of the store, and the tests that
    use the scripts without it."""
    def uses(path):
        with open(os.path.join(root, path), "rb") as file:
            return b"snib__redis_scripts[" in file.read()

    of_store = [path for path in sorted(paths)
                if path.startswith("src/") and path.endswith(".c")
                and uses(path)][:1]
    if not of_store:
        raise ValueError("no C file uses snib__redis_scripts")
    of_tests = [f"{TESTS}/{name}"
                for name in sorted(os.listdir(os.path.join(root, TESTS)))
                if name.endswith(".c") and uses(f"{TESTS}/{name}")
                ] if os.path.isdir(os.path.join(root, TESTS)) else []
    return of_store + of_tests


def binds(mutant, base, tree):
    """[(file with the mutant, file that tests read)]"""
    return [(os.path.join(base, str(mutant.number), "source"),
             os.path.join(tree, mutant.path))]
