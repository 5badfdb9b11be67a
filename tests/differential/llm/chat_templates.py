#!/usr/bin/env python3
"""Chat templates beside Jinja itself, set up as Hugging Face's transformers sets it up: conversations drawn at random over
the templates of tests/data/chat_templates, and constructs of the language one by one.

  chat_templates.py RENDER_TEMPLATES [--seeds N]        needs the package jinja2
  chat_templates.py --write FILE                        what Jinja makes of a few of them, for the unit suite
"""
import argparse
import datetime
import json
import os
import pathlib
import random
import subprocess
import sys
import time

import jinja2
import jinja2.ext
import jinja2.sandbox

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "data" / "chat_templates"
NOW = 1753500000
os.environ["TZ"] = "UTC"
time.tzset()


class Generation(jinja2.ext.Extension):
    """{% generation %}, which marks what a model is trained on; here it only writes."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_write"), [], [], body).set_lineno(line)

    def _write(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                           extensions=[Generation, jinja2.ext.loopcontrols])
ENVIRONMENT.filters["tojson"] = tojson
ENVIRONMENT.globals["raise_exception"] = raise_exception
ENVIRONMENT.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW).strftime(form)


def expected(template, variables):
    """The text, or None where Jinja refuses."""
    try:
        return ENVIRONMENT.from_string(template).render(**variables)
    except Exception:
        return None


def rendered(program, cases):
    """What the program makes of each."""
    lines = [json.dumps({"template": template, "variables": json.dumps(variables), "now": NOW}) for template, variables in cases]
    done = subprocess.run([program], input="\n".join(lines).encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


WORDS = ["Hello", "world", " ", "\n", "  ", "ä", "漢字", "🙂", "<|im_end|>", "</s>", "[INST]", "'", '"', "\\", "{", "}}", "{%", "<think>", "</think>",
         "/no_think", "\t", "\r\n", "</tool_response>", "1", "ß", "İ", "ǆ", "&lt;", "%s", "\u2028", "\x7f", "e\u0301"]


def text_of(draw):
    return "".join(draw.choice(WORDS) for _ in range(draw.choice([0, 1, 1, 2, 3, 5, 9])))


def value_of(draw, depth=0):
    kinds = ["text", "integer", "real", "boolean", "none"] + (["list", "dict"] if depth < 3 else [])
    kind = draw.choice(kinds)
    if kind == "text":
        return text_of(draw)
    if kind == "list":
        return [value_of(draw, depth + 1) for _ in range(draw.randrange(3))]
    if kind == "dict":
        return {draw.choice(["a", "b", "c", "key", "ä", "items", "x y"]): value_of(draw, depth + 1) for _ in range(draw.randrange(3))}
    return {"integer": draw.choice([0, 1, -7, 10 ** 12]), "real": draw.choice([0.5, 1e22, -1e-7, 3.0, 0.1, 123456789.125, 1e16, 1e-5]),
            "boolean": draw.random() < 0.5, "none": None}[kind]


def tool_of(draw):
    spec = lambda: draw.choice([{"type": "string", "description": text_of(draw)}, {"type": "integer", "default": 3}, {"type": "array", "items": {"type": "number"}},
                                {"type": "string", "enum": ["a", "b"]}, {"type": ["string", "null"]}, {"type": "boolean", "default": True},
                                {"type": "object", "properties": {"z": {"type": "number"}}, "additionalProperties": {"type": "string"}}])
    names = draw.sample(["city", "unit", "Days", "query", "n"], draw.randrange(4))
    return {"type": "function", "function": {"name": draw.choice(["weather", "search", "Add"]), "description": draw.choice(["gets it", text_of(draw)]),
                                             "parameters": {"type": "object", "properties": {name: spec() for name in names}, "required": names[:1]}}}


def conversation_of(draw):
    """Mostly in turns, and now and then not."""
    content = lambda: [{"type": "text", "text": text_of(draw)} for _ in range(draw.randrange(1, 3))] if draw.random() < 0.05 else text_of(draw)
    messages = [{"role": "system", "content": content()}] if draw.random() < 0.5 else []
    for _ in range(draw.choice([0, 1, 1, 2, 3])):
        messages.append({"role": "user", "content": content()})
        kind = draw.random()
        if kind < 0.25:
            call = {"type": "function", "function": {"name": "weather", "arguments": {"city": text_of(draw), "n": value_of(draw)}}}
            if draw.random() < 0.7:
                call["id"] = "abcdefghi"
            if draw.random() < 0.2:
                call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
            messages.append({"role": "assistant", "content": draw.choice([None, "", text_of(draw)]), "tool_calls": [call] * draw.choice([1, 1, 2])})
            messages.append({"role": "tool", "content": draw.choice([text_of(draw), '{"t": 20}']), "name": "weather", "tool_call_id": "abcdefghi"})
        if kind < 0.75:
            messages.append({"role": "assistant", "content": content()})
            if draw.random() < 0.2:
                messages[-1]["reasoning_content"] = messages[-1]["thinking"] = text_of(draw)
    if draw.random() < 0.1:
        draw.shuffle(messages)
    variables = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": draw.random() < 0.7, "bos_token": "<s>", "eos_token": "</s>"}
    if draw.random() < 0.4:
        variables["tools"] = [tool_of(draw) for _ in range(draw.randrange(3))]
    if draw.random() < 0.1:
        variables["documents"] = [{"title": "t", "text": text_of(draw)}]
    if draw.random() < 0.2:
        variables["enable_thinking"] = draw.random() < 0.5
    if draw.random() < 0.1:
        del variables["bos_token"]
    return variables


VALUES = {"text": "Hello World, it's\n a <b>'day'</b> ", "empty": "", "n": 7, "x": 2.5, "yes": True, "no": False, "nothing": None, "list": [3, 1, 2, 1],
          "words": ["b", "A", "a", "C"], "rows": [{"k": "x", "v": 2}, {"k": "Y", "v": 1}, {"k": "z"}], "nested": {"b": {"c": [1, {"d": "e"}]}, "a": 1.0},
          "german": "straße ÄÖ ŉ ﬁ ΑΣ", "odd": "a\tb\\c'd\"e\u200b\x00\x7f\xa0é", "dict": {"items": 1, "get": 2, "x": [None, True, 0.1]}}
EXPRESSIONS = """
n + x|n - 1 * 2|(n - 1) * 2|n / 2|n // 2|-n // 2|n % 4|-n % 4|n % -4|2 ** 3 ** 2|-2 ** 2|2 ** -1|n ~ x ~ yes ~ nothing|7.5 // 2|-7.5 % 2|1e3|1_000|0x1F|0b11|0o17|1.5e-7|1e16|1e15|123456789012345678
not yes or no|yes and n|no or empty or 'z'|n < 8 <= 8 > 1|n == 7.0|yes == 1|'a' < 'b'|[1, 2] < [1, 3]|1 in list|'ell' in text|'k' in rows[0]|4 not in list|not 1 in list|n is number and n is integer
text[0]|text[-1]|text[1:4]|text[::-1]|text[5:1:-2]|text[:-3]|list[1:]|list[::-1]|list[10:]|list[-2:]|list[99]|text[99]|rows[0].k|rows[0]['k']|rows.0.k|nested.b.c[1].d|nested.zzz|nested['a']|dict['items']|dict.x[0]
text.strip()|text.lstrip()|text.rstrip()|text.strip('H ')|text.split()|text.split(' ')|text.split(' ', 1)|text.rsplit(' ', 1)|text.split(None, 1)|text.rsplit(None, 1)|text.splitlines()|text.upper()|text.lower()|text.title()|text.capitalize()
text.startswith('He')|text.endswith(' ')|text.startswith(('x', 'H'))|text.replace('l', 'L')|text.replace('l', 'L', 1)|text.replace('', '-')|text.find('o')|text.rfind('o')|text.find('zz')|text.count('l')|text.index('W')|'-'.join(words)|'a,b,,c'.split(',')|'  a b '.split()|'aXbXc'.partition('X')|'aXbXc'.rpartition('X')|'abc'.partition('X')|'abc'.removeprefix('a')|'abc'.removesuffix('c')|'42'.zfill(5)|'-42'.zfill(5)
'a1'.isalnum()|'12'.isdigit()|'ab'.isalpha()|' '.isspace()|'AB'.isupper()|'ab'.islower()|''.isdigit()|'a\\nb\\x41\\u00e4\\101\\q'|'it''s'|"a" 'b'
nested.items() @ list|nested.keys() @ list|nested.values() @ list|nested.get('a')|nested.get('z')|nested.get('z', 5)|list.count(1)|list.index(2)|list.append(1)|nested.update({})
text @ upper|text @ lower|text @ title|text @ capitalize|text @ trim|text @ length|text @ replace('l', 'L')|text @ replace('l', 'L', 1)|'xxaxx' @ trim('x')|n @ string + 'a'|nothing @ trim|text @ first|text @ last|text @ list @ length|text @ reverse|german @ upper|german @ lower|german @ title|german @ capitalize|german.title()|text @ wordcount
list @ join|list @ join(', ')|rows @ join(',', attribute='k')|list @ sort|list @ sort(reverse=true)|words @ sort|words @ sort(case_sensitive=true)|rows @ sort(attribute='k') @ map(attribute='k') @ list|list @ unique @ list|words @ unique @ list|list @ first|list @ last|[] @ first|list @ reverse @ list|list @ sum|rows @ sum(attribute='v')|list @ min|list @ max|words @ max|[] @ max|list @ length|list @ count|nothing @ length
rows @ map(attribute='v') @ list|rows @ map(attribute='v', default=0) @ list|words @ map('upper') @ list|words @ map('replace', 'A', 'x') @ join|rows @ selectattr('v') @ list|rows @ selectattr('v', 'defined') @ list|rows @ rejectattr('v', 'defined') @ list|rows @ selectattr('v', 'equalto', 1) @ list|rows @ selectattr('v', 'gt', 1) @ list|list @ select('odd') @ list|list @ reject('odd') @ list|list @ select @ list|list @ select('in', [1, 2]) @ list|list @ batch(3) @ list|list @ batch(3, 0) @ list
zzz @ default('d')|empty @ default('d')|empty @ default('d', true)|nothing @ default('d')|nothing @ d('d', true)|zzz @ default|'3' @ int|'3.7' @ int|'x' @ int|'x' @ int(5)|'ff' @ int(base=16)|3.9 @ int|yes @ int|'1.5' @ float|'x' @ float|n @ float|2.5 @ round|3.5 @ round|2.675 @ round(2)|2.1 @ round(0, 'ceil')|2.9 @ round(0, 'floor')|n @ round|-3 @ abs|-2.5 @ abs|x @ string
nested @ tojson|nested @ tojson(indent=2)|nested @ tojson(indent=4)|nested @ tojson(separators=(',', ':'))|nested @ tojson(sort_keys=true)|odd @ tojson|german @ tojson(ensure_ascii=true)|'🙂' @ tojson(true)|[] @ tojson(indent=2)|{} @ tojson(indent=2)|[1, [], {}] @ tojson(indent=1)|(1, 2) @ tojson|zzz @ tojson|1e22 @ tojson|nothing @ tojson|nested @ tojson(indent=0)
nested @ dictsort|nested @ dictsort(reverse=true)|{'b': 1, 'A': 2} @ dictsort|{'b': 1, 'A': 2} @ dictsort(true)|{'b': 1, 'A': 2} @ dictsort(by='value')|nested @ items @ list|zzz @ items @ list|'a\\nb\\n\\nc' @ indent|'a\\nb' @ indent(2, true)|'a\\n\\nb' @ indent(2, blank=true)|'a\\nb' @ indent('> ')|text @ safe|'%s-%d' @ format('a', 3)|'%(a)s' @ format(a=1)
'%s' % 'a'|'%d %s' % (3, 'b')|'%05.2f|' % 2.5|'%5d' % 3|'%-5s' % 'a'|'%+d' % 3|'%x' % 255|'%%' % ()|'%s' % list|'%r' % 'a'|'%(k)s' % rows[0]|'%s %s' % ('a',)|'%d' % 'a'|'%e' % 12345.678|'%g' % 0.0001
zzz is defined|n is defined|zzz is undefined|nothing is none|text is string|nested is mapping|list is iterable|text is iterable|list is sequence|nested is sequence|n is number|yes is number|yes is integer|x is float|yes is boolean|yes is true|no is false|1 is true|n is odd|n is even|n is divisibleby 7|n is divisibleby(3)|'a' is in 'abc'|n is eq 7|n is equalto(7)|n is not equalto 8|n is gt 3|n is sameas 7|nothing is sameas none|'abc' is lower|'ABC' is upper|range is callable|'upper' is filter|'zz' is filter|'odd' is test
zzz|zzz.a|zzz['a']|zzz + 1|zzz ~ 'a'|'a' in zzz|zzz == zzz|zzz < 1|zzz @ length|zzz @ join|zzz @ list|zzz()|nothing.a|nothing['a']|n.a|none == nothing|True|False|None|[true, none, 1.0, 'a']|(1,)|()|{'a': 1, 2: 'b', none: true}|odd|[odd]|["it's", 'say "x"', 'it\\'s "x"']
range(3) @ list|range(1, 10, 3) @ list|range(3, 0, -1) @ list|range(0) @ list|range(5) @ sum|dict(a=1, b='x')|dict({'a': 1}, b=2)|dict(**{'q': 1})|'a' if yes|'a' if no|'a' if no else 'b'|'a' if no else 'b' if yes else 'c'|(yes, no)[1]|{'a': {'b': 1}}.a.b|'a' * 3|3 * 'a'|[1] * 2|[1] + [2]|'a' + 1|1 + 'a'|[1] + (2,)|[] == ()|1.0|-0.0|100000.0|0.00001|1/3
list @ map('string') @ join('-')|words @ select('equalto', 'a') @ list|text.upper().lower()|(text @ upper).lower()|text @ upper == 'X'|-n @ abs|n - 1 @ abs|n * 2 @ string|not n is odd|n is odd or zzz.a|yes if n is odd else no|'a' ~ n + 1|1 + 2 ~ 3 * 4|2 * 3 ~ 4|rows[0].v + rows[1].v|words[0:2] @ join|nested @ length|'abc' @ batch(2) @ list|words @ map('first') @ list
(nested.keys() @ list)[0]|nested.items() @ first|rows[-1].v is defined|rows @ last|(rows @ first).k|rows @ selectattr('k', 'in', ['x', 'z']) @ map(attribute='k') @ join('+')|rows @ map(attribute='zzz') @ list|range(10)[3]|range(10)[2:4] @ list|list is not none and list @ length > 2|'\\u2028' @ trim|'\\x1c a' @ trim|text.split('l')[-1].strip()|'abc'[5]|'abc'.foo|raise_exception('no')|strftime_now('%d %b %Y %H:%M')
"""
STATEMENTS = [
    "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if yes -%}\n  b\n  {%- endif -%}\nc\n\n", "a\n  {%+ if yes +%}\n  b\n  {%+ endif %}\nc", "  {# one #}\n  x {# two #} y\n{#- three -#}\n z",
    "{{ 'a' }}\n{{ 'b' -}}\n  {{- 'c' }}\n", "  {{ n }}  \n", "\n\n{% set a = 1 %}\n\n{{ a }}\n\n", "{% raw %}{{ a }}{% b %}{% endraw %}\nx", "a {%- raw -%}  {{ a }}  {%- endraw -%} b", "  {% raw %}\n x\n  {% endraw %}\n y", "x\r\ny\rz{{ n }}\r\n",
    "{% for i in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ i }},{% endfor %}",
    "{% for i in list %}{{ loop.previtem }}<{{ loop.nextitem }}{% if loop.previtem is defined %}p{% endif %};{% endfor %}", "{% for i in list %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for i in [] %}x{% else %}none{% endfor %}", "{% for i in zzz %}x{% else %}none{% endfor %}",
    "{% for i in list if i > 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% endfor %}", "{% for i in list if i > 9 %}{{ i }}{% else %}none{% endfor %}", "{% for k, v in nested.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in nested %}{{ k }}{% endfor %}", "{% for c in 'abc' %}{{ c }}-{% endfor %}", "{% for a, b in [(1, 2), [3, 4]] %}{{ a + b }}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for i in 5 %}{% endfor %}", "{% for i in none %}{% endfor %}",
    "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in [1, 2] %}{% for j in [1, 2] %}{{ loop.depth }}{{ loop.index }}{% if j == 1 %}{% continue %}{% endif %}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% set a = 1 %}{% for i in [1, 2] %}{% set a = a + 1 %}{{ a }}{% endfor %}{{ a }}", "{% set ns = namespace(a=1) %}{% for i in [1, 2] %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.zzz }}", "{% set nested.a = 1 %}", "{% if yes %}{% set q = 5 %}{% endif %}{{ q }}", "{% if no %}{% set q = 5 %}{% endif %}{{ q }}|{{ q is defined }}", "{% for i in [1] %}{% set q = 5 %}{% endfor %}{{ q }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set a %}x{{ n }} {% endset %}[{{ a }}]", "{% set a | upper | trim %} x{{ n }} {% endset %}[{{ a }}]", "{% set ns = namespace() %}{% set ns.t %}x{% endset %}{{ ns.t }}",
    "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}|{{ m(1, 3) }}|{{ m(b=5, a=4) }}|{{ m() }}", "{% macro m(a) %}{{ a }}{{ n }}{{ later }}{% endmacro %}{% set later = 9 %}{{ m(1) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% if a > 0 %}{{ a }}{{ m(a - 1) }}{% endif %}{% endmacro %}{{ m(5) }}", "{% macro m() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ m() }}{{ q }}", "{% macro m() %} x {% endmacro %}[{{ m() | trim }}][{{ m() ~ 'y' }}]",
    "{% macro m() %}{{ loop is defined }}{% endmacro %}{% for i in [1] %}{{ m() }}{% endfor %}", "{% for i in [1, 2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% filter upper %}abc{{ n }}{% endfilter %}", "{% filter trim | upper %} abc {% endfilter %}", "{% generation %}x{% set q = 1 %}{{ n }}{% endgeneration %}{{ q }}",
    "{% if no %}a{% elif n == 7 %}b{% elif zzz.a %}c{% else %}d{% endif %}", "{% if zzz %}a{% else %}b{% endif %}", "{% if rows | selectattr('v', 'equalto', 9) %}a{% endif %}{% if rows | selectattr('v', 'equalto', 9) | list %}b{% endif %}", "{% set g = rows | map(attribute='k') %}{{ g | list }}{{ g | list }}", "{% set g = list | select %}{{ g | first }}{% for i in g %}{{ i }}{% endfor %}",
    "{{ {'a': {}} }}", "{{ {'a': {'b': 1}}['a'] }}", "{{ '}}' }}{{ '%}' }}", "{{ \"{{\" }}", "{{ 'a' -}}   b", "{%- for i in [1,2] %} {{ i }} {%- endfor %}", "{% for i in [1, 2] -%}\n  {{ i }}\n{%- endfor %}\n", "{% set x = namespace(a=[]) %}{% set x.a = x.a + [1] %}{% set x.a = x.a + [2] %}{{ x.a }}",
    "{{ zzz.a.b }}", "{% unknown %}", "{{ n | unknown }}", "{% if no %}{{ n | tojson }}{% endif %}ok", "{{ n is unknown }}", "{{ n", "{% if n %}", "{% endif %}", "{{ }}", "{{ 1 + }}", "{% for in list %}{% endfor %}", "{{ 'a }}", "{{ (1 }}", "{# x", "{{ a b }}", "{% set = 1 %}", "{% if %}{% endif %}", "{{ n.__class__ }}", "{{ ''.__class__.__mro__ }}", "{{ range(1000000) }}", "{{ 1 // 0 }}", "{{ 'a' | int / 0 }}",
    "{{ [1, 2, 3][1:] | join }}{{ (1, 2) + (3,) }}", "{% for m in rows %}{% if not loop.last %}{{ rows[loop.index].k }}{% endif %}{% endfor %}", "{{ dict(a=1).items() | list }}{{ dict([('a', 1)]) if no else '' }}", "{{ list | sort | join('<') | upper }}{{ 'x' if not zzz }}", "{% set t = 'a' %}{% set t = t ~ 'b' %}{{ t }}{{ t * 2 }}", "{% for k, v in nested | dictsort %}{{ k }}{{ v }}{% endfor %}", "{% set ns = namespace(**{'q': 3}) %}{{ ns.q }}", "{{ text | replace('\\n', ' ') | trim }}", "{% if 'b' in nested and nested.b is mapping and nested.b.c | length == 2 %}yes{% endif %}",
    "{%- macro a(x) -%}{{ b(x) }}{%- endmacro -%}{%- macro b(x) -%}<{{ x }}>{%- endmacro -%}{{ a(1) }}", "{% set f = text.upper %}{{ f() }}", "{% for x in list|sort|unique %}{{ x }}{% endfor %}", "{% for row in list | batch(2) %}{{ row | join('+') }};{% endfor %}", "{{ ['a', 'b'] | map('upper') | join(' ') }}", "{% set tools = zzz %}{{ tools is defined }}", "{% for i in list %}{% if loop.first %}{% set w = i %}{% endif %}{{ w }}{% endfor %}",
]


def cases(seeds):
    for line in EXPRESSIONS.strip().split("\n"):
        for expression in line.split("|"):
            yield "{{ " + expression.replace("@", "|") + " }}", VALUES
    for template in STATEMENTS:
        yield template, VALUES
    templates = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.jinja"))}
    for seed in range(seeds):
        draw = random.Random(seed)
        for template in templates.values():
            yield template, conversation_of(draw)


def write(path):
    """A line for each: the template (of a file its name), the variables unless they are the first line's, the text or null."""
    names = {file.read_text(): file.name for file in FOLDER.glob("*.jinja")}
    lines = [json.dumps({"now": NOW, "variables": VALUES})]
    for template, variables in cases(4):
        line = {"template": names.get(template, template), "text": expected(template, variables)}
        lines.append(json.dumps(line if variables is VALUES else line | {"variables": variables}))
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", nargs="?")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--write")
    options = parser.parse_args()
    if options.write:
        return write(options.write)
    count, refused, wrong = 0, 0, 0
    drawn = list(cases(options.seeds))
    for (template, variables), got in zip(drawn, rendered(options.program, drawn), strict=True):
        want = expected(template, variables)
        count += 1
        refused += want is None
        if want != got.get("text"):
            wrong += 1
            print(f"template {template!r}\n  variables {json.dumps(variables) if variables is not VALUES else 'VALUES'}\n  jinja2 {want!r}\n  cugrt  {got}")
    print(f"{count} renderings, {refused} of them refused by Jinja, {wrong} differ")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
