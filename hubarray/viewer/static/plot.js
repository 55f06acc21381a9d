// Curves, by uPlot; and the bars of a histogram.
import { el } from "./lib.js";

const COLOURS = ["#2563eb", "#d9480f", "#2b8a3e", "#9c36b5"];

const UNITS = { ns: 1e-6, us: 1e-3, ms: 1, s: 1e3, m: 6e4, h: 36e5, D: 864e5 };

// How a count of a dtype of times is written; null for other dtypes, and for months and years.
export function timeText(dtype) {
  const found = /^datetime64\[(\d*)(\w+)\]$/.exec(dtype);
  if (!found || !UNITS[found[2]]) return null;
  const times = (Number(found[1]) || 1) * UNITS[found[2]];
  return (count) => {
    const date = new Date(count * times);
    return Number.isNaN(date.getTime()) ? `${count}` : date.toISOString().replace("T", " ").replace(/( 00:00)?(:00)?(\.000)?Z$/, "");
  };
}

export function curves(places, named, { height = 300, title = "", onzoom = null, areTimes = false, text = null } = {}) {
  const holder = el("div", { class: "curves", role: "img", "aria-label": title || "Curve" });
  let plot = null;
  const style = () => getComputedStyle(document.documentElement);
  function draw() {
    if (plot) plot.destroy();
    const quiet = style().getPropertyValue("--quiet").trim();
    const line = style().getPropertyValue("--line").trim();
    const axis = { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const wide = (self, values) => 16 + 8 * Math.max(3, ...(values || []).map((one) => `${one}`.length));
    const names = Object.keys(named);
    plot = new uPlot({
      width: Math.max(200, holder.clientWidth || 600), height, title,
      scales: { x: { time: areTimes } }, tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"), axes: [axis, { ...axis, size: wide, ...(text ? { values: (_, counts) => counts.map(text) } : {}) }],
      hooks: { setSelect: [(self) => { if (onzoom && self.select.width > 2) onzoom(self.posToVal(self.select.left, "x"), self.posToVal(self.select.left + self.select.width, "x")); }] },
      series: [{}, ...names.map((label, i) => ({ label, stroke: COLOURS[i % COLOURS.length], width: 1.5, ...(text ? { value: (_, count) => (count === null ? "" : text(count)) } : {}) }))],
    }, [places, ...names.map((name) => named[name])], holder);
  }
  const observer = new ResizeObserver(() => {
    if (!plot) draw();
    else if (Math.abs(plot.width - holder.clientWidth) > 4) plot.setSize({ width: Math.max(200, holder.clientWidth), height });
  });
  observer.observe(holder);
  document.addEventListener("theme", draw);
  return { node: holder, close: () => { observer.disconnect(); document.removeEventListener("theme", draw); if (plot) plot.destroy(); } };
}

export function bars(canvas, counts, low, high, shown) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, canvas.clientWidth * ratio);
  canvas.height = Math.max(1, canvas.clientHeight * ratio);
  const context = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const most = Math.log1p(Math.max(1, ...counts));
  const wide = canvas.width / counts.length;
  context.clearRect(0, 0, canvas.width, canvas.height);
  counts.forEach((count, i) => {
    const at = low + ((i + 0.5) / counts.length) * (high - low);
    context.fillStyle = style.getPropertyValue(shown && (at < shown[0] || at > shown[1]) ? "--line" : "--accent");
    const tall = (Math.log1p(count) / most) * canvas.height;
    context.fillRect(i * wide, canvas.height - tall, Math.max(1, wide - 1), tall);
  });
}
