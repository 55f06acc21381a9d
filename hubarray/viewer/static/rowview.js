// A row, or a sample, opened whole: images with what is drawn over them, points, numbers, text.
import { address, askBytes, el } from "./lib.js";
import { cloud } from "./cloud.js";
import { curves } from "./plot.js";

const COLOURS = ["#ff3b30", "#34c759", "#0a84ff", "#ffd60a", "#bf5af2", "#64d2ff"];

// values: as the server tells them; image and points: the names of the pages that give pictures and points.
export function cards(values, params, pages, links = {}) {
  const closing = [];
  const boxes = values.filter((one) => one.is === "boxes");
  const labels = values.find((one) => one.is === "numbers" && one.shape.length === 1 && /label|class/i.test(one.name));
  const made = values.filter((one) => one.is).map((one) => {
    const title = links[one.name] ? el("a", { href: links[one.name], text: one.name }) : one.name;
    const head = el("h2", {}, title, " ", el("span", { class: "quiet", text: one.shape ? `${one.shape.join(" × ")} ${one.dtype}` : "" }));
    const card = el("div", { class: "card" }, head);
    if (one.is === "image") card.append(picture(one, params, pages, boxes, labels));
    else if (one.is === "cloud") points(card, one, params, pages, closing);
    else numbers(card, one, closing);
    return card;
  });
  const plain = values.filter((one) => !one.is);
  const table = plain.length ? el("table", { class: "list" }, el("tbody", {}, plain.map((one) => el("tr", {}, el("th", { scope: "row", text: one.name }), el("td", { text: one.text === null ? "none" : `${one.text}` }))))) : null;
  return { node: [el("div", { class: "grid" }, made), table].filter(Boolean), close: () => closing.forEach((end) => end()) };
}

function picture(one, params, pages, boxes, labels) {
  const image = el("img", { src: address(pages.image, { ...params, field: one.name, side: 1024 }), alt: `${one.name}, ${one.shape.join(" by ")}` });
  const over = el("canvas", { class: "over", "aria-hidden": "true" });
  const holder = el("div", { class: "picture" }, image, over);
  image.addEventListener("error", () => holder.replaceChildren(el("p", { class: "bad", role: "alert", text: `${one.name}: its picture cannot be read` })));
  if (!boxes.length) return holder;
  let corners = true;
  const draw = () => {
    const [height, width] = one.shape;
    over.width = Math.max(width, 512);
    over.height = Math.round((over.width * height) / width);
    const context = over.getContext("2d");
    context.clearRect(0, 0, over.width, over.height);
    const times = over.width / width;
    context.lineWidth = Math.max(2, over.width / 300);
    context.font = `${Math.max(16, over.width / 24)}px system-ui, sans-serif`;
    for (const field of boxes) {
      const count = field.shape[0];
      const relative = field.numbers.every((value) => value === null || (value >= 0 && value <= 1));
      for (let i = 0; i < count; i += 1) {
        const [a, b, c, d] = field.numbers.slice(i * 4, i * 4 + 4);
        const [x, y, w, h] = corners ? [a, b, c - a, d - b] : [a, b, c, d];
        const scale = relative ? [over.width, over.height] : [times, times];
        const label = labels && labels.numbers[i] !== undefined ? `${labels.numbers[i]}` : "";
        context.strokeStyle = COLOURS[(labels ? labels.numbers[i] || 0 : i) % COLOURS.length];
        context.strokeRect(x * scale[0], y * scale[1], w * scale[0], h * scale[1]);
        if (label) {
          context.fillStyle = context.strokeStyle;
          context.fillText(label, x * scale[0] + 3, Math.max(12, y * scale[1] - 4));
        }
      }
    }
  };
  const toggle = el("button", { type: "button", text: "boxes: corners", onclick: () => { corners = !corners; toggle.textContent = corners ? "boxes: corners" : "boxes: corner and size"; draw(); } });
  draw();
  return el("div", {}, holder, toggle);
}

function points(card, one, params, pages, closing) {
  const canvas = el("canvas", { class: "cloud", tabindex: 0, role: "img", "aria-label": `${one.name}: points, to be turned with the pointer` });
  const said = el("p", { class: "quiet", text: "Reading…" });
  card.append(canvas, said);
  let ended = false;
  closing.push(() => { ended = true; });
  askBytes(pages.points, { ...params, field: one.name }).then((data) => (ended ? null : cloud(canvas, data))).then((shown) => {
    if (!shown) return;
    said.textContent = `${shown.count.toLocaleString()} points`;
    if (ended) shown.close();
    else closing.push(shown.close);
  }).catch((error) => { said.className = "bad"; said.textContent = `${error.message}`; });
}

function numbers(card, one, closing) {
  if (one.shape.length === 1 && one.shape[0] > 8) {
    const drawn = curves(one.numbers.map((_, i) => i), { [one.name]: one.numbers }, { height: 180 });
    closing.push(drawn.close);
    card.append(drawn.node);
    return;
  }
  const wide = one.shape.length > 1 ? one.shape[one.shape.length - 1] : one.numbers.length;
  const rows = [];
  for (let i = 0; i < Math.min(one.numbers.length, 40 * wide); i += wide || 1) rows.push(one.numbers.slice(i, i + Math.min(wide, 16)));
  card.append(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": one.name }, el("table", { class: "values" }, rows.map((row) => el("tr", {}, row.map((value) => el("td", { text: value === null ? "nan" : Number(value.toPrecision(6)) })))))));
}

