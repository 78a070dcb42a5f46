/*
 * data.js - the events of the timeline, unpacked where they are looked at; page_lanes.c says how they are packed. Times are nanoseconds.
 */

const timelineData = JSON.parse(byId("timeline-data").textContent);
const KIND = { name: 0, call: 1, dtype: 2, op: 3, backend: 4, algorithm: 5, site: 6, function: 7, status: 8, group: 9, tid: 10, class: 11,
  message: 12, work: 13 };
const SEND = classNames.indexOf("send"), RECV = classNames.indexOf("recv");
const KEPT_MOST = 3000000; /* events that stay unpacked */

const kindText = (kind, field) => timelineData.strings[timelineData.kinds[kind][KIND[field]]];
const kindNumber = (kind, field) => timelineData.kinds[kind][KIND[field]];
const shapeOf = (shape) => ({ bytes: timelineData.shapes[3 * shape], peer: timelineData.shapes[3 * shape + 1],
  tag: timelineData.shapes[3 * shape + 2] });

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/* Reads variable-length numbers; beyond 31 bits only arithmetic is exact. */
class Reader {
  constructor(bytes, at) { this.bytes = bytes; this.at = at; }
  number() {
    let byte = this.bytes[this.at++];
    if (byte < 128) return byte;
    let value = byte & 127, factor = 128;
    for (;;) {
      byte = this.bytes[this.at++];
      if (byte < 128) return value + byte * factor;
      value += (byte & 127) * factor;
      factor *= 128;
    }
  }
  signed() {
    const value = this.number();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }
}

function unpack(bytes, offset, begin, count) {
  const block = {
    n: count, begin: new Float64Array(count), took: new Float64Array(count), kind: new Uint32Array(count), slot: new Uint8Array(count),
    shape: new Uint32Array(count), seq: new Float64Array(count), arrived: new Float64Array(count), queued: new Float64Array(count),
      waited: new Float64Array(count), device: new Float64Array(count),
  };
  const reader = new Reader(bytes, offset);
  let time = begin, seq = 0;
  for (let i = 0; i < count; i++) {
    time += reader.number();
    block.begin[i] = time;
    block.took[i] = reader.number();
    const word = reader.number(), flags = word % 32;
    block.kind[i] = (word - flags) / 32;
    block.slot[i] = flags >> 3;
    block.shape[i] = reader.number();
    seq = i ? seq + 1 + reader.signed() : reader.signed();
    block.seq[i] = seq;
    const arrived = reader.number();
    block.arrived[i] = arrived ? time + ((arrived - 1) % 2 ? -arrived / 2 : (arrived - 1) / 2) : NaN;
    block.queued[i] = flags & 1 ? reader.number() - 1 : 0;
    block.waited[i] = flags & 2 ? reader.number() - 1 : block.took[i];
    block.device[i] = flags & 4 ? reader.number() - 1 : -1;
  }
  return block;
}

/* Unpacked blocks of all rows, the ones used last at the end; what one picture uses is never thrown away while it is drawn. */
const kept = { blocks: new Map(), events: 0, stamp: 0 };
function keep(row, index) {
  const key = row.id * 1048576 + index;
  let entry = kept.blocks.get(key);
  if (entry) {
    if (entry.stamp !== kept.stamp) { kept.blocks.delete(key); kept.blocks.set(key, entry); }
  } else {
    const count = Math.min(timelineData.block, row.n - index * timelineData.block);
    entry = { block: unpack(row.lane.bytes, row.blocks[3 * index + 1], row.blocks[3 * index], count), stamp: 0 };
    kept.blocks.set(key, entry);
    kept.events += count;
    for (const [old, other] of kept.blocks) {
      if (kept.events <= KEPT_MOST || other.stamp === kept.stamp) break;
      kept.blocks.delete(old);
      kept.events -= other.block.n;
    }
  }
  entry.stamp = kept.stamp;
  return entry.block;
}

/* One row of a rank: blocks are [begin, offset, latest end so far] each. */
class Row {
  constructor(lane, about, number) {
    this.lane = lane;
    this.n = about.n;
    this.slots = about.slots;
    this.blocks = about.blocks;
    this.count = about.blocks.length / 3;
    this.id = lane.index * 2 + number;
  }
  block(index) { return keep(this, index); }
  /* The first block with events that end at or behind a time, and the first that begins behind another. */
  between(begin, end) {
    const search = (holds) => {
      let low = 0, high = this.count;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (holds(middle)) high = middle; else low = middle + 1;
      }
      return low;
    };
    return [search((i) => this.blocks[3 * i + 2] >= begin), search((i) => this.blocks[3 * i] > end)];
  }
}

/* A rank. Its events may not have arrived yet, or never been looked at: rows is then null. */
class Lane {
  constructor(index) {
    this.index = index;
    this.about = summary.ranks[index];
    this.rank = this.about.rank;
    this.overviews = [0, 1].map((row) => {
      const found = byId(`overview-${this.rank}-${row}`);
      return found ? fromBase64(found.textContent) : null;
    });
    this.rows = null;
  }
  load() {
    if (this.rows) return true;
    const found = byId(`lane-${this.rank}`);
    /* A script that is followed by something was read to its end. */
    if (!found || (document.readyState === "loading" && !found.nextElementSibling)) return false;
    const text = found.textContent, newline = text.indexOf("\n");
    this.bytes = fromBase64(text.slice(newline + 1));
    this.rows = JSON.parse(text.slice(0, newline)).map((about, number) => new Row(this, about, number));
    found.remove();
    return true;
  }
}

const lanes = summary.ranks.map((_, index) => new Lane(index));
const laneOfRank = new Map(lanes.map((lane) => [lane.rank, lane]));

/* A reference to one event, and what it says. */
function eventAt(lane, row, block, i) {
  const b = lane.rows[row].block(block), kind = b.kind[i];
  const event = {
    lane, row, block, i, kind, shape: shapeOf(b.shape[i]), begin: b.begin[i], took: b.took[i], end: b.begin[i] + b.took[i], seq: b.seq[i],
    arrived: b.arrived[i], queued: b.queued[i], waited: b.waited[i], device: b.device[i], slot: b.slot[i],
    group: kindNumber(kind, "group"), class: kindNumber(kind, "class"), message: !!kindNumber(kind, "message"),
      work: !!kindNumber(kind, "work"),
  };
  event.failed = !!kindNumber(kind, "status");
  event.wait = Number.isNaN(event.arrived) ? 0 : Math.max(0, Math.min(event.arrived, event.end) - event.begin);
  return event;
}

const SEARCH_BLOCKS = 6; /* each way, from the time where it should be */
function findEvent(lane, around, matches) {
  if (!lane || !lane.load()) return null;
  for (let row = 0; row < 2; row++) {
    const events = lane.rows[row], [first] = events.between(around, around);
    for (let step = 0; step <= 2 * SEARCH_BLOCKS; step++) {
      const index = first + (step % 2 ? -(step + 1) / 2 : step / 2);
      if (index < 0 || index >= events.count) continue;
      const b = events.block(index);
      for (let i = 0; i < b.n; i++) if (matches(b, i)) return eventAt(lane, row, index, i);
    }
  }
  return null;
}

/* The same collective on all ranks of its group, or both sides of a message. */
function findPartners(event) {
  if (!event.message) {
    const ranks = summary.groups[event.group].ranks;
    return ranks.map((rank) => rank === event.lane.rank ? event : findEvent(laneOfRank.get(rank), event.begin, (b, i) =>
      b.seq[i] === event.seq && kindNumber(b.kind[i], "group") === event.group && !kindNumber(b.kind[i], "message"))).filter(Boolean);
  }
  const other = event.class === SEND ? RECV : SEND;
  const found = findEvent(laneOfRank.get(event.shape.peer), event.begin, (b, i) => {
    if (b.seq[i] !== event.seq || kindNumber(b.kind[i], "class") !== other || kindNumber(b.kind[i], "group") !== event.group) return false;
    const shape = shapeOf(b.shape[i]);
    return shape.peer === event.lane.rank && shape.tag === event.shape.tag;
  });
  return found ? [event, found] : [event];
}
