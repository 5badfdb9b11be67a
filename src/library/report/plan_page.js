// The page of a plan: rows and boxes on a canvas, drawn as far as they are seen. Its data: plan_page.cpp.
'use strict';
const P = JSON.parse(document.getElementById('plan').textContent), S = P.strings;
const $ = id => document.getElementById(id), view = $('view'), canvas = view.querySelector('canvas');
const ctx = canvas.getContext('2d'), ROW = 22, GUTTER = 190;
let tab = 'graph', fn = P.functions.findIndex(f => f.steps.kernel.length), open = new Set(), rows = [], rowOf = [];
let hovered = -1, chosen = -1, matches = [], match = -1, edges = [], boxes = [], zoom = 1;
if (fn < 0)
  fn = 0;
const F = () => P.functions[fn];
const stepName = i => S[F().steps.kernel[i]] + (F().steps.value[i] < 0 ? '' : ' %' + S[F().steps.value[i]]);
const place = l => l ? 'line ' + l : 'generated';

// Rows of the graph: regions, layers that fold, steps; steps outside of regions by themselves.
function layOut() {
  rows = [];
  rowOf = new Int32Array(F().steps.kernel.length).fill(-1);
  edges = [];
  const one = (s, r) => {
    rowOf[s] = rows.length;
    rows.push({step : s, region : r});
  };
  let next = 0;
  const outside = to => {
    for (; next < to; ++next)
      one(next, -1);
  };
  F().regions.forEach((r, n) => {
    outside(r.first);
    rows.push({
      title : 'region ' + r.name + ': ' + r.count + ' steps, ' + r.edges.length / 2 + ' edges, key ' + r.key +
                  ', slots ' + r.slots,
      region : n,
      fold : 'r' + n
    });
    next = r.first + r.count;
    if (open.has('r' + n)) {
      for (let s = r.first; s < next; ++s)
        rowOf[s] = rows.length - 1;
      return;
    }
    for (const [first, count, number, of] of r.layers) {
      const key = n + ':' + first, at = r.first + first;
      const folds = count > 1 && r.layers.length > 1, folded = folds && !open.has(key);
      if (folds)
        rows.push({
          title : (of > 1 ? 'layer ' + number + ' of ' + of + ': ' : '') + count + ' steps from ' + stepName(at),
          fold : key,
          layer : true,
          region : n,
          folded
        });
      for (let s = at; s < at + count; ++s)
        if (folded)
          rowOf[s] = rows.length - 1;
        else
          one(s, n);
    }
    const early = new Set(r.programmatic);
    for (let e = 0; e < r.edges.length; e += 2) {
      const a = rowOf[r.first + r.edges[e]], b = rowOf[r.first + r.edges[e + 1]];
      if (a !== b)
        edges.push([ a, b, early.has(e / 2) ]);
    }
  });
  outside(F().steps.kernel.length);
  const seen = new Set();
  edges = edges.filter(e => {
    const k = e[0] * 1e6 + e[1];
    return !seen.has(k) && seen.add(k);
  });
}

function drawRows(count, draw) {
  const first = Math.floor(view.scrollTop / ROW),
        last = Math.min(count, first + Math.ceil(canvas.clientHeight / ROW) + 1);
  for (let i = first; i < last; ++i) {
    const y = i * ROW - view.scrollTop;
    if (i === hovered || i === chosen) {
      ctx.fillStyle = i === chosen ? '#d7e6fb' : '#eef4fc';
      ctx.fillRect(0, y, canvas.clientWidth, ROW);
    }
    draw(i, y + 15);
  }
}
function drawGraph() {
  const top = view.scrollTop, bottom = top + canvas.clientHeight;
  drawRows(rows.length, (i, y) => {
    const row = rows[i];
    ctx.fillStyle = row.step === undefined ? '#2b5fab' : row.region < 0 ? '#a33' : '#222';
    ctx.font = (row.step === undefined ? 'bold ' : '') + '12px system-ui, sans-serif';
    const text = row.step === undefined
                     ? ((row.layer ? row.folded : open.has(row.fold)) ? '\u25b8 ' : '\u25be ') + row.title
                     : row.step + '  ' + stepName(row.step) + (row.region < 0 ? '  (outside of regions)' : '');
    ctx.fillText(text, GUTTER + (row.layer ? 8 : row.step === undefined ? 0 : 24), y);
  });
  for (const [a, b, early] of edges) {
    const ya = (a + .5) * ROW, yb = (b + .5) * ROW;
    if (Math.max(ya, yb) < top || Math.min(ya, yb) > bottom)
      continue;
    const on = a === hovered || b === hovered || a === chosen || b === chosen;
    ctx.strokeStyle = on ? '#d2691e' : '#99a';
    ctx.lineWidth = on ? 2 : 1;
    ctx.setLineDash(early ? [ 4, 3 ] : []);
    const x = GUTTER - 8, out = x - Math.min(GUTTER - 20, 10 + 14 * Math.log2(1 + Math.abs(b - a)));
    ctx.beginPath();
    ctx.moveTo(x, ya - top);
    ctx.bezierCurveTo(out, ya - top, out, yb - top, x, yb - top);
    ctx.stroke();
  }
  ctx.setLineDash([]);
}
// Offset against time; the wheel with Ctrl zooms time.
function drawStorage() {
  const w = (canvas.clientWidth - 40) * zoom, h = canvas.clientHeight - 60, t = P.tensors;
  boxes = [];
  let most = 1, end = 1;
  for (let i = 0; i < t.name.length; ++i)
    if (t.function [i] === fn) {
      most = Math.max(most, t.offset[i] + t.bytes[i]);
      end = Math.max(end, t.end[i]);
    }
  ctx.font = '12px system-ui, sans-serif';
  ctx.fillStyle = '#222';
  ctx.fillText('offset against steps, ' + end + ' steps, ' + most + ' bytes; ' + P.arenas.map(a => a.text).join('; '),
               20, 18);
  for (let i = 0; i < t.name.length; ++i) {
    if (t.function [i] !== fn)
      continue;
    const gaps = t.gaps[i] || [];
    let from = t.first[i];
    for (const [b, e] of gaps.concat([ [ t.end[i], 0 ] ])) {
      const box = [
        20 + w * from / end - view.scrollLeft, 30 + h - h * (t.offset[i] + t.bytes[i]) / most,
        Math.max(.5, w * (b - from) / end), Math.max(.5, h * t.bytes[i] / most), i
      ];
      from = e;
      if (box[0] + box[2] < 0 || box[0] > canvas.clientWidth)
        continue;
      boxes.push(box);
      ctx.fillStyle = i === hovered ? '#d2691e' : 'hsl(' + i * 47 % 360 + ',55%,75%)';
      ctx.fillRect(box[0], box[1], box[2], box[3]);
      if (box[3] > 12 && box[2] > 50) {
        ctx.fillStyle = '#222';
        ctx.fillText('%' + S[t.name[i]], box[0] + 3, box[1] + 12, box[2] - 6);
      }
    }
  }
}
function bindingRows() {
  return matches.length && $('search').value ? matches.filter(m => m.note !== undefined).map(m => m.note)
                                             : F().notes.line.map((_, i) => i);
}
let listed = [];
function drawBindings() {
  const n = F().notes;
  drawRows(listed.length, (r, y) => {
    const i = listed[r];
    ctx.font = '12px system-ui, sans-serif';
    ctx.fillStyle = '#888';
    ctx.fillText(place(n.line[i]), 8, y);
    ctx.fillStyle = n.region[i] < 0 ? '#a33' : '#2b5fab';
    ctx.fillText(n.region[i] < 0 ? '-' : F().regions[n.region[i]].name, 80, y, 90);
    ctx.fillStyle = '#222';
    ctx.fillText(S[n.text[i]], 180, y);
  });
}
function draw() {
  const ratio = window.devicePixelRatio || 1, w = view.clientWidth, h = view.clientHeight;
  if (canvas.width !== w * ratio || canvas.height !== h * ratio) {
    canvas.width = w * ratio;
    canvas.height = h * ratio;
    canvas.style.width = w + 'px';
    canvas.style.height = h + 'px';
  }
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, w, h);
  ({graph : drawGraph, storage : drawStorage, bindings : drawBindings, memory() {}})[tab]();
}
function refresh() {
  if (tab === 'graph')
    layOut();
  if (tab === 'bindings')
    listed = bindingRows();
  const count = tab === 'graph' ? rows.length : tab === 'bindings' ? listed.length : 0;
  $('room').style.height = Math.max(0, count * ROW - view.clientHeight) + 'px';
  $('room').style.width = tab === 'storage' ? view.clientWidth * zoom + 'px' : '1px';
  document.querySelectorAll('nav button').forEach(b => b.classList.toggle('on', b.dataset.tab === tab));
  if (tab === 'memory')
    showMemory();
  draw();
}
function add(parent, tag, text, cls) {
  const e = parent.appendChild(document.createElement(tag));
  e.textContent = text;
  if (cls)
    e.className = cls;
  return e;
}
function showMemory() {
  const side = $('side');
  side.textContent = '';
  add(side, 'h3', 'Memory');
  P.memory.forEach(m => add(side, 'pre', m));
  add(side, 'h3', 'Code');
  add(side, 'pre', P.code);
  if (P.fusion) {
    add(side, 'h3', 'Fusion');
    add(side, 'pre', P.fusion);
  }
}
function showStep(s) {
  const side = $('side'), f = F(), line = f.steps.line[s], n = f.notes;
  side.textContent = '';
  add(side, 'h3', 'Step ' + s + ': ' + stepName(s));
  add(side, 'div', P.module + ', ' + place(line), 'why');
  f.regions.forEach(r => {
    if (s < r.first || s >= r.first + r.count)
      return;
    add(side, 'div', 'in region ' + r.name + ', key ' + r.key, 'why');
    for (let e = 0; e < r.edges.length; e += 2)
      if (r.edges[e + 1] === s - r.first)
        add(side, 'div',
            'after step ' + (r.edges[e] + r.first) + ' ' + stepName(r.edges[e] + r.first) +
                (r.reasons[e / 2] === undefined ? '' : ': ' + S[r.reasons[e / 2]]),
            'why');
  });
  add(side, 'h3', 'IR');
  for (let i = 0; i < n.line.length; ++i)
    if (line && (n.line[i] === line || S[n.reason[i]] === 'part of what line ' + line + ' has become')) {
      add(side, 'pre', place(n.line[i]) + '  ' + S[n.text[i]]);
      add(side, 'div', S[n.reason[i]] + (n.calls[i] < 0 ? '' : ', ' + S[n.calls[i]]), 'why');
    }
}
function showTensor(i) {
  const t = P.tensors, side = $('side');
  side.textContent = '';
  add(side, 'h3', '%' + S[t.name[i]]);
  add(side, 'pre',
      'scope ' + S[t.scope[i]] + '\noffset ' + t.offset[i] + '\nbytes ' + t.bytes[i] + '\nsteps [' + t.first[i] +
          ', ' + t.end[i] + ')' + (t.bucket[i] < 0 ? '' : '\nwhere ' + S[t.bucket[i]]));
}
function showNote(i) {
  const n = F().notes, side = $('side');
  side.textContent = '';
  add(side, 'h3', place(n.line[i]));
  add(side, 'pre', S[n.text[i]]);
  add(side, 'div', S[n.reason[i]] + (n.calls[i] < 0 ? '' : ', ' + S[n.calls[i]]), 'why');
}
function at(event) {
  const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  if (tab === 'storage') {
    for (let i = boxes.length - 1; i >= 0; --i) {
      const b = boxes[i];
      if (x >= b[0] && x <= b[0] + b[2] && y >= b[1] && y <= b[1] + b[3])
        return b[4];
    }
    return -1;
  }
  return Math.floor((y + view.scrollTop) / ROW);
}
view.addEventListener('mousemove', event => {
  const i = at(event);
  if (i === hovered)
    return;
  hovered = i;
  if (tab === 'graph' && rows[i] && rows[i].step !== undefined)
    showStep(rows[i].step);
  if (tab === 'storage' && i >= 0)
    showTensor(i);
  if (tab === 'bindings' && listed[i] !== undefined)
    showNote(listed[i]);
  draw();
});
view.addEventListener('click', event => {
  const row = tab === 'graph' && rows[at(event)];
  if (!row)
    return;
  if (row.fold) {
    open.has(row.fold) ? open.delete(row.fold) : open.add(row.fold);
    refresh();
  } else {
    chosen = at(event);
    showStep(row.step);
    draw();
  }
});
view.addEventListener('scroll', draw);
view.addEventListener('wheel', event => {
  if (tab === 'storage' && event.ctrlKey) {
    event.preventDefault();
    zoom = Math.min(200, Math.max(1, zoom * (event.deltaY < 0 ? 1.25 : .8)));
    refresh();
  }
}, {passive : false});
window.addEventListener('resize', refresh);
function find() {
  const text = $('search').value.toLowerCase(), n = F().notes;
  matches = [];
  match = -1;
  if (text) {
    const hit = S.map(s => s.toLowerCase().includes(text)), asLine = /^(line )?(\d+)$/.exec(text);
    const isLine = l => asLine && l === +asLine[2];
    for (let s = 0; s < rowOf.length; ++s)
      if (hit[F().steps.kernel[s]] || hit[F().steps.value[s]] || stepName(s).toLowerCase().includes(text) ||
          isLine(F().steps.line[s]))
        matches.push({step : s});
    for (let i = 0; i < n.line.length; ++i)
      if (hit[n.text[i]] || hit[n.reason[i]] || isLine(n.line[i]))
        matches.push({note : i});
  }
  $('found').textContent = text ? matches.filter(m => m.step !== undefined).length + ' steps, ' +
                                      matches.filter(m => m.note !== undefined).length + ' bindings'
                                : '';
  refresh();
}
function go(step) {
  F().regions.forEach((r, n) => {
    if (step >= r.first && step < r.first + r.count) {
      open.delete('r' + n);
      for (const [first, count] of r.layers)
        if (step >= r.first + first && step < r.first + first + count)
          open.add(n + ':' + first);
    }
  });
  refresh();
  chosen = rowOf[step];
  view.scrollTop = chosen * ROW - view.clientHeight / 2;
  showStep(step);
  draw();
}
$('search').addEventListener('input', find);
$('search').addEventListener('keydown', event => {
  if (event.key !== 'Enter' || tab !== 'graph')
    return;
  const steps = matches.filter(m => m.step !== undefined);
  if (steps.length)
    go(steps[match = (match + 1) % steps.length].step);
});
for (const t of ['graph', 'storage', 'bindings', 'memory']) {
  const b = add($('tabs'), 'button', t);
  b.dataset.tab = t;
  b.onclick = () => {
    tab = t;
    hovered = chosen = -1;
    view.scrollTop = 0;
    refresh();
  };
}
P.functions.forEach((f, i) => {
  const o = add($('function'), 'option', '@' + f.name);
  o.value = i;
});
$('function').value = fn;
$('function').onchange = event => {
  fn = +event.target.value;
  open = new Set();
  find();
};
$('name').textContent = P.module + ': ' + P.kernels;
showMemory();
refresh();
// What may address the page, as tests do: #step=N and #search=TEXT.
const wish = /^#(step|search)=(.*)$/.exec(decodeURIComponent(location.hash));
if (wish && wish[1] === 'step')
  go(+wish[2]);
if (wish && wish[1] === 'search') {
  $('search').value = wish[2];
  find();
}
document.body.dataset.rows = rows.length;
document.body.dataset.ms = Math.round(performance.now());
