// Layers.
const sorting = { column: 0, down: false, layer: -1 };
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
  // Of a run, next to what was predicted for it.
  ...(data.plans.some((plan) => plan.measured) ? [
    ["measured, ms", "bar", (row) => row.measured, (value) => value.toFixed(3), "step2"],
    ["waited, ms", "bar", (row) => row.waited, (value) => (value ? value.toFixed(3) : ""), "stall"],
  ] : []),
];
// What a plan does with each layer.
const layerRows = (plan) => {
  if (plan.layerRows) return plan.layerRows;
  const rows = data.layers.names.map((name, index) => ({
    index, name, operator: data.layers.operators[index], algorithm: plan.layer_algorithms[index], weights: data.layers.bytes[index],
    resident: plan.layer_resident[index], loads: plan.layer_loads[index], steps: 0, compute: 0, stall: 0,
    measured: plan.measured?.layer_compute_ms[index] ?? 0, waited: plan.measured?.layer_stall_ms[index] ?? 0,
  }));
  for (const step of plan.steps) {
    const row = rows[step.layer];
    row.steps += 1;
    row.compute += (step.end - step.start) / TICKS_PER_MS;
    row.stall += (step.start - step.before) / TICKS_PER_MS;
  }
  plan.layerRows = rows;
  return rows;
};
const drawTable = () => {
  const plan = current();
  const rows = [...layerRows(plan)];
  const most = Math.max(...rows.map((row) => Math.max(row.compute, row.stall, row.measured, row.waited)), 1e-9);
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
    const line = make("tr", row.index === sorting.layer ? { className: "chosen" } : {});
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
// Marks a layer's row, and brings it into sight.
const showLayer = (layer) => {
  sorting.layer = layer;
  drawTable();
  byId("layers").querySelector("tr.chosen")?.scrollIntoView({ block: "nearest", behavior: "smooth" });
};
