/* base.js - what all parts of the page use: the figures, elements, numbers in words, colours, and the box beside the pointer. */

const summary = JSON.parse(document.getElementById("summary").textContent);
const classNames = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter", "barrier",
  "send", "recv", "other"];
const byId = (id) => document.getElementById(id);

/* Texts of the traces only ever become text, never markup. */
function element(tag, attributes = {}, ...children) {
  const made = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const plain = (value, decimals = 0) => value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });

/* Three digits that mean something. */
function digits(value) {
  const size = Math.abs(value);
  return plain(value, size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : 4);
}

function showTime(us) {
  const size = Math.abs(us);
  if (size >= 1e6) return digits(us / 1e6) + " s";
  if (size >= 1e3) return digits(us / 1e3) + " ms";
  if (size >= 1 || size === 0) return digits(us) + " \u00b5s";
  return digits(us * 1e3) + " ns";
}

function showBytes(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0, value = bytes;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit++; }
  return plain(value, Number.isInteger(value) ? 0 : 2) + " " + units[unit];
}

const showShare = (share) => plain(100 * share, 1) + " %";

const style = { colours: [], ink: "", soft: "", line: "", panel: "", stripe: "", accent: "", heat: "", bad: "" };
function readStyle() {
  const css = getComputedStyle(document.documentElement);
  const read = (name) => css.getPropertyValue(name).trim();
  style.colours = classNames.map((name) => read("--c-" + name));
  for (const name of ["ink", "soft", "line", "panel", "stripe", "accent", "heat", "bad"]) style[name] = read("--" + name);
}

/* "#2f6fde" as three numbers. */
const components = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

const tip = byId("tip");
function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 16 + box.width > innerWidth ? x - 12 - box.width : x + 16;
  const top = y + 16 + box.height > innerHeight ? y - 12 - box.height : y + 16;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, top) + "px";
}
const hideTip = () => { tip.hidden = true; };

/* Makes a canvas as sharp as the screen, and returns what draws on it in CSS pixels. */
function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = "11px system-ui, sans-serif";
  return context;
}

/* The steps of an axis: 1, 2 or 5 times a power of ten, about count of them. */
function niceStep(span, count) {
  const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= rough);
}
