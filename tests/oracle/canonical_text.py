"""A module's text with names of values, symbols and constants by their order."""
import re

WORD = re.compile(r'"""(?s:.*?)"""|"(?:\\.|[^"\\\n])*"|[%@][\w.]+|\b[A-Za-z_]\w*\b')


def of(text):
    """Constants stand where they are used first; functions' names stay."""
    constants = dict(re.findall(r"^constant @([\w.]+)(: .*)$", text, re.M))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("constant @")]
    out, names, symbols = [], {}, {}
    for line in lines:
        if re.match(r"(private )?func ", line):
            names, symbols = {}, {}
            for dims in re.findall(r"(?:tensor|shape)<\[([^\]]*)\]", line):
                for symbol in re.findall(r"[A-Za-z_]\w*", dims):
                    symbols.setdefault(symbol, f"s{len(symbols)}")
        for dims in re.findall(r"match .*<\[([^\]]*)\]", line):
            for symbol in re.findall(r"[A-Za-z_]\w*", dims):
                symbols.setdefault(symbol, f"s{len(symbols)}")

        def renamed(match):
            word = match[0]
            if word[0] == "%":
                return "%" + names.setdefault(word, f"v{len(names)}")
            if word[0] == "@":
                return "constant" + constants[word[1:]] if word[1:] in constants else word
            return symbols.get(word, word)

        out.append(WORD.sub(renamed, line))
    return "\n".join(out)
