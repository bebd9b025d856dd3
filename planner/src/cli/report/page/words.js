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
const NS = "http://www.w3.org/2000/svg";
const shape = (tag, attributes, text) => {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
};
