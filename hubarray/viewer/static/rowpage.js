// A row of a table opened whole, with the one before and the one after.
import { ask, copy, el, go, typing } from "./lib.js";
import { cards } from "./rowview.js";
import { overTime } from "./overtime.js";

const AROUND = 500;

export async function rowPage(info, params, pageRows) {
  const name = info.name;
  const at = Math.max(0, Number(params.row) || 0);
  const query = { name, filter: params.filter, sort: params.sort, down: params.down };
  const found = await ask("row", { ...query, row: at });
  const aborting = new AbortController();
  const below = el("div");
  let drawn = null;
  function draw() {
    if (drawn) drawn.close();
    drawn = cards(found.values, { ...query, row: at }, { image: "image", points: "points" }, { more });
    below.replaceChildren(...drawn.node);
  }
  // A field that was left for later, since the row is large.
  async function more(field) {
    const alone = await ask("row", { ...query, row: at, field }, aborting.signal).catch((error) => ({
      values: [{ name: field, text: `${error.kind}: ${error.message}` }],
    }));
    if (aborting.signal.aborted) return;
    found.values = found.values.map((one) => (one.name === field ? alone.values[0] : one));
    draw();
  }
  const first = Math.max(0, at - AROUND);
  const curve = overTime(
    info,
    aborting.signal,
    () => ({ ...query, first, count: 2 * AROUND }),
    () => at,
  );
  const text = `hub.load("${name}")[${found.number}]`;
  const move = (by) => {
    const next = Math.min(Math.max(0, at + by), found.total - 1);
    if (next !== at) go({ ...params, row: next });
  };
  function keys(event) {
    if (typing(event)) return;
    if (event.key === "]") move(1);
    if (event.key === "[") move(-1);
    if (event.key === "c") copy(text);
  }
  document.addEventListener("keydown", keys);
  const button = (label, onclick, disabled = false) => el("button", { type: "button", text: label, disabled, onclick });
  const back = {
    name: params.name,
    filter: params.filter,
    sort: params.sort,
    down: params.down,
    first: at - (at % pageRows),
    columns: params.columns,
  };
  draw();
  return {
    node: [
      el("h1", { text: `${name}: row ${at.toLocaleString()} of ${found.total.toLocaleString()}` }),
      el(
        "div",
        { class: "bar" },
        button("← Previous", () => move(-1), at <= 0),
        button("Next →", () => move(1), at >= found.total - 1),
        button("All rows", () => go(back)),
        button("Copy code", () => copy(text)),
        curve.choice,
      ),
      el("code", { class: "line", text }),
      curve.node,
      below,
    ],
    close: () => {
      aborting.abort();
      curve.close();
      drawn.close();
      document.removeEventListener("keydown", keys);
    },
  };
}
