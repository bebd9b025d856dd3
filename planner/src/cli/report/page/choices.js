// What stands in words.
const drawWords = () => {
  const plan = current();
  byId("subtitle").textContent = [
    `${plural(data.layers.names.length, "layer")}, ${bytes(data.weights_bytes)} of weights`, `strategy ${plan.strategy}`,
    `${data.isa}, ${plural(data.threads, "thread")}`, `${data.estimated ? "estimated" : "measured"} costs of ${data.board}`,
  ].join(" · ");
  const above = plan.bound_ms > 0 ? `${percent(plan.steady_ms / plan.bound_ms - 1)} above the bound` : "";
  const run = plan.measured;
  const off = (predicted, measured) => `${ms(predicted)} predicted, ${percent(predicted / Math.max(measured, 1e-9) - 1)} off`;
  const figures = [
    ...(run ? [
      ["measured latency", ms(run.latency_ms), `${off(plan.steady_ms, run.latency_ms)}; ${ms(run.least_ms)} to ${ms(run.most_ms)} in ${plural(run.runs, "run")}`],
      ["measured computing", ms(run.compute_ms), off(plan.compute_ms, run.compute_ms)],
      ["measured waiting", ms(run.stall_ms), `${ms(plan.stall_ms)} predicted`],
    ] : []),
    ["predicted latency", ms(plan.steady_ms), above],
    ["bound by costs", ms(plan.bound_ms), "for this budget and these layers"],
    ["computing", ms(plan.compute_ms), plural(plan.steps.length, "step")],
    ["waiting for weights", ms(plan.stall_ms), `${percent(plan.stall_ms / Math.max(plan.steady_ms, 1e-9))} of the time`],
    ["read each time", bytes(plan.read_bytes), `${plural(plan.loads.length, "load")} in at least ${ms(plan.read_ms)}`],
    ...(plan.copies.time.length ? [["copied each time", bytes(plan.read_bytes), `in ${ms(plan.copy_ms)}, through a ring of ${bytes(plan.staging_bytes)}`]] : []),
    ["resident weights", bytes(plan.resident_bytes), percent(plan.resident_bytes / Math.max(data.weights_bytes, 1))],
    ["first inference", ms(plan.first_ms), "with nothing read ahead"],
  ];
  byId("figures").replaceChildren(...figures.map(([name, value, note]) => make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value }, make("small", { textContent: note })))));
  const shades = [["stall", "compute waits"], ["step", "steps, in turn", "step2"], ["load", "loads, in turn", "load2"]];
  byId("legend").replaceChildren(...[...KINDS, ...shades].map(([kind, name, other]) => {
    const patch = make("i");
    patch.style.background = other ? `linear-gradient(90deg, var(--${kind}) 50%, var(--${other}) 50%)` : `var(--${kind})`;
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
const markMetric = radios(byId("metric"), METRICS.map(([name]) => name), () => graph.metric, (index) => {
  graph.metric = index;
  markMetric();
  tintGraph();
});
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
  tintGraph();
  drawTable();
};

document.title = `${data.network}: eyelet plan`;
byId("title").textContent = data.network;
markAxis();
markMetric();
drawGraph();
choose(0);
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  draw();
  drawCurve();
  drawGraph();
  tintGraph();
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
document.documentElement.dataset.drawn = data.plans.length;
