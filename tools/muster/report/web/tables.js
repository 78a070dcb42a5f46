/* tables.js - time per operation and size, and per call site: tables that can be sorted and filtered by rank and group. */

/* Columns that a narrow window does not show. */
const EXTRA = new Set(["Ranks", "Calls", "Function", "tput (Gbps) *"]);
const columnClass = (title, isText) => [isText ? "text" : "", EXTRA.has(title) ? "extra" : ""].join(" ").trim() || null;

/* columns: [title, value for sorting, text, is it a text column]. Sorting by a column twice reverses the order. */
class Table {
  constructor(parent, columns, first) {
    this.columns = columns;
    this.order = first;
    this.down = true;
    this.rows = [];
    this.body = element("tbody");
    this.heads = columns.map(([title, , , text], i) => element("th", { class: columnClass(title, text), scope: "col" },
      element("button", { onclick: () => this.sortBy(i) }, title)));
    parent.replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...this.heads)), this.body));
  }
  sortBy(column) {
    this.down = column === this.order ? !this.down : !this.columns[column][3];
    this.order = column;
    this.draw();
  }
  show(rows) {
    this.rows = rows;
    this.draw();
  }
  draw() {
    const value = this.columns[this.order][1], sign = this.down ? -1 : 1;
    const compare = (a, b) => { const x = value(a), y = value(b); return sign * (x < y ? -1 : x > y ? 1 : 0); };
    this.heads.forEach((head, i) => i === this.order ? head.setAttribute("aria-sort",
      this.down ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
    this.body.replaceChildren(...[...this.rows].sort(compare).map((row) => element("tr", {},
      ...this.columns.map(([title, worth, text, isText]) =>
      element("td", { class: columnClass(title, isText), title: isText ? text(row) : null, "data-value": worth(row) }, text(row))))));
  }
}

/* The rows of {columns, rows} as objects. */
const records = (table) => table.rows.map((row) => Object.fromEntries(table.columns.map((name, i) => [name, row[i]])));

const number = (field, show) => [(row) => row[field], (row) => show(row[field])];
const milliseconds = (us) => plain(us / 1000, us >= 1e6 ? 1 : us >= 1e3 ? 3 : 4);
const percent = (share) => [share, (row) => showShare(share(row))];
const rate = (gbps) => gbps ? digits(gbps) : "\u2013";

/* The column of failed calls is shown only if there are any. */
const withoutFailures = !summary.operations.some((operation) => operation.failed);
const withFailures = ([title]) => title !== "Failed" || !withoutFailures;
const failures = (count) => count ? plain(count) : "\u2013";

function fillSelect(select, all, choices, changed) {
  select.append(element("option", { value: "-1" }, all), ...choices.map(([value, text]) => element("option", { value }, text)));
  select.addEventListener("change", changed);
}

const ranksAsChoices = () => summary.ranks.map((rank) => [rank.rank, `${rank.rank} (${rank.host})`]);

function operationRows(cells, rank, group) {
  if (rank < 0 && group < 0) return summary.operations;
  const wanted = new Map();
  for (const cell of cells) {
    if (cell.rank !== rank) continue;
    const groups = summary.operations[cell.operation].groups;
    /* An operation with one group has no separate cells for that group. */
    const fits = group < 0 ? cell.group < 0 : groups.length === 1 ? groups[0] === group : cell.group === group;
    if (fits) wanted.set(cell.operation, cell);
  }
  if (rank < 0) summary.operations.forEach((operation, i) => { if (operation.groups.length === 1 &&
    operation.groups[0] === group) wanted.set(i, operation); });
  return [...wanted].map(([i, cell]) => ({ ...summary.operations[i], ...cell }));
}

/* Adds the times of one rank, the mean of the n selected ones, and their share of the run time. */
function perRank(rows, ranks) {
  const n = ranks.length || 1, run = ranks.reduce((sum, rank) => sum + rank.duration_us, 0) || 1;
  return rows.map((row) => ({ ...row, comm: row.communication_us / n, waits: row.waiting_us / n, share: row.communication_us / run }));
}

function selectedRanks(rank, group) {
  const members = group < 0 ? null : summary.groups[group].ranks;
  return summary.ranks.filter((one) => rank >= 0 ? one.rank === rank : !members || !members.length || members.includes(one.rank));
}

const timeColumns = [
  ["Communication (ms)", ...number("comm", milliseconds)],
  ["of run time", ...percent((row) => row.share)],
  ["Waiting (ms)", ...number("waits", milliseconds)],
];

function drawOperations() {
  const cells = records(summary.cells);
  const table = new Table(byId("op-table"), [
    ["Operation", (o) => o.name, (o) => o.name + (o.call !== o.name ? ` (${o.call})` : ""), true],
    ["Size", (o) => o.bytes, (o) => (o.up_to ? "\u2264 " : "") + showBytes(o.bytes)],
    ["Ranks", ...number("size", plain)],
    ["Calls", ...number("count", plain)],
    ["Failed", ...number("failed", failures)],
    ...timeColumns,
    ["Call (ms) *", ...number("avg_us", milliseconds)],
    ["tput (Gbps) *", ...number("tput_gbps", rate)],
    ["busbw (Gbps) *", ...number("busbw_gbps", rate)],
  ].filter(withFailures), withoutFailures ? 4 : 5);
  const update = () => {
    const rank = Number(byId("op-rank").value), group = Number(byId("op-group").value);
    table.show(perRank(operationRows(cells, rank, group), selectedRanks(rank, group)));
  };
  fillSelect(byId("op-rank"), "all", ranksAsChoices(), update);
  fillSelect(byId("op-group"), "all", summary.groups.map((group, i) => [i, `${group.name}: ${shortRanks(group)}`]), update);
  update();
}

function shortRanks(group) {
  if (!group.ranks.length) return "ranks unknown";
  const shown = group.ranks.slice(0, 8).join(", ");
  return group.ranks.length > 8 ? `${shown}, \u2026 (${group.ranks.length})` : shown;
}

function drawSites() {
  const cells = records(summary.site_cells).map((cell) => ({ ...cell, ...summary.sites[cell.site], location: summary.sites[cell.site].site }));
  const table = new Table(byId("site-table"), [
    ["Call site", (s) => s.location, (s) => s.location || "unknown", true],
    ["Function", (s) => s.function, (s) => s.function, true],
    ["Operation", (s) => s.name, (s) => s.name, true],
    ["Calls", ...number("count", plain)],
    ["Failed", ...number("failed", failures)],
    ...timeColumns,
  ].filter(withFailures), withoutFailures ? 4 : 5);
  const update = () => {
    const rank = Number(byId("site-rank").value);
    table.show(perRank(cells.filter((cell) => cell.rank === rank), selectedRanks(rank, -1)));
  };
  fillSelect(byId("site-rank"), "all", ranksAsChoices(), update);
  update();
}
