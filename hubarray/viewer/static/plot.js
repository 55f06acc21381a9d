// Curves, by uPlot; and the bars of a histogram.
import { el } from "./lib.js";

const COLOURS = ["#2563eb", "#d9480f", "#2b8a3e", "#9c36b5", "#0b7285", "#a61e4d", "#5f3dc4", "#846300"];
const UNITS = { ns: 1e-6, us: 1e-3, ms: 1, s: 1e3, m: 6e4, h: 36e5, D: 864e5 };
const LEAST_WIDTH = 200;

// How a count of a dtype of times is written; null for other dtypes, and for months and years.
export function timeText(dtype) {
  const span = /^timedelta64\[(\d*)(\w+)\]$/.exec(dtype);
  if (span) return (count) => `${count * (Number(span[1]) || 1)} ${span[2]}`;
  const found = /^datetime64\[(\d*)(\w+)\]$/.exec(dtype);
  if (!found || !UNITS[found[2]]) return null;
  const times = (Number(found[1]) || 1) * UNITS[found[2]];
  return (count) => {
    const date = new Date(count * times);
    if (Number.isNaN(date.getTime())) return `${count}`;
    return date
      .toISOString()
      .replace("T", " ")
      .replace(/( 00:00)?(:00)?(\.000)?Z$/, "");
  };
}

// Seconds since 1970, in UTC, as exactly as a step of the axis wants it.
function iso(seconds, step) {
  const text = new Date(seconds * 1e3).toISOString();
  if (step >= 86400) return text.slice(0, 10);
  return text.slice(11, step >= 60 ? 16 : step >= 1 ? 19 : 23);
}

// Ticks of a time axis; the first, and the first of each day, with the day.
function times(_, splits, axis, space, step) {
  let day = "";
  return splits.map((at) => {
    const now = iso(at, 86400);
    const text = step >= 86400 || now === day ? iso(at, step) : `${now}\n${iso(at, step)}`;
    day = now;
    return text;
  });
}

// places: of all curves; named: the numbers of each; mark: a place to mark; text: how a number is written.
export function curves(
  places,
  named,
  { height = 300, title = "", along = "", onzoom = null, areTimes = false, text = null, mark = null } = {},
) {
  const holder = el("div", { class: "curves", role: "img", "aria-label": title || "Plot" });
  const names = Object.keys(named);
  let plot = null;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function options() {
    const line = colour("--line");
    const axis = { stroke: colour("--quiet"), grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const wide = (_, values) => 16 + 8 * Math.max(3, ...(values || []).map((one) => `${one}`.length));
    const upright = { ...axis, size: wide, ...(text ? { values: (_, counts) => counts.map(text) } : {}) };
    const told = text ? { value: (_, count) => (count === null ? "" : text(count)) } : {};
    return {
      width: Math.max(LEAST_WIDTH, holder.clientWidth || 600),
      height,
      title,
      scales: { x: { time: areTimes } },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      axes: [{ ...axis, space: 90, ...(areTimes ? { values: times } : {}) }, upright],
      hooks: { setSelect: [zoom], draw: [drawMark] },
      series: [
        {
          label: along || "place",
          ...(areTimes ? { value: (_, at) => (at === null ? "" : new Date(at * 1e3).toISOString()) } : {}),
        },
        ...names.map((label, i) => ({ label, stroke: COLOURS[i % COLOURS.length], width: 1.5, ...told })),
      ],
    };
  }
  function zoom(self) {
    const { left, width } = self.select;
    if (onzoom && width > 2) onzoom(self.posToVal(left, "x"), self.posToVal(left + width, "x"));
  }
  function drawMark(self) {
    if (mark === null || mark === undefined) return;
    const { ctx, bbox } = self;
    const at = self.valToPos(mark, "x", true);
    ctx.save();
    ctx.strokeStyle = colour("--bad");
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }
  function draw() {
    if (plot) plot.destroy();
    plot = new uPlot(options(), [places, ...names.map((name) => named[name])], holder);
  }
  const observer = new ResizeObserver(() => {
    if (!plot) draw();
    else if (Math.abs(plot.width - holder.clientWidth) > 4)
      plot.setSize({ width: Math.max(LEAST_WIDTH, holder.clientWidth), height });
  });
  observer.observe(holder);
  document.addEventListener("theme", draw);
  const close = () => {
    observer.disconnect();
    document.removeEventListener("theme", draw);
    if (plot) plot.destroy();
  };
  return { node: holder, close };
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
  canvas.title = `${low.toPrecision(5)} to ${high.toPrecision(5)}`;
}
