// A plan as it stands in the data, unfolded into rectangles of time and address.
const KINDS = [
  ["tables", "tables"],
  ["resident", "resident weights"],
  ["activation", "activations"],
  ["scratch", "intermediates"],
  ["loading", "weights being read"],
  ["held", "weights read ahead"],
  ["use", "weights in use"],
];
// Residents that lie side by side, as one range each.
const together = ({ address, pages }) => {
  const ranges = [];
  for (const i of [...address.keys()].sort((a, b) => address[a] - address[b])) {
    const [low, high] = [address[i] * PAGE, (address[i] + pages[i]) * PAGE];
    const last = ranges[ranges.length - 1];
    if (last && last.high === low) { last.high = high; last.count += 1; } else ranges.push({ low, high, count: 1 });
  }
  return ranges;
};
const unfold = (plan) => {
  const { steps: s, loads: l, residents: r, buffers: b, period } = plan;
  const steps = [];
  let clock = 0;
  let layer = 0;
  for (let i = 0; i < s.time.length; i++) {
    layer += s.layer[i];
    const before = clock;
    const start = before + s.wait[i];
    clock = start + s.time[i];
    steps.push({ layer, before, start, end: clock, first: s.first[i], count: s.count[i], row: s.row[i], rows: s.rows[i] });
  }
  // What is staged arrives in the arena with its copy, anything else as it is read.
  const copies = [];
  clock = 0;
  for (let i = 0; i < plan.copies.time.length; i++) {
    const start = clock + plan.copies.wait[i];
    clock = start + plan.copies.time[i];
    copies.push([start, clock]);
  }
  const loads = [];
  clock = 0;
  for (let i = 0; i < l.time.length; i++) {
    const start = clock + l.wait[i];
    clock = start + l.time[i];
    const [from, arrived] = copies[i] || [start, clock];
    loads.push({ start, end: clock, from, arrived, address: l.address[i] * PAGE, bytes: l.pages[i] * PAGE, first: l.first[i], last: l.first[i] + l.more[i], parts: l.parts[i] });
  }
  // Time is a circle: what runs ahead of its inference is drawn at the end of the one before.
  const around = (start, end) => {
    const shift = Math.floor(start / period) * period;
    const [from, to] = [start - shift, end - shift];
    if (!(to > from)) return [];
    return to <= period ? [[from, to]] : [[from, period], [0, Math.min(to - period, from)]];
  };
  const rects = [];
  const put = (kind, start, end, address, size, about) => {
    for (const [from, to] of around(start, end)) rects.push({ kind, from, to, low: address, high: address + size, about });
  };
  const whole = (kind, address, size, about) => rects.push({ kind, from: 0, to: period, low: address, high: address + size, about });
  whole("tables", 0, plan.tables, {});
  for (let i = 0; i < r.address.length; i++) {
    whole("resident", r.address[i] * PAGE, r.pages[i] * PAGE, { first: r.first[i], last: r.first[i] + r.more[i] });
  }
  for (let i = 0; i < b.address.length; i++) {
    const from = b.first[i] === 0 ? 0 : steps[b.first[i] - 1].before;
    const to = b.last[i] > steps.length ? period : b.last[i] === 0 ? 0 : steps[b.last[i] - 1].end;
    put("activation", from, to, b.address[i], b.bytes[i], { layer: b.layer[i], lines: b.lines[i] });
  }
  steps.forEach((step, i) => {
    if (s.scratch_bytes[i]) put("scratch", step.start, step.end, s.scratch[i], s.scratch_bytes[i], { first: i, last: i });
  });
  for (const load of loads) {
    put("loading", load.from, load.arrived, load.address, load.bytes, load);
    if (load.first < 0) continue;
    put("held", load.arrived, steps[load.first].start, load.address, load.bytes, load);
    const parts = load.parts.length ? load.parts : [[0, load.last]];
    parts.forEach(([page, last], k) => {
      const next = k + 1 < parts.length ? parts[k + 1][0] * PAGE : load.bytes;
      put("use", steps[load.first].start, steps[last].end, load.address + page * PAGE, next - page * PAGE, load);
    });
  }
  const order = new Map(KINDS.map(([kind], i) => [kind, i]));
  rects.sort((a, b) => order.get(a.kind) - order.get(b.kind));
  const rows = {
    storage: loads.flatMap((load, i) => around(load.start, load.end).map(([from, to]) => ({ kind: "read", from, to, about: load, index: i }))),
    copies: copies.flatMap(([start, end], i) => around(start, end).map(([from, to]) => ({ kind: "copy", from, to, about: loads[i], index: i }))),
    compute: steps.flatMap((step, i) => [
      ...(step.start > step.before ? [{ kind: "stall", from: step.before, to: step.start, about: step, index: i }] : []),
      { kind: "step", from: step.start, to: step.end, about: step, index: i },
    ]),
  };
  return { ...plan, steps, loads, rects, rows, stays: together(r) };
};
const unfolded = new Map();
const planAt = (index) => {
  if (!unfolded.has(index)) unfolded.set(index, unfold(data.plans[index]));
  return unfolded.get(index);
};

const state = { plan: 0, axis: "time", low: 0, high: 1, folded: true };
const current = () => planAt(state.plan);
