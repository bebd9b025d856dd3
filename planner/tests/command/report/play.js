// Appended to a report by its test: plays with everything there is on the page, and writes down what went
// wrong and how long it took.
const wrong = [];
addEventListener("error", (event) => wrong.push(event.message));
const all = (selector) => [...document.querySelectorAll(selector)];
const began = performance.now();
let tips = 0;
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
  if (!all("#curve-box circle.own.chosen").length) wrong.push("no point of the curve is chosen");
  if (document.documentElement.scrollWidth > innerWidth) wrong.push("wider than the window");
  if (!tips) wrong.push("no tooltips");
} catch (error) { wrong.push(String(error)); }
document.documentElement.dataset.wrong = wrong.join("; ");
document.documentElement.dataset.took = Math.round(performance.now() - began);
