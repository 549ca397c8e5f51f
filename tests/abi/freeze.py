"""The public headers of a release, kept for ever: freeze.py FOLDER

Copies include/snib.h and include/snib/*.h, without their comments, to FOLDER
(tests/abi/1, …). It is done once, when an interface is final; tests/package
then holds every later library to it. A folder that was released is never
written again."""

import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2] / "include"
COMMENT = re.compile(r"[ \t]*/\*.*?\*/", re.S)


def bare(text):
    """The text without comments and without the empty lines that they leave."""
    lines = (line.rstrip() for line in COMMENT.sub("", text).splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def main(folder):
    for header in (SOURCE / "snib.h", *sorted((SOURCE / "snib").glob("*.h"))):
        kept = folder / header.relative_to(SOURCE)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(bare(header.read_text()))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
