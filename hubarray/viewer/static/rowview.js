// A row, or a sample, opened whole: images with what is drawn over them, points, curves, numbers, text.
import { address, askBytes, el, short } from "./lib.js";
import { cloud } from "./cloud.js";
import { curves } from "./plot.js";

const COLOURS = ["#ff3b30", "#34c759", "#0a84ff", "#ffd60a", "#bf5af2", "#64d2ff"];
const PICTURE_PIXELS = 1024;
const WAYS = { corners: "boxes: corners", size: "boxes: corner and size", centre: "boxes: centre and size" };

// values: as the server tells them; image and points: the names of the pages that give pictures and points.
export function cards(values, params, pages, { links = {}, more = null } = {}) {
  const closing = [];
  const page = { values, params, pages, closing, more };
  const made = values
    .filter((one) => one.is)
    .map((one) => {
      const title = links[one.name] ? el("a", { href: links[one.name], text: one.name }) : one.name;
      const shape = one.shape ? `${one.shape.join(" × ")} ${one.dtype}` : "";
      const card = el("div", { class: "card" }, el("h2", {}, title, " ", el("span", { class: "quiet", text: shape })));
      DRAWN[one.is](card, one, page);
      return card;
    });
  const plain = values.filter((one) => !one.is);
  const text = (one) => (one.text === null ? "none" : `${one.text}`);
  const row = (one) => el("tr", {}, el("th", { scope: "row", text: one.name }), el("td", { text: text(one) }));
  const table = plain.length ? el("table", { class: "list" }, el("tbody", {}, plain.map(row))) : null;
  return {
    node: [el("div", { class: "grid" }, made), table].filter(Boolean),
    close: () => closing.forEach((end) => end()),
  };
}

const DRAWN = {
  image: (card, one, { values, params, pages }) => card.append(picture(one, values, params, pages)),
  cloud: (card, one, { params, pages, closing }) => points(card, one, params, pages, closing),
  boxes: (card, one) => {
    const rows = [];
    for (let i = 0; i < Math.min(one.numbers.length, 160); i += 4) rows.push(one.numbers.slice(i, i + 4));
    listed(card, one, rows);
  },
  curves: (card, one, { closing }) => {
    const drawn = curves(one.x, one.curves, { height: 180, title: one.name });
    closing.push(drawn.close);
    card.append(drawn.node);
  },
  values: (card, one) => listed(card, one, one.rows),
  broken: (card, one, { more }) => {
    const again = el("button", { type: "button", text: "Try again", onclick: () => more(one.name) });
    card.append(el("p", { class: "bad", role: "alert", text: one.text }), more ? again : "");
  },
  late: (card, one, { more }) => {
    const button = el("button", { type: "button", text: "Load", onclick: () => more(one.name) });
    card.append(el("p", { class: "quiet", text: one.text }), more ? button : "");
  },
};

function listed(card, one, rows) {
  const cell = (value) => el("td", { text: value === null ? "nan" : short(value) });
  const table = el(
    "table",
    { class: "values" },
    rows.map((row) => el("tr", {}, row.map(cell))),
  );
  card.append(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": one.name }, table));
  if (!rows.length) card.replaceChildren(card.firstChild, el("p", { class: "quiet", text: "no elements" }));
  const count = one.shape.reduce((a, b) => a * b, 1);
  const shown = rows.reduce((a, row) => a + row.length, 0);
  if (shown < count) card.append(el("p", { class: "quiet", text: `the first of ${count.toLocaleString()} values` }));
}

function picture(one, values, params, pages) {
  const named = (names) => values.filter((other) => names.includes(other.name));
  const [boxes, captions] = [named(one.over.boxes), named(one.over.captions)];
  const labels = named(one.over.labels)[0];
  const image = el("img", {
    src: address(pages.image, { ...params, field: one.name, side: PICTURE_PIXELS }),
    alt: `${one.name}, ${one.shape.join(" by ")}`,
  });
  const over = el("canvas", { class: "over", "aria-hidden": "true" });
  const holder = el("div", { class: "picture" }, image, over);
  const broken = () => el("p", { class: "bad", role: "alert", text: `${one.name}: its picture cannot be read` });
  image.addEventListener("error", () => holder.replaceChildren(broken()));
  if (captions.length) {
    holder.append(
      el("p", { class: "caption", text: captions.map((other) => `${other.name}: ${other.text}`).join(", ") }),
    );
  }
  if (!boxes.length) return holder;
  let way = "corners";
  const draw = () => overlay(over, one.shape, boxes, labels, way);
  const toggle = el("button", {
    type: "button",
    text: WAYS[way],
    onclick: () => {
      const names = Object.keys(WAYS);
      way = names[(names.indexOf(way) + 1) % names.length];
      toggle.textContent = WAYS[way];
      draw();
    },
  });
  draw();
  return el("div", {}, holder, toggle);
}

function overlay(over, [height, width], boxes, labels, way) {
  over.width = Math.max(width, 512);
  over.height = Math.round((over.width * height) / width);
  const context = over.getContext("2d");
  context.clearRect(0, 0, over.width, over.height);
  context.lineWidth = Math.max(2, over.width / 300);
  context.font = `${Math.max(16, over.width / 24)}px system-ui, sans-serif`;
  for (const field of boxes) {
    const isRelative = field.numbers.every((value) => value === null || (value >= 0 && value <= 1));
    const scale = isRelative ? [over.width, over.height] : [over.width / width, over.width / width];
    for (let i = 0; i * 4 < field.numbers.length; i += 1) {
      const [x, y, wide, high] = corner(field.numbers.slice(i * 4, i * 4 + 4), way);
      const label = labels && labels.labels[i] !== undefined ? labels.labels[i] : "";
      const colour =
        typeof label === "number"
          ? Math.abs(label)
          : [...`${label || i}`].reduce((sum, one) => sum + one.codePointAt(0), 0);
      context.strokeStyle = COLOURS[Math.round(colour) % COLOURS.length];
      context.strokeRect(x * scale[0], y * scale[1], wide * scale[0], high * scale[1]);
      if (label === "") continue;
      context.fillStyle = context.strokeStyle;
      context.fillText(`${label}`, x * scale[0] + 3, Math.max(12, y * scale[1] - 4));
    }
  }
}

// Where a box begins, and its size, of the four numbers that it has.
function corner([a, b, c, d], way) {
  if (way === "corners") return [a, b, c - a, d - b];
  return way === "size" ? [a, b, c, d] : [a - c / 2, b - d / 2, c, d];
}

function points(card, one, params, pages, closing) {
  const label = `${one.name}: points, to be turned with the pointer or the arrow keys`;
  const canvas = el("canvas", { class: "cloud", tabindex: 0, role: "img", "aria-label": label });
  const said = el("p", { class: "quiet", text: "Reading…" });
  card.append(canvas, said);
  let ended = false;
  closing.push(() => {
    ended = true;
  });
  askBytes(pages.points, { ...params, field: one.name })
    .then((data) => (ended ? null : cloud(canvas, data)))
    .then((shown) => {
      if (!shown) return;
      const all = one.shape[0];
      const others = shown.count < all ? ` of ${all.toLocaleString()}` : "";
      said.textContent = `${shown.count.toLocaleString()} points${others}`;
      if (ended) shown.close();
      else closing.push(shown.close);
    })
    .catch((error) => {
      said.className = "bad";
      said.textContent = `${error.message}`;
    });
}
