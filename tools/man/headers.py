#!/usr/bin/env python3
"""Manual pages of section 3 from the public headers, which are the contract.

usage: headers.py OUTDIR HEADER…

A header makes one page, snib/multi.h snib_multi(3): its first comment is the
DESCRIPTION, each "-- title ---" comment begins a section, each block is shown
as declared and followed by the comment above it. Each function gets a page of
its own with its prototype and that comment: `man snib_multi_acquire`.
"""

import pathlib
import re
import sys
import textwrap

RULE = re.compile(r"-- (.+?) -*$")
NOISE = re.compile(r"#(ifndef|define) SNIB_\w+_H$|#define SNIB_H$|"
                   r"#ifn?def (SNIB_H|__cplusplus)$|#endif$|#include |"
                   r'extern "C" \{$|\}$')
# A row of the table of errors: code, class, exit status, text.
ERROR = re.compile(r"^ \*   (\w+) +([A-Z]+) +(\d+)  (.*)$", re.M)


def blocks(text):
    """(comment or None, declarations) of each part that blank lines divide."""
    lines = iter(text.split("\n"))
    comment, code = None, []
    for line in lines:
        if line.startswith("/*") and not code:
            if comment is not None:
                yield comment, ""
            parts = [line[2:]]
            while "*/" not in parts[-1]:
                parts.append(next(lines))
            parts[-1] = parts[-1].split("*/")[0]
            comment = "\n".join(re.sub(r"^ \* ?", "", p, count=1).rstrip()
                                if i else p.strip()
                                for i, p in enumerate(parts)).strip()
        elif line.strip() and not (NOISE.match(line) and not code):
            code.append(line)
            if line.endswith("{"):  # a type: up to its end, blank lines too
                while not re.match(r"\}", line):
                    line = next(lines)
                    code.append(line)
        elif not line.strip() and (code or comment):
            yield comment, "\n".join(code)
            comment, code = None, []
    if comment or code:
        yield comment, "\n".join(code)


# What a roff without a UTF-8 locale knows by its name only.
GLYPHS = {"…": "...", "—": r"\(em", "·": r"\(pc", "−": r"\(mi"}


def escape(line):
    line = line.replace("\\", "\\e")
    for glyph, name in GLYPHS.items():
        line = line.replace(glyph, name)
    line = re.sub(r"(?<!\w)\*(\w[\w-]*)\*(?!\w)", r"\\fI\1\\fR", line)
    return "\\&" + line if line[:1] in (".", "'") else line


def verbatim(text):
    body = "\n".join(escape(line) for line in text.split("\n"))
    return f".Bd -literal -offset indent\n{body}\n.Ed\n"


def flow(text):
    """Paragraphs; what is indented stays as it is, "- " begins an item."""
    out, used = [], False
    for part in re.split(r"\n\n+", text):
        if used:
            out.append(".Pp\n")
        used = True
        for literal, lines in runs(part.split("\n")):
            if literal:
                out.append(verbatim("\n".join(lines)))
            else:
                out.append(sentences(lines))
    made = "".join(out)
    return made.replace(".Pp\n.Bd", ".Bd")


def sentences(lines):
    """Each on a line of its own, as roff likes it."""
    text = re.sub(r"([.!?]\)?) +", r"\1\n", " ".join(lines))
    return "".join(escape(line) + "\n" for one in text.split("\n")
                   for line in textwrap.wrap(one, 78, break_on_hyphens=False))


def runs(lines):
    """(literal?, lines) of each run; list items are kept as they stand."""
    kind, run, item = None, [], False
    for line in lines:
        item = bool(re.match(r"\s+- ", line)) or (
            item and line.startswith("    "))
        literal = line.startswith("  ")
        if literal != kind and run:
            yield kind, run
            run = []
        kind = literal
        run.append(line)
    if run:
        yield kind, run


def prototype(match):
    """One declaration, as if the two macros had never been there."""
    text = re.sub(r"SNIB_API |SNIB_CHECK ", "",
                  re.sub(r"\s+", " ", match[0]))
    text = text.replace("( ", "(").replace(" *", "\0*")
    return textwrap.fill(text, 72, subsequent_indent="    ",
                         break_on_hyphens=False,
                         break_long_words=False).replace("\0", " ")


def plain(code):
    """As a caller sees it: without what only the compiler reads."""
    code = re.sub(r"(?m)^#if defined\(__GNUC__\)\n"
                  r"((#define SNIB_(API|CHECK)\b.*|#else)\n)+#endif\n?",
                  "", code)
    return re.sub(r"SNIB_API [^;]*;", prototype, code).strip("\n")


def functions(text):
    return re.findall(r"^SNIB_API[^;{(]*?(\w+)\(", text, re.M)


def page_name(header):
    parts = header.parts
    return ("snib_" if parts[-2:-1] == ("snib",) else "") + header.stem


def page(header, others, date):
    text = header.read_text()
    name = page_name(header)
    found = list(blocks(text))
    about = found[0][0]
    title, _, rest = about.partition("\n")
    if not rest.startswith("\n"):  # the title goes on
        more, _, rest = rest.partition("\n\n")
        title += " " + more.replace("\n", " ")
    title = title.split(" — ", 1)[1].rstrip(".")
    include = f"snib/{header.name}" if name != "snib" else header.name
    out = [f".Dd {date}\n.Dt {name.upper()} 3\n.Os\n.Sh NAME\n",
           *[f".Nm {n}{' ,' if i < len(functions(text)) else ''}\n"
             for i, n in enumerate([name, *functions(text)])],
           f".Nd {escape(title)}\n.Sh SYNOPSIS\n.In {include}\n.Pp\n",
           link(), ".Sh DESCRIPTION\n", flow(rest.strip())]
    for comment, code in found[1:]:
        rule = RULE.match((comment or "").split("\n")[0])
        if rule:
            out.append(f".Ss {rule[1][0].upper()}{rule[1][1:]}\n")
            comment = comment.partition("\n")[2].strip()
        code = plain(code)
        if code:
            out.append(verbatim(code))
        if comment:
            out.append(flow(comment))
            out.append(".Pp\n" if code else "")
    out.append(".Sh SEE ALSO\n.Xr snib 1")
    out += [f" ,\n.Xr {other} 3" for other in others if other != name]
    return re.sub(r"(\.Pp\n)+(?=\.(Bd|S[hs]|Pp)|\Z)", "", "".join(out) + "\n")


def link():
    return ("Link with\n.Fl lsnib ,\nor with what\n"
            ".Ql pkg-config --cflags --libs snib\nsays.\n")


NAME_MAX = 90


def depth(text):
    """How many parentheses and quotes are open at its end."""
    return (text.count("(") - text.count(")") + text.count("[") -
            text.count("]") + text.count('"') % 2 + text.count("`") % 2)


def name_line(said):
    """What a page's NAME says: the first sentence, or of a long one what stands
    before a comma; never the inside of a parenthesis alone."""
    ends = [m.start() for m in re.finditer(r"(?<!e\.g)(?<!i\.e)[.:;?](?= |$)",
                                           said)]
    first = said[:next((e for e in ends if not depth(said[:e])), len(said))]
    if len(first) > NAME_MAX:  # without what is in parentheses
        first = re.sub(r" \([^()]*\)", "", first)
    if len(first) > NAME_MAX:
        commas = [m.start() for m in re.finditer(r"[,;] ", first[:NAME_MAX])
                  if not depth(first[:m.start()])]
        first = first[:commas[-1]] if commas else first
    return first.strip()


def function_pages(header, others, date):
    """A page a function: its prototype, and what stands above it."""
    text = header.read_text()
    name = page_name(header)
    include = f"snib/{header.name}" if name != "snib" else header.name
    for comment, code in blocks(text):
        found = functions(code)
        if not found:
            continue
        if RULE.match((comment or "").split("\n")[0]):
            comment = comment.partition("\n")[2].strip()
        first = name_line(" ".join((comment or "").split()))
        for function in found:
            shown = plain(code)
            yield function, "".join([
                f".Dd {date}\n.Dt {function.upper()} 3\n.Os\n.Sh NAME\n",
                *[f".Nm {n}{' ,' if n != found[-1] else ''}\n"
                  for n in found],
                f".Nd {escape(first or 'of ' + name)}\n",
                f".Sh SYNOPSIS\n.In {include}\n",
                verbatim(shown), ".Pp\n", link(),
                ".Sh DESCRIPTION\n",
                flow(comment) if comment else f"See\n.Xr {name} 3 .\n",
                f".Sh SEE ALSO\n.Xr {name} 3\n"])


def date_of_the_manual():
    """That of snib(1): it says the same whenever and wherever this is run."""
    page = pathlib.Path(__file__).resolve().parents[2] / "docs/man/snib.1"
    return re.match(r"\.Dd (.*)\n", page.read_text())[1]


def main():
    out = pathlib.Path(sys.argv[1])
    headers = [pathlib.Path(h) for h in sys.argv[2:]]
    out.mkdir(parents=True, exist_ok=True)
    others = sorted(page_name(h) for h in headers)
    date = date_of_the_manual()
    for header in headers:
        name = page_name(header)
        made = dict(function_pages(header, others, date))
        made[name] = page(header, others, date)
        for stem, text in made.items():
            (out / f"{stem}.3").write_text(text)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main()
