"""The rules for the Lua scripts, from their words: no syntax tree is needed
for statements that begin a line, as ours do."""
import re

from mutant import Edit, Mutant

WORD = re.compile(
    r"(?P<space>\s+|--\[\[.*?\]\]|--[^\n]*)"
    r"|(?P<text>\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])*'|\[\[.*?\]\])"
    r"|(?P<number>\d+(\.\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^#<>=(){}\[\];:,.])", re.S)
OPERATORS = {"==": "~=", "~=": "==", "<": "<=", "<=": "<", ">": ">=",
             ">=": ">", "and": "or", "or": "and", "+": "-", "-": "+",
             "*": "/", "/": "*"}
JOINING = {"..", "==", "~=", "<", "<=", ">", ">=", "and", "or", "+", "-", "*",
           "/", "%", "=", ",", ".", ":", "not", "(", "[", "{", "^"}
KEYWORDS = {"local", "if", "then", "else", "elseif", "end", "for", "while",
            "do", "repeat", "until", "return", "break", "function", "in",
            "and", "or", "not", "nil", "true", "false"}


class Script:
    def __init__(self, path, source):
        self.path, self.source, self.found = path, source, []
        self.text = source.decode("latin-1")
        self.words = []  # (text, start, end), without space
        at = 0
        while at < len(self.text):
            word = WORD.match(self.text, at)
            if not word:
                raise ValueError(f"{path}: no Lua at byte {at}")
            if word.lastgroup != "space" and not word.group("space"):
                self.words.append((word.group(), at, word.end()))
            at = word.end()

    def function_at(self, start):
        names = re.findall(r"^(?:local )?function (\w+)", self.text[:start],
                           re.M)
        return names[-1] if names else "(script)"

    def add(self, rule, start, end, new, more=()):
        begin = self.text.rfind("\n", 0, start) + 1
        line = self.text[begin:self.text.find("\n", start)].strip()
        self.found.append(Mutant(
            self.path, self.function_at(start), rule,
            self.text.count("\n", 0, start) + 1, line, self.text[start:end],
            new, [Edit(start, end, new, "text"),
                  *(Edit(*e, "text") for e in more)]))

    def rules(self):
        for at, (word, start, end) in enumerate(self.words):
            before = self.words[at - 1][0] if at else ""
            if word in OPERATORS and not (
                    word == "-" and before in JOINING | KEYWORDS):
                self.add("operator", start, end, OPERATORS[word])
            elif word == "not":
                self.add("operator", start, end, "")
            elif word in ("true", "false"):
                self.add("constant", start, end,
                         "false" if word == "true" else "true")
            elif word.isdigit():
                self.add("constant", start, end, str(int(word) + 1))
                if int(word) > 0:
                    self.add("constant", start, end, str(int(word) - 1))
            elif word in ("if", "elseif", "while", "until"):
                self.condition(at)
            elif word == "(" and re.match(r"\w+$", before) and \
                    before not in KEYWORDS:
                self.arguments(at)
        self.statements()
        return sorted(self.found, key=lambda m: (
            m.edits[0].start, -m.edits[0].end, m.rule))

    def condition(self, at):
        word, _, start = self.words[at]
        if word == "until":
            last = at + 1
            while last < len(self.words) and \
                    "\n" not in self.text[start:self.words[last][2]].strip():
                last += 1
            end = self.words[last - 1][2]
        else:
            stop = "do" if word == "while" else "then"
            last = next(n for n in range(at, len(self.words))
                        if self.words[n][0] == stop)
            end = self.words[last - 1][2]
        start = self.words[at + 1][1]
        text = self.text[start:end]
        self.add("condition", start, end, f"not ({text})")
        if word in ("if", "elseif"):
            self.add("condition", start, end, "true")
        if word != "until":
            self.add("condition", start, end, "false")

    def arguments(self, at):
        """A name as an argument, replaced by the name beside it."""
        given, depth, first = [], 0, at + 1
        for n in range(at, len(self.words)):
            word = self.words[n][0]
            depth += (word in "([{") - (word in ")]}")
            if (word == "," and depth == 1) or (word == ")" and depth == 0):
                given.append(self.words[first:n])
                first = n + 1
            if depth == 0:
                break
        names = [g[0] if len(g) == 1 and re.match(r"[A-Za-z_]", g[0][0])
                 and g[0][0] not in KEYWORDS else None for g in given]
        for one, two in zip(names, names[1:]):
            if one and two and one[0] != two[0]:
                self.add("argument", *one[1:], two[0])
                self.add("argument", *two[1:], one[0])

    def statements(self):
        """Calls and assignments that begin a line: dropped, exchanged."""
        last = None
        at = 0
        while at < len(self.words):
            word, start, _ = self.words[at]
            begins = self.text[:start].rpartition("\n")[2].strip() == "" \
                and (at == 0 or self.words[at - 1][0] not in JOINING)
            if not begins or not re.match(r"[A-Za-z_]", word) or \
                    word in KEYWORDS:
                at += 1
                if begins:
                    last = None
                continue
            stop, depth = at, 0
            while stop < len(self.words):
                now = self.words[stop][0]
                depth += (now in "([{") - (now in ")]}")
                after = self.words[stop + 1] if stop + 1 < len(self.words) \
                    else ("", len(self.text), 0)
                if depth == 0 and "\n" in self.text[self.words[stop][2]:
                                                    after[1]] \
                        and now not in JOINING and \
                        after[0] not in JOINING - {"not", "(", "{"}:
                    break
                stop += 1
            end = self.words[min(stop, len(self.words) - 1)][2]
            inside = [w[0] for w in self.words[at:stop + 1]]
            call = inside[-1] == ")" and "=" not in inside
            if (call or "=" in inside) and "function" not in inside:
                self.add("call" if call else "assignment", start, end, "")
                self.exchange(last, (start, end, call))
                last = start, end, call
            else:
                last = None
            at = stop + 1
        return self.found

    def exchange(self, one, two):
        if not one or not (one[2] or two[2]) or \
                self.text[one[1]:two[0]].strip():
            return
        texts = [self.text[s:e] for s, e, _ in (one, two)]
        words = [set(re.findall(r"[A-Za-z_]\w*", t)) - {"call", "pcall"}
                 for t in texts]
        if words[0] & words[1]:
            self.add("exchange", one[0], one[1], texts[1],
                     [(two[0], two[1], texts[0])])


def mutants_of(path, source):
    return Script(path, source).rules()
