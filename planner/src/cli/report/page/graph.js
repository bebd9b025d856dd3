
// The graph of the layers: a column for each rank (the longest way from an input). Rows of columns
// stand one beneath the other.
const CELL = { width: 46, height: 36, gap: 18, node: 40 };
const graph = { view: null, full: null, nodes: [], metric: 0 };
const METRICS = [
  ["computing", (row) => row.compute, ms],
  ["waiting", (row) => row.stall, ms],
  ["reading", (row) => row.weights - row.resident, bytes],
  ["steps", (row) => row.steps, (value) => digits(value)],
  ...(data.plans.some((plan) => plan.measured) ? [["measured", (row) => row.measured, ms], ["waited", (row) => row.waited, ms]] : []),
];

// Rank and lane of every layer. A layer takes the lane of its first source where that is free.
const ranked = () => {
  const ranks = [];
  const lanes = [];
  const taken = [];
  data.layers.sources.forEach((sources, layer) => {
    const rank = sources.reduce((most, source) => Math.max(most, ranks[source] + 1), 0);
    taken[rank] ??= new Set();
    const first = sources.length ? sources.reduce((a, b) => (ranks[b] > ranks[a] ? b : a)) : -1;
    let lane = first < 0 ? 0 : lanes[first];
    if (taken[rank].has(lane)) for (lane = 0; taken[rank].has(lane);) lane += 1;
    taken[rank].add(lane);
    ranks[layer] = rank;
    lanes[layer] = lane;
  });
  return { ranks, lanes, lanesOf: taken.map((set) => 1 + Math.max(...set)) };
};

// Where rows of so many ranks begin, and where the last one ends.
const rowsOf = (lanesOf, columns) => {
  const tops = [0];
  for (let first = 0; first < lanesOf.length; first += columns) {
    const lanes = Math.max(...lanesOf.slice(first, first + columns));
    tops.push(tops[tops.length - 1] + lanes * CELL.height + CELL.gap);
  }
  return tops;
};

// Gives every layer a place. Rows get more columns, which become smaller, until the graph is wider
// than high.
const arrange = (width) => {
  const { ranks, lanes, lanesOf } = ranked();
  let columns = Math.max(4, Math.floor(width / CELL.width));
  let tops = rowsOf(lanesOf, columns);
  const most = width < 560 ? 1.6 : 0.62;
  while (columns < lanesOf.length && tops[tops.length - 1] > most * columns * CELL.width) {
    columns = Math.ceil(columns * 1.1);
    tops = rowsOf(lanesOf, columns);
  }
  const heaviest = Math.max(...data.layers.bytes, 1);
  graph.nodes = ranks.map((rank, layer) => {
    const row = Math.floor(rank / columns);
    const size = data.layers.bytes[layer] ? 13 + 13 * Math.sqrt(data.layers.bytes[layer] / heaviest) : 11;
    const x = (rank % columns + 0.5) * CELL.width;
    const y = tops[row] + CELL.gap + (lanes[layer] + 0.5) * CELL.height;
    return { layer, row, rank, x, y, size, left: x - CELL.node / 2, right: x + CELL.node / 2, top: y - size / 2 };
  });
  const wide = Math.min(columns, Math.max(lanesOf.length, Math.floor(width / CELL.width))) * CELL.width;
  graph.full = { x: 0, y: 0, width: wide, height: tops[tops.length - 1] + 4 };
};

// The line from one layer to another: straight to the next rank, in an arc to later ones, and out at
// the margin to another row.
const edge = (from, to) => {
  const at = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;
  const beside = to.rank === from.rank + 1;
  if (from.row === to.row && beside) {
    const middle = (from.right + to.left) / 2;
    return `M${at(from.right, from.y)}C${at(middle, from.y)} ${at(middle, to.y)} ${at(to.left, to.y)}`;
  }
  const rise = Math.min(6 + 2 * (to.rank - from.rank), CELL.gap - 3);
  if (from.row === to.row) {
    const high = Math.min(from.top, to.top) - rise;
    return `M${at(from.x, from.top)}C${at(from.x + 8, high)} ${at(to.x - 8, high)} ${at(to.x, to.top)}`;
  }
  if (beside) return `M${at(from.right, from.y)}H${graph.full.width}M${at(0, to.y)}H${to.left}`;
  return `M${at(from.x, from.top)}l8 ${-rise}h10M${at(to.x - 18, to.top - rise)}h10l8 ${rise}`;
};

const showView = () => {
  const { x, y, width, height } = graph.view;
  byId("graph").setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  byId("graph-reset").hidden = width >= graph.full.width - 1e-6;
};
const showGraph = () => { graph.view = { ...graph.full }; showView(); };

// Makes the elements, once for a width of the page.
const drawGraph = () => {
  arrange(byId("graph-box").clientWidth);
  const svg = byId("graph");
  const edges = data.layers.sources.flatMap((sources, layer) => sources.map((source) => edge(graph.nodes[source], graph.nodes[layer])));
  const nodes = graph.nodes.map((node) => {
    const weighty = data.layers.bytes[node.layer] > 0;
    const group = shape("g", { class: "node", "data-layer": node.layer });
    const label = data.layers.operators[node.layer];
    group.append(
      shape("rect", { x: node.left, y: node.top, width: CELL.node, height: node.size, rx: weighty ? 3 : node.size / 2 }),
      shape("text", { x: node.x, y: node.y + 2.4, "text-anchor": "middle" }, label.length > 11 ? `${label.slice(0, 10)}…` : label),
    );
    return group;
  });
  svg.replaceChildren(shape("path", { class: "edges", d: edges.join("") }), shape("path", { class: "near", d: "" }), ...nodes);
  svg.setAttribute("aria-label", `Graph of ${plural(graph.nodes.length, "layer")} and what they read of each other`);
  showGraph();
};

// Colours the nodes by what is chosen to be seen.
const tintGraph = () => {
  const [, get, format] = METRICS[graph.metric];
  const values = layerRows(current()).map(get);
  const most = Math.max(...values, 0);
  for (const node of byId("graph").querySelectorAll(".node")) {
    const share = most > 0 ? Math.sqrt(values[node.dataset.layer] / most) : 0;
    node.style.setProperty("--share", `${(100 * share).toFixed(0)}%`);
  }
  const scale = byId("graph-scale");
  scale.hidden = !(most > 0);
  byId("graph-none").hidden = most > 0;
  byId("graph-middle").textContent = format(most / 4);
  byId("graph-most").textContent = format(most);
};

const layerAt = (event) => {
  const node = event.target.closest?.(".node");
  return node ? Number(node.dataset.layer) : -1;
};
const near = (layer) => {
  const { sources } = data.layers;
  const into = layer < 0 ? [] : sources[layer].map((source) => edge(graph.nodes[source], graph.nodes[layer]));
  const out = layer < 0 ? [] : sources.flatMap((list, reader) => (list.includes(layer) ? [edge(graph.nodes[layer], graph.nodes[reader])] : []));
  byId("graph").querySelector(".near").setAttribute("d", [...into, ...out].join(""));
};
const layerWords = (layer) => {
  const plan = current();
  const row = layerRows(plan)[layer];
  const run = plan.measured;
  return [
    [row.operator, row.algorithm].filter(Boolean).join(", "),
    row.weights ? `${bytes(row.weights)} of weights${row.resident ? `, ${bytes(row.resident)} resident` : ""}` : "no weights",
    `${plural(row.steps, "step")}, ${plural(row.loads, "load")}`,
    `computing ${ms(row.compute)}${run ? ` predicted, ${ms(row.measured)} measured` : ""}`,
    ...(row.stall || row.waited ? [`waiting ${ms(row.stall)}${run ? ` predicted, ${ms(row.waited)} measured` : ""}`] : []),
  ];
};

const graphBox = byId("graph-box");
let pan = null;
const toView = (event) => {
  const box = byId("graph").getBoundingClientRect();
  return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
};
const moveView = (x, y, width) => {
  const { full } = graph;
  const height = width / full.width * full.height;
  graph.view = { x: Math.min(Math.max(x, 0), full.width - width), y: Math.min(Math.max(y, 0), full.height - height), width, height };
  showView();
};
graphBox.addEventListener("pointermove", (event) => {
  if (pan) {
    const [x, y] = toView(event);
    pan.moved ||= Math.abs(x - pan.x) + Math.abs(y - pan.y) > 0.01;
    moveView(pan.view.x - (x - pan.x) * pan.view.width, pan.view.y - (y - pan.y) * pan.view.height, pan.view.width);
    return;
  }
  const layer = layerAt(event);
  near(layer);
  if (layer < 0) hideTip(); else showTip(layerName(layer), layerWords(layer), event.clientX, event.clientY);
});
graphBox.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  const [x, y] = toView(event);
  pan = { x, y, view: { ...graph.view }, moved: false };
});
graphBox.addEventListener("pointerup", (event) => {
  const layer = pan?.moved ? -1 : layerAt(event);
  pan = null;
  if (layer >= 0) showLayer(layer);
});
for (const end of ["pointerleave", "pointercancel"]) graphBox.addEventListener(end, () => { pan = null; near(-1); hideTip(); });
graphBox.addEventListener("wheel", (event) => {
  const { view, full } = graph;
  const width = Math.min(Math.max(view.width * Math.exp(Math.sign(event.deltaY) * 0.25), 3 * CELL.width), full.width);
  // Where nothing more can be seen the wheel scrolls the page.
  if (!event.deltaY || width === view.width) return;
  event.preventDefault();
  hideTip();
  const [x, y] = toView(event);
  const shrunk = 1 - width / view.width;
  moveView(view.x + x * view.width * shrunk, view.y + y * view.height * shrunk, width);
}, { passive: false });
graphBox.addEventListener("dblclick", showGraph);
byId("graph-reset").addEventListener("click", showGraph);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") showGraph(); });
