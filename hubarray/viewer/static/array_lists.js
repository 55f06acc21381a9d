// An array as a curve, as values, as a map of its chunks, and facts about it.
import { ask, attributes, bytes, el, facts, problem, when } from "./lib.js";
import { curves, timeText } from "./plot.js";

const MAP_PIXELS = 900;

// Each gives what to call when another way of looking is chosen.
export async function showCurve({ look, main, signal, told }) {
  main.replaceChildren(el("p", { class: "quiet", text: "Reading…" }));
  const length = look.length(look.x);
  let close = () => {};
  let turn = 0;
  const show = async (first, end) => {
    const asked = { ...look.asked({ y: -1, c: -1, bands: "" }), at: look.at.join(","), each: look.each, first, end };
    const mine = ++turn;
    const found = await ask("line", asked, signal);
    if (mine !== turn || signal.aborted) return;
    close();
    const isPart = first > 0 || end < length;
    look.span = isPart ? [first, end] : null;
    look.step = found.step;
    told.look();
    const drawn = curves(found.x, found.curves, {
      height: 380,
      title: `${look.name} along ${look.axisName(look.x)}`,
      along: look.axisName(look.x),
      text: timeText(look.info.dtype),
      onzoom: (low, high) => {
        const span = [Math.max(0, Math.floor(low)), Math.min(length, Math.ceil(high) + 1)];
        if (span[1] - span[0] > 1) again(...span);
      },
    });
    const all = el("button", { type: "button", text: "Show all", onclick: () => again(0, length), hidden: !isPart });
    const where = isPart
      ? `${first.toLocaleString()} to ${(end - 1).toLocaleString()}`
      : "Drag to zoom in";
    const shown = Object.keys(found.curves).length;
    const some =
      look.each >= 0 && shown < found.of ? `; ${shown} of ${found.of.toLocaleString()} curves, from the slider on` : "";
    const thin = found.step > 1 ? `; every ${found.step.toLocaleString()} elements one is looked at` : "";
    main.replaceChildren(
      el("div", { class: "bar" }, all, el("span", { class: "quiet", text: `${where}${some}${thin}` })),
      drawn.node,
    );
    close = drawn.close;
  };
  const again = (first, end) =>
    show(first, end).catch((error) => {
      if (error.name !== "AbortError") main.replaceChildren(problem(error));
    });
  await show(...(look.span || [0, length]));
  return () => close();
}

export async function showValues({ look, main, signal, told }) {
  const isList = look.y < 0;
  const isText = look.info.kind === "text";
  const [rows, columns] = isList ? [1, isText ? 50 : 100] : [32, isText ? 6 : 12];
  const table = el("table", { class: "values" });
  const where = el("span", { class: "quiet" });
  const cell = (value) => el("td", { class: isText ? "text" : "", text: value });
  const head = (scope, text) => el("th", { scope, text: look.x < 0 ? "" : text });
  const page = (axis, begin, count) => [begin, Math.min(begin + count, look.length(axis))];

  const { first } = look;
  let turn = 0;
  async function load() {
    const mine = ++turn;
    look.paged = {};
    if (look.x >= 0) look.paged[look.x] = page(look.x, first.column, columns);
    if (!isList) look.paged[look.y] = page(look.y, first.row, rows);
    told.look();
    try {
      const found = await ask("values", look.asked({ row: first.row, column: first.column, rows, columns }), signal);
      if (mine !== turn || signal.aborted) return;
      where.textContent = place();
      if (isList) {
        table.replaceChildren(
          ...found.rows[0].map((value, i) => el("tr", {}, head("row", first.column + i), cell(value))),
        );
      } else {
        const tops = el(
          "tr",
          {},
          el("td"),
          found.rows[0].map((_, i) => head("col", first.column + i)),
        );
        table.replaceChildren(
          tops,
          ...found.rows.map((row, i) => el("tr", {}, head("row", first.row + i), row.map(cell))),
        );
      }
    } catch (error) {
      if (error.name !== "AbortError" && mine === turn) {
        table.replaceChildren(el("tr", {}, el("td", { class: "bad", text: `${error.kind}: ${error.message}` })));
      }
    }
  }
  function place() {
    if (look.x < 0) return "";
    if (isList) return `from ${first.column}`;
    return `${look.axisName(look.y)} from ${first.row}, ${look.axisName(look.x)} from ${first.column}`;
  }
  const step = (down, right) => () => {
    const last = (axis, size) => Math.max(0, Math.floor((look.length(axis) - 1) / size) * size);
    first.row = Math.min(Math.max(0, first.row + down * rows), isList ? 0 : last(look.y, rows));
    first.column = Math.min(Math.max(0, first.column + right * columns), last(look.x, columns));
    load();
  };
  const button = (text, label, down, right) =>
    el("button", { type: "button", text, "aria-label": label, onclick: step(down, right) });
  const upDown = isList
    ? [button("↑", "Previous", 0, -1), button("↓", "Next", 0, 1)]
    : [
        button("↑", "Previous rows", -1, 0),
        button("↓", "Next rows", 1, 0),
        button("←", "Previous columns", 0, -1),
        button("→", "Next columns", 0, 1),
      ];
  const goTo = (label, key, axis, size) => {
    const set = () => {
      const at = Math.min(Math.max(0, Math.round(Number(input.value)) || 0), look.length(axis) - 1);
      first[key] = at - (at % size);
      load();
    };
    const most = look.length(axis) - 1;
    const input = el("input", {
      type: "number",
      min: 0,
      max: most,
      "aria-label": label,
      placeholder: label,
      onchange: set,
    });
    return input;
  };
  const places = [
    isList ? null : goTo("Go to row", "row", look.y, rows),
    goTo("Go to column", "column", look.x, columns),
  ];
  main.replaceChildren(
    el("div", { class: "bar" }, look.x < 0 ? [] : [upDown, places], where),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Values" }, table),
  );
  await load();
  return () => {};
}

export async function showChunks({ look, main, signal, told }) {
  const label = "Chunk map: dark where nothing was written";
  const canvas = el("canvas", { role: "img", "aria-label": label });
  const said = el("p", { class: "quiet" });
  const under = el("p", { class: "quiet", role: "status" });
  main.replaceChildren(said, canvas, under);
  const found = await ask("chunks", look.asked(), signal);
  if (signal.aborted) return () => {};
  const most = found.rows.flat().reduce((one, two) => Math.max(one, two), 1);
  const wide = found.rows[0]?.length || 1;
  const cell = Math.max(2, Math.min(28, Math.floor(MAP_PIXELS / wide)));
  canvas.width = wide * cell;
  canvas.height = found.rows.length * cell || 1;
  function draw() {
    const context = canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    context.clearRect(0, 0, canvas.width, canvas.height);
    found.rows.forEach((row, y) =>
      row.forEach((length, x) => {
        context.globalAlpha = length ? 0.35 + 0.65 * (length / most) : 1;
        context.fillStyle = style.getPropertyValue(length ? "--accent" : "--raised");
        context.fillRect(x * cell, y * cell, cell - (cell > 3 ? 1 : 0), cell - (cell > 3 ? 1 : 0));
      }),
    );
  }
  draw();
  // The first chunk of a place on the map, and the bytes that are stored there.
  function place(event) {
    const there = canvas.getBoundingClientRect();
    const at = [event.clientY - there.top, event.clientX - there.left].map((one) => Math.floor(one / cell));
    const length = found.rows[at[0]]?.[at[1]];
    return length === undefined ? null : { chunk: at.map((one, i) => one * found.steps[i]), length };
  }
  const areMany = found.steps.some((step) => step > 1);
  canvas.addEventListener("pointermove", (event) => {
    const there = place(event);
    if (!there) return;
    const from = `${areMany ? "chunks from" : "chunk"} ${look.y < 0 ? there.chunk[1] : there.chunk.join(", ")}`;
    under.textContent = `${from}: ${there.length ? bytes(there.length) : "never written"}`;
  });
  canvas.addEventListener("click", (event) => {
    const there = place(event);
    if (there) told.goto(...there.chunk.map((one, i) => one * look.chunk([look.y, look.x][i])));
  });
  const count = found.sides[0] * found.sides[1];
  const steps = areMany ? `; a square is ${found.steps.join(" × ")} of them` : "";
  const part = found.partial ? "; there are more than are gone through for this" : "";
  const largest = found.written ? `, ${areMany ? "a square with up to" : "the largest with"} ${bytes(most)}` : "";
  const written = `${found.written.toLocaleString()} of ${count.toLocaleString()} are written`;
  const summary = `Chunks of ${found.chunks.join(" × ")}; ${written}${largest}${steps}${part}.`;
  said.textContent = look.modes.includes("picture") ? `${summary} A click shows what is there.` : summary;
  document.addEventListener("theme", draw);
  return () => document.removeEventListener("theme", draw);
}

export async function showAbout({ look, main, about }) {
  const { info } = look;
  const told = {
    shape: info.shape.join(" × "),
    dims: info.dims.some(Boolean) ? info.dims.join(", ") : "",
    dtype: info.dtype,
    chunks: info.chunks.join(" × "),
    codec: info.codec,
    "fill value": info.fill,
    "in memory": bytes(info.bytes),
    commit: `${about.commit}, ${when(about.time)}, ${about.author}: ${about.message}`,
    state: about.frozen ? "frozen" : "",
    root: info.root,
  };
  main.replaceChildren(...[facts(told), attributes(info.attrs)].filter(Boolean));
  return () => {};
}
