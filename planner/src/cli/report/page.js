"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const PAGE = 4096;
  const TICKS_PER_MS = 1e4;

  // Words and numbers.
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const digits = (value) => {
    const size = Math.abs(value);
    return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 || size === 0 ? 2 : 3);
  };
  const ms = (value) => `${value >= 100 ? value.toFixed(1) : digits(value)} ms`;
  const bytes = (value) => {
    const units = ["B", "KiB", "MiB", "GiB"];
    let unit = 0;
    while (value >= 1023.95 && unit + 1 < units.length) { value /= 1024; unit += 1; }
    const whole = unit === 0 || value >= 100 || Math.abs(value - Math.round(value)) < 0.005;
    return `${value.toFixed(whole ? 0 : 1)} ${units[unit]}`;
  };
  const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
  const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
  const layerName = (layer) => data.layers.names[layer];

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
    return { ...plan, steps, loads, rects, rows };
  };
  const unfolded = new Map();
  const planAt = (index) => {
    if (!unfolded.has(index)) unfolded.set(index, unfold(data.plans[index]));
    return unfolded.get(index);
  };

  const state = { plan: 0, axis: "time", low: 0, high: 1 };
  const current = () => planAt(state.plan);

  // Coordinates: a moment as a share of the axis, and back.
  const toAxis = (plan, tick) => {
    if (state.axis === "time" || !plan.steps.length) return tick / Math.max(plan.period, 1);
    const { steps } = plan;
    let [low, high] = [0, steps.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle].end < tick) low = middle + 1; else high = middle;
    }
    const { before, end } = steps[low];
    const inside = end > before ? Math.min(Math.max((tick - before) / (end - before), 0), 1) : 1;
    return (low + inside) / steps.length;
  };
  const span = (plan, rect) => {
    // Rounding must not leave an axis of steps with slivers.
    if (rect.axis !== state.axis) {
      rect.axis = state.axis;
      rect.left = toAxis(plan, rect.from);
      rect.right = toAxis(plan, rect.to);
    }
    return rect;
  };

  // The map and the channels beneath it, on one canvas.
  const canvas = byId("map");
  const staged = data.plans.some((plan) => plan.copies.time.length > 0);
  const frame = {};
  const layOut = () => {
    const width = canvas.parentElement.clientWidth;
    const narrow = width < 560;
    const height = narrow ? 260 : 400;
    Object.assign(frame, { width, left: narrow ? 62 : 68, right: width - 8, top: 8, bottom: 8 + height, row: narrow ? 20 : 24 });
    frame.storage = frame.bottom + 16;
    frame.copies = frame.storage + (staged ? frame.row + 6 : 0);
    frame.compute = frame.copies + frame.row + 6;
    frame.axis = frame.compute + frame.row;
    frame.height = frame.axis + 42;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const toX = (share) => frame.left + (share - state.low) / (state.high - state.low) * (frame.right - frame.left);
  const toShare = (x) => state.low + (x - frame.left) / (frame.right - frame.left) * (state.high - state.low);
  const toY = (plan, address) => frame.bottom - address / plan.budget * (frame.bottom - frame.top);

  const round = (most, parts) => {
    const rough = most / parts;
    const power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough * 0.999);
  };
  const binary = (most, parts) => 2 ** Math.ceil(Math.log2(most / parts));

  const draw = () => {
    layOut();
    const plan = current();
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(frame.width * ratio);
    canvas.height = Math.round(frame.height * ratio);
    canvas.style.height = `${frame.height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const colours = Object.fromEntries(["ink", "quiet", "line", "panel", "ground", "stall", "step", "step2", "load", "load2", ...KINDS.map(([kind]) => kind)].map((name) => [name, colour(name)]));
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const plot = frame.right - frame.left;
    pen.fillStyle = colours.panel;
    pen.fillRect(frame.left, frame.top, plot, frame.bottom - frame.top);

    // Addresses.
    const step = binary(plan.budget, 6);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (let address = 0; address <= plan.budget * 1.0001; address += step) {
      const y = toY(plan, address);
      pen.fillStyle = colours.line;
      pen.fillRect(frame.left, Math.round(y) - 0.5, plot, 1);
      pen.fillStyle = colours.quiet;
      pen.fillText(address ? bytes(address) : "0", frame.left - 7, y);
    }

    pen.save();
    pen.beginPath();
    pen.rect(frame.left, frame.top, plot, frame.axis - frame.top);
    pen.clip();
    const box = (rect, top, bottom, fill) => {
      let left = toX(rect.left);
      let right = toX(rect.right);
      if (right < frame.left || left > frame.right) return;
      left = Math.max(left, frame.left - 2);
      right = Math.min(right, frame.right + 2);
      // A hair between neighbours, where there is room for one.
      if (right - left > 3) right -= 0.6;
      if (bottom - top > 3) top += 0.6;
      pen.fillStyle = fill;
      pen.fillRect(left, top, Math.max(right - left, 0.5), Math.max(bottom - top, 0.5));
    };
    for (const rect of plan.rects) box(span(plan, rect), toY(plan, rect.high), toY(plan, rect.low), colours[rect.kind]);
    pen.fillStyle = colours.panel;
    for (const row of [frame.storage, frame.copies, frame.compute]) pen.fillRect(frame.left, row, plot, frame.row);
    for (const rect of plan.rows.storage) box(span(plan, rect), frame.storage, frame.storage + frame.row, colours[rect.index % 2 ? "load2" : "load"]);
    for (const rect of plan.rows.copies) box(span(plan, rect), frame.copies, frame.copies + frame.row, colours[rect.index % 2 ? "load2" : "load"]);
    for (const rect of plan.rows.compute) {
      const fill = rect.kind === "stall" ? "stall" : rect.about.layer % 2 ? "step2" : "step";
      box(span(plan, rect), frame.compute, frame.compute + frame.row, colours[fill]);
    }
    pen.restore();

    pen.fillStyle = colours.quiet;
    pen.fillText("storage", frame.left - 7, frame.storage + frame.row / 2);
    if (staged) pen.fillText("copies", frame.left - 7, frame.copies + frame.row / 2);
    pen.fillText("compute", frame.left - 7, frame.compute + frame.row / 2);

    // Time, or steps.
    const full = state.axis === "time" ? plan.period / TICKS_PER_MS : plan.steps.length;
    const [from, to] = [state.low * full, state.high * full];
    let every = round(Math.max(to - from, 1e-9), frame.width < 560 ? 4 : 8);
    if (state.axis === "steps") every = Math.max(1, every);
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const decimals = Math.max(0, -Math.floor(Math.log10(every) + 1e-9));
    for (let at = Math.ceil(from / every - 1e-9) * every; at <= to + every * 1e-6; at += every) {
      const x = toX(at / full);
      pen.fillStyle = colours.quiet;
      pen.fillRect(Math.round(x) - 0.5, frame.axis + 2, 1, 5);
      const text = at.toFixed(decimals);
      const half = pen.measureText(text).width / 2;
      pen.fillText(text, Math.min(x, frame.width - half), frame.axis + 10);
    }
    pen.fillText(state.axis === "time" ? "time (ms)" : "step", (frame.left + frame.right) / 2, frame.axis + 26);
    byId("reset").hidden = state.low === 0 && state.high === 1;
    canvas.setAttribute("aria-label", `Arena of ${bytes(plan.budget)} over an inference of ${ms(plan.steady_ms)}: ${plural(plan.loads.length, "load")}, ${plural(plan.steps.length, "step")}, waiting ${ms(plan.stall_ms)}`);
  };

  // What a thing on the canvas is.
  const extents = new Map();
  for (const step of planAt(0).steps) {
    const extent = extents.get(step.layer) || [0, 0];
    extents.set(step.layer, [Math.max(extent[0], step.first + step.count), Math.max(extent[1], step.row + step.rows)]);
  }
  const stepText = (step) => {
    const [panels, rows] = extents.get(step.layer) || [0, 0];
    const part = (what, first, count, all) => (!count || count >= all ? "" : count === 1 ? `, ${what} ${first}` : `, ${what}s ${first}–${first + count - 1}`);
    return layerName(step.layer) + part("panel", step.first, step.count, panels) + part("row", step.row, step.rows, rows);
  };
  const readers = (plan, { first, last }) => {
    if (first < 0) return "nobody";
    const [a, b] = [plan.steps[first], plan.steps[last]];
    if (first === last) return stepText(a);
    return a.layer === b.layer ? layerName(a.layer) : `${layerName(a.layer)} … ${layerName(b.layer)}`;
  };
  const moment = (tick) => digits(tick / TICKS_PER_MS);
  const describe = (plan, rect) => {
    const { about } = rect;
    const lines = [];
    const place = () => lines.push(`${bytes(rect.high - rect.low)} at ${bytes(rect.low)}`);
    const time = () => lines.push(`${moment(rect.from)} to ${moment(rect.to)} ms`);
    let title = "";
    switch (rect.kind) {
      case "tables": title = "The pack's tables"; place(); break;
      case "resident": title = readers(plan, about); lines.push("weights that stay"); place(); break;
      case "activation":
        title = about.layer < 0 ? "The network's input or output" : layerName(about.layer);
        lines.push(about.lines ? `activations, a ring of ${plural(about.lines, "line")}` : "activations"); place(); time(); break;
      case "scratch": title = readers(plan, about); lines.push("intermediates"); place(); time(); break;
      case "read":
      case "copy":
      case "loading": {
        title = readers(plan, about);
        const copied = rect.kind === "copy" || (rect.kind === "loading" && about.arrived !== about.end);
        const ticks = copied ? about.arrived - about.from : about.end - about.start;
        lines.push(`${copied ? "copying" : "reading"} ${bytes(about.bytes)} in ${ms(ticks / TICKS_PER_MS)}`);
        if (rect.kind === "loading") place();
        time(); break;
      }
      case "held": title = readers(plan, about); lines.push("weights, read ahead"); place(); time(); break;
      case "use": title = readers(plan, about); lines.push("weights in use"); place(); time(); break;
      case "stall": title = `Waiting ${ms((rect.to - rect.from) / TICKS_PER_MS)}`; lines.push(`for the weights of ${stepText(about)}`); time(); break;
      case "step":
        title = stepText(about);
        lines.push([data.layers.operators[about.layer], plan.layer_algorithms[about.layer]].filter(Boolean).join(", "));
        lines.push(`${ms((rect.to - rect.from) / TICKS_PER_MS)}, step ${rect.index + 1} of ${plan.steps.length}`);
        time(); break;
    }
    return [title, lines];
  };
  const tip = byId("tip");
  const showTip = (title, lines, x, y) => {
    tip.replaceChildren(make("b", { textContent: title }), ...lines.map((line) => make("div", { textContent: line })));
    tip.hidden = false;
    const [width, height] = [tip.offsetWidth, tip.offsetHeight];
    tip.style.left = `${Math.max(8, Math.min(x + 14, window.innerWidth - width - 8))}px`;
    tip.style.top = `${y + 18 + height > window.innerHeight ? Math.max(8, y - height - 12) : y + 18}px`;
  };
  const hideTip = () => { tip.hidden = true; };
  const hit = (plan, x, y) => {
    const near = (list, slack) => {
      const [low, high] = [toShare(x - slack), toShare(x + slack)];
      for (let i = list.length - 1; i >= 0; i--) {
        const rect = span(plan, list[i]);
        if (rect.left <= high && rect.right >= low && (rect.low === undefined || (toY(plan, rect.high) <= y + slack && toY(plan, rect.low) >= y - slack))) return rect;
      }
      return null;
    };
    const row = (top) => y >= top && y < top + frame.row;
    const list = y <= frame.bottom ? plan.rects : row(frame.storage) ? plan.rows.storage : staged && row(frame.copies) ? plan.rows.copies : row(frame.compute) ? plan.rows.compute : [];
    return near(list, 0) || near(list, 2);
  };

  const cursor = byId("cursor");
  let drag = null;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const inside = (x) => Math.min(Math.max(x, frame.left), frame.right);
  const mark = (from, to) => {
    Object.assign(cursor.style, { display: "block", left: `${Math.min(from, to)}px`, width: `${Math.max(Math.abs(to - from), 1)}px`, height: `${frame.axis}px` });
    cursor.classList.toggle("range", Math.abs(to - from) > 4);
  };
  const box = byId("map-box");
  box.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    mark(drag === null ? inside(x) : drag, inside(x));
    const rect = x >= frame.left && x <= frame.right ? hit(current(), x, y) : null;
    if (rect && (drag === null || Math.abs(x - drag) < 5)) showTip(...describe(current(), rect), event.clientX, event.clientY);
    else hideTip();
  });
  box.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    drag = inside(place(event)[0]);
  });
  box.addEventListener("pointerup", (event) => {
    if (drag === null) return;
    const to = inside(place(event)[0]);
    const [low, high] = [toShare(Math.min(drag, to)), toShare(Math.max(drag, to))];
    const wide = Math.abs(to - drag) > 6;
    drag = null;
    if (wide && high - low > 1e-6) {
      Object.assign(state, { low, high });
      hideTip();
      cursor.style.display = "none";
      draw();
    }
  });
  const leave = () => { drag = null; hideTip(); cursor.style.display = "none"; };
  box.addEventListener("pointerleave", leave);
  box.addEventListener("pointercancel", leave);
  const showAll = () => { Object.assign(state, { low: 0, high: 1 }); draw(); };
  box.addEventListener("dblclick", showAll);
  byId("reset").addEventListener("click", showAll);

  // Latency over the budget.
  const NS = "http://www.w3.org/2000/svg";
  const shape = (tag, attributes, text) => {
    const element = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const drawCurve = () => {
    const { budgets, predicted_ms: predicted, bounds_ms: bounds } = data.curve;
    const width = byId("curve-box").clientWidth;
    const [height, left, right, top, bottom] = [width < 560 ? 250 : 320, 54, 16, 24, 48];
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Predicted latency and its lower bound by budget" });
    const most = Math.max(...predicted, ...bounds);
    const step = round(most, 5);
    const ceiling = Math.ceil(most / step - 1e-9) * step;
    const [low, high] = [Math.log2(budgets[0]), Math.log2(budgets[budgets.length - 1])];
    const x = (size) => left + (width - left - right) * (high > low ? (Math.log2(size) - low) / (high - low) : 0.5);
    const y = (value) => height - bottom - (height - top - bottom) * value / ceiling;
    const text = (at, attributes) => shape("text", attributes, at);
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    for (let value = 0; value <= ceiling * 1.0001; value += step) {
      svg.append(shape("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
      svg.append(text(value.toFixed(decimals), { x: left - 8, y: y(value) + 4, "text-anchor": "end" }));
    }
    let every = 1;
    while ((high - low) / every * 68 > width - left - right) every += 1;
    for (let power = Math.ceil(low); power <= high; power += every) {
      svg.append(shape("line", { class: "grid", x1: x(2 ** power), x2: x(2 ** power), y1: height - bottom, y2: height - bottom + 5 }));
      svg.append(text(bytes(2 ** power), { x: x(2 ** power), y: height - bottom + 20, "text-anchor": "middle" }));
    }
    svg.append(text("latency (ms)", { x: 0, y: 10 }), text("budget", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }));
    const line = (values) => values.map((value, i) => `${i ? "L" : "M"}${x(budgets[i]).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    svg.append(shape("path", { class: "bound", d: line(bounds) }), shape("path", { class: "curve", d: line(predicted) }));
    // The key stands in the corner that falling curves leave empty.
    const key = width - right - 136;
    svg.append(shape("path", { class: "curve", d: `M${key} ${top + 2}h24` }), text("predicted", { class: "name", x: key + 32, y: top + 6 }));
    svg.append(shape("path", { class: "bound", d: `M${key} ${top + 22}h24` }), text("lower bound", { class: "name", x: key + 32, y: top + 26 }));
    const own = new Map(data.plans.map((plan, i) => [plan.budget, i]));
    budgets.forEach((budget, i) => {
      const index = own.get(budget);
      const dot = shape("circle", { cx: x(budget), cy: y(predicted[i]), r: index === undefined ? 3 : 6, class: index === undefined ? "dot" : index === state.plan ? "own chosen" : "own" });
      const reach = shape("circle", { cx: x(budget), cy: y(predicted[i]), r: 13, fill: "transparent" });
      for (const part of [dot, reach]) {
        part.addEventListener("pointermove", (event) => showTip(bytes(budget), [`${ms(predicted[i])} predicted`, `${ms(bounds[i])} lower bound`, ...(index === undefined ? [] : ["in this pack"])], event.clientX, event.clientY));
        part.addEventListener("pointerleave", hideTip);
        if (index !== undefined) part.addEventListener("click", () => choose(index));
      }
      svg.append(reach, dot);
    });
    byId("curve-box").replaceChildren(svg);
  };

  // Layers.
  const sorting = { column: 0, down: false };
  const COLUMNS = [
    ["#", "", (row) => row.index + 1],
    ["layer", "text name", (row) => row.name],
    ["operator", "text", (row) => row.operator],
    ["algorithm", "text", (row) => row.algorithm],
    ["weights", "", (row) => row.weights, (value) => (value ? bytes(value) : "")],
    ["resident", "", (row) => row.resident, (value) => (value ? bytes(value) : "")],
    ["loads", "", (row) => row.loads, (value) => value || ""],
    ["steps", "", (row) => row.steps],
    ["compute, ms", "bar", (row) => row.compute, (value) => value.toFixed(3), "step2"],
    ["waiting, ms", "bar", (row) => row.stall, (value) => (value ? value.toFixed(3) : ""), "stall"],
  ];
  const drawTable = () => {
    const plan = current();
    const rows = data.layers.names.map((name, index) => ({
      index, name, operator: data.layers.operators[index], algorithm: plan.layer_algorithms[index], weights: data.layers.bytes[index],
      resident: plan.layer_resident[index], loads: plan.layer_loads[index], steps: 0, compute: 0, stall: 0,
    }));
    for (const step of plan.steps) {
      const row = rows[step.layer];
      row.steps += 1;
      row.compute += (step.end - step.start) / TICKS_PER_MS;
      row.stall += (step.start - step.before) / TICKS_PER_MS;
    }
    const most = Math.max(...rows.map((row) => Math.max(row.compute, row.stall)), 1e-9);
    const value = COLUMNS[sorting.column][2];
    const compare = (a, b) => (typeof value(a) === "string" ? value(a).localeCompare(value(b)) : value(a) - value(b));
    rows.sort((a, b) => (sorting.down ? -1 : 1) * compare(a, b) || a.index - b.index);
    const head = make("tr");
    COLUMNS.forEach(([title, kind], column) => {
      const arrow = column === sorting.column ? (sorting.down ? " ↓" : " ↑") : "";
      const button = make("button", { type: "button", textContent: title + arrow });
      button.addEventListener("click", () => {
        sorting.down = sorting.column === column ? !sorting.down : !kind.includes("text") && column > 0;
        sorting.column = column;
        drawTable();
      });
      const cell = make("th", { className: kind.includes("text") ? "text" : "" }, button);
      if (arrow) cell.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
      head.append(cell);
    });
    const body = make("tbody");
    for (const row of rows) {
      const line = make("tr");
      for (const [, kind, get, format, tint] of COLUMNS) {
        const found = get(row);
        const cell = make("td", { className: kind, textContent: format ? format(found) : found });
        if (kind.includes("name")) cell.title = found;
        if (tint) {
          cell.style.setProperty("--share", `${(100 * found / most).toFixed(1)}%`);
          cell.style.setProperty("--tint", `color-mix(in srgb, var(--${tint}) 38%, transparent)`);
        }
        line.append(cell);
      }
      body.append(line);
    }
    byId("layers").replaceChildren(make("thead", {}, head), body);
  };

  // What stands in words.
  const drawWords = () => {
    const plan = current();
    byId("subtitle").textContent = [
      `${plural(data.layers.names.length, "layer")}, ${bytes(data.weights_bytes)} of weights`, `strategy ${plan.strategy}`,
      `${data.isa}, ${plural(data.threads, "thread")}`, `${data.estimated ? "estimated" : "measured"} costs of ${data.board}`,
    ].join(" · ");
    const above = plan.bound_ms > 0 ? `${percent(plan.steady_ms / plan.bound_ms - 1)} above the lower bound` : "";
    const figures = [
      ["predicted latency", ms(plan.steady_ms), above],
      ["lower bound", ms(plan.bound_ms), "for this budget and these layers"],
      ["computing", ms(plan.compute_ms), plural(plan.steps.length, "step")],
      ["waiting for weights", ms(plan.stall_ms), `${percent(plan.stall_ms / Math.max(plan.steady_ms, 1e-9))} of the time`],
      ["read each time", bytes(plan.read_bytes), `${plural(plan.loads.length, "load")} in at least ${ms(plan.read_ms)}`],
      ...(plan.copies.time.length ? [["copied each time", bytes(plan.read_bytes), `in ${ms(plan.copy_ms)}, through a ring of ${bytes(plan.staging_bytes)}`]] : []),
      ["resident weights", bytes(plan.resident_bytes), percent(plan.resident_bytes / Math.max(data.weights_bytes, 1))],
      ["first inference", ms(plan.first_ms), "with nothing read ahead"],
    ];
    byId("figures").replaceChildren(...figures.map(([name, value, note]) => make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value }, make("small", { textContent: note })))));
    byId("legend").replaceChildren(...[...KINDS, ["stall", "compute waits"]].map(([kind, name]) => {
      const patch = make("i");
      patch.style.background = `var(--${kind})`;
      return make("li", {}, patch, name);
    }));
    byId("curve-note").textContent = `The same layers and algorithms, planned by ${data.strategy} from the smallest feasible budget to room for all weights. Rings: the plans of this pack.`;
  };

  // Choices.
  const radios = (parent, labels, chosen, pick) => {
    const buttons = labels.map((label, index) => {
      const button = make("button", { type: "button", textContent: label });
      button.setAttribute("role", "radio");
      button.addEventListener("click", () => pick(index));
      button.addEventListener("keydown", (event) => {
        const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!move) return;
        event.preventDefault();
        const next = (index + move + labels.length) % labels.length;
        pick(next);
        buttons[next].focus();
      });
      return button;
    });
    parent.replaceChildren(...buttons);
    return () => buttons.forEach((button, index) => {
      button.setAttribute("aria-checked", index === chosen());
      button.tabIndex = index === chosen() ? 0 : -1;
    });
  };
  const AXES = ["time", "steps"];
  const markBudget = radios(byId("budgets"), data.plans.map((plan) => bytes(plan.budget)), () => state.plan, (index) => choose(index));
  const markAxis = radios(byId("axis"), AXES, () => AXES.indexOf(state.axis), (index) => {
    Object.assign(state, { axis: AXES[index], low: 0, high: 1 });
    markAxis();
    draw();
  });
  const choose = (index) => {
    Object.assign(state, { plan: index, low: 0, high: 1 });
    hideTip();
    markBudget();
    drawWords();
    draw();
    drawCurve();
    drawTable();
  };

  document.title = `${data.network}: eyelet plan`;
  byId("title").textContent = data.network;
  markAxis();
  choose(0);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    draw();
    drawCurve();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.documentElement.dataset.drawn = data.plans.length;
})();
