// Appended to a report by its test: plays with everything there is on the page, and writes down what went
// wrong and how long it took.
const wrong = [];
addEventListener("error", (event) => wrong.push(event.message));
const all = (selector) => [...document.querySelectorAll(selector)];
const began = performance.now();
let tips = 0;
let folds = 0;
try {
  for (const budget of all("#budgets button").map((_, index) => index)) {
    all("#budgets button")[budget].click();
    for (const axis of [1, 0]) {
      all("#axis button")[axis].click();
      const canvas = document.getElementById("map");
      const box = canvas.getBoundingClientRect();
      const at = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, { bubbles: true, clientX: box.left + x, clientY: box.top + y }));
      for (let x = 0; x < box.width; x += 23) for (let y = 0; y < box.height; y += 19) {
        at("pointermove", x, y);
        tips += document.getElementById("tip").hidden ? 0 : 1;
      }
      at("pointerdown", 120, 40); at("pointermove", 180, 40); at("pointerup", 180, 40);
      if (document.getElementById("reset").hidden) wrong.push("no closer look");
      document.getElementById("reset").click();
      canvas.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true, deltaY: -1, clientX: box.left + 150, clientY: box.top + 40 }));
      if (document.getElementById("reset").hidden) wrong.push("no closer look by the wheel");
      document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
      if (!document.getElementById("reset").hidden) wrong.push("Escape does not show all");
    }
    const colours = new Set();
    const canvas = document.getElementById("map");
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const pixels = copy.getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 0; i < pixels.length; i += 4) colours.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
    if (colours.size < 6) wrong.push("an empty map");
    for (let column = 0; column < all("#layers th button").length; column++) {
      all("#layers th button")[column].click();
      all("#layers th button")[column].click();
    }
  }
  // The graph: every layer has a node, which says what it is and leads to the table.
  const layers = all("#layers tbody tr").length;
  if (all("#graph .node").length !== layers) wrong.push("a node for each layer");
  const over = (type, node) => node.dispatchEvent(new PointerEvent(type, { bubbles: true, clientX: 90, clientY: 90 }));
  all("#graph .node").forEach((node, index) => {
    over("pointermove", node);
    if (document.getElementById("tip").hidden) wrong.push(`no words about node ${index}`);
    if (index && !document.querySelector("#graph .near").getAttribute("d")) wrong.push(`node ${index} has no neighbour`);
  });
  const tints = all("#metric button").map((button) => {
    button.click();
    return all("#graph .node").map((node) => node.style.getPropertyValue("--share")).join();
  });
  if (new Set(tints).size < 2) wrong.push("all colours are the same");
  const last = all("#graph .node").pop();
  over("pointerdown", last); over("pointerup", last);
  if (all("#layers tr.chosen").length !== 1) wrong.push("a click on a node shows no layer");
  const view = () => document.getElementById("graph").getAttribute("viewBox");
  const whole = view();
  last.dispatchEvent(new WheelEvent("wheel", { bubbles: true, cancelable: true, deltaY: -1, clientX: 90, clientY: 90 }));
  if (view() === whole) wrong.push("no closer look at the graph");
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  if (view() !== whole) wrong.push("Escape does not show all of the graph");
  // Residents in one row, and opened.
  all("#budgets button").forEach((button) => {
    button.click();
    const fold = document.getElementById("fold");
    if (fold.hidden) return;
    folds += 1;
    const drawing = () => document.getElementById("map").toDataURL();
    const before = drawing();
    fold.click();
    if (drawing() === before) wrong.push("residents do not open");
    fold.click();
    if (drawing() !== before) wrong.push("residents do not fold");
  });
  // The page of a run has no curve.
  const curve = all("#curve-box svg").length > 0;
  if (document.getElementById("curve").hidden === curve) wrong.push("the curve's heading");
  if (curve && !all("#curve-box circle.own.chosen").length) wrong.push("no point of the curve is chosen");
  if (document.documentElement.scrollWidth > innerWidth) wrong.push("wider than the window");
  if (!tips) wrong.push("no tooltips");
} catch (error) { wrong.push(String(error)); }
document.documentElement.dataset.wrong = wrong.join("; ");
document.documentElement.dataset.folds = folds;
document.documentElement.dataset.took = Math.round(performance.now() - began);
