// A dataset: what all its arrays have at one sample, and the arrays themselves.
import { ask, attributes, copy, el, go, keep, problem, several, typing } from "./lib.js";
import { cards } from "./rowview.js";

export async function datasetPage(about, params) {
  const name = about.name;
  const info = await ask("dataset", { name });
  const aborting = new AbortController();
  let at = Math.min(Math.max(0, Number(params.row) || 0), Math.max(0, info.rows - 1));
  const below = el("div");
  const line = el("code", { class: "line", tabindex: 0, "aria-label": "Python code" });
  const range = el("input", {
    type: "range",
    min: 0,
    max: Math.max(0, info.rows - 1),
    value: at,
    "aria-label": "Sample",
    oninput: () => move(Number(range.value)),
  });
  const number = el("input", {
    type: "number",
    min: 0,
    max: Math.max(0, info.rows - 1),
    value: at,
    "aria-label": "Sample, number",
    onchange: () => move(Number(number.value)),
  });
  range.style.flex = "1";
  let drawn = null;
  let first = 0;
  let turn = 0;
  let timer = null;

  function move(to) {
    at = Math.min(Math.max(0, Math.round(to) || 0), Math.max(0, info.rows - 1));
    range.value = at;
    number.value = at;
    clearTimeout(timer);
    timer = setTimeout(show, 40);
  }
  const link = (key) => `#name=${params.name}&key=${encodeURIComponent(key)}`;
  async function show() {
    const mine = ++turn;
    line.textContent = `hub.load("${name}").rows(${at})`;
    keep({ row: at || "" });
    try {
      const found = await ask("sample", { name, row: at, first }, aborting.signal);
      if (mine !== turn) return;
      if (drawn) drawn.close();
      const links = Object.fromEntries(info.samples.map((key) => [key, `${link(key)}&at=${at}`]));
      drawn = cards(
        found.values,
        { name, row: at },
        { image: "sample-image", points: "sample-points" },
        { links, more: show },
      );
      const page = (text, to) =>
        el("button", {
          type: "button",
          text,
          disabled: to < 0 || to >= found.total,
          onclick: () => {
            first = to;
            show();
          },
        });
      const size = 48;
      const pages =
        found.total > size
          ? el(
              "div",
              { class: "bar" },
              page("← Arrays before", first - size),
              page("Next arrays →", first + size),
              el("span", {
                class: "quiet",
                text: `${first + 1} to ${Math.min(found.total, first + size)} of ${several(found.total, "array")}`,
              }),
            )
          : null;
      below.replaceChildren(...[pages, ...drawn.node].filter(Boolean));
    } catch (error) {
      if (error.name !== "AbortError" && mine === turn) below.replaceChildren(problem(error));
    }
  }
  function keys(event) {
    if (typing(event)) return;
    if (event.key === "]") move(at + 1);
    if (event.key === "[") move(at - 1);
    if (event.key === "c") copy(line.textContent);
  }
  document.addEventListener("keydown", keys);
  const body = el("tbody");
  const most = 200;
  const search = el("input", {
    type: "search",
    placeholder: "Search arrays",
    "aria-label": "Search arrays",
    oninput: () => list(),
  });
  const left = el("p", { class: "quiet" });
  function list() {
    const some = info.arrays.filter((one) => one.name.toLowerCase().includes(search.value.toLowerCase()));
    left.textContent = some.length > most ? `and ${(some.length - most).toLocaleString()} more: search for them` : "";
    body.replaceChildren(
      ...some
        .slice(0, most)
        .map((one) =>
          el(
            "tr",
            {},
            el("td", {}, el("a", { href: link(one.name), text: one.name })),
            el("td", { text: one.shape.join(" × ") || "scalar" }),
            el("td", { text: one.dtype }),
            el("td", { text: one.dims.filter(Boolean).join(", ") }),
          ),
        ),
    );
  }
  list();
  const arrays = el(
    "table",
    { class: "list" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ["Array", "Shape", "Type", "Dimensions"].map((text) => el("th", { scope: "col", text })),
      ),
    ),
    body,
  );
  const samples = info.rows
    ? [
        el(
          "div",
          { class: "bar" },
          el("button", { type: "button", text: "←", "aria-label": "Previous sample", onclick: () => move(at - 1) }),
          range,
          number,
          el("button", { type: "button", text: "→", "aria-label": "Next sample", onclick: () => move(at + 1) }),
        ),
        below,
        line,
      ]
    : [
        el("p", {
          class: "quiet",
          text: !info.arrays.length
            ? "There are no arrays yet."
            : info.samples.length
              ? "There are no samples yet."
              : "The arrays share no first dimension. Open each one.",
        }),
      ];
  return {
    node: [
      el(
        "h1",
        {},
        `${name} `,
        el("span", {
          class: "quiet",
          text: `${several(info.arrays.length, "array")}, ${several(info.rows, "sample")}`,
        }),
      ),
      el(
        "div",
        { class: "bar" },
        el("button", { type: "button", text: "versions", onclick: () => go({ name: params.name, tab: "versions" }) }),
      ),
      ...samples,
      el("h2", { text: "Arrays" }),
      info.arrays.length > 20 ? el("div", { class: "bar" }, search) : null,
      el("div", { class: "scroll" }, arrays),
      left,
      attributes(info.attrs),
    ].filter(Boolean),
    shown: () => {
      if (info.rows) show();
    },
    close: () => {
      aborting.abort();
      turn += 1;
      clearTimeout(timer);
      if (drawn) drawn.close();
      document.removeEventListener("keydown", keys);
    },
  };
}
