"""A mutant: one small change of one source file, made by a rule.

What is edited is kept as byte ranges of the file. The form of an edit says
how it can stand beside the original text in one build (see splice.py):

  value   an expression: the new text is another expression
  truth   a condition: compared with zero first, pointers too
  void    an expression that is a statement
  jump    break, continue, goto, return: dropped or not
  text    none: the file is written anew (Lua)"""
import dataclasses
import hashlib
import re

FORMS = ["value", "truth", "void", "jump"]  # the later one wins, if both


@dataclasses.dataclass
class Edit:
    start: int
    end: int
    new: str
    form: str


@dataclasses.dataclass
class Mutant:
    path: str       # from the top of the tree
    function: str
    rule: str
    line: int       # of the first edit
    text: str       # that line of the file, without indentation
    old: str        # what is changed, as shown
    new: str
    edits: list     # of Edit, the first is the place
    number: int = 0
    nth: int = 1    # of those that look alike: the same change in one line

    @property
    def place(self):
        """The mutants of one place and rule are drawn as one."""
        return self.path, self.edits[0].start, self.edits[0].end, self.rule

    @property
    def change(self):
        return f"{flat(self.old)} -> {flat(self.new)}"

    @property
    def mark(self):
        """What an equivalence mark compares; no line numbers."""
        again = f" #{self.nth}" if self.nth > 1 else ""
        return (self.path, self.function, self.rule, self.text,
                self.change + again)

    @property
    def folder(self):
        return folder_of(self.path)


def flat(text):
    return re.sub(r"\s+", " ", text).strip() or "(nothing)"


def folder_of(path):
    """src/core, src/store/redis, src/store/redis/scripts, …"""
    return path.rpartition("/")[0] or "."


def key_of(path, function, text, nth):
    """A place by its content, for maps that outlive a commit."""
    whole = "\0".join([path, function, flat(text), str(nth)])
    return hashlib.sha1(whole.encode()).hexdigest()[:16]


def patched(source, mutant):
    """The file as bytes with the mutant in it, and nothing else changed."""
    for edit in sorted(mutant.edits, key=lambda e: -e.start):
        old = source[edit.start:edit.end]
        new = edit.new.encode()
        if edit.form == "void" and not edit.new:
            new = b"(void)0"
        new += b"\n" * max(0, old.count(b"\n") - new.count(b"\n"))
        source = source[:edit.start] + new + source[edit.end:]
    return source
