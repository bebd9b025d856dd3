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
// The axis of addresses, in pieces. Residents that lie together become one row where they are
// higher than one, unless they are opened.
const FOLD = 24;
const foldable = (plan) => plan.stays.filter(({ low, high }) => (high - low) / plan.budget * (frame.bottom - frame.top) > FOLD);
const pieces = (plan) => {
  const key = `${state.folded} ${frame.bottom}`;
  if (plan.key === key) return plan.pieces;
  const folds = state.folded ? foldable(plan) : [];
  const rest = plan.budget - folds.reduce((sum, { low, high }) => sum + high - low, 0);
  const scale = rest > 0 ? (frame.bottom - frame.top - folds.length * FOLD) / rest : 0;
  const list = [];
  let [low, bottom] = [0, frame.bottom];
  const put = (high, fold) => {
    if (high <= low) return;
    const top = bottom - (fold ? FOLD : (high - low) * scale);
    list.push({ low, high, bottom, top, fold });
    [low, bottom] = [high, top];
  };
  for (const fold of folds) { put(fold.low); put(fold.high, fold); }
  put(plan.budget);
  Object.assign(plan, { key, pieces: list, scale });
  return list;
};
const toY = (plan, address) => {
  const list = pieces(plan);
  const piece = list.find(({ high }) => address <= high) || list[list.length - 1];
  return piece.bottom - (address - piece.low) / (piece.high - piece.low) * (piece.bottom - piece.top);
};
const foldAt = (plan, y) => pieces(plan).find(({ fold, bottom, top }) => fold && y >= top && y < bottom)?.fold;

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
  const list = pieces(plan);
  const step = binary((frame.bottom - frame.top) / Math.max(plan.scale, 1e-12), 6);
  let above = Infinity;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (let address = 0; address <= plan.budget * 1.0001; address += step) {
    const y = toY(plan, address);
    if (list.some(({ fold, low, high }) => fold && address > low && address < high) || above - y < 15) continue;
    above = y;
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
  const isFolded = (rect) => rect.kind === "resident" && list.some(({ fold, low, high }) => fold && rect.low >= low && rect.high <= high);
  for (const rect of plan.rects) if (!isFolded(rect)) box(span(plan, rect), toY(plan, rect.high), toY(plan, rect.low), colours[rect.kind]);
  pen.textAlign = "center";
  for (const { fold, top, bottom } of list) {
    if (!fold) continue;
    pen.fillStyle = colours.resident;
    pen.fillRect(frame.left, top + 0.6, plot, bottom - top - 1.2);
    pen.fillStyle = colours.ink;
    pen.fillText(`${plural(fold.count, "resident")}, ${bytes(fold.high - fold.low)}`, (frame.left + frame.right) / 2, (top + bottom) / 2 + 0.5);
  }
  pen.textAlign = "right";
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
  const fold = byId("fold");
  fold.hidden = !foldable(plan).length;
  fold.textContent = state.folded ? "open residents" : "fold residents";
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
    case "residents": title = plural(about.count, "resident"); lines.push("weights that stay, one row: a click opens it"); place(); break;
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
  const fold = foldAt(plan, y);
  if (fold) return { kind: "residents", low: fold.low, high: fold.high, about: fold };
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
  } else if (!wide && foldAt(current(), place(event)[1])) turnFold();
});
const turnFold = () => {
  state.folded = !state.folded;
  hideTip();
  draw();
};
byId("fold").addEventListener("click", turnFold);
const leave = () => { drag = null; hideTip(); cursor.style.display = "none"; };
box.addEventListener("pointerleave", leave);
box.addEventListener("pointercancel", leave);
const showAll = () => { Object.assign(state, { low: 0, high: 1 }); draw(); };
box.addEventListener("dblclick", showAll);
byId("reset").addEventListener("click", showAll);
// The wheel looks closer at what is under the pointer, Escape shows all again.
box.addEventListener("wheel", (event) => {
  if (!event.deltaY) return;
  event.preventDefault();
  const at = toShare(inside(place(event)[0]));
  const factor = Math.exp(Math.sign(event.deltaY) * 0.25);
  const low = Math.max(at - (at - state.low) * factor, 0);
  const high = Math.min(at + (state.high - at) * factor, 1);
  if (high - low < 1e-6) return;
  Object.assign(state, { low, high });
  hideTip();
  draw();
}, { passive: false });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && (state.low > 0 || state.high < 1)) showAll();
});
