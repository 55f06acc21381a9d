// A table: its rows, filtered and sorted.
import { address, ask, attributes, bytes, copy, el, go, keep, several, short, typing } from "./lib.js";
import { overTime } from "./overtime.js";
import { rowPage } from "./rowpage.js";

const PAGE = 50;
const FIRST_PICTURES = 4;
const FIRST_LIGHT = 24;

export async function tablePage(about, params) {
  const name = about.name;
  const info = await ask("table", { name });
  if (params.row !== undefined) return rowPage(info, params, PAGE);
  const aborting = new AbortController();
  const state = {
    filter: params.filter || "",
    sort: params.sort || "",
    down: params.down === "1",
    first: Number(params.first) || 0,
  };
  const kept = (params.columns || "").split(",").filter(Boolean).map(decoded);
  const usual = new Set(firstColumns(info));
  const chosen = new Set(kept.length ? kept : usual);
  // Pictures first.
  const ordered = [...info.fields].sort((one, two) => two.picture - one.picture);
  const shown = () => ordered.filter((one) => chosen.has(one.name));
  const columnsText = () => {
    const names = shown().map((one) => one.name);
    return names.join() ===
      ordered
        .filter((one) => usual.has(one.name))
        .map((one) => one.name)
        .join()
      ? ""
      : names.map(encodeURIComponent).join(",");
  };
  const query = () => ({ name, filter: state.filter, sort: state.sort, down: state.down ? 1 : "" });
  // Of the rows that are on the page: what was asked for since may have been refused.
  let there = { ...state };
  let last = null;
  let total = 0;
  let turn = 0;

  const filter = el("input", {
    type: "search",
    class: "wide",
    placeholder: hint(info),
    disabled: !info.index.length,
    "aria-label": "Filter",
    value: state.filter,
  });
  const said = el("p", { role: "status" });
  const head = el("tr");
  const body = el("tbody");
  const line = el("code", { class: "line", tabindex: 0, "aria-label": "Python code" });
  const curve = overTime(info, aborting.signal, () => ({ ...query(), first: state.first, count: 2000 }));

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
      curve.draw();
      const ends = [found.first, found.first + found.rows.length - 1].map((one) => one.toLocaleString());
      const span = found.rows.length ? `; ${ends[0]} to ${ends[1]}` : "";
      const took = Math.round(performance.now() - begun);
      said.textContent = `${total.toLocaleString()} of ${several(info.rows, "row")}${span} (${took} ms)`;
      last = found;
      draw();
    } catch (error) {
      if (error.name === "AbortError" || mine !== turn) return;
      said.className = "bad";
      said.textContent = `${error.kind}: ${error.message}`;
    }
  }

  function draw() {
    if (!last) return;
    heavy.disconnect();
    const columns = shown();
    head.replaceChildren(el("th", { scope: "col", text: "row" }), ...columns.map(heading));
    body.replaceChildren(
      ...last.rows.map((row, i) => {
        const at = last.first + i;
        const link = {
          name: params.name,
          row: at,
          filter: there.filter,
          sort: there.sort,
          down: there.down ? 1 : "",
          columns: columnsText(),
        };
        const open = (event) => {
          event.preventDefault();
          go(link);
        };
        return el(
          "tr",
          {},
          el("td", {}, el("a", { href: "#", text: `${at}`, onclick: open })),
          columns.map((one) => cell(one, row, at)),
        );
      }),
    );
    line.textContent = last.line;
  }
  function heading(one) {
    if (!one.index) return el("th", { scope: "col", text: one.name });
    const order = state.down ? "descending" : "ascending";
    const sorted = state.sort === one.name ? order : "none";
    const arrow = { none: "", ascending: " ↑", descending: " ↓" }[sorted];
    const sort = () => {
      state.down = state.sort === one.name && !state.down;
      state.sort = one.name;
      state.first = 0;
      load();
    };
    return el(
      "th",
      { scope: "col", "aria-sort": sorted },
      el("button", { type: "button", text: `${one.name}${arrow}`, onclick: sort }),
    );
  }
  function cell(one, row, at) {
    if (one.picture) {
      const src = address("image", { ...query(), row: at, field: one.name, side: 96 });
      const image = el("img", { class: "thumb", loading: "lazy", alt: `${one.name} of row ${at}`, src });
      image.addEventListener("error", () => image.replaceWith(el("span", { class: "quiet", text: "no picture" })));
      return el("td", {}, image);
    }
    if (one.light && !last.large.includes(one.name)) return valueCell(el("td"), row[one.name]);
    const waiting = el("td", { class: "quiet", text: "…", "data-field": one.name, "data-row": at });
    heavy.observe(waiting);
    return waiting;
  }
  function valueCell(made, value) {
    made.className = typeof value === "number" ? "number" : "";
    made.textContent = value === null || value === undefined ? "none" : short(value);
    return made;
  }
  // What is large is read for the rows in sight alone.
  const heavy = new IntersectionObserver((entries) =>
    entries
      .filter((one) => one.isIntersecting)
      .forEach(({ target }) => {
        heavy.unobserve(target);
        ask("cell", { ...query(), row: target.dataset.row, field: target.dataset.field }, aborting.signal)
          .then((found) => valueCell(target, found.value))
          .catch((error) => {
            if (error.name !== "AbortError") {
              target.className = "bad";
              target.textContent = error.message;
            }
          });
      }),
  );

  const apply = () => {
    state.filter = filter.value.trim();
    state.first = 0;
    load();
  };
  filter.addEventListener("change", apply);
  const step = (by) => {
    const first = Math.max(0, state.first + by);
    if (first === state.first || first >= total) return;
    state.first = first;
    load();
  };
  const before = el("button", { type: "button", text: "← Rows before", onclick: () => step(-PAGE) });
  const after = el("button", { type: "button", text: "Next rows →", onclick: () => step(PAGE) });
  const choose = (one, isOn) => {
    if (isOn) chosen.add(one.name);
    else chosen.delete(one.name);
    keep({ columns: columnsText() });
    draw();
  };
  const box = (one) => {
    const made = el("input", {
      type: "checkbox",
      checked: chosen.has(one.name),
      onchange: () => choose(one, made.checked),
    });
    return el("label", {}, made, one.name);
  };
  const choice = el(
    "details",
    {},
    el("summary", { text: "Columns" }),
    el("div", { class: "bar" }, info.fields.map(box)),
  );
  function keys(event) {
    if (typing(event)) return;
    if (event.key === "]") step(PAGE);
    if (event.key === "[") step(-PAGE);
    if (event.key === "c") copy(line.textContent);
  }
  document.addEventListener("keydown", keys);
  const sizes = `${several(info.rows, "row")}, ${several(info.partitions, "partition")}, ${bytes(info.bytes)}`;
  const versions = () => go({ name: params.name, tab: "versions" });
  return {
    node: [
      el("h1", {}, `${name} `, el("span", { class: "quiet", text: sizes })),
      el(
        "div",
        { class: "bar" },
        filter,
        el("button", { type: "button", class: "main", text: "Filter", onclick: apply }),
        curve.choice,
        el("button", { type: "button", text: "versions", onclick: versions }),
      ),
      said,
      curve.node,
      el(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "Rows" },
        el("table", { class: "list" }, el("thead", {}, head), body),
      ),
      el("div", { class: "bar" }, before, after),
      line,
      choice,
      fieldList(info),
      attributes(info.attrs),
    ].filter(Boolean),
    shown: load,
    close: () => {
      aborting.abort();
      turn += 1;
      heavy.disconnect();
      curve.close();
      document.removeEventListener("keydown", keys);
    },
  };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function firstColumns(info) {
  const pictures = info.fields.filter((one) => one.picture).slice(0, FIRST_PICTURES);
  const light = info.fields.filter((one) => one.light && !one.picture).slice(0, FIRST_LIGHT);
  return [...pictures, ...light].map((one) => one.name);
}

function fieldList(info) {
  const heads = ["Field", "Type", "Shape", "Codec", "Indexed"].map((text) => el("th", { scope: "col", text }));
  const row = (one) => [one.name, one.dtype, one.shape.join(" × "), one.codec, one.index ? "yes" : ""];
  const rows = info.fields.map((one) =>
    el(
      "tr",
      {},
      row(one).map((text) => el("td", { text })),
    ),
  );
  const table = el("table", { class: "list" }, el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows));
  return el(
    "details",
    {},
    el("summary", { text: `Fields (${info.fields.length})` }),
    el("div", { class: "scroll" }, table),
  );
}

function hint(info) {
  if (!info.index.length) return "No field is in the index, so rows cannot be filtered";
  return `Filter by ${info.index.slice(0, 6).join(", ")}: such as  ${example(info)}`;
}

// A filter that this table would take.
function example(info) {
  const field = info.fields.find((one) => one.index);
  if (!field) return "partition == 'a'";
  const name = /^[A-Za-z_][\w.]*$/.test(field.name) ? field.name : `\`${field.name}\``;
  if (field.dtype === "string") return `${name} == "a"`;
  return field.dtype.startsWith("datetime") ? `${name} > "2026-01-01"` : `${name} > 3`;
}
