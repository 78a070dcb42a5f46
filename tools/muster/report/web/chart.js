/* chart.js - bandwidth over message size: a line for each operation and number of ranks, and a dotted one for its limit. */

const CHART = { width: 1200, height: 420, left: 64, right: 24, top: 12, bottom: 44, lines: 12 }; /* updateChart() sets width and height */
const chart = { kind: "busbw", free: false, off: new Set(), lines: [] };

/* The lines with the most time; their sizes ascend. */
function chartLines() {
  const lines = new Map();
  for (const o of summary.operations) {
    if (!o.bytes || !o.tput_gbps || o.name === "(others)") continue;
    const key = JSON.stringify([o.name, o.call, o.size]);
    if (!lines.has(key)) lines.set(key, { key, label: `${o.name}, ${o.size} ranks`, class: classNames.indexOf(o.class), points: [],
      total: 0 });
    const line = lines.get(key);
    line.points.push(o);
    line.total += o.communication_us;
  }
  const most = [...lines.values()].sort((a, b) => b.total - a.total);
  return { shown: most.slice(0, CHART.lines), left: Math.max(0, most.length - CHART.lines) };
}

function chartValue(o) {
  const base = chart.free ? o.free_tput_gbps : o.tput_gbps;
  return chart.kind === "busbw" ? base * o.bus_factor : base;
}

function limitValue(o) {
  if (!o.limit_us) return 0;
  const base = 8 * o.bytes / (o.limit_us * 1000);
  return chart.kind === "busbw" ? base * o.bus_factor : base;
}

function chartScale(lines) {
  const bytes = lines.flatMap((line) => line.points.map((o) => o.bytes));
  const values = lines.flatMap((line) => line.points.flatMap((o) => [chartValue(o), limitValue(o)])).filter((value) => value > 0);
  if (!values.length) return null;
  const x0 = Math.floor(Math.log2(Math.min(...bytes))), x1 = Math.max(x0 + 1, Math.ceil(Math.log2(Math.max(...bytes))));
  const y0 = Math.floor(Math.log10(Math.min(...values))), y1 = Math.max(y0 + 1, Math.ceil(Math.log10(Math.max(...values))));
  const wide = CHART.width - CHART.left - CHART.right, high = CHART.height - CHART.top - CHART.bottom;
  return {
    x0, x1, y0, y1,
    x: (value) => CHART.left + (Math.log2(value) - x0) / (x1 - x0) * wide,
    y: (value) => CHART.top + high - (Math.log10(value) - y0) / (y1 - y0) * high,
  };
}

function chartGrid(svg, scale) {
  const { x0, x1, y0, y1 } = scale, right = CHART.width - CHART.right, bottom = CHART.height - CHART.bottom;
  const stepX = Math.ceil((x1 - x0) * 90 / (right - CHART.left));
  for (let power = x0; power <= x1; power += stepX) {
    const x = scale.x(2 ** power);
    svg.append(element("svg:line", { class: "grid", x1: x, x2: x, y1: CHART.top, y2: bottom }),
      element("svg:text", { x, y: bottom + 18, "text-anchor": "middle" }, showBytes(2 ** power)));
  }
  for (let power = y0; power <= y1; power++)
    for (const step of y1 - y0 <= 4 ? [1, 2, 5] : [1]) {
      const value = step * 10 ** power, y = scale.y(value);
      if (y < CHART.top - 1) continue;
      svg.append(element("svg:line", { class: "grid", x1: CHART.left, x2: right, y1: y, y2: y, opacity: step === 1 ? 1 : 0.5 }));
      svg.append(element("svg:text", { x: CHART.left - 8, y: y + 4, "text-anchor": "end" },
        value.toLocaleString("en-US", { maximumSignificantDigits: 2 })));
    }
  svg.append(element("svg:text", { x: (CHART.left + right) / 2, y: CHART.height - 4, "text-anchor": "middle" }, "message size"));
  svg.append(element("svg:text", { x: 14, y: CHART.height / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${CHART.height / 2})` },
    chart.kind + " (Gbps)"));
}

function chartLine(svg, scale, line, index, lines) {
  const colour = style.colours[line.class], same = lines.slice(0, index).filter((other) => other.class === line.class).length;
  const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const measured = line.points.filter((o) => chartValue(o) > 0), limited = line.points.filter((o) => limitValue(o) > 0);
  if (limited.length > 1)
    svg.append(element("svg:path", { d: path(limited.map((o) => [scale.x(o.bytes), scale.y(limitValue(o))])), fill: "none", stroke: colour,
      "stroke-width": 1.5, "stroke-dasharray": "3 4", opacity: 0.8 }));
  svg.append(element("svg:path", { d: path(measured.map((o) => [scale.x(o.bytes), scale.y(chartValue(o))])), fill: "none", stroke: colour,
    "stroke-width": 2, "stroke-dasharray": ["none", "9 3", "5 3", "2 2"][same % 4] }));
  for (const o of measured) {
    const limit = limitValue(o), value = chartValue(o);
    const text = `${line.label}\n${o.up_to ? "up to " : ""}${showBytes(o.bytes)}: ${digits(value)} Gbps ${chart.kind}\n${plain(o.count)} calls, ${showTime(o.avg_us)} on average` +
      (limit ? `\nlimit of this machine: ${digits(limit)} Gbps (${showShare(value / limit)} of it)` : "");
    svg.append(element("svg:circle", { cx: scale.x(o.bytes), cy: scale.y(value), r: 4, fill: colour, "data-bytes": o.bytes,
      "data-line": line.label, "data-gbps": value,
      onmousemove: (e) => showTip(text, e.clientX, e.clientY), onmouseleave: hideTip }));
  }
}

function updateChart() {
  CHART.width = Math.max(280, byId("bw-chart").clientWidth);
  CHART.height = CHART.width < NARROW ? 280 : 420;
  const lines = chart.lines.filter((line) => !chart.off.has(line.key)), scale = chartScale(lines);
  const svg = element("svg:svg", { viewBox: `0 0 ${CHART.width} ${CHART.height}`, role: "img",
    "aria-label": "Bandwidth over message size" });
  if (scale) {
    chartGrid(svg, scale);
    lines.forEach((line, i) => chartLine(svg, scale, line, i, lines));
  }
  byId("bw-chart").replaceChildren(scale ? svg : element("p", { class: "hint" },
    "No operation with bytes took measurable time."));
  for (const button of byId("bw-kind").children) button.setAttribute("aria-pressed", button.dataset.kind === chart.kind);
  byId("bw-legend").replaceChildren(...chart.lines.map((line) => element("button", {
    "aria-pressed": String(!chart.off.has(line.key)), onclick: () =>
      { if (!chart.off.delete(line.key)) chart.off.add(line.key); updateChart(); },
  }, element("span", { class: "swatch", style: `background:${style.colours[line.class]}` }), line.label)));
}

function drawChart() {
  const { shown, left } = chartLines();
  chart.lines = shown;
  for (const kind of ["busbw", "algbw"])
    byId("bw-kind").append(element("button", { "data-kind": kind, onclick: () => { chart.kind = kind; updateChart(); } }, kind));
  byId("bw-free").addEventListener("change", (e) => { chart.free = e.target.checked; updateChart(); });
  const limits = summary.operations.some((o) => o.limit_us);
  byId("bw-note").textContent = (limits ? "Dotted: the limit of this machine, from limits.json. " : "") +
    "busbw is algbw times the bytes that each rank's connection carries per byte of the message. The time of a call includes waiting for late ranks." +
    (left ? ` ${left} lines with less time are left out.` : "");
  updateChart();
}
