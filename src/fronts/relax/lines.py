"""Lines of a function's text: which stay, and where the script has them."""

import re


def span_of(binding):
    """The script's file, line and column; None where TVM knows none: 0.25 does not, nor do passes keep it."""
    span = binding.span or binding.value.span
    return (str(span.source_name.name), int(span.line), int(span.column)) if span else None


def line_of(binding):
    """The script's line, or ""."""
    span = span_of(binding)
    return f"{span[0]}:{span[1]}" if span else ""


class Spanned(str):
    """A line of the text with what is written behind it, a comment."""

    span = ""


def with_span(line, binding):
    file, *place = span_of(binding) or ("",)
    if not file.isprintable() or not file.strip():
        return line
    line = Spanned(line)
    line.span = f"  // {file.strip()}:{place[0]}:{place[1]}"
    return line


# What does something beside giving its result.
ACTS = {"launch", "call", "host", "extern", "alloc", "alloc_storage", "alloc_tensor", "kill", "if", "match"}


def without_unused(lines):
    """Lines without ops that nothing uses, as those whose work an op of the table does."""
    used, kept = set(), []
    for line in reversed(lines):
        left, is_let, right = line.partition(" = ")
        names = set(re.findall(r"%[\w.]+", left)) if is_let and left.lstrip().startswith("%") else set()
        if names and not names & used and re.match(r"\w+", right)[0] not in ACTS:
            continue
        used.update(re.findall(r"%[\w.]+", right if names else line))
        kept.append(line)
    return kept[::-1]


OWN = {"alloc_storage", "alloc_tensor", "alloc", "view"}  # what a function may kill


def with_last_kills(lines):
    """Lines with those kills alone that end what the function allocates: Relax's let go of a name, and what it stands
    for lives on where a tuple, a tensor in it or a result of a call has it."""
    split, last, whole = [], {}, {}  # the last line that uses a value, or what was made of it; what one lies in
    for at, line in reversed(list(enumerate(lines))):
        left, is_let, right = line.partition(" = ")
        results = re.findall(r"%[\w.]+", left) if is_let and left.lstrip().startswith("%") else []
        word, given = (right if results else line).split()[0], re.findall(r"%[\w.]+", right if results else line)
        if word != "kill":
            end = len(lines) if word == "yield" else max([at, *(last.get(name, at) for name in results)])
            last.update({name: max(end, last.get(name, end)) for name in given})
        if word in OWN:
            whole[results[0]] = given[0] if given else None
        split.append((line, at, given if word == "kill" else None))
    kept, dead = [], set()
    for line, at, killed in reversed(split):
        if killed:
            name, lies_in = killed[0], whole.get(killed[0])
            if name not in whole or last.get(name, at) > at or name in dead or lies_in in dead:
                continue
            dead.add(name)
        kept.append(line)
    return kept
