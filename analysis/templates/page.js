// Draws the figures of a run from the data in the page, and filters figures and tables alike.
//
// The state is the address: `#model=resnet50&-metric=startup&-trial=abc-r1`. Names of ours begin
// with a dash, which no factor's does. All texts of a run reach the page as text, never as markup.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const { arms, cases, cells, factors, metrics, trials } = data;
const GLYPHS = "●■▲◆✚★Y";
const SYMBOLS = ["circle", "square", "triangle", "diamond", "cross", "star", "wye"];
const DASHES = ["none", "7 3", "2 3"];
const BORDERS = ["solid", "dashed", "dotted"];
const VERDICTS = { degraded: "▼", improved: "▲", "no credible change": "=", chance: "" };
const PANELS = 9; // of a figure, until more are asked for
const ROW = 42; // height of a row with its label above the mark

const colour = (arm) => `var(--arm-${arm % SYMBOLS.length})`;
const symbol = (arm) => SYMBOLS[arm % SYMBOLS.length];
const dash = (arm) => DASHES[arm % DASHES.length];
const find = (id) => document.getElementById(id);
const amount = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
const percent = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(Math.abs(value) < 0.05 ? 2 : 1)}`;
const measured = (value, metric) => `${amount(value)} ${metric.unit}`.trim();
const folder = (trial) => trials.folder[trial] ?? trials.name[trial];

function element(name, values = {}, ...children) {
  const made = Object.assign(document.createElement(name), values);
  made.append(...children);
  return made;
}

// --- The state -------------------------------------------------------------------------------

const read = () => new URLSearchParams(location.hash.slice(1));

function address(change) {
  const state = read();
  change(state);
  return `#${state}`;
}

const leadsTo = (trial) => address((state) => state.set("-trial", trials.name[trial]));

function look(state) {
  const wanted = factors.map((factor) => state.getAll(factor.name));
  const kept = cells.map((cell) =>
    wanted.every((levels, i) => !levels.length || levels.includes(factors[i].levels[cell.levels[i]])));
  const chosen = metrics.findIndex((metric) => metric.name === state.get("-metric"));
  return { state, kept, metric: Math.max(chosen, 0) };
}

// --- The figures -----------------------------------------------------------------------------

// The name of each row above its mark, in `room` pixels.
function labelled(rows, text, dy, room) {
  return Plot.text(rows, { y: (_, i) => i, frameAnchor: "left", dy, textAnchor: "start", text, fill: "currentColor", lineWidth: room / 12, textOverflow: "ellipsis" });
}

function plot(width, options) {
  return Plot.plot({ width, marginLeft: 14, marginRight: 14, marginTop: 8, marginBottom: 44,
                     style: { fontSize: "12px", background: "none", overflow: "visible" }, ...options });
}

function changes({ kept, metric }, width) {
  const whole = (row) => cells.every((cell, i) => cell.arm !== row.arm || kept[i]);
  const seen = data.changes.filter((row) => row.metric === metric &&
    (row.cell === null ? row.cases > 1 && whole(row) : kept[row.cell]));
  const rank = (row) => [row.cell !== null, arms[row.arm].control, row.cell === null ? 0 : cells[row.cell].case, row.arm];
  const rows = seen.map((row) => ({ ...row, rank: rank(row) })).sort((a, b) => {
    const i = a.rank.findIndex((part, n) => part !== b.rank[n]);
    return i < 0 ? 0 : a.rank[i] - b.rank[i];
  });
  if (!rows.length) return [];
  const where = (row) => row.cell === null ? `all ${row.cases} cases` : cases[cells[row.cell].case];
  const name = (row) => [arms[row.arm].name + (arms[row.arm].control ? " (A/A)" : ""), where(row)].filter(Boolean).join(" · ");
  const said = (row) => `${percent(row.change[1])} % (${percent(row.change[0])} … ${percent(row.change[2])})`;
  const title = (row) => [name(row), said(row), row.verdict, `could see ${amount(row.sees ?? NaN)} %`,
    `${row.pairs[0]} of ${row.pairs[1]} pairs`, row.confounds && `confounded by ${row.confounds}`].filter(Boolean).join("\n");
  const chance = rows.filter((row) => arms[row.arm].control).slice(0, 1);
  const at = { y: (_, i) => i, x: (row) => row.change[1] };
  return [plot(width, {
    height: rows.length * ROW + 56,
    x: { label: `Change of ${metrics[metric].label.toLowerCase()} (%), ${metrics[metric].better} is better`, labelAnchor: "center", labelArrow: "none", grid: true, ticks: width / 90, inset: 10 },
    y: { type: "band", domain: rows.map((_, i) => i), axis: null, padding: 0 },
    marks: [
      Plot.rect(chance, { x1: (row) => row.change[0], x2: (row) => row.change[2], fill: "currentColor", fillOpacity: 0.07 }),
      Plot.ruleX([0], { stroke: "currentColor" }),
      Plot.ruleY(rows, { y: at.y, x1: (row) => row.change[0], x2: (row) => row.change[2], stroke: (row) => colour(row.arm), strokeWidth: 2.5, dy: 8 }),
      Plot.dot(rows, { ...at, r: 5.5, dy: 8, strokeWidth: 2, symbol: (row) => symbol(row.arm), stroke: (row) => colour(row.arm),
        fill: (row) => ["no credible change", "chance"].includes(row.verdict) ? "var(--paper)" : colour(row.arm) }),
      labelled(rows, name, -9, width - (width < 430 ? 100 : 220)),
      Plot.text(rows, { y: at.y, frameAnchor: "right", dy: -9, textAnchor: "end", fontWeight: 600, fill: "currentColor",
        text: (row) => width < 430 ? `${percent(row.change[1])} % ${VERDICTS[row.verdict]}` : `${said(row)} ${VERDICTS[row.verdict]}` }),
      Plot.tip(rows, Plot.pointerY({ ...at, dy: 8, title, fill: "var(--paper)" })),
    ],
    symbol: { type: "identity" }, color: { type: "identity" },
  })];
}

// A panel for each case that the filter leaves, of what `draw` makes of its cells.
function panels(look, width, draw) {
  return cases.flatMap((name, i) => {
    const own = new Set(cells.flatMap((cell, n) => cell.case === i && look.kept[n] ? [n] : []));
    return own.size ? [{ name, own }] : [];
  }).map(({ name, own }) => ({ name, make: () => draw(own, width) }));
}

function values({ metric }) {
  const known = metrics[metric];
  return (own, width) => {
    const points = trials.cell.flatMap((cell, i) => own.has(cell) ? [{ i, cell, arm: cells[cell].arm, value: known && trials.values[metric][i] }] : []);
    const good = points.filter((point) => point.value != null && !trials.lost[point.i]);
    const lost = points.filter((point) => trials.lost[point.i]);
    const title = ({ i, arm, value }) => [trials.name[i], arms[arm].name, value == null ? "" : measured(value, known),
      trials.lost[i] && trials.lost[i].slice(0, 2).join(", "), trials.flags[i]].filter(Boolean).join("\n");
    const at = { x: (point) => point.i + 1, href: (point) => leadsTo(point.i) };
    if (!points.length) return null;
    return plot(width, {
      height: 190, marginLeft: 50,
      x: { label: "Order in the run", labelAnchor: "center", labelArrow: "none", ticks: 4, tickFormat: (order) => Number.isInteger(order) ? order : "", inset: 8 },
      y: { label: known ? `${known.label}${known.unit && ` (${known.unit})`}` : null, labelArrow: "none", grid: true, ticks: 4, inset: 10, nice: true }, marginTop: 24,
      marks: [
        Plot.dot(good.filter((point) => trials.flags[point.i]), { ...at, y: "value", r: 8, stroke: "var(--warn)", strokeWidth: 1.5 }),
        Plot.dot(good, { ...at, y: "value", r: 4, symbol: (point) => symbol(point.arm), fill: (point) => colour(point.arm), fillOpacity: 0.75, stroke: (point) => colour(point.arm) }),
        Plot.dot(lost, { ...at, frameAnchor: "bottom", dy: -4, r: 5, symbol: "times", stroke: "var(--bad)", strokeWidth: 2 }),
        Plot.tip(good, Plot.pointer({ x: at.x, y: "value", title, fill: "var(--paper)" })),
      ],
      symbol: { type: "identity" }, color: { type: "identity" },
    });
  };
}

// Lines of thinned rows: `row.x` with a value of each name at each of them.
function points(row, name) {
  return row.x.map((x, i) => ({ x, y: row[name][i] })).filter((point) => point.y != null);
}

function steps() {
  return (own, width) => {
    const rows = data.steps.filter((row) => own.has(row.cell));
    if (!rows.length) return null;
    const warm = Math.max(...rows.map((row) => row.warm));
    const lines = rows.map((row) => ({ arm: cells[row.cell].arm, row, points: row.x.map((x, i) => ({ x, arm: cells[row.cell].arm, low: row.low[i], y: row.middle[i], high: row.high[i], row })) }));
    const title = (point) => `${arms[point.arm].name}\nsteps ${point.x} to ${point.x + point.row.width - 1}: ${amount(point.y)} s\nnine in ten: ${amount(point.low)} … ${amount(point.high)} s\nfirst step: ${amount(point.row.first ?? NaN)} s`;
    return plot(width, {
      height: 190, marginLeft: 50, marginTop: 24,
      x: { label: "Step", labelAnchor: "center", labelArrow: "none", ticks: 5 },
      y: { label: "Duration (s)", labelArrow: "none", grid: true, ticks: 4, domain: [0, 1.1 * Math.max(...rows.flatMap((row) => row.high))] },
      marks: [
        Plot.rect(warm ? [0] : [], { x1: 0.5, x2: warm + 0.5, fill: "currentColor", fillOpacity: 0.07 }),
        ...lines.map(({ arm, points }) => Plot.areaY(points, { x: "x", y1: "low", y2: "high", fill: colour(arm), fillOpacity: 0.15 })),
        ...lines.map(({ arm, points }) => Plot.lineY(points, { x: "x", y: "y", stroke: colour(arm), strokeDasharray: dash(arm), strokeWidth: 1.8 })),
        Plot.tip(lines.flatMap(({ points }) => points), Plot.pointer({ x: "x", y: "y", title, fill: "var(--paper)" })),
      ],
    });
  };
}

function usage(of, by, label) {
  return (own, width) => {
    const rows = data.usage.filter((row) => own.has(row.cell) && (row[of] || row[by]));
    if (!rows.length) return null;
    const lines = rows.flatMap((row) => [of, by].filter((name) => row[name]).map((name) => ({ arm: cells[row.cell].arm, name, points: points(row, name).map((point) => ({ ...point, arm: cells[row.cell].arm, name })) })));
    const title = (point) => `${arms[point.arm].name}, ${point.name === of ? "whole host" : "trial"}\n${point.x} s after launch: ${amount(point.y)}`;
    return plot(width, {
      height: 180, marginLeft: 50, marginTop: 24,
      x: { label: "Seconds since launch", labelAnchor: "center", labelArrow: "none", ticks: 5 },
      y: { label: label(rows[0]), labelArrow: "none", grid: true, ticks: 4, zero: true, nice: true },
      marks: [
        ...lines.map(({ arm, name, points }) => Plot.lineY(points, { x: "x", y: "y", stroke: colour(arm), strokeDasharray: dash(arm), strokeWidth: name === of ? 1 : 2.2, strokeOpacity: name === of ? 0.6 : 1 })),
        Plot.tip(lines.flatMap(({ points }) => points), Plot.pointer({ x: "x", y: "y", title, fill: "var(--paper)" })),
      ],
    });
  };
}

function phases() {
  return (own, width) => {
    const rows = [...own].filter((cell) => data.phases[cell]);
    if (!rows.length) return null;
    const total = Math.max(...rows.map((cell) => data.phases[cell].reduce((sum, part) => sum + (part ?? 0), 0)));
    const parts = rows.flatMap((cell, y) => {
      let begin = 0;
      return data.phases[cell].flatMap((seconds, phase) => {
        if (!(seconds > 0)) return [];
        begin += seconds;
        return [{ y, phase, seconds, x1: begin - seconds, x2: begin }];
      });
    });
    return plot(width, {
      height: rows.length * ROW + 56,
      x: { label: "Elapsed (s)", labelAnchor: "center", labelArrow: "none", ticks: 5, domain: [0, total] },
      y: { type: "band", domain: rows.map((_, y) => y), axis: null, padding: 0 },
      marks: [
        Plot.barX(parts, { y: "y", x1: "x1", x2: "x2", fill: (part) => `var(--phase-${part.phase})`, insetTop: 18, insetBottom: 3, insetRight: 1 }),
        labelled(rows, (cell) => arms[cells[cell].arm].name, -11, width - 30),
        Plot.text(parts.filter((part) => part.seconds / total > 0.05), { y: "y", x: (part) => (part.x1 + part.x2) / 2, dy: 8, fill: "#111", text: (part) => part.phase + 1 }),
        Plot.tip(parts, Plot.pointer({ y: "y", x: (part) => (part.x1 + part.x2) / 2, title: (part) => `${data.phase_names[part.phase]}: ${amount(part.seconds)} s`, fill: "var(--paper)" })),
      ],
    });
  };
}

const CORES = usage("cpu_busy", "workload_cpu", () => "CPU (cores)");
const MEMORY = usage("memory_used", "workload_memory", (row) => `Memory (${row.memory_unit})`);
const FIGURES = { trials: (look) => [values(look)], steps: () => [steps()], phases: () => [phases()], usage: () => [CORES, MEMORY] };

function key(look) {
  const shown = new Set(cells.flatMap((cell, i) => look.kept[i] ? [cell.arm] : []));
  return [...shown].map((arm) => {
    const line = element("i");
    line.style.cssText = `border-top: 3px ${BORDERS[arm % BORDERS.length]} ${colour(arm)}`;
    const glyph = element("b", { textContent: GLYPHS[arm % SYMBOLS.length] });
    glyph.style.color = colour(arm);
    return element("span", {}, glyph, line, arms[arm].name);
  });
}

function draw(look) {
  const room = find("changes").clientWidth || 320;
  find("changes").replaceChildren(...changes(look, Math.min(room, 760)));
  find("changes").closest("figure").hidden = !find("changes").hasChildNodes();
  const columns = Math.max(1, Math.floor((room + 24) / 324));
  const width = Math.floor((room + 24) / columns) - 24;
  for (const [name, kinds] of Object.entries(FIGURES)) {
    const every = look.state.getAll("-all").includes(name);
    const found = kinds(look).flatMap((kind) => panels(look, width, kind).slice(0, every ? undefined : PANELS));
    const made = found.map(({ name, make }) => [name, make()]).filter(([, svg]) => svg)
      .map(([name, svg]) => element("div", {}, element("h4", { textContent: name }), svg));
    const count = panels(look, width, null).length;
    find(name).replaceChildren(...made);
    find(name).closest("figure").hidden = !made.length;
    const rest = find(`${name}-rest`);
    rest.hidden = every || count <= PANELS;
    rest.textContent = `Show all ${count} cases`;
    rest.href = address((state) => state.append("-all", name));
  }
  for (const legend of document.querySelectorAll(".key.of-arms")) legend.replaceChildren(...key(look));
}

// --- Filters, tables, and the record of a trial --------------------------------------------------

function go(change) {
  location.hash = address(change).slice(1);
}

function controls(look) {
  const metric = element("select", { id: "metric", onchange: (event) => go((state) => state.set("-metric", event.target.value)) },
    ...metrics.map((one, i) => element("option", { value: one.name, textContent: one.label, selected: i === look.metric })));
  const choice = (factor, level) => {
    const box = element("input", { type: "checkbox", name: factor.name, value: level, checked: look.state.getAll(factor.name).includes(level),
      onchange: () => go((state) => {
        const left = state.getAll(factor.name).filter((one) => one !== level);
        state.delete(factor.name);
        for (const one of box.checked ? [...left, level] : left) state.append(factor.name, one);
      }) });
    return element("label", {}, box, level);
  };
  find("filters").replaceChildren(
    ...(metrics.length > 1 ? [element("label", { className: "metric" }, "Metric ", metric)] : []),
    ...factors.map((factor) => element("fieldset", {}, element("legend", { textContent: factor.name.replaceAll("_", " ") }), ...factor.levels.map((level) => choice(factor, level)))),
    element("p", { className: "meta" }, look.kept.every(Boolean) ? "Everything is shown. " : `${look.kept.filter(Boolean).length} of ${cells.length} cells are shown; this page's address says which. `,
      ...(look.kept.every(Boolean) ? [] : [element("a", { href: address((state) => factors.forEach((factor) => state.delete(factor.name))), textContent: "Show all" })])));
}

function tables(look) {
  for (const row of document.querySelectorAll("tr[data-c]")) row.hidden = !look.kept[row.dataset.c];
}

// A shell's word, and JSON in ASCII: what a run is called changes nothing of the command.
const word = (text) => /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
const ascii = (text) => text.replace(/[^\x20-\x7e\n]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

function command(cell) {
  const { experiment, factors, workload, options, inventory } = data.again;
  const own = workload.length ? { workload: workload[cell], options: options[workload[cell]] } : {};
  const levels = Object.fromEntries(Object.entries(factors[cell]).map(([name, level]) => [name, [level]]));
  const asked = ascii(JSON.stringify({ ...experiment, ...own, factors: levels }, null, 1));
  return `cat > cell.yml <<'END'\n${asked}\nEND\nansible-playbook site.yml -i ${word(inventory)} -e strata_experiment=cell.yml`;
}

function record(look) {
  const panel = find("record"), i = trials.name.indexOf(look.state.get("-trial"));
  panel.hidden = i < 0;
  panel.replaceChildren();
  if (i < 0) return;
  const cell = cells[trials.cell[i]];
  const lost = trials.lost[i];
  const rows = [
    ["Platform", arms[cell.arm].name],
    ["Case", cases[cell.case]],
    ["Ended", lost ? lost.filter(Boolean).join(": ") : "ok"],
    ["Hosts", trials.hosts[trials.host[i]]],
    ["Round", String(trials.round[i])],
    ["Flags", trials.flags[i]],
    ...metrics.map((metric, n) => [metric.label, trials.values[n][i] == null ? "" : measured(trials.values[n][i], metric)]),
  ].filter(([, value]) => value);
  const again = element("pre", { textContent: command(trials.cell[i]), tabIndex: 0 });
  const copy = element("button", { type: "button", textContent: "Copy", onclick: () => navigator.clipboard?.writeText(again.textContent) });
  panel.replaceChildren(
    element("a", { className: "close", href: address((state) => state.delete("-trial")), textContent: "Close" }),
    element("h2", { textContent: trials.name[i], tabIndex: -1 }),
    element("p", {}, element("a", { href: `../trials/${encodeURIComponent(folder(i))}/record.json`, textContent: "Open its record" })),
    element("dl", {}, ...rows.flatMap(([name, value]) => [element("dt", { textContent: name }), element("dd", { textContent: value })])),
    element("p", {}, "Run this cell again, where Strata is checked out: ", copy), again);
  panel.querySelector("h2").focus({ preventScroll: true });
}

let before = null;

function render() {
  if (location.hash.length > 1 && !location.hash.includes("=")) return; // the anchor of a table
  const now = look(read());
  record(now);
  now.state.delete("-trial");
  if (before === `${now.state}`) return;
  before = `${now.state}`;
  controls(now);
  tables(now);
  draw(now);
}

document.documentElement.classList.add("live");
addEventListener("hashchange", render);
addEventListener("keydown", (event) => { if (event.key === "Escape" && !find("record").hidden) go((state) => state.delete("-trial")); });
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(look(read())); } });
render();
