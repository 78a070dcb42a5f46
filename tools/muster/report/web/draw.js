/*
 * draw.js - draws the timeline. Events narrower than two pixels are summed up in a density, an image with one pixel per unit of
 * time and row, which is then stretched over the rows. A frame therefore costs no more than its pixels. If the overview is
 * finer than the pixels, the events are not read at all.
 */

const AXIS = 22, WIDE = 2, NAME_WIDTH = 46, ARROWS_MOST = 1500, ARROW_LEAST = 4, EXACT_MOST = 60000;

let LABELS = 96; /* width of the column with the ranks; layOut() sets it */

/* The visible time in ns, the layout, and the selected event. Lanes are stacked in a column that scrolls. */
const view = { begin: timelineData.begin, end: timelineData.end, width: 0, height: 0, laneHeight: 0, scroll: 0, exact: false,
  selected: null, partners: [], range: null };

const span = () => view.end - view.begin;
const plotWidth = () => Math.max(1, view.width - LABELS);
const timeToX = (time) => LABELS + (time - view.begin) / span() * plotWidth();
const xToTime = (x) => view.begin + (x - LABELS) / plotWidth() * span();
const hasCalls = lanes.some((lane) => lane.overviews[0]), hasWorks = lanes.some((lane) => lane.overviews[1]);

/* Top and height of a row of a lane. */
function rowBox(lane, row) {
  const top = AXIS + lane.index * view.laneHeight - view.scroll, gap = view.laneHeight > 14 ? 3 : 1, high = view.laneHeight - gap;
  if (!hasWorks || !hasCalls) return [top, high];
  const upper = Math.round(high * 0.6);
  return row ? [top + upper, high - upper] : [top, upper];
}

function visibleLanes() {
  const first = Math.max(0, Math.floor(view.scroll / view.laneHeight)),
    last = Math.ceil((view.scroll + view.height - AXIS) / view.laneHeight);
  return lanes.slice(first, last);
}

/* Events are drawn instead of the overview if they are few or if the overview is too coarse. */
function wantsEvents() {
  if (summary.events <= EXACT_MOST) return true;
  return span() / (timelineData.end - timelineData.begin) * timelineData.bins < plotWidth();
}

/* For each pixel of a row: the covered share, the waiting part of it, and the class with the largest share. */
class Density {
  constructor(width) {
    this.cover = new Float32Array(width);
    this.waits = new Float32Array(width);
    this.most = new Float32Array(width);
    this.class = new Uint8Array(width);
  }
  clear() { this.cover.fill(0); this.waits.fill(0); this.most.fill(0); }
  add(x, cover, waits, kind) {
    this.cover[x] += cover;
    this.waits[x] += waits;
    if (cover > this.most[x]) { this.most[x] = cover; this.class[x] = kind; }
  }
}

function gatherOverview(density, planes, width) {
  const bins = timelineData.bins, scale = bins / (timelineData.end - timelineData.begin), perPixel = span() / width * scale;
  const first = (view.begin - timelineData.begin) * scale;
  for (let x = 0; x < width; x++) {
    const from = Math.max(0, Math.floor(first + x * perPixel)),
      until = Math.min(bins, Math.max(from + 1, Math.floor(first + (x + 1) * perPixel)));
    for (let bin = from; bin < until; bin++) {
      const cover = planes[bin] / 255 / (until - from);
      if (cover > 0) density.add(x, cover, cover * planes[bins + bin] / 255, planes[2 * bins + bin]);
    }
  }
}

/* The share of an event that is waiting; 1 if it failed. */
function waitingShare(b, i) {
  if (kindNumber(b.kind[i], "status")) return 1;
  return b.arrived[i] > b.begin[i] ? Math.min(1, (b.arrived[i] - b.begin[i]) / (b.took[i] || 1)) : 0;
}

/* Passes the visible events of a row to drawWide if they are wide enough, and adds the others to the density. */
function gatherEvents(density, row, width, drawWide) {
  const [first, last] = row.between(view.begin, view.end), scale = width / span();
  for (let index = first; index < last; index++) {
    const b = row.block(index);
    for (let i = 0; i < b.n; i++) {
      const from = (b.begin[i] - view.begin) * scale, size = b.took[i] * scale;
      if (from >= width || from + size < 0) continue;
      if (size >= WIDE) { drawWide(b, i, from, size); continue; }
      const waits = waitingShare(b, i);
      const x = Math.max(0, Math.floor(from)), kind = timelineData.kinds[b.kind[i]][KIND.class];
      const here = Math.min(size, x + 1 - from);
      density.add(x, Math.max(here, 0.02), here * waits, kind);
      if (size > here && x + 1 < width) density.add(x + 1, size - here, (size - here) * waits, kind);
    }
  }
}

/* Writes one row of pixels: full colour for moving data, paler for waiting, fainter for a small share of both. */
function paintDensity(density, pixels, offset, width, palette) {
  for (let x = 0; x < width; x++) {
    const cover = density.cover[x];
    if (cover <= 0) continue;
    const share = Math.min(1, density.waits[x] / cover), strong = (0.22 + 0.78 * Math.min(1, cover)) * (1 - 0.6 * share);
    const at = 4 * (offset + x), colour = palette[density.class[x]];
    pixels[at] = colour[0];
    pixels[at + 1] = colour[1];
    pixels[at + 2] = colour[2];
    pixels[at + 3] = 255 * strong;
  }
}

/* Draws one event. The time before the last rank began is paler; a failed event is underlined. */
function paintEvent(ctx, b, i, from, size, top, high) {
  const kind = b.kind[i], colour = style.colours[kindNumber(kind, "class")];
  const left = Math.max(-4, from), right = Math.min(view.width, from + size);
  const edge = Math.max(left, Math.min(right, from + size * waitingShare(b, i)));
  ctx.fillStyle = colour;
  ctx.globalAlpha = 0.4;
  if (edge > left) ctx.fillRect(LABELS + left, top, edge - left, high);
  ctx.globalAlpha = 1;
  if (right > edge) ctx.fillRect(LABELS + edge, top, Math.max(0.5, right - edge - (size > 4 ? 0.5 : 0)), high);
  if (kindNumber(kind, "status")) { ctx.fillStyle = style.bad; ctx.fillRect(LABELS + left, top + high - 2, right - left, 2); }
  if (high < 10 || right - left < NAME_WIDTH) return;
  ctx.fillStyle = edge - Math.max(0, left) > 20 ? style.ink : style.panel; /* the name begins on the pale part */
  ctx.save();
  ctx.beginPath();
  ctx.rect(LABELS + left, top, right - left - 3, high);
  ctx.clip();
  ctx.fillText(kindText(kind, "name"), LABELS + Math.max(left, 0) + 4, top + high / 2 + 0.5);
  ctx.restore();
}

function drawRows(ctx) {
  const shown = visibleLanes(), width = Math.ceil(plotWidth()), density = new Density(width), palette = style.colours.map(components);
  const rows = hasWorks ? 2 : 1, image = new ImageData(width, Math.max(1, shown.length * rows)), arrows = [];
  let visible = 0;
  view.exact = wantsEvents();
  const paints = [];
  shown.forEach((lane, at) => {
    const exact = view.exact && lane.load();
    for (let row = 0; row < rows; row++) {
      if (!lane.overviews[row]) continue;
      const [top, high] = rowBox(lane, row);
      density.clear();
      if (exact) gatherEvents(density, lane.rows[row], width, (b, i, from, size) => {
        const slots = lane.rows[row].slots, each = high / slots;
        paints.push([b, i, from, size, top + b.slot[i] * each, Math.max(1, each - (slots > 1 ? 0.5 : 0))]);
        if (kindNumber(b.kind[i], "class") === RECV && !Number.isNaN(b.arrived[i])) arrows.push([lane, row, b, i, top + high / 2]);
        visible++;
      });
      else gatherOverview(density, lane.overviews[row], width);
      paintDensity(density, image.data, (at * rows + row) * width, width, palette);
    }
  });
  stretch(ctx, image, shown, rows, width);
  for (const paint of paints) paintEvent(ctx, ...paint);
  if (arrows.length && visible <= ARROWS_MOST) drawArrows(ctx, arrows);
}

const scratch = document.createElement("canvas");
function stretch(ctx, image, shown, rows, width) {
  scratch.width = image.width;
  scratch.height = image.height;
  scratch.getContext("2d").putImageData(image, 0, 0);
  ctx.imageSmoothingEnabled = false;
  shown.forEach((lane, at) => {
    for (let row = 0; row < rows; row++) {
      const [top, high] = rowBox(lane, row);
      ctx.drawImage(scratch, 0, at * rows + row, width, 1, LABELS, top, width, high);
    }
  });
}

/* From the beginning of the send to the end of the receive. Both are assumed to be in the same row. */
function drawArrows(ctx, arrows) {
  ctx.strokeStyle = style.ink;
  ctx.fillStyle = style.ink;
  ctx.globalAlpha = 0.55;
  ctx.lineWidth = 1;
  for (const [lane, row, b, i, y] of arrows) {
    const from = laneOfRank.get(shapeOf(b.shape[i]).peer);
    if (!from || from === lane) continue;
    const [top, high] = rowBox(from, from.overviews[row] ? row : 1 - row), x0 = timeToX(b.arrived[i]), x1 = timeToX(b.begin[i] + b.took[i]), y0 = top + high / 2;
    if (x1 - x0 < ARROW_LEAST) continue; /* many short ones would be a black spot */
    const angle = Math.atan2(y - y0, x1 - x0);
    ctx.beginPath();
    ctx.moveTo(x0, y0);
    ctx.lineTo(x1, y);
    ctx.stroke();
    ctx.beginPath();
    ctx.moveTo(x1, y);
    ctx.lineTo(x1 - 7 * Math.cos(angle - 0.4), y - 7 * Math.sin(angle - 0.4));
    ctx.lineTo(x1 - 7 * Math.cos(angle + 0.4), y - 7 * Math.sin(angle + 0.4));
    ctx.fill();
  }
  ctx.globalAlpha = 1;
}

function drawAxis(ctx) {
  const step = niceStep(span(), plotWidth() / 110);
  ctx.fillStyle = style.panel;
  ctx.fillRect(0, 0, view.width, AXIS);
  ctx.textBaseline = "middle";
  for (let time = Math.ceil(view.begin / step) * step; time <= view.end; time += step) {
    const x = timeToX(time);
    ctx.fillStyle = style.line;
    ctx.fillRect(x, AXIS - 5, 1, view.height);
    ctx.fillStyle = style.soft;
    ctx.textAlign = x < LABELS + 24 ? "left" : "center"; /* the rank labels would cover it */
    ctx.fillText(axisTime(time, step), x, AXIS / 2 - 1);
  }
}

/* With as many decimals as the step needs. */
function axisTime(ns, step) {
  const [unit, name] = Math.abs(view.end) >= 1e9 ? [1e9, "s"] : Math.abs(view.end) >= 1e6 ? [1e6, "ms"] : [1e3, "\u00b5s"];
  return plain(ns / unit, Math.min(9, Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9)))) + " " + name;
}

function drawLabels(ctx) {
  const every = view.laneHeight >= 12 ? 1 : Math.max(1, niceStep(12 / view.laneHeight, 1));
  ctx.fillStyle = style.panel;
  ctx.fillRect(0, AXIS, LABELS - 1, view.height);
  ctx.textAlign = "right";
  for (const lane of visibleLanes()) {
    const top = AXIS + lane.index * view.laneHeight - view.scroll;
    if (lane.index % every) continue;
    ctx.fillStyle = view.selected && view.selected.lane === lane ? style.accent : style.soft;
    const hosts = summary.hosts.length > 1, below = hosts && view.laneHeight >= 26;
    ctx.fillText(`rank ${lane.rank}${hosts && !below ? ` ${lane.info.host}` : ""}`, LABELS - 8, top + (below ? 13 : view.laneHeight / 2), LABELS - 12);
    if (below) ctx.fillText(lane.info.host, LABELS - 8, top + Math.min(26, view.laneHeight - 6), LABELS - 12);
  }
  ctx.fillStyle = style.panel;
  ctx.fillRect(0, 0, LABELS - 1, AXIS);
}

function drawSelected(ctx) {
  ctx.strokeStyle = style.ink;
  ctx.lineWidth = 1.5;
  for (const event of view.partners) {
    const [top, high] = eventBox(event), x = timeToX(event.begin), size = Math.max(3, event.took / span() * plotWidth());
    if (x > view.width || x + size < LABELS || top + high < AXIS) continue;
    ctx.strokeRect(Math.max(LABELS - 2, x), top - 0.5, Math.min(size, view.width - x + 4), high + 1);
  }
  if (!view.selected || Number.isNaN(view.selected.arrived)) return;
  const x = timeToX(view.selected.arrived);
  ctx.setLineDash([4, 3]);
  ctx.beginPath();
  ctx.moveTo(x, AXIS);
  ctx.lineTo(x, view.height);
  if (x >= LABELS) ctx.stroke();
  ctx.setLineDash([]);
}

function eventBox(event) {
  const [top, high] = rowBox(event.lane, event.row), each = high / event.lane.rows[event.row].slots;
  return [top + event.slot * each, each];
}

function drawTimeline() {
  const ctx = view.context;
  if (!ctx) return;
  cache.frame++;
  ctx.clearRect(0, 0, view.width, view.height);
  ctx.fillStyle = style.panel;
  ctx.fillRect(0, 0, view.width, view.height);
  ctx.textBaseline = "middle";
  ctx.fillStyle = style.stripe;
  for (const lane of visibleLanes())
    if (lane.index % 2) ctx.fillRect(LABELS, AXIS + lane.index * view.laneHeight - view.scroll, view.width, view.laneHeight);
  drawAxis(ctx);
  ctx.save();
  ctx.beginPath();
  ctx.rect(LABELS, AXIS, plotWidth(), view.height);
  ctx.clip();
  ctx.textAlign = "left";
  drawRows(ctx);
  drawSelected(ctx);
  if (view.range) {
    ctx.fillStyle = style.accent;
    ctx.globalAlpha = 0.2;
    ctx.fillRect(Math.min(...view.range), AXIS, Math.abs(view.range[1] - view.range[0]), view.height);
    ctx.globalAlpha = 1;
  }
  ctx.restore();
  drawLabels(ctx);
}
