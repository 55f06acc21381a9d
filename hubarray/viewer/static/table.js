// A table: its rows, filtered and sorted, and one of them whole.
import { address, ask, attributes, bytes, copy, el, go, keep, problem, several, short, typing } from "./lib.js";
import { cards } from "./rowview.js";
import { curves } from "./plot.js";

const PAGE = 50;

export async function tablePage(about, params) {
  const name = about.name;
  const info = await ask("table", { name });
  if (params.row !== undefined) return rowPage(info, params);
  const aborting = new AbortController();
  const state = { filter: params.filter || "", sort: params.sort || "", down: params.down === "1", first: Number(params.first) || 0 };
  const hiddenNames = new Set();
  const pictures = info.fields.filter((one) => one.picture);
  const light = info.fields.filter((one) => one.light && !one.picture);
  [...pictures.slice(4), ...light.slice(24)].forEach((one) => hiddenNames.add(one.name));
  const shown = () => [...pictures, ...light].filter((one) => !hiddenNames.has(one.name));
  const filter = el("input", { type: "search", class: "wide", placeholder: info.index.length ? `Filter by ${info.index.slice(0, 6).join(", ")}: such as  ${example(info)}` : "No field is in the index, so rows cannot be filtered", disabled: !info.index.length, "aria-label": "Filter", value: state.filter });
  const said = el("p", { role: "status" });
  const head = el("tr");
  const body = el("tbody");
  const line = el("code", { class: "line", tabindex: 0, "aria-label": "The line of Python" });

  const query = () => ({ name, filter: state.filter, sort: state.sort, down: state.down ? 1 : "" });
  // Of the rows that are on the page: what was asked for since may have been refused.
  let there = { ...state };
  const rowLink = (at) => ({ name: params.name, row: at, filter: there.filter, sort: there.sort, down: there.down ? 1 : "" });
  let total = 0;
  let turn = 0;
  async function load() {
    const mine = ++turn;
    said.className = "quiet";
    said.textContent = "Reading…";
    const begun = performance.now();
    try {
      const found = await ask("rows", { ...query(), first: state.first, count: PAGE }, aborting.signal);
      if (mine !== turn) return;
      total = found.total;
      there = { ...state };
      keep({ filter: state.filter, sort: state.sort, down: state.down ? 1 : "", first: state.first || "" });
      before.disabled = state.first <= 0;
      after.disabled = state.first + found.rows.length >= total;
      drawCurve();
      const span = found.rows.length ? `; ${found.first.toLocaleString()} to ${(found.first + found.rows.length - 1).toLocaleString()}` : "";
      said.textContent = `${total.toLocaleString()} of ${several(info.rows, "row")}${span} (${Math.round(performance.now() - begun)} ms)`;
      draw(found);
    } catch (error) {
      if (error.name === "AbortError" || mine !== turn) return;
      said.className = "bad";
      said.textContent = `${error.kind}: ${error.message}`;
    }
  }
  function draw(found) {
    const columns = shown();
    head.replaceChildren(el("th", { scope: "col", text: "row" }), ...columns.map((one) => {
      if (!one.index) return el("th", { scope: "col", text: one.name });
      const sorted = state.sort === one.name ? (state.down ? "descending" : "ascending") : "none";
      return el("th", { scope: "col", "aria-sort": sorted }, el("button", { type: "button", text: `${one.name}${sorted === "none" ? "" : sorted === "ascending" ? " ↑" : " ↓"}`, onclick: () => {
        state.down = state.sort === one.name && !state.down;
        state.sort = one.name;
        state.first = 0;
        load();
      } }));
    }));
    body.replaceChildren(...found.rows.map((row, i) => {
      const at = found.first + i;
      return el("tr", {}, el("td", {}, el("a", { href: "#", text: `${at}`, onclick: (event) => { event.preventDefault(); go(rowLink(at)); } })),
        columns.map((one) => {
          if (pictures.includes(one)) {
            const image = el("img", { class: "thumb", loading: "lazy", alt: `${one.name} of row ${at}`, src: address("image", { ...query(), row: at, field: one.name, side: 96 }) });
            image.addEventListener("error", () => image.replaceWith(el("span", { class: "quiet", text: "no picture" })));
            return el("td", {}, image);
          }
          const value = row[one.name];
          return el("td", { class: typeof value === "number" ? "number" : "", text: value === null ? "none" : short(value) });
        }));
    }));
    line.textContent = found.line;
  }
  const apply = () => { state.filter = filter.value.trim(); state.first = 0; load(); };
  filter.addEventListener("change", apply);
  const step = (by) => {
    const first = Math.max(0, state.first + by);
    if (first === state.first || first >= total) return;
    state.first = first;
    load();
  };
  const before = el("button", { type: "button", text: "← Rows before", onclick: () => step(-PAGE) });
  const after = el("button", { type: "button", text: "Rows after →", onclick: () => step(PAGE) });
  const choice = el("details", {}, el("summary", { text: "Columns" }), el("div", { class: "bar" }, [...pictures, ...light].map((one) => {
    const box = el("input", { type: "checkbox", checked: !hiddenNames.has(one.name), onchange: () => { if (box.checked) hiddenNames.delete(one.name); else hiddenNames.add(one.name); load(); } });
    return el("label", {}, box, one.name);
  })));
  const fields = el("details", {}, el("summary", { text: `Fields (${info.fields.length})` }), el("div", { class: "scroll" }, el("table", { class: "list" }, el("thead", {}, el("tr", {}, ["Field", "Type", "Shape", "Codec", "In the index"].map((text) => el("th", { scope: "col", text })))),
    el("tbody", {}, info.fields.map((one) => el("tr", {}, el("td", { text: one.name }), el("td", { text: one.dtype }), el("td", { text: one.shape.join(" × ") }), el("td", { text: one.codec }), el("td", { text: one.index ? "yes" : "" })))))));
  const drawn = el("div");
  let closeCurve = () => {};
  const scalars = info.fields.filter((one) => !one.shape.length && /^(u?int|float)/.test(one.dtype));
  let curveOf = "";
  async function drawCurve() {
    closeCurve();
    closeCurve = () => {};
    drawn.replaceChildren();
    if (!curveOf) return;
    try {
      const found = await ask("curve", { ...query(), field: curveOf, first: state.first, count: 2000 }, aborting.signal);
      const plot = curves(found.x, { [curveOf]: found.y }, { height: 200, areTimes: Boolean(found.of) });
      closeCurve = plot.close;
      drawn.replaceChildren(plot.node);
    } catch (error) {
      if (error.name !== "AbortError") drawn.replaceChildren(problem(error));
    }
  }
  const over = scalars.length ? el("label", {}, "Curve of", el("select", { "aria-label": "Curve of", onchange: (event) => { curveOf = event.target.value; drawCurve(); } },
    el("option", { value: "", text: "nothing" }), scalars.map((one) => el("option", { value: one.name, text: one.name })))) : null;
  function keys(event) {
    if (typing(event)) return;
    if (event.key === "]") step(PAGE);
    if (event.key === "[") step(-PAGE);
    if (event.key === "c") copy(line.textContent);
  }
  document.addEventListener("keydown", keys);
  return {
    node: [el("h1", {}, `${name} `, el("span", { class: "quiet", text: `${several(info.rows, "row")}, ${several(info.partitions, "partition")}, ${bytes(info.bytes)}` })),
      el("div", { class: "bar" }, filter, el("button", { type: "button", class: "main", text: "Filter", onclick: apply }), over, el("button", { type: "button", text: "versions", onclick: () => go({ name: params.name, tab: "versions" }) })),
      said, drawn, el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rows" }, el("table", { class: "list" }, el("thead", {}, head), body)),
      el("div", { class: "bar" }, before, after),
      line, choice, fields, attributes(info.attrs)].filter(Boolean),
    shown: load,
    close: () => { aborting.abort(); turn += 1; closeCurve(); document.removeEventListener("keydown", keys); },
  };
}

// A filter that this table would take.
function example(info) {
  const field = info.fields.find((one) => one.index);
  if (!field) return "partition == 'a'";
  const name = /^[A-Za-z_][\w.]*$/.test(field.name) ? field.name : `\`${field.name}\``;
  return field.dtype === "string" ? `${name} == "a"` : field.dtype.startsWith("datetime") ? `${name} > "2026-01-01"` : `${name} > 3`;
}

async function rowPage(info, params) {
  const name = info.name;
  const at = Math.max(0, Number(params.row) || 0);
  const query = { name, filter: params.filter, sort: params.sort, down: params.down };
  const found = await ask("row", { ...query, row: at });
  const drawn = cards(found.values, { ...query, row: at }, { image: "image", points: "points" });
  const text = `hub.load("${name}")[${found.number}]`;
  const move = (by) => { const next = Math.min(Math.max(0, at + by), found.total - 1); if (next !== at) go({ ...params, row: next }); };
  function keys(event) {
    if (typing(event)) return;
    if (event.key === "]") move(1);
    if (event.key === "[") move(-1);
    if (event.key === "c") copy(text);
  }
  document.addEventListener("keydown", keys);
  return {
    node: [el("h1", { text: `${name}: row ${at.toLocaleString()} of ${found.total.toLocaleString()}` }),
      el("div", { class: "bar" }, el("button", { type: "button", text: "← Previous", onclick: () => move(-1) }), el("button", { type: "button", text: "Next →", onclick: () => move(1) }),
        el("button", { type: "button", text: "All rows", onclick: () => go({ name: params.name, filter: params.filter, sort: params.sort, down: params.down, first: at - (at % PAGE) }) }),
        el("button", { type: "button", text: "Copy the line", onclick: () => copy(text) })),
      el("code", { class: "line", text }), ...drawn.node],
    close: () => { drawn.close(); document.removeEventListener("keydown", keys); },
  };
}

