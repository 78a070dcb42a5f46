/* waits.js - a heat map of the waiting time between ranks, and the waiting for each rank over time. */

const heatColour = (share) => `rgba(${style.heat}, ${0.06 + 0.94 * Math.sqrt(share)})`;

const largest = (values) => { let most = 0; for (const value of values) if (value > most) most = value; return most; };

/* The distance of rank labels that do not touch: 1, 2, 5, 10, \u2026 */
const labelStep = (cell, width) => Math.max(1, niceStep(width / cell, 1));

const waits = { cells: new Map(), ranks: [], cell: 0, left: 44, top: 26, strip: 14 };

function sumWaits() {
  const rows = new Map(), columns = new Map();
  let most = 0, all = 0;
  for (const [rank, late, us, times] of summary.waits.rows) {
    waits.cells.set(rank + ":" + late, { rank, late, us, times });
    rows.set(rank, (rows.get(rank) || 0) + us);
    columns.set(late, (columns.get(late) || 0) + us);
    most = Math.max(most, us);
    all += us;
  }
  Object.assign(waits, { rows, columns, most, all, rowMost: largest(rows.values()), columnMost: largest(columns.values()) });
}

function drawWaitsMap() {
  const canvas = byId("waits-canvas"), n = summary.size;
  const available = Math.min(620, Math.max(240, canvas.parentElement.parentElement.clientWidth * 0.6));
  const cell = waits.cell = Math.max(1, Math.min(40, Math.floor(available / n) || available / n));
  const { left, top, strip } = waits, side = cell * n;
  const ctx = prepareCanvas(canvas, left + side + strip + 12, top + side + strip + 24);
  ctx.fillStyle = style.stripe;
  ctx.fillRect(left, top, side, side);
  const gap = cell >= 6 ? 1 : 0;
  for (const { rank, late, us } of waits.cells.values()) {
    ctx.fillStyle = heatColour(us / waits.most);
    ctx.fillRect(left + late * cell, top + rank * cell, cell - gap, cell - gap);
  }
  for (const [rank, us] of waits.rows) {
    ctx.fillStyle = heatColour(us / waits.rowMost);
    ctx.fillRect(left + side + 6, top + rank * cell, strip, cell - gap);
  }
  for (const [late, us] of waits.columns) {
    ctx.fillStyle = heatColour(us / waits.columnMost);
    ctx.fillRect(left + late * cell, top + side + 6, cell - gap, strip);
  }
  ctx.fillStyle = style.soft;
  ctx.textBaseline = "middle";
  const step = labelStep(cell, 16);
  for (let rank = 0; rank < n; rank += step) {
    ctx.textAlign = "right";
    ctx.fillText(rank, left - 5, top + (rank + 0.5) * cell);
    ctx.textAlign = "center";
    if (rank % labelStep(cell, 24) === 0) ctx.fillText(rank, left + (rank + 0.5) * cell, top - 8);
  }
  ctx.textAlign = "left";
  ctx.fillText("was late \u2192", left, top + side + strip + 15);
  ctx.save();
  ctx.translate(8, top + side);
  ctx.rotate(-Math.PI / 2);
  ctx.fillText("waited \u2192", 0, 0);
  ctx.restore();
}

function waitsText(e) {
  const { left, top, cell, strip } = waits, side = cell * summary.size;
  const column = Math.floor((e.offsetX - left) / cell), row = Math.floor((e.offsetY - top) / cell);
  const inside = (value) => value >= 0 && value < summary.size;
  if (inside(column) && inside(row)) {
    const found = waits.cells.get(row + ":" + column);
    return found ? `rank ${row} waited ${showTime(found.us)} for rank ${column}, ${plain(found.times)} times`
      : `rank ${row} did not wait for rank ${column}`;
  }
  if (inside(row) && e.offsetX > left + side && e.offsetX < left + side + strip + 12)
    return `rank ${row} waited ${showTime(waits.rows.get(row) || 0)} for others in total`;
  if (inside(column) && e.offsetY > top + side && e.offsetY < top + side + strip + 12)
    return `others waited ${showTime(waits.columns.get(column) || 0)} for rank ${column} in total`;
  return "";
}

function drawWaitsList() {
  const top = [...waits.cells.values()].sort((a, b) => b.us - a.us).slice(0, 12);
  const late = [...waits.columns].sort((a, b) => b[1] - a[1]);
  byId("waits-lead").textContent = late.length
    ? `Ranks waited ${showTime(waits.all)} for others in total; ${showShare(late[0][1] / waits.all)} of that for rank ${late[0][0]}. ` +
      `The darkest field is ${showTime(waits.most)}; the sums are on the right and below.`
    : "No rank waited for another, or no operation was seen on all ranks of its group.";
  if (!top.length) return;
  byId("waits-list").replaceChildren(element("table", {}, element("thead", {},
    element("tr", {}, ...["Rank", "waited for", "Time", "Times"].map((text) => element("th", {}, text)))),
    element("tbody", {}, ...top.map((w) => element("tr", {}, ...[w.rank, w.late, showTime(w.us),
      plain(w.times)].map((text) => element("td", {}, String(text))))))));
}

function attachTip(canvas, describe) {
  canvas.addEventListener("mousemove", (e) => { const text = describe(e); if (text) showTip(text, e.clientX, e.clientY); else hideTip(); });
  canvas.addEventListener("mouseleave", hideTip);
}

const stragglers = { order: [], cell: 0, row: 0, left: 60, bar: 150, top: 18 };

function drawStragglersMap() {
  const canvas = byId("stragglers-canvas"), windows = summary.windows.waited_for_us, n = summary.windows.n;
  const total = summary.ranks.map((rank) => rank.waited_for_us), most = largest(windows.flat()) || 1, mostTotal = largest(total) || 1;
  const order = stragglers.order = summary.ranks.map((_, i) => i);
  if (byId("stragglers-sort").checked) order.sort((a, b) => total[b] - total[a] || a - b);
  const width = canvas.parentElement.clientWidth - 36, narrow = width < NARROW, bar = stragglers.bar = narrow ? 90 : 150, { left, top } = stragglers;
  const longest = bar - 78, ticks = Math.max(2, Math.min(10, Math.floor((width - left - bar) / 70)));
  const cell = stragglers.cell = (width - left - bar) / n, row = stragglers.row = Math.max(2, Math.min(18, Math.floor(520 / order.length)));
  const ctx = prepareCanvas(canvas, width, top + row * order.length + 22);
  const step = labelStep(row, 13);
  ctx.textBaseline = "middle";
  order.forEach((index, at) => {
    const y = top + at * row;
    ctx.fillStyle = style.stripe;
    ctx.fillRect(left, y, cell * n, row - (row > 4 ? 1 : 0));
    windows[index].forEach((us, i) => {
      if (us <= 0) return;
      ctx.fillStyle = heatColour(us / most);
      ctx.fillRect(left + i * cell, y, Math.max(1, cell - 0.5), row - (row > 4 ? 1 : 0));
    });
    ctx.fillStyle = `rgba(${style.heat}, 0.8)`;
    ctx.fillRect(left + cell * n + 8, y, longest * total[index] / mostTotal, row - (row > 4 ? 1 : 0));
    if (at % step) return;
    ctx.fillStyle = style.soft;
    ctx.textAlign = "right";
    ctx.fillText("rank " + summary.ranks[index].rank, left - 6, y + row / 2);
    ctx.textAlign = "left";
    ctx.fillText(showTime(total[index]), left + cell * n + 12 + longest * total[index] / mostTotal, y + row / 2);
  });
  ctx.fillStyle = style.soft;
  ctx.textAlign = "center";
  for (let i = 0; i <= ticks; i++)
    ctx.fillText(showTime(summary.begin_us + summary.duration_us * i / ticks), left + cell * n * i / ticks, top + row * order.length + 11);
  ctx.textAlign = "left";
  ctx.fillText("others waited", left + cell * n + 8, 8);
}

function stragglersText(e) {
  const at = Math.floor((e.offsetY - stragglers.top) / stragglers.row), i = Math.floor((e.offsetX - stragglers.left) / stragglers.cell);
  const index = stragglers.order[at];
  if (index === undefined) return "";
  const rank = summary.ranks[index], width = summary.duration_us / summary.windows.n;
  if (i < 0 || i >= summary.windows.n) return `others waited ${showTime(rank.waited_for_us)} for rank ${rank.rank} in total`;
  return `others waited ${showTime(summary.windows.waited_for_us[index][i])} for rank ${rank.rank}\n` +
    `from ${showTime(summary.begin_us + i * width)} to ${showTime(summary.begin_us + (i + 1) * width)}`;
}

function drawStragglersLead() {
  const worst = summary.ranks.reduce((a, b) => b.waited_for_us > a.waited_for_us ? b : a);
  if (!(worst.waited_for_us > 0)) { byId("stragglers-lead").textContent = "No rank waited for another."; return; }
  const windows = summary.windows.waited_for_us[summary.ranks.indexOf(worst)], half = worst.waited_for_us / 2,
    width = summary.duration_us / summary.windows.n;
  /* The shortest range of windows with half of the waiting time. */
  let best = [0, windows.length - 1];
  for (let first = 0, last = 0, sum = 0; last < windows.length; last++) {
    sum += windows[last];
    while (sum - windows[first] >= half) sum -= windows[first++];
    if (sum >= half && last - first < best[1] - best[0]) best = [first, last];
  }
  byId("stragglers-lead").textContent = `Others waited most for rank ${worst.rank} (${worst.host}): ` +
    `${showTime(worst.waited_for_us)} in total, half of it between ${showTime(summary.begin_us + best[0] * width)} and ` +
    `${showTime(summary.begin_us + (best[1] + 1) * width)}.`;
}

function drawWaits() {
  sumWaits();
  drawWaitsMap();
  drawWaitsList();
  attachTip(byId("waits-canvas"), waitsText);
  drawStragglersLead();
  drawStragglersMap();
  attachTip(byId("stragglers-canvas"), stragglersText);
  byId("stragglers-sort").addEventListener("change", drawStragglersMap);
}
