/* timeline.js - pans and zooms the timeline, finds the event under the pointer, and shows the selected operation. */

const canvas = byId("lanes-canvas"), box = byId("lanes"), minimap = byId("minimap");
const SPAN_LEAST = 100; /* ns */
let drawing = 0;

function redraw() {
  if (drawing) return;
  drawing = requestAnimationFrame(() => {
    drawing = 0;
    const start = performance.now();
    drawTimeline();
    drawWindow();
    const text = `${axisTime(view.begin, span() / 1000)} to ${axisTime(view.end, span() / 1000)} (${showTime(span() / 1e3)})`;
    byId("range").textContent = view.exact ? text : text + ", as density";
    Object.assign(box.dataset, { begin: view.begin, end: view.end, lane: view.laneHeight, scroll: view.scroll, exact: view.exact, labels: LABELS,
      drawn: (performance.now() - start).toFixed(1) });
  });
}

function setView(begin, end) {
  const all = timelineData.end - timelineData.begin, size = Math.min(all, Math.max(SPAN_LEAST, end - begin));
  view.begin = Math.min(timelineData.end - size, Math.max(timelineData.begin, begin));
  view.end = view.begin + size;
  redraw();
}

/* Keeps the time at x in place. */
function zoom(factor, x) {
  const time = xToTime(x), share = (x - LABELS) / plotWidth(),
    size = Math.min(timelineData.end - timelineData.begin, Math.max(SPAN_LEAST, span() * factor));
  setView(time - share * size, time + (1 - share) * size);
}
const zoomMiddle = (factor) => zoom(factor, LABELS + plotWidth() / 2);
const pan = (share) => setView(view.begin + share * span(), view.end + share * span());
const fit = () => setView(timelineData.begin, timelineData.end);

/* Shows all ranks at once if they stay legible. */
function layOut() {
  const available = Math.max(240, Math.min(680, innerHeight * 0.7));
  view.width = box.clientWidth;
  LABELS = view.width < NARROW || summary.hosts.length === 1 ? 58 : 96;
  view.laneHeight = Math.max(10, Math.min(hasWorks ? 44 : 32, Math.floor((available - AXIS) / lanes.length)));
  const all = AXIS + view.laneHeight * lanes.length;
  view.height = Math.min(all, Math.round(available));
  box.style.height = view.height + 2 + "px";
  view.context = prepareCanvas(canvas, view.width, view.height);
  byId("lanes-space").style.height = all - view.height + "px";
  drawMinimap();
  redraw();
}

/* ---- minimap ---- */

/* Aligned with the lanes while all of the time is visible. */
const minimapX = (time) => LABELS + (time - timelineData.begin) / (timelineData.end - timelineData.begin) * plotWidth();

function drawMinimap() {
  const height = 32, ctx = prepareCanvas(minimap, view.width, height), bins = timelineData.bins,
    cover = new Float32Array(Math.ceil(plotWidth()));
  for (const lane of lanes)
    for (const planes of lane.overviews)
      for (let x = 0; planes && x < cover.length; x++) {
        const from = Math.floor(x * bins / cover.length), until = Math.max(from + 1, Math.floor((x + 1) * bins / cover.length));
        for (let bin = from; bin < until; bin++) cover[x] += planes[bin] / (until - from);
      }
  minimap.style.width = ""; /* it follows the window */
  const most = cover.reduce((a, b) => Math.max(a, b), 1);
  ctx.fillStyle = style.panel;
  ctx.fillRect(0, 0, view.width, height);
  ctx.fillStyle = style.accent;
  ctx.globalAlpha = 0.65;
  cover.forEach((value, x) => { if (value) ctx.fillRect(LABELS + x, height - (height - 4) * value / most, 1, height); });
  ctx.globalAlpha = 1;
  view.minimap = ctx.getImageData(0, 0, minimap.width, minimap.height);
}

function drawWindow() {
  const ctx = minimap.getContext("2d");
  if (!view.minimap) return;
  ctx.putImageData(view.minimap, 0, 0);
  const x0 = minimapX(view.begin), x1 = Math.max(x0 + 2, minimapX(view.end));
  ctx.fillStyle = style.panel;
  ctx.globalAlpha = 0.7;
  ctx.fillRect(LABELS, 0, x0 - LABELS, 40);
  ctx.fillRect(x1, 0, view.width - x1, 40);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = style.accent;
  ctx.strokeRect(x0 + 0.5, 0.5, Math.max(1, x1 - x0 - 1), 31);
}

function minimapTo(e) {
  const time = timelineData.begin + (e.offsetX - LABELS) / plotWidth() * (timelineData.end - timelineData.begin);
  setView(time - span() / 2, time + span() / 2);
}

/* ---- the event under the pointer ---- */

function rowAt(y) {
  const index = Math.floor((y - AXIS + view.scroll) / view.laneHeight), lane = lanes[index];
  if (!lane || y < AXIS) return null;
  const [top] = rowBox(lane, 1);
  return { lane, row: hasWorks && y >= top ? 1 : 0 };
}

/* The event nearest to the pointer within three pixels; of several that overlap, the one in the pointer's slot. */
function eventUnder(x, y) {
  const target = rowAt(y);
  if (!target || x < LABELS || !view.exact || !target.lane.load()) return null;
  const row = target.lane.rows[target.row], time = xToTime(x), near = 3 * span() / plotWidth(),
    [first, last] = row.between(time - near, time + near);
  const [top, high] = rowBox(target.lane, target.row), slot = Math.floor((y - top) / (high / row.slots));
  let best = null, least = Infinity;
  for (let index = first; index < last; index++) {
    const b = row.block(index);
    for (let i = 0; i < b.n; i++) {
      const away = Math.max(0, b.begin[i] - time, time - b.begin[i] - b.took[i]) + (b.slot[i] === slot ? 0 : near / 2);
      if (away <= near && away < least) { least = away; best = [index, i]; }
    }
  }
  return best && eventAt(target.lane, target.row, ...best);
}

/* The attributes of an event as [name, value] pairs. */
function describe(event) {
  const kind = event.kind, group = summary.groups[event.group], pairs = [];
  const add = (name, value) => { if (value !== "" && value !== undefined) pairs.push([name, value]); };
  add("call", kindText(kind, "call"));
  add("rank", `${event.lane.rank} on ${event.lane.info.host}`);
  add("group", `${group.name}, ${group.size} ranks`);
  add("number", String(event.seq));
  add("size", `${showBytes(event.shape.bytes)} (${plain(event.shape.bytes)} bytes)`);
  if (event.message) add(event.class === SEND ? "to rank" : "from rank", event.shape.peer < 0 ? "none arrived" : String(event.shape.peer));
  if (event.message) add("tag", String(event.shape.tag));
  for (const field of ["dtype", "op", "backend", "algorithm"]) add(field, kindText(kind, field));
  add("call site", [kindText(kind, "site"), kindText(kind, "function")].filter(Boolean).join(" in "));
  add("begin", showTime(event.begin / 1e3) + ` (${plain(event.begin / 1e3, 3)} \u00b5s)`);
  add("time", showTime(event.took / 1e3) + ` (${plain(event.took / 1e3, 3)} \u00b5s)`);
  add("communication", showTime(event.comm / 1e3) + (event.failed || !Number.isNaN(event.arrived) ? `, waiting ${showTime(event.wait / 1e3)}` : ""));
  if (event.queued >= 0) add("queued", showTime(event.queued / 1e3));
  if (event.work && event.waited >= 0) add("in mst_wait", showTime(event.waited / 1e3) +
    `, overlap ${showTime((event.took - event.comm) / 1e3)}`);
  if (event.device >= 0) add("on the device", showTime(event.device / 1e3));
  if (event.took > 0 && event.shape.bytes && !event.failed) add("algbw", digits(8 * event.shape.bytes / event.took) + " Gbps");
  add("thread", String(kindNumber(kind, "tid")));
  add("status", kindText(kind, "status"));
  return pairs;
}

function densityText(x, target) {
  const planes = target.lane.overviews[target.row], bins = timelineData.bins;
  const bin = Math.floor((xToTime(x) - timelineData.begin) / (timelineData.end - timelineData.begin) * bins);
  if (!planes || bin < 0 || bin >= bins) return "";
  const text = `rank ${target.lane.rank}, ${showTime(xToTime(x) / 1e3)}${target.row ? ", works" : ""}`;
  if (!planes[bin]) return text + ": idle";
  return `${text}: ${showShare(planes[bin] / 255)} busy, ` +
    `${showShare(planes[bin] * planes[bins + bin] / 65025)} waiting, mostly ${classNames[planes[2 * bins + bin]]}\nzoom in to see operations`;
}

function hover(e) {
  const event = eventUnder(e.offsetX, e.offsetY), target = rowAt(e.offsetY);
  if (event) showTip(kindText(event.kind, "name") + "\n" + describe(event).map((pair) => pair.join(": ")).join("\n"), e.clientX, e.clientY);
  else if (target && !view.exact && e.offsetX >= LABELS) showTip(densityText(e.offsetX, target), e.clientX, e.clientY);
  else hideTip();
}

/* ---- the selected operation ---- */

function selectEvent(event) {
  view.selected = event;
  view.partners = event ? findPartners(event) : [];
  byId("details").hidden = !event;
  if (event) byId("details").replaceChildren(detailsOf(event), partnersOf(event));
  redraw();
}

function detailsOf(event) {
  return element("div", {}, element("h3", { id: "selected-name" }, kindText(event.kind, "name")),
    element("dl", { id: "selected", "data-begin": event.begin, "data-took": event.took, "data-seq": event.seq, "data-rank": event.lane.rank,
      "data-group": event.group, "data-wait": event.wait },
      ...describe(event).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
}

function partnersOf(event) {
  const first = view.partners.reduce((time, other) => Math.min(time, other.begin), Infinity),
    last = view.partners.reduce((time, other) => Math.max(time, other.begin), -Infinity);
  const all = event.message ? 2 : summary.groups[event.group].size;
  const title = view.partners.length < all
    ? `On ${view.partners.length} of ${all} ranks; the others were not found nearby`
    : "On all its ranks";
  const rows = view.partners.map((other) => element("tr", { class: other.lane === event.lane ? "selected" : null, "data-rank": other.lane.rank,
    "data-begin": other.begin, "data-took": other.took },
    element("td", {}, String(other.lane.rank)), element("td", { class: "text" }, kindText(other.kind, "name")),
      element("td", {}, "+" + showTime((other.begin - first) / 1e3)),
    element("td", {}, showTime(other.wait / 1e3)), element("td", {}, showTime(other.took / 1e3)),
      element("td", { class: "text" }, !event.message && other.begin === last ? "began last" : "")));
  return element("div", {}, element("h3", {}, title), element("div", { class: "scroll", style: "max-height:280px" },
    element("table", { id: "partners" },
    element("thead", {}, element("tr", {}, ...["Rank", "Operation", "Began", "Waited", "Time",
      ""].map((text, i) => element("th", { class: i === 1 || i === 5 ? "text" : null }, text)))),
    element("tbody", {}, ...rows))));
}

/* Selects the next or previous event of the row, or the first visible one. */
function step(direction) {
  const selected = view.selected;
  if (!selected) {
    for (const lane of visibleLanes()) {
      for (let row = 0; row < 2 && lane.load(); row++) {
        const [first, last] = lane.rows[row].between(view.begin, view.end);
        for (let index = first; index < last; index++) {
          const b = lane.rows[row].block(index), i = b.begin.findIndex((begin) => begin >= view.begin);
          if (i >= 0) { reveal(eventAt(lane, row, index, i)); return; }
        }
      }
    }
    return;
  }
  const row = selected.lane.rows[selected.row], at = selected.block * timelineData.block + selected.i + direction;
  if (at >= 0 && at < row.n) reveal(eventAt(selected.lane, selected.row, Math.floor(at / timelineData.block), at % timelineData.block));
}

/* Selects an event and makes it visible. */
function reveal(event) {
  if (!wantsEvents()) setView(event.begin - 4 * event.took, event.end + 4 * event.took);
  else if (event.begin < view.begin || event.end > view.end) {
    const size = Math.max(span(), 3 * event.took), middle = event.begin + event.took / 2;
    setView(middle - size / 2, middle + size / 2);
  }
  selectEvent(event);
}

function zoomToSelected() {
  if (view.selected) setView(view.selected.begin - view.selected.took, view.selected.end + view.selected.took);
}

/* ---- pointer and keys ---- */

function attachPointer() {
  let drag = null;
  box.addEventListener("wheel", (e) => {
    if (e.ctrlKey || !e.shiftKey) zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY / 300))), e.offsetX);
    else pan((e.deltaY || e.deltaX) / 1000);
    e.preventDefault();
  }, { passive: false });
  canvas.addEventListener("pointerdown", (e) => {
    if (e.button !== 0) return;
    drag = { x: e.offsetX, y: e.clientY, begin: view.begin, end: view.end, scroll: box.scrollTop, moved: false, select: e.shiftKey };
    canvas.setPointerCapture(e.pointerId);
    box.focus({ preventScroll: true });
  });
  canvas.addEventListener("pointermove", (e) => {
    if (!drag) { hover(e); return; }
    if (Math.abs(e.offsetX - drag.x) + Math.abs(e.clientY - drag.y) > 3) drag.moved = true;
    if (!drag.moved) return;
    hideTip();
    if (drag.select) { view.range = [drag.x, e.offsetX]; redraw(); return; }
    box.classList.add("dragging");
    box.scrollTop = drag.scroll - (e.clientY - drag.y);
    const shift = (drag.x - e.offsetX) / plotWidth() * (drag.end - drag.begin);
    setView(drag.begin + shift, drag.end + shift);
  });
  const finish = (e) => {
    if (!drag) return;
    if (!drag.moved) selectEvent(eventUnder(e.offsetX, e.offsetY));
    else if (drag.select && view.range) setView(...view.range.map(xToTime).sort((a, b) => a - b));
    view.range = null;
    drag = null;
    box.classList.remove("dragging");
    redraw();
  };
  canvas.addEventListener("pointerup", finish);
  canvas.addEventListener("pointercancel", () => { drag = null; view.range = null; });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("dblclick", (e) => zoom(0.25, e.offsetX));
  box.addEventListener("scroll", () => { view.scroll = box.scrollTop; redraw(); });
  minimap.addEventListener("pointerdown", (e) => { minimap.setPointerCapture(e.pointerId); minimapTo(e); });
  minimap.addEventListener("pointermove", (e) => { if (e.buttons) minimapTo(e); });
}

const keys = {
  "+": () => zoomMiddle(0.6), "=": () => zoomMiddle(0.6), w: () => zoomMiddle(0.6),
  "-": () => zoomMiddle(1 / 0.6), s: () => zoomMiddle(1 / 0.6),
  ArrowLeft: () => pan(-0.2), a: () => pan(-0.2), ArrowRight: () => pan(0.2), d: () => pan(0.2), 0: fit, Home: fit,
  ArrowUp: () => { box.scrollTop -= view.laneHeight; }, ArrowDown: () => { box.scrollTop += view.laneHeight; },
  n: () => step(1), p: () => step(-1), f: zoomToSelected, Escape: () => selectEvent(null),
};

function attachKeys() {
  box.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || !Object.hasOwn(keys, e.key)) return;
    keys[e.key]();
    e.preventDefault();
  });
  const buttons = { "zoom-in": () => zoomMiddle(0.5), "zoom-out": () => zoomMiddle(2), "pan-left": () => pan(-0.3),
    "pan-right": () => pan(0.3), fit };
  for (const [id, act] of Object.entries(buttons)) byId(id).addEventListener("click", act);
}

function drawLegend() {
  const used = new Set(timelineData.kinds.map((kind) => kind[KIND.class]));
  byId("legend").replaceChildren(...classNames.map((name, i) => used.has(i) ? element("span", {},
    element("span", { class: "swatch", style: `background:${style.colours[i]}` }), name) : null).filter(Boolean));
}

/* Decodes the events of one rank at a time while the browser is idle, because all at once would block it. */
function loadLanes(next = 0) {
  if (next === lanes.length) return;
  lanes[next].load();
  const whenIdle = window.requestIdleCallback || ((act) => setTimeout(act, 30));
  whenIdle(() => loadLanes(next + 1));
}

/* The end of the page's address may have a range in milliseconds: #t=1200,1350. */
function showAddressed() {
  const range = /^#t=([0-9.]+),([0-9.]+)$/.exec(location.hash);
  if (range && Number(range[1]) < Number(range[2])) setView(Number(range[1]) * 1e6, Number(range[2]) * 1e6);
}

function startTimeline() {
  drawLegend();
  byId("rows-hint").hidden = !hasWorks || !hasCalls;
  layOut();
  showAddressed();
  addEventListener("hashchange", showAddressed);
  attachPointer();
  attachKeys();
  new ResizeObserver(() => { if (box.clientWidth !== view.width) layOut(); }).observe(box);
}
