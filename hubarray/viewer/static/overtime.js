// A scalar field of a table over its rows: over time where the index has times.
import { ask, el, problem } from "./lib.js";
import { curves } from "./plot.js";

// info: as the server tells a table; asked(): which rows, by filter and order, and from where; mark(): the row to mark.
export function overTime(info, signal, asked, mark = () => null) {
  const scalars = info.fields.filter((one) => !one.shape.length && /^(u?int|float|bool)/.test(one.dtype));
  const node = el("div");
  let close = () => {};
  let field = "";
  let turn = 0;
  async function draw() {
    const mine = ++turn;
    close();
    close = () => {};
    if (!field) {
      node.replaceChildren();
      return;
    }
    try {
      const found = await ask("curve", { ...asked(), field }, signal);
      if (mine !== turn) return;
      const row = mark();
      const at = row === null ? null : found.x[found.rows.findIndex((one) => one >= row)];
      const plot = curves(
        found.x,
        { [field]: found.y },
        { height: 200, areTimes: Boolean(found.of), mark: at, along: found.of || "row" },
      );
      close = plot.close;
      const why = found.why ? el("p", { class: "quiet", text: `By row: ${found.why}` }) : "";
      node.replaceChildren(plot.node, why);
    } catch (error) {
      if (error.name !== "AbortError") node.replaceChildren(problem(error));
    }
  }
  const options = [
    el("option", { value: "", text: "nothing" }),
    scalars.map((one) => el("option", { value: one.name, text: one.name })),
  ];
  const select = el(
    "select",
    {
      "aria-label": "Plot of",
      onchange: () => {
        field = select.value;
        draw();
      },
    },
    options,
  );
  return {
    node,
    choice: scalars.length ? el("label", {}, "Plot of", select) : null,
    draw,
    close: () => {
      turn += 1;
      close();
    },
  };
}
