"""Who may include whom (docs/ARCHITECTURE.md), read from the #include lines.

    base <- core, base <- proto, core + proto <- store, base <- net,
    core + store + net <- driver, all of them <- api <- cli (which sees nothing
    but the public header) and witness (a program of the library's own)

A header whose name ends in _i (inside) is for the files of its folder.
core, proto and store are sans-I/O: no socket, no thread, no clock. Exceptions
are the stores that work inside this host, file and memory, and those in
databases, postgres and mysql, whose sockets are their vendor's library's.
"""

import os
import re

from tree import Finding, code_of, lines_with

MAY = {
    "base": {"base"},
    "core": {"core", "base"},
    "proto": {"proto", "base"},
    "store": {"store", "core", "proto", "base"},
    "net": {"net", "base"},
    "driver": {"driver", "net", "store", "core", "base"},
    "api": {"api", "driver", "net", "store", "proto", "core", "base"},
    "witness": {"witness", "api", "driver", "core", "base"},
    "cli": {"cli"},
}
PUBLIC = re.compile(r"snib\.h|snib/[a-z_]+\.h")
PUBLIC_NEEDS = {"stdbool.h", "stddef.h", "stdint.h"}
# What programs compile with the client of their database, and no public header
# includes: what each may need besides.
STEPS = "include/snib/steps/"
STEPS_NEED = {"stdio.h", "stdlib.h", "string.h", "step.h"}
STEP_NEEDS = {"step.h": "../optimistic.h", "libpq.h": "libpq-fe.h",
              "libmariadb.h": "mysql.h", "sqlite.h": "sqlite3.h"}
GENERATED = {"redis_scripts.h": "store"}

NO_IO = {"base", "core", "proto", "store"}
IO_HEADERS = {
    "arpa/inet.h", "fcntl.h", "netdb.h", "netinet/in.h", "netinet/tcp.h",
    "poll.h", "pthread.h", "sched.h", "semaphore.h", "signal.h",
    "sys/epoll.h", "sys/eventfd.h", "sys/random.h", "sys/select.h",
    "sys/socket.h", "sys/time.h", "sys/timerfd.h", "sys/un.h", "threads.h",
    "time.h", "unistd.h",
}
IO_ALLOWED = ("src/store/file/", "src/store/memory/",
              "src/store/host", "src/store/sql/host", "src/store/sql/native",
              "src/store/postgres/", "src/store/mysql/")
# What a store lets others include.
SHARED = {"src/store/redis/redis.h", "src/store/redis/node.h",
          "src/store/redis/slots.h", "src/store/sql/sql.h",
          "src/store/sql/host.h", "src/store/sql/address.h",
          "src/store/sql/tables.h", "src/store/sql/recipe.h",
          "src/store/sql/native.h"}
# Vendor headers, and the only place that may know each.
VENDOR = {"hiredis/": "src/proto/resp", "openssl/": "src/net/tls",
          "libpq-fe.h": "src/store/postgres/",
          "mysql.h": "src/store/mysql/", "nghttp2/": "src/proto/grpc/"}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)


def includes_of(text):
    """(line, quoted, name) of each #include that is not commented out."""
    code = code_of(text)
    for line, match in lines_with(INCLUDE, text):
        # In code_of the name of "x.h" is blank; the directive itself is not.
        if "include" in code.split("\n")[line - 1]:
            yield line, match.group(1) == '"', match.group(2)


def layer_of(path):
    """"core" for src/core/x.c, None outside src."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "src" else None


def resolve(tree, path, name):
    """Path in the tree of an included file, None when there is none."""
    for base in (os.path.dirname(path), "src", "include"):
        candidate = os.path.normpath(os.path.join(base, name))
        if os.path.exists(tree.path(candidate)):
            return candidate
    return None


def _quoted(tree, path, layer, name):
    """What is wrong with including "name", or None."""
    if name in GENERATED:
        return None if layer == GENERATED[name] else "not for this folder"
    target = resolve(tree, path, name)
    if target is None:
        return f'"{name}" is not in the tree'
    if target.startswith("include/"):
        return None if PUBLIC.fullmatch(target[len("include/"):]) else \
            f'"{name}" is no public header'
    other = layer_of(target)
    if other not in MAY[layer]:
        return f"{layer} may not include {other or target}"
    if layer == other == "store" and target not in SHARED and os.path.dirname(target) not in (
            "src/store", os.path.dirname(path)):
        return "a store may not include another store"
    if target.endswith("_i.h") and \
            os.path.dirname(target) != os.path.dirname(path):
        return f'"{name}" is for its own folder'
    return None


def _angled(path, layer, name):
    for prefix, home in VENDOR.items():
        if name.startswith(prefix) and not path.startswith(home):
            return f"<{name}> belongs into {home} alone"
    if layer in NO_IO and name in IO_HEADERS and not path.startswith(
            IO_ALLOWED):
        return f"{layer} is sans-I/O: no <{name}>"
    return None


def _a_step_may(path, name):
    return path.startswith(STEPS) and (
        name in STEPS_NEED or name == STEP_NEEDS.get(path[len(STEPS):]))


def arrows(tree):
    """Includes in src point the allowed way."""
    for path in tree.c_files("src"):
        layer = layer_of(path)
        if layer not in MAY:
            yield Finding(f"{path}:1: src/{layer} is not in the architecture")
            continue
        for line, quoted, name in includes_of(tree.read(path)):
            wrong = (_quoted(tree, path, layer, name) if quoted
                     else _angled(path, layer, name))
            if wrong:
                yield Finding(f"{path}:{line}: {wrong}")
    for path in tree.c_files("include"):
        for line, quoted, name in includes_of(tree.read(path)):
            if not (PUBLIC.fullmatch(name) or name in PUBLIC_NEEDS
                    or _a_step_may(path, name)):
                yield Finding(f"{path}:{line}: a public header needs {name}")


def cycles(tree):
    """No header includes itself through others."""
    graph = {}
    for path in tree.c_files("src", "include"):
        graph[path] = {resolve(tree, path, name)
                       for _, quoted, name in includes_of(tree.read(path))
                       if quoted} - {None}
    done, way = set(), []

    def walk(path):
        if path in way:
            ring = way[way.index(path):] + [path]
            yield Finding(f"{path}:1: cycle: " + " -> ".join(ring))
            return
        if path in done:
            return
        way.append(path)
        for target in sorted(graph.get(path, ())):
            yield from walk(target)
        way.pop()
        done.add(path)

    for path in sorted(graph):
        yield from walk(path)
