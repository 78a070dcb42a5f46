/* data.js - unpacks the events of the timeline on demand. lanes.c describes the format. Times are nanoseconds. */

const KIND = { name: 0, call: 1, dtype: 2, op: 3, backend: 4, algorithm: 5, site: 6, function: 7, status: 8, group: 9, tid: 10, class: 11,
  message: 12, work: 13 };
const SEND = classNames.indexOf("send"), RECV = classNames.indexOf("recv");
const CACHED_MOST = 3000000; /* unpacked events in the cache */

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

/* Reads variable-length numbers. Bit operations would be wrong beyond 31 bits. */
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

/* A cache of unpacked blocks, the most recently used last. Blocks of the current frame are not evicted. */
const cache = { blocks: new Map(), events: 0, frame: 0 };
function cachedBlock(row, index) {
  const key = row.id * 1048576 + index;
  let entry = cache.blocks.get(key);
  if (entry) {
    if (entry.frame !== cache.frame) { cache.blocks.delete(key); cache.blocks.set(key, entry); }
  } else {
    const count = Math.min(timelineData.block, row.n - index * timelineData.block);
    entry = { block: unpack(row.lane.bytes, row.blocks[3 * index + 1], row.blocks[3 * index], count), frame: 0 };
    cache.blocks.set(key, entry);
    cache.events += count;
    for (const [old, other] of cache.blocks) {
      if (cache.events <= CACHED_MOST || other.frame === cache.frame) break;
      cache.blocks.delete(old);
      cache.events -= other.block.n;
    }
  }
  entry.frame = cache.frame;
  return entry.block;
}

/* A row of a rank. A block is three numbers: begin, offset, and the latest end of this block and those before. */
class Row {
  constructor(lane, description, number) {
    this.lane = lane;
    this.n = description.n;
    this.slots = description.slots;
    this.blocks = description.blocks;
    this.count = description.blocks.length / 3;
    this.id = lane.index * 2 + number;
  }
  block(index) { return cachedBlock(this, index); }
  /* The first block with an event that ends at or after begin, and the first that begins after end. */
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

/* A rank. rows is null until load() has found its events in the document. */
class Lane {
  constructor(index) {
    this.index = index;
    this.info = summary.ranks[index];
    this.rank = this.info.rank;
    this.overviews = [0, 1].map((row) => {
      const found = byId(`overview-${this.rank}-${row}`);
      return found ? fromBase64(found.textContent) : null;
    });
    this.rows = null;
  }
  load() {
    if (this.rows) return true;
    const found = byId(`lane-${this.rank}`);
    /* While the document loads, an element is complete if another follows it. */
    if (!found || (document.readyState === "loading" && !found.nextElementSibling)) return false;
    const text = found.textContent, newline = text.indexOf("\n");
    this.bytes = fromBase64(text.slice(newline + 1));
    this.rows = JSON.parse(text.slice(0, newline)).map((description, number) => new Row(this, description, number));
    found.remove();
    return true;
  }
}

const lanes = summary.ranks.map((_, index) => new Lane(index));
const laneOfRank = new Map(lanes.map((lane) => [lane.rank, lane]));

/* The waiting part of the communication time of an operation that ends at end: prof/summary/comm_time.h. */
const waitingTime = (end, comm, arrived) => Number.isNaN(arrived) ? 0 : Math.max(0, Math.min(comm, comm - (end - arrived)));

/* One event as an object. */
function eventAt(lane, row, block, i) {
  const b = lane.rows[row].block(block), kind = b.kind[i];
  const event = {
    lane, row, block, i, kind, shape: shapeOf(b.shape[i]), begin: b.begin[i], took: b.took[i], end: b.begin[i] + b.took[i], seq: b.seq[i],
    arrived: b.arrived[i], queued: b.queued[i], waited: b.waited[i], device: b.device[i], slot: b.slot[i],
    group: kindNumber(kind, "group"), class: kindNumber(kind, "class"), message: !!kindNumber(kind, "message"),
      work: !!kindNumber(kind, "work"),
  };
  event.failed = !!kindNumber(kind, "status");
  event.comm = event.work && event.waited >= 0 ? Math.min(event.waited, event.took) : event.took;
  event.wait = event.failed ? event.comm : waitingTime(event.end, event.comm, event.arrived);
  return event;
}

const SEARCH_BLOCKS = 6; /* in each direction from the expected time */
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

/* The events of the same collective on all ranks of its group, or the send and the receive of a message. */
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
