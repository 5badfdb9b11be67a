#!/usr/bin/env python3
"""The page of `cugrt plan --html` in headless Chromium: it opens without an error and asks nothing of a network; tabs,
layers that fold, hover, search and functions do what they are for; a model of ten thousand nodes opens.

  plan_page.py CUGRT

A script that stands behind the page's own does what a user does, by the browser's events, and leaves what it saw in the
document, which Chromium prints. CHROMIUM names the program; else it is the first of those below.
"""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from titled_tests import equal, run_tests, test  # noqa: E402

PROGRAMS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
LEAST_BYTES, MOST_BYTES = 100_000, 5_000_000  # of the page of ten thousand nodes

# Before the page's own script: what goes wrong in it, and how what is drawn is told.
BEFORE = """<script>
const seen = {errors: [], drawn: []};
window.addEventListener('error', e => seen.errors.push(String(e.message)));
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
  seen.drawn.push(String(text));
  return fillText.call(this, text, ...at);
};
</script>"""
# Behind it: a user. `look` gives what an action drew.
AFTER = """<script>
{ // names of its own
const by = id => document.getElementById(id);
const drawn = () => seen.drawn.splice(0);
const look = action => { drawn(); action(); return drawn(); };
const side = () => by('side').innerText;
const mouse = (kind, x, y) => {
  const box = by('view').querySelector('canvas').getBoundingClientRect();
  by('view').dispatchEvent(new MouseEvent(kind, {clientX: box.left + x, clientY: box.top + y, bubbles: true}));
};
const tab = name => look(() => document.querySelector('nav button[data-tab=' + name + ']').click());
const row = i => i * 22 + 11;  // of the graph and of bindings
const search = text => { by('search').value = text; by('search').dispatchEvent(new Event('input')); };
const enter = () => by('search').dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}));
try {
  seen.result = (() => { %s })();
} catch (e) {
  seen.errors.push('the test: ' + e);
}
seen.fetched = performance.getEntriesByType('resource').map(e => e.name);
seen.ms = +document.body.dataset.ms;
seen.drawn = [];
const out = document.createElement('pre');
out.id = 'seen';
out.textContent = JSON.stringify(seen);
document.body.append(out);
}
</script>"""

LAYERS = 12
SMALL = "cugrt 1\n\n" + """func @main(%x: tensor<[4, 8], f32>, %w: tensor<[8, 8], f32>) -> (tensor<[4, 8], f32>)
    attributes {num_inputs = 1} {
""" + "".join(f"""  %m{i} = matmul({'%x' if i == 0 else f'%t{i - 1}'}, %w)
  %s{i} = softmax(%m{i}) {{axis = -1}}
  %c{i} = cumsum(%s{i})
  %t{i} = softmax(%c{i}) {{axis = 0}}
""" for i in range(LAYERS)) + f"  return %t{LAYERS - 1}\n" + """}

func @other(%x: tensor<[4, 8], f32>) -> (tensor<[4, 8], f32>) {
  %only = softmax(%x)
  return %only
}
"""
FIRST_LINE = 5  # of %m0


def long_model(nodes):
    lines = "".join(f"  %m{i} = matmul({'%x' if i == 0 else f'%s{i - 1}'}, %w)\n"
                    f"  %s{i} = softmax(%m{i}) {{axis = -1}}\n" for i in range(nodes // 2))
    return ("cugrt 1\n\nfunc @main(%x: tensor<[4, 8], f32>, %w: tensor<[8, 8], f32>) -> (tensor<[4, 8], f32>)\n"
            "    attributes {num_inputs = 1} {\n" + lines + f"  return %s{nodes // 2 - 1}\n}}\n")


class Browser:
    def __init__(self, tool, folder):
        self.tool, self.folder, self.pages = tool, folder, {}
        named = os.environ.get("CHROMIUM")
        self.program = named or next((p for p in map(shutil.which, PROGRAMS) if p), None)
        if not self.program:
            sys.exit("there is no Chromium: install Debian's package chromium, or name one in CHROMIUM")

    def page(self, name, text):
        """The page's file, made once. A module's name is part of it: here one that HTML must not read."""
        if name not in self.pages:
            module, page = (os.path.join(self.folder, name + end) for end in (".cugrt", ".html"))
            with open(module, "w", encoding="utf-8") as file:
                file.write(text)
            subprocess.run([self.tool, "plan", module, "--html", page], check=True, capture_output=True)
            self.pages[name] = page
        return self.pages[name]

    def act(self, page, script, fragment=""):
        """What the script returns, of a page that opens without error and fetches nothing."""
        with open(page, encoding="utf-8") as file:
            text = file.read()
        assert text.count("<body>") == 1 and text.count("</body>") == 1, page
        text = text.replace("<body>", "<body>" + BEFORE).replace("</body>", AFTER % script + "</body>")
        played = os.path.join(self.folder, "played.html")
        with open(played, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run(
            [self.program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             f"--user-data-dir={self.folder}/profile", "--window-size=1280,800", "--dump-dom",
             f"file://{played}{fragment}"], capture_output=True, text=True, check=False, timeout=300)
        found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
        assert found, f"{self.program} printed no result: {done.stderr[-500:]}"
        seen = json.loads(html.unescape(found[1]))
        equal(seen["errors"], [])
        equal(seen["fetched"], [])
        return seen["result"], seen["ms"]

    def small(self, script, fragment=""):
        return self.act(self.page("a<b>&amp;", SMALL), script, fragment)[0]


@test("the page opens with its title, its functions and its tabs, and draws the graph")
def _(browser):
    said = browser.small("return {name: by('name').innerText, tabs: [...by('tabs').children].map(b => b.innerText),"
                         " functions: [...by('function').options].map(o => o.text), graph: tab('graph')};")
    assert "a<b>&amp;.cugrt" in said["name"] and f"{4 * LAYERS + 1} launches" in said["name"], said["name"]
    equal(said["tabs"], ["graph", "storage", "bindings", "memory"])
    equal(said["functions"], ["@main", "@other"])
    assert any("region main_region0" in text for text in said["graph"]), said["graph"]
    equal(sum(f"of {LAYERS}: 4 steps from" in text for text in said["graph"]), LAYERS)


@test("a layer opens and closes by a click, and its steps are drawn when it is open")
def _(browser):
    said = browser.small("""
      const before = tab('graph'), opened = look(() => mouse('click', 300, row(1)));
      return {before, opened, closed: look(() => mouse('click', 300, row(1)))};""")
    steps = [f"%{name}0" for name in "msct"]
    for name in steps:
        assert not any(text.endswith(" " + name) and text[0].isdigit() for text in said["before"]), said["before"]
        assert any(text.endswith(" " + name) and text[0].isdigit() for text in said["opened"]), said["opened"]
    equal(said["closed"], said["before"])


@test("hovering over a step shows its line, what it waits for and its IR")
def _(browser):
    said = browser.small("tab('graph'); mouse('click', 300, row(1)); mouse('mousemove', 300, row(3)); return side();")
    assert re.search(r"Step 1: .*%s0", said), said
    assert f"line {FIRST_LINE + 1}" in said and "in region main_region0" in said, said
    assert "after step 0" in said and "RAW %m0" in said, said
    assert re.search(r"launch @softmax\w*\(%m0", said) or "%s0 = softmax(%m0)" in said, said


@test("searching counts what is found, and Enter goes from step to step through layers that are closed")
def _(browser):
    said = browser.small("""
      search('%c');
      const found = by('found').innerText, sides = [];
      const opened = look(enter);
      sides.push(side().split('\\n')[0]);
      for (let i = 0; i < 2; ++i) { enter(); sides.push(side().split('\\n')[0]); }
      search('nothing has this name');
      const none = by('found').innerText;
      search('line 7');
      enter();
      return {found, opened, sides, none, line: side().split('\\n')[0]};""")
    assert said["found"].startswith(f"{LAYERS} steps, "), said["found"]
    assert any(re.match(r"2 .*%c0$", text) for text in said["opened"]), said["opened"]
    equal([re.search(r"%\w+", text)[0] for text in said["sides"]], ["%c0", "%c1", "%c2"])
    equal(said["none"], "0 steps, 0 bindings")
    assert said["line"].endswith("%c0"), said["line"]


@test("storage is drawn against steps, and a tensor under the mouse says where it lies")
def _(browser):
    said = browser.small("""
      const drawn = tab('storage'), boxes = [];
      for (let y = 35; y < 700 && boxes.length < 1; y += 5)
        for (let x = 25; x < 800 && boxes.length < 1; x += 5) {
          mouse('mousemove', x, y);
          if (side().startsWith('%')) boxes.push(side());
        }
      return {drawn, boxes};""")
    assert any("offset against steps" in text and "scope global" in text for text in said["drawn"]), said["drawn"]
    box = said["boxes"][0]
    assert all(word in box for word in ("scope global", "offset ", "bytes 128", "steps [")), box


@test("bindings are listed with their lines, filtered by the search, and say why they are where they are")
def _(browser):
    said = browser.small("""
      const all = tab('bindings');
      mouse('mousemove', 300, row(1));
      const first = side();
      const some = look(() => search('%c5'));
      return {all, first, some};""")
    assert any("alloc_tensor" in text or "launch @" in text for text in said["all"]), said["all"]
    assert re.match(r"line \d+", said["first"]), said["first"]
    assert said["some"] and all("%c5" in text for text in said["some"] if "launch @" in text), said["some"]
    assert len(said["some"]) < len(said["all"]), (len(said["some"]), len(said["all"]))


@test("memory says what the module needs, and the other function is shown when it is chosen")
def _(browser):
    said = browser.small("""
      tab('memory');
      const memory = side();
      tab('graph');
      by('function').value = 1;
      return {memory, other: look(() => by('function').dispatchEvent(new Event('change')))};""")
    assert "device memory for @main" in said["memory"] and "longest node" in said["memory"], said["memory"]
    assert any(text.endswith("%only") for text in said["other"]), said["other"]
    assert not any("%m0" in text for text in said["other"]), said["other"]


@test("an address names a step or a search")
def _(browser):
    assert re.match(r"Step 9: .*%s2", browser.small("return side();", "#step=9"))
    assert browser.small("return by('found').innerText;", "#search=%25c").startswith(f"{LAYERS} steps")


@test("the page of ten thousand nodes weighs less than five megabytes and opens, its last step under the mouse")
def _(browser):
    page = browser.page("long", long_model(10_000))
    assert LEAST_BYTES < os.path.getsize(page) < MOST_BYTES, os.path.getsize(page)
    said, ms = browser.act(page, "return {name: by('name').innerText, side: side(), rows: document.body.dataset.rows};",
                           "#step=9999")
    print(f"{os.path.getsize(page)} bytes, open after {ms} ms")
    assert "10000 launches" in said["name"], said["name"]
    assert re.match(r"Step 9999: .*%s4999", said["side"]), said["side"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        return run_tests(Browser(sys.argv[1], folder))


if __name__ == "__main__":
    sys.exit(main())
