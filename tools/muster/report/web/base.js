/* base.js - shared by all parts of the page: the data, elements, number formats, colours and the tooltip. */

const summary = JSON.parse(document.getElementById("summary").textContent);
const byId = (id) => document.getElementById(id);
const timelineData = JSON.parse(byId("timeline-data").textContent);
const classNames = timelineData.classes;

const NARROW = 600; /* CSS pixels; below it, drawings have fewer labels */

/* Texts of the traces become text nodes or attributes, never markup. */
function element(tag, attributes = {}, ...children) {
  const node = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const plain = (value, decimals = 0) => value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });

/* About three significant digits. */
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

/* "#2f6fde" as [red, green, blue]. */
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

/* Sets the resolution of a canvas to that of the screen. Returns its context, in CSS pixels. */
function prepareCanvas(canvas, width, height) {
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

/* The step of an axis with about count ticks: 1, 2 or 5 times a power of ten. */
function niceStep(span, count) {
  const rough = span / count, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= rough);
}
