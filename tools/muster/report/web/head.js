/* head.js - the top of the page: the job, the warnings, and the diagnosis of a failure. */

const median = (sorted) => sorted.length ? (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2 : 0;

function fact(label, value, more, wide, extra) {
  return element("div", { class: wide ? "fact wide" : "fact" }, element("div", { class: "label" }, label),
    element("div", { class: "value" }, value),
    element("div", { class: "more" }, more || ""), extra);
}

function shareFact() {
  const order = [...summary.ranks].sort((a, b) => a.share - b.share);
  const least = order[0], most = order[order.length - 1], middle = median(order.map((rank) => rank.share));
  const bars = element("div", { class: "bars", "aria-hidden": "true" });
  if (summary.ranks.length <= 512)
    bars.append(...summary.ranks.map((rank) => element("i", { style: `height:${Math.max(2, 100 * rank.share / (most.share || 1))}%`,
      title: `rank ${rank.rank}: ${showShare(rank.share)}` })));
  const value = element("span", { id: "share", "data-min": least.share, "data-median": middle, "data-max": most.share }, showShare(middle));
  return fact("Communication, median of the ranks", value,
    `of the run time; from ${showShare(least.share)} on rank ${least.rank} to ${showShare(most.share)} on rank ${most.rank}`, true, bars);
}

function waitingFact() {
  const shares = summary.ranks.map((rank) => rank.duration_us ? rank.waiting_us / rank.duration_us : 0).sort((a, b) => a - b);
  return fact("Waiting, median", showShare(median(shares)), "of the run time, for late ranks");
}

/* Waiting, transfer and the rest of the run time as a bar. */
function rankBar(rank) {
  const part = (name, us) => element("i", { class: name, style: `width:${Math.min(100, 100 * us / (rank.duration_us || 1))}%` });
  return element("div", { class: "stack", title: `waiting ${showTime(rank.waiting_us)}, transfer ${showTime(rank.transfer_us)}` },
    part("waiting", rank.waiting_us), part("transfer", rank.transfer_us));
}

function drawRanks() {
  const whole = (text) => element("span", { class: "whole" }, text);
  const share = (rank, us) => element("td", {}, whole(showTime(us)), " ", whole(`(${showShare(rank.duration_us ? us / rank.duration_us : 0)})`));
  const swatch = (name, label) => element("th", {}, element("span", { class: `swatch ${name}` }), label);
  byId("rank-table").append(element("table", {}, element("thead", {}, element("tr", {}, element("th", {}, "Rank"),
    element("th", { class: "text host" }, "Host"), element("th", {}, "Run time"), element("th", {}, "Communication"),
    element("th", { class: "text bar-cell" }, ""), swatch("waiting", "Waiting"), swatch("transfer", "Transfer"), element("th", {}, "Late"))),
  element("tbody", {}, ...summary.ranks.map((rank) => element("tr", { "data-rank": rank.rank, "data-run": rank.duration_us,
    "data-communication": rank.communication_us, "data-waiting": rank.waiting_us, "data-transfer": rank.transfer_us,
    "data-late": rank.waited_for_us }, element("td", {}, String(rank.rank)), element("td", { class: "text host" }, rank.host),
    element("td", {}, whole(showTime(rank.duration_us))), share(rank, rank.communication_us), element("td", { class: "bar-cell" }, rankBar(rank)),
    share(rank, rank.waiting_us), share(rank, rank.transfer_us), element("td", {}, whole(showTime(rank.waited_for_us))))))));
}

function drawFacts() {
  const facts = byId("facts"), traced = summary.ranks.length;
  facts.append(fact("Ranks", plain(summary.size), traced === summary.size ? "all left a trace" : `${traced} left a trace`));
  facts.append(fact("Hosts", plain(summary.hosts.length), summary.hosts.slice(0, 8).join(", ") +
    (summary.hosts.length > 8 ? ", \u2026" : "")));
  if (!traced) return;
  facts.append(fact("Run time", element("span", { id: "duration", "data-us": summary.duration_us }, showTime(summary.duration_us)),
    "from mst_init to the last call"));
  facts.append(shareFact());
  facts.append(waitingFact());
  facts.append(fact("Calls", plain(summary.events), summary.dropped ? `${plain(summary.dropped)} more dropped` : "on all ranks, none dropped"));
  facts.append(fact("Clock error", summary.clock_error_us ? "\u2264 " + showTime(summary.clock_error_us) : "none",
    summary.hosts.length > 1 ? "between hosts" : "one host has one clock"));
  const pairs = summary.pairs;
  facts.append(fact("Collectives", plain(pairs.collectives),
    pairs.collectives === pairs.collectives_complete ? "each seen on all its ranks"
      : `${plain(pairs.collectives - pairs.collectives_complete)} not seen on all their ranks`));
}

function callText(call) {
  if (!call) return "";
  const to = call.dir === undefined ? "" : ` ${call.dir === "send" ? "to" : "from"} ${call.peer < 0 ? "any rank" : `rank ${call.peer}`}`;
  return `${call.name}${to}${call.seq === undefined ? "" : `, number ${call.seq}`} of ${call.group}`;
}

function drawFailure() {
  const failure = summary.failure;
  if (!failure) return;
  byId("failure").hidden = false;
  byId("diagnosis").textContent = failure.diagnosis;
  if (failure.kind === "none") byId("diagnosis").classList.add("calm");
  const header = ["Rank", "Host", "State", "Call", "At", "Function", "Last finished", "Recorder's reason"];
  const body = element("tbody");
  for (const rank of failure.ranks) {
    const call = rank.current || rank.last;
    body.append(element("tr", { class: failure.blamed.includes(rank.rank) ? "blamed" : null }, element("td", {}, String(rank.rank)),
      ...[rank.host, rank.current ? rank.current.state : "not in a call", rank.current ? callText(rank.current) : "",
        call ? call.site : "", call ? call.function : "", callText(rank.last)]
        .map((text) => element("td", { class: "text" }, text)), element("td", { class: "text long" }, rank.reason)));
  }
  for (const rank of failure.blamed)
    if (!failure.ranks.some((other) => other.rank === rank))
      body.append(element("tr", { class: "blamed" }, element("td", {}, String(rank)),
        element("td", { class: "text", colspan: 7 }, "no recording")));
  byId("failure-table").append(element("table", {}, element("thead", {},
    element("tr", {}, ...header.map((text, i) => element("th", { class: i ? "text" : null }, text)))), body));
}

function drawHead() {
  const program = summary.program || "muster report";
  document.title = program + " \u00b7 muster report";
  byId("title").textContent = program;
  byId("subtitle").textContent = `${plain(summary.size)} ranks on ${summary.hosts.length === 1 ? "one host" : plain(summary.hosts.length) + " hosts"}` +
    (summary.ranks.length ? `, ${showTime(summary.duration_us)}, ${plain(summary.events)} calls` : "") +
      ` \u00b7 muster ${summary.muster}`;
  byId("warnings").append(...summary.warnings.map((text) => element("p", { class: "warning" }, text)));
  drawFacts();
  drawRanks();
  drawFailure();
  for (const section of document.querySelectorAll("main section")) {
    const heading = section.querySelector("h2");
    if (!summary.ranks.length && section.id !== "failure" && section.id !== "head") section.hidden = true;
    if (heading && !section.hidden) byId("nav").append(element("a", { href: "#" + section.id }, heading.textContent));
  }
}
