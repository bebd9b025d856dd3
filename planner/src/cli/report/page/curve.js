
// Latency over the budget.
const drawCurve = () => {
  byId("curve").hidden = !data.curve;
  if (!data.curve) return;
  const { budgets, predicted_ms: predicted, bounds_ms: bounds } = data.curve;
  const width = byId("curve-box").clientWidth;
  const [height, left, right, top, bottom] = [width < 560 ? 250 : 320, 54, 16, 24, 48];
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Predicted latency and its bound by budget" });
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
  svg.append(shape("path", { class: "bound", d: `M${key} ${top + 22}h24` }), text("bound by costs", { class: "name", x: key + 32, y: top + 26 }));
  const own = new Map(data.plans.map((plan, i) => [plan.budget, i]));
  budgets.forEach((budget, i) => {
    const index = own.get(budget);
    const dot = shape("circle", { cx: x(budget), cy: y(predicted[i]), r: index === undefined ? 3 : 6, class: index === undefined ? "dot" : index === state.plan ? "own chosen" : "own" });
    const reach = shape("circle", { cx: x(budget), cy: y(predicted[i]), r: 13, fill: "transparent" });
    for (const part of [dot, reach]) {
      part.addEventListener("pointermove", (event) => showTip(bytes(budget), [`${ms(predicted[i])} predicted`, `${ms(bounds[i])} bound by costs`, ...(index === undefined ? [] : ["in this pack"])], event.clientX, event.clientY));
      part.addEventListener("pointerleave", hideTip);
      if (index !== undefined) part.addEventListener("click", () => choose(index));
    }
    svg.append(reach, dot);
  });
  byId("curve-box").replaceChildren(svg);
};
