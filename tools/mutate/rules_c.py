"""The rules for C: places and changes, from the syntax tree of libclang.

Only the bodies of functions are looked at, and only what can be chosen while
the program runs: no constants in case labels, array sizes, static tables. Of
a function-like macro only the whole call is a place."""
import os
import re
import sys

from mutant import Edit, Mutant

try:
    import clang.cindex as cindex
except ImportError:  # Debian's package, another Python first in PATH
    sys.path.append("/usr/lib/python3/dist-packages")
    try:
        import clang.cindex as cindex
    except ImportError:
        cindex = None

MISSING = "" if cindex else ("python3-clang is not installed "
                             "(Debian 12: python3-clang-14)")

OPERATORS = {
    "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["/"],
    "<<": [">>"], ">>": ["<<"], "&": ["|"], "|": ["&"], "^": ["&"],
    "<": ["<="], "<=": ["<"], ">": [">="], ">=": [">"],
    "==": ["!="], "!=": ["=="], "&&": ["||"], "||": ["&&"],
}
ASSIGNMENTS = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "|=": "&=",
               "&=": "|=", "<<=": ">>=", ">>=": "<<=", "^=": "|=", "%=": "/="}
LOCKING = re.compile(r"^pthread_\w*lock$|(^|_)(un)?lock(_shared)?$|^flock$")
# A leak is seen by the runs under AddressSanitizer, not by an exit status.
FREEING = re.compile(r"(^|_)(free|decref|unref)$|^free")
STATE = re.compile(r"(^|_)state$")
SIMPLE = re.compile(r"^&?[A-Za-z_]\w*((->|\.)[A-Za-z_]\w*)*$")
NUMBER = re.compile(r"^(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)([uUlL]*)$")
NOT_CODE = {"NULL", "true", "false"}


def strip_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def balanced(text):
    text = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'', "0",
                  strip_comments(text))
    depth = []
    for c in text:
        if c in "([{":
            depth.append(c)
        elif c in ")]}" and (not depth or depth.pop() + c not in
                             ("()", "[]", "{}")):
            return False
    return not depth


class File:
    """The places of one file."""

    def __init__(self, path, root, arguments):
        self.path, self.found, self.seen = path, [], set()
        name = os.path.join(root, path)
        with open(name, "rb") as file:
            self.source = file.read()
        self.starts = [0] + [m.end() for m in re.finditer(b"\n", self.source)]
        self.kinds = cindex.CursorKind
        extra = ["-x", "c"] if path.endswith(".h") else []
        unit = cindex.Index.create().parse(
            name, args=[*extra, *arguments],
            options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
        worst = [d for d in unit.diagnostics if d.severity >= 3]
        if worst:
            raise ValueError(f"{path} does not compile: {worst[0]}")
        self.name, self.root, self.function = name, root, ""
        self.calls, self.constants = [], {}
        for cursor in unit.cursor.get_children():
            if self.is_here(cursor):
                self.top(cursor)

    def is_here(self, cursor):
        file = cursor.location.file
        return file is not None and file.name == self.name

    def top(self, cursor):
        k = self.kinds
        if cursor.kind == k.MACRO_INSTANTIATION:
            start, end = self.span(cursor)
            if self.source[end - 1:end] == b")":
                self.calls.append((start, end))
            else:
                self.constants[start, end] = self.is_ours(cursor)
        elif cursor.kind == k.FUNCTION_DECL and cursor.is_definition():
            self.function = cursor.spelling
            self.returns = cursor.result_type.get_canonical()
            for child in cursor.get_children():
                if child.kind == k.COMPOUND_STMT:
                    self.visit(child)

    def is_ours(self, macro):
        file = macro.referenced and macro.referenced.location.file
        return bool(file) and os.path.realpath(file.name).startswith(
            os.path.realpath(self.root) + os.sep)

    # -- text --------------------------------------------------------------

    def span(self, cursor):
        extent = cursor.extent
        return extent.start.offset, extent.end.offset

    def text(self, cursor):
        start, end = self.span(cursor)
        return self.source[start:end].decode()

    def in_macro(self, start, end):
        """Inside the call of a macro, or a name that stands for more."""
        return any(s <= start and end <= e for s, e in self.calls)

    def line_of(self, start):
        low, high = 0, len(self.starts)
        while high - low > 1:
            middle = (low + high) // 2
            if self.starts[middle] <= start:
                low = middle
            else:
                high = middle
        end = self.source.find(b"\n", start)
        end = len(self.source) if end < 0 else end
        return low + 1, self.source[self.starts[low]:end].decode().strip()

    def add(self, rule, cursor, new, form="value", shown=None, more=()):
        """One mutant; shown: (old, new) for people, if not the texts."""
        start, end = self.span(cursor)
        old = self.source[start:end].decode()
        key = rule, start, end, new, form
        if key in self.seen or start >= end or not balanced(old):
            return
        if form != "void" and self.in_macro(start, end):
            return
        self.seen.add(key)
        line, text = self.line_of(start)
        shown = shown or (old, new)
        self.found.append(Mutant(
            self.path, self.function, rule, line, text, *shown,
            [Edit(start, end, new, form), *more]))

    # -- walking -------------------------------------------------------------

    def visit(self, cursor):
        k, kind = self.kinds, cursor.kind
        children = list(cursor.get_children())
        if kind in (k.CXX_UNARY_EXPR, k.GENERIC_SELECTION_EXPR) or (
                kind.is_declaration() and kind != k.VAR_DECL):
            return  # sizeof and the like; types
        if kind == k.VAR_DECL:
            self.variable(cursor, children)
            return
        if kind == k.CASE_STMT:
            children = children[1:]
        elif kind == k.INIT_LIST_EXPR and self.text(cursor) in ("{0}", "{}"):
            return
        elif kind == k.COMPOUND_STMT:
            self.neighbours(children)
        elif kind == k.FOR_STMT:
            self.for_loop(cursor, children)
        elif kind in (k.IF_STMT, k.CONDITIONAL_OPERATOR):
            self.condition(children[0], ["true", "false"])
        elif kind == k.WHILE_STMT:
            self.condition(children[0], ["false"])
        elif kind == k.DO_STMT:
            self.condition(children[-1], ["false"])
        elif kind == k.BINARY_OPERATOR:
            self.binary(cursor, children)
        elif kind == k.COMPOUND_ASSIGNMENT_OPERATOR:
            self.compound_assignment(cursor, children)
        elif kind == k.UNARY_OPERATOR:
            self.unary(cursor, children)
        elif kind == k.INTEGER_LITERAL:
            self.literal(cursor)
        elif kind == k.DECL_REF_EXPR:
            self.enumerator(cursor)
        elif kind == k.CALL_EXPR:
            self.arguments(cursor)
        elif kind == k.RETURN_STMT:
            self.result(cursor, children)
        if kind in (k.BREAK_STMT, k.CONTINUE_STMT, k.GOTO_STMT):
            self.jump(cursor)
        if kind.is_expression():
            self.macro_constant(cursor)
        if kind in (k.COMPOUND_STMT, k.CASE_STMT, k.DEFAULT_STMT, k.IF_STMT,
                    k.LABEL_STMT):
            for child in children[kind == k.IF_STMT:]:
                self.statement(child)
        for child in children:
            self.visit(child)

    def variable(self, cursor, children):
        if cursor.storage_class == cindex.StorageClass.STATIC:
            return
        equals = self.source.find(b"=", cursor.location.offset,
                                  cursor.extent.end.offset)
        for child in children:
            if child.kind.is_expression() and 0 <= equals < \
                    child.extent.start.offset:
                self.visit(child)

    def sign(self, cursor):
        """The operator as it is written; empty if a macro makes it."""
        k, children = self.kinds, list(cursor.get_children())
        if cursor.kind == k.UNARY_OPERATOR:
            return self.text(cursor)[:1]
        if len(children) != 2 or cursor.kind not in (
                k.BINARY_OPERATOR, k.COMPOUND_ASSIGNMENT_OPERATOR):
            return ""
        between = self.source[self.span(children[0])[1]:
                              self.span(children[1])[0]]
        return strip_comments(between.decode()).strip()

    # -- rules -----------------------------------------------------------------

    def binary(self, cursor, children):
        if len(children) != 2:
            return
        left, right = children
        sign = self.sign(cursor)
        a, b = self.text(left), self.text(right)
        for other in OPERATORS.get(sign, []):
            self.add("operator", cursor, f"({a}) {other} ({b})",
                     shown=(f"{a} {sign} {b}", f"{a} {other} {b}"))
        if sign in ("&&", "||"):
            for part in (a, b):
                self.add("condition", cursor, f"!!({part})",
                         shown=(f"{a} {sign} {b}", part))

    def compound_assignment(self, cursor, children):
        left, right = children
        sign = self.sign(cursor)
        if sign in ASSIGNMENTS:
            self.add("operator", cursor, f"{self.text(left)} "
                     f"{ASSIGNMENTS[sign]} {self.text(right)}")

    def unary(self, cursor, children):
        text, inner = self.text(cursor), self.text(children[0])
        if text.startswith("!"):
            self.add("operator", cursor, inner, "truth")
        elif text.startswith(("-", "~")) and not text.startswith("--"):
            self.add("operator", cursor, inner)
        elif text in ("++" + inner, inner + "++"):
            self.add("operator", cursor, text.replace("++", "--"))
        elif text in ("--" + inner, inner + "--"):
            self.add("operator", cursor, text.replace("--", "++"))

    def literal(self, cursor):
        number = NUMBER.match(self.text(cursor))
        if not number:
            self.truth_value(cursor)
            return
        digits, suffix = number.groups()
        octal = digits.startswith("0") and digits.isdigit()
        value = int(digits, 8 if octal else 0)
        self.add("constant", cursor, f"{value + 1}{suffix}")
        if value > 0:
            self.add("constant", cursor, f"{value - 1}{suffix}")

    def truth_value(self, cursor):
        text = self.text(cursor)
        if text in ("true", "false"):
            self.add("constant", cursor,
                     "false" if text == "true" else "true")

    def macro_constant(self, cursor):
        """A name of ours that stands for a number."""
        if not self.constants.get(self.span(cursor)):
            return
        kind, integer = cursor.type.get_canonical().kind, cindex.TypeKind
        name = self.text(cursor)
        if kind in (integer.INT, integer.LONG, integer.UINT, integer.ULONG,
                    integer.LONGLONG, integer.ULONGLONG) \
                and name not in NOT_CODE:
            self.add("constant", cursor, f"({name} + 1)")
            self.add("constant", cursor, f"({name} - 1)")

    def enumerator(self, cursor):
        what = cursor.referenced
        if what is None or what.kind != self.kinds.ENUM_CONSTANT_DECL:
            return
        name, enum = self.text(cursor), what.semantic_parent
        if name != what.spelling:
            return
        if not enum.spelling or "(" in enum.spelling:  # limits and the like
            self.add("constant", cursor, f"({name} + 1)")
            self.add("constant", cursor, f"({name} - 1)")
            return
        names = [c.spelling for c in enum.get_children()
                 if c.kind == self.kinds.ENUM_CONSTANT_DECL]
        at = names.index(name)
        others = [names[(at + 1) % len(names)]]
        if name.startswith("SNIB_ERR_"):
            others += [names[at - 1], names[0]]
        for other in dict.fromkeys(others):
            if other != name:
                self.add("code", cursor, other)

    def condition(self, cursor, constants):
        text = self.text(cursor)
        if text in ("true", "1", "false", "0"):
            return
        sign = self.sign(cursor)
        if sign not in ("==", "!=", "!"):  # an operator's rule negates those
            self.add("condition", cursor, f"!({text})", "truth")
        for value in constants:
            self.add("condition", cursor, "1" if value == "true" else "0",
                     "truth", (text, value))

    def for_loop(self, cursor, children):
        start, end = self.span(cursor)
        text = self.source[start:end].decode(errors="replace")
        if not balanced(text) or len(text) != end - start:
            return
        depth, semicolons = 0, []
        for at, c in enumerate(text):
            depth += (c in "([{") - (c in ")]}")
            if c == ";" and depth == 1:
                semicolons.append(start + at)
            if depth == 0 and c == ")":
                break
        for child in children[:-1]:
            if len(semicolons) == 2 and \
                    semicolons[0] < self.span(child)[0] < semicolons[1]:
                self.condition(child, ["false"])

    def callee(self, cursor):
        """The call that a statement is, without (void)."""
        k = self.kinds
        while cursor.kind in (k.CSTYLE_CAST_EXPR, k.UNEXPOSED_EXPR,
                              k.PAREN_EXPR):
            inner = [c for c in cursor.get_children()
                     if c.kind.is_expression()]
            if len(inner) != 1:
                return None
            cursor = inner[0]
        return cursor if cursor.kind == k.CALL_EXPR else None

    def statement(self, cursor):
        k = self.kinds
        span = self.span(cursor)
        if not cursor.kind.is_expression():
            return
        if span in self.calls:
            if not self.text(cursor).startswith(("assert", "va_")):
                self.add("call", cursor, "", "void")
            return
        call = self.callee(cursor)
        if call is not None:
            name = call.spelling or self.text(call).split("(")[0]
            if not FREEING.search(name):
                rule = "lock" if LOCKING.search(name) else "call"
                self.add(rule, cursor, "", "void")
        elif cursor.kind == k.BINARY_OPERATOR and self.is_assignment(cursor):
            left = next(cursor.get_children())
            field = re.split(r"->|\.", self.text(left))[-1]
            rule = "transition" if STATE.search(field) else "assignment"
            self.add(rule, cursor, "", "void")

    def is_assignment(self, cursor):
        return self.sign(cursor) == "="

    def neighbours(self, statements):
        """Two statements that follow each other and have to do with each
        other."""
        def words(cursor):
            return set(re.findall(r"[A-Za-z_]\w*", self.text(cursor)))

        for one, two in zip(statements, statements[1:]):
            kinds = []
            for cursor in (one, two):
                call = self.callee(cursor) if cursor.kind.is_expression() \
                    else None
                kinds.append("call" if call is not None else
                             "assignment" if self.is_assignment(cursor)
                             else "")
            spans = self.span(one), self.span(two)
            if kinds == ["call", "call"] and all(
                    FREEING.search(self.callee(c).spelling or "")
                    for c in (one, two)):
                continue  # in either order
            if "" in kinds or any(self.in_macro(*s) for s in spans):
                continue
            if "call" in kinds:
                related = words(one) & words(two)
            else:
                left = [self.text(next(c.get_children())) for c in (one, two)]
                related = left[0] in self.text(two) or left[1] in \
                    self.text(one)
            texts = self.text(one), self.text(two)
            if related and texts[0] != texts[1] and balanced(texts[1]):
                self.add("exchange", one, texts[1], "void",
                         (f"{texts[0]}; {texts[1]}",
                          f"{texts[1]}; {texts[0]}"),
                         [Edit(*spans[1], texts[0], "void")])

    def jump(self, cursor):
        self.add("jump", cursor, "", "jump")

    def result(self, cursor, children):
        if not children:
            self.jump(cursor)
            return
        value, text = children[0], self.text(children[0])
        kind, types = self.returns.kind, cindex.TypeKind
        if kind == types.BOOL and text not in ("true", "false"):
            self.add("return", value, f"!({text})")
        elif kind == types.POINTER and text != "NULL":
            self.add("return", value, "(void *)0", shown=(text, "NULL"))
        elif kind == types.ENUM and not re.match(r"^[A-Z_0-9]+$", text):
            self.add("return", value, f"({text}, 0)", shown=(text, "0"))
        elif kind in (types.INT, types.LONG, types.UINT, types.ULONG) \
                and not NUMBER.match(text):
            self.add("return", value, f"({text}, 0)", shown=(text, "0"))

    def arguments(self, cursor):
        given = list(cursor.get_arguments())
        for at, one in enumerate(given):
            for other in given[max(at - 1, 0):at] + given[at + 1:at + 2]:
                a, b = self.text(one), self.text(other)
                if a != b and SIMPLE.match(b) and SIMPLE.match(a) and \
                        self.alike(one, other):
                    self.add("argument", one, b)

    def alike(self, one, other):
        types = cindex.TypeKind
        integers = (types.INT, types.LONG, types.UINT, types.ULONG,
                    types.SHORT, types.USHORT, types.LONGLONG)
        a, b = (c.type.get_canonical() for c in (one, other))
        if a.kind in integers and b.kind in integers:
            return True
        if a.kind == b.kind == types.POINTER:
            a, b = (t.get_pointee().get_canonical() for t in (a, b))
            if b.is_const_qualified() and not a.is_const_qualified():
                return False
        return a.spelling.replace("const ", "") == \
            b.spelling.replace("const ", "")


def mutants_of(path, root, arguments):
    """The mutants of one file, in the order of their places."""
    found = File(path, root, arguments).found
    return sorted(found, key=lambda m: (m.edits[0].start, -m.edits[0].end,
                                        m.rule))
