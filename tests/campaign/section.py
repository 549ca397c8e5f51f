#!/usr/bin/env python3
"""The command under `snib run NAME -- section.py …`: one protected section.

usage: section.py HISTORY RESOURCE PROCESS ELEMENT HOLD_MS ASKED

It says that it runs (begin, alive each few milliseconds, end): these stamps
are the claim that nobody else may hold the lock meanwhile. In between it adds
ELEMENT to the resource, read-modify-write, guarded by SNIB_TOKEN.
"""

import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from history import append, boot_ns  # noqa: E402
from protected import Resource  # noqa: E402


def main():
    path, resource, process, element, hold_ms, asked = sys.argv[1:]
    token, element = int(os.environ["SNIB_TOKEN"]), int(element)
    who = {"p": process, "lock": os.environ["SNIB_NAME"], "token": token}
    resource = Resource(resource, lambda **line: append(
        path, op="fence", lock=who["lock"], **line))
    append(path, op="section", e="begin", asked=int(asked), **who)
    append(path, op="write", e="invoke", element=element, **who)
    found = resource.enter(token)
    end = boot_ns() + int(hold_ms) * 1_000_000
    while boot_ns() < end:  # the work: it stamps that it is still at it
        time.sleep(0.01)
        append(path, op="section", e="alive", **who)
    written = found is not None and resource.write(
        token, found[0] + 1, found[1] + [[token, element]])
    append(path, op="write", e="ok" if written else "fail", element=element,
           **who)
    append(path, op="section", e="end", **who)


if __name__ == "__main__":
    main()
