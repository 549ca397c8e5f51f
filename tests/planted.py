"""One text of the product replaced by another: for the programs that plant bugs."""
import re


def pattern(old):
    """What stands between the words of old is any blank space, or a comment: how
    lines are broken is clang-format's business."""
    old = re.sub(r"/\*.*?\*/", "", old, flags=re.S)
    words = re.findall(r"\w+|[^\w\s]", old)
    gaps = [r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/)+" if a[-1].isidentifier() and b[0].isidentifier() else r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/)*"
            for a, b in zip(words, words[1:])]
    return "".join(re.escape(w) + g for w, g in zip(words, gaps + [""]))


def swap(text, old, new):
    """(text with new in the place of old, how often old is there). Letter for
    letter if it is there once so, else whatever the line breaks."""
    if text.count(old) == 1:
        return text.replace(old, new), 1
    found = list(re.finditer(pattern(old), text))
    if len(found) != 1:
        return text, len(found)
    return text[:found[0].start()] + new + text[found[0].end():], 1
