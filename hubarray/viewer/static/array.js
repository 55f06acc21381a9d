// An array: its picture, its values, three cuts, a curve, its chunks.
import { ask, attributes, bytes, copy, el, facts, go, keep, problem, say, typing, when } from "./lib.js";
import { Picture } from "./tiles.js";
import { bars, curves, timeText } from "./plot.js";

const PARTS = ["abs", "phase", "real", "imag"];
// Windows of Hounsfield units that radiologists use, for volumes that look like a CT.
const CT_WINDOWS = [["soft tissue", -160, 240], ["lung", -1350, 150], ["bone", -450, 1050], ["brain", 0, 80]];

export async function arrayPage(about, params) {
  const name = about.name;
  const key = params.key || "";
  const info = await ask("array", { name, key });
  const aborting = new AbortController();
  const state = {
    y: info.axes[0], x: info.axes[1], c: info.axes[2],
    at: info.shape.map((length, axis) => Math.min(Math.max(0, Number((params.at || "").split(",")[axis]) || 0), Math.max(0, length - 1))),
    map: info.maps.includes(params.map) ? params.map : "grey", part: "abs", low: null, high: null, each: -1, mode: params.mode || "",
  };
  const isEmpty = info.shape.some((length) => length === 0);
  const modes = [];
  const areNumbers = info.kind !== "text";
  if (!isEmpty && areNumbers && state.y >= 0) modes.push("picture");
  const spatial = info.shape.map((_, axis) => axis).filter((axis) => axis !== state.c);
  if (!isEmpty && areNumbers && spatial.length >= 3) modes.push("three cuts");
  if (!isEmpty && areNumbers && state.x >= 0) modes.push("curve");
  if (!isEmpty) modes.push("values");
  if (!isEmpty && state.x >= 0) modes.push("chunks");
  modes.push("about");
  // A few rows that are very long are signals.
  const [tall, broad] = [state.y < 0 ? 1 : info.shape[state.y], state.x < 0 ? 1 : info.shape[state.x]];
  const areSignals = modes.includes("curve") && state.c < 0 && tall <= 16 && broad > 64 * tall;
  if (areSignals && tall > 1) state.each = state.y;
  if (!modes.includes(state.mode)) state.mode = areSignals ? "curve" : modes[0];

  const side = el("div", { class: "side" });
  const main = el("div", { class: "main-view" });
  const note = el("div", { class: "note" });
  const line = el("code", { class: "line", tabindex: 0, "aria-label": "The line of Python" });
  let closeMode = () => {};
  let pictures = [];
  let playing = null;

  const axisName = (axis) => info.dims[axis] || `axis ${axis}`;
  const dimension = (axis) => (axis < 0 ? 1 : info.shape[axis]);
  const hidden = () => info.shape.map((_, axis) => axis).filter((axis) => ![state.y, state.x, state.c].includes(axis));
  const asked = (more = {}) => ({
    name, key, y: state.y, x: state.x, c: state.c, at: state.at.map((one, axis) => ([state.y, state.x, state.c].includes(axis) ? 0 : one)).join(","),
    part: info.kind === "complex" ? state.part : undefined, ...more,
  });
  const coloured = () => asked({ map: state.c < 0 ? state.map : undefined, low: state.low, high: state.high });

  // The axes that are whole in what is on the screen, by the way in which it is looked at.
  function wholeAxes() {
    if (state.mode === "curve") return [state.x, state.each];
    if (state.mode === "three cuts") return spatial.slice(-3).concat(state.c);
    return [state.y, state.x, state.c];
  }
  function python() {
    const whole = wholeAxes();
    const inside = state.at.map((one, axis) => {
      if (state.mode === "values" && paged[axis]) return paged[axis];
      return whole.includes(axis) ? ":" : one;
    }).join(", ") || "()";
    const text = `hub.load("${name}")${key ? `[${JSON.stringify(key)}]` : ""}[${inside}]`;
    line.textContent = text;
    keep({ at: state.at.some(Boolean) ? state.at.join(",") : "", mode: state.mode === modes[0] ? "" : state.mode, map: state.map === "grey" ? "" : state.map });
    return text;
  }
  let paged = {};

  // The rows and columns in sight, where they are not all.
  function seen() {
    const one = pictures.length === 1 ? pictures[0] : null;
    if (!one || !one.view) return "";
    const [height, width] = one.size();
    const [wide, high] = one.box();
    const { scale, x, y } = one.view;
    const span = (first, length, most) => [Math.min(Math.max(0, Math.floor(first)), most - 1), Math.min(most, Math.max(1, Math.ceil(first + length)))];
    const view = [...span(y, high / scale, height), ...span(x, wide / scale, width)];
    return view.join() === [0, height, 0, width].join() ? "" : view.join();
  }
  let seeing;
  function moved() {
    clearTimeout(seeing);
    seeing = setTimeout(() => { if (!aborting.signal.aborted && pictures.length === 1) learnWindow(true); }, 500);
  }
  let windowTurn = 0;
  async function learnWindow(keepShown) {
    const mine = ++windowTurn;
    try {
      const found = await ask("window", asked({ view: seen() }), aborting.signal);
      if (mine !== windowTurn) return;
      const isFirst = !state.window;
      state.window = found;
      if (isFirst && found.low < -500) drawSide();
      if (!keepShown || state.low === null) [state.low, state.high] = found.shown;
      drawWindow();
    } catch (error) {
      if (error.name !== "AbortError") sayHere(error);
      if (state.low === null) [state.low, state.high] = [0, 1];
    }
  }
  // Bytes are shown as they are at once, and their histogram follows.
  async function firstWindow() {
    if (state.low !== null) return;
    if (info.dtype !== "uint8") { await learnWindow(); return; }
    [state.low, state.high] = [0, 255];
    setTimeout(() => { if (!aborting.signal.aborted) learnWindow(true); }, 400);
  }
  const sayHere = (error) => { note.textContent = `${error.kind || "Error"}: ${error.message}`; };

  const lowInput = el("input", { type: "number", step: "any", "aria-label": "Least value shown", onchange: () => setWindow() });
  const highInput = el("input", { type: "number", step: "any", "aria-label": "Most value shown", onchange: () => setWindow() });
  const histogram = el("canvas", { class: "bars", role: "img", "aria-label": "Histogram of the view" });
  function setWindow() {
    const [low, high] = [Number(lowInput.value), Number(highInput.value)];
    if (Number.isFinite(low) && Number.isFinite(high) && high > low) [state.low, state.high] = [low, high];
    else say("A window goes from a smaller value to a larger one");
    drawWindow();
    repaint();
  }
  function drawWindow() {
    lowInput.value = Number(state.low?.toPrecision(5));
    highInput.value = Number(state.high?.toPrecision(5));
    if (state.window && histogram.isConnected) bars(histogram, state.window.counts, state.window.low, state.window.high, [state.low, state.high]);
  }
  const repaint = () => pictures.forEach((one) => one.refresh());

  const sliders = new Map();
  function setAt(axis, value) {
    const next = Math.min(Math.max(0, Math.round(value) || 0), info.shape[axis] - 1);
    if (next === state.at[axis]) return;
    state.at[axis] = next;
    for (const input of sliders.get(axis) || []) input.value = next;
    python();
    if (state.mode === "three cuts") recentre();
    else if (state.mode === "picture") repaint();
    else if (["curve", "values", "chunks"].includes(state.mode)) showMode();
  }
  function slider(axis) {
    const most = info.shape[axis] - 1;
    const range = el("input", { type: "range", min: 0, max: most, step: 1, value: state.at[axis], "aria-label": axisName(axis), oninput: () => setAt(axis, Number(range.value)) });
    const number = el("input", { type: "number", min: 0, max: most, value: state.at[axis], "aria-label": `${axisName(axis)}, number`, onchange: () => setAt(axis, Number(number.value)) });
    sliders.set(axis, [range, number]);
    const play = el("button", { type: "button", text: "▶", "aria-label": `Play along ${axisName(axis)}`, "aria-pressed": "false", onclick: () => togglePlay(axis) });
    play.dataset.axis = axis;
    return el("div", {}, el("span", { class: "quiet", text: `${axisName(axis)} (${info.shape[axis].toLocaleString()})` }), el("div", { class: "row" }, play, range, number));
  }
  function togglePlay(axis) {
    const was = playing && playing.axis === axis;
    stopPlaying();
    if (was) return;
    const step = () => {
      // One frame when the one before is all there.
      if (pictures.every((one) => one.complete)) setAt(axis, (state.at[axis] + 1) % info.shape[axis]);
    };
    playing = { axis, timer: setInterval(step, 80) };
    side.querySelectorAll("button[data-axis]").forEach((one) => one.setAttribute("aria-pressed", String(Number(one.dataset.axis) === axis)));
  }
  function stopPlaying() {
    if (playing) clearInterval(playing.timer);
    playing = null;
    side.querySelectorAll("button[data-axis]").forEach((one) => one.setAttribute("aria-pressed", "false"));
  }

  function choose(label, value, options, onchange) {
    const made = el("select", { "aria-label": label, onchange: () => onchange(made.value) }, options.map(([id, text]) => el("option", { value: id, text, selected: `${id}` === `${value}` })));
    return el("label", {}, label, made);
  }
  function setAxis(which, value) {
    const axis = Number(value);
    const before = state[which];
    for (const other of ["y", "x", "c"]) if (other !== which && state[other] === axis && axis >= 0) state[other] = other === "c" ? -1 : before;
    state[which] = axis;
    if (state.each === state.x) state.each = -1;
    if (state.x < 0) state.x = state.y;
    if (state.y === state.x) state.y = -1;
    pictures.forEach((one) => { one.view = null; });
    state.low = null;
    drawSide();
    showMode();
  }

  function drawSide() {
    stopPlaying();
    sliders.clear();
    const axes = info.shape.map((length, axis) => [axis, `${axisName(axis)} (${length.toLocaleString()})`]);
    const channels = [[-1, "none"], ...axes.filter(([axis]) => [3, 4].includes(info.shape[axis]))];
    const withColours = state.mode === "picture" || state.mode === "three cuts";
    const parts = [];
    if (info.shape.length > 1 && state.mode !== "about" && state.mode !== "three cuts") {
      if (state.mode !== "curve") parts.push(choose("Rows", state.y, info.shape.length > 1 ? axes : [[-1, "none"]], (value) => setAxis("y", value)));
      parts.push(choose(state.mode === "curve" ? "Along" : "Columns", state.x, axes, (value) => setAxis("x", value)));
      if (state.mode === "curve") parts.push(choose("A curve for each", state.each, [[-1, "none"], ...axes.filter(([axis]) => axis !== state.x)], (value) => { state.each = Number(value); showMode(); }));
      if (channels.length > 1 && state.mode !== "curve") parts.push(choose("Channels", state.c, channels, (value) => setAxis("c", value)));
    }
    if (info.kind === "complex" && withColours) parts.push(choose("Part", state.part, PARTS.map((one) => [one, one]), (value) => { state.part = value; state.low = null; learnWindow().then(repaint); }));
    const every = info.shape.map((_, axis) => axis);
    const shown = state.mode === "curve" ? every.filter((axis) => axis !== state.x) : state.mode === "three cuts" ? every.filter((axis) => axis !== state.c) : hidden();
    if (state.mode !== "about") parts.push(...shown.filter((axis) => info.shape[axis] > 1).map(slider));
    if (withColours) {
      if (state.c < 0) parts.push(choose("Colours", state.map, info.maps.map((one) => [one, one]), (value) => { state.map = value; python(); repaint(); }));
      if (state.window && state.window.low < -500 && state.window.low >= -4096 && state.window.high <= 65535) {
        parts.push(choose("CT window", "", [["", "as it is"], ...CT_WINDOWS.map(([id]) => [id, id])], (value) => {
          const found = CT_WINDOWS.find(([id]) => id === value);
          if (found) { [, state.low, state.high] = found; drawWindow(); repaint(); }
        }));
      }
      parts.push(el("div", {}, el("span", { class: "quiet", text: "Window" }), histogram, el("div", { class: "row" }, lowInput, "to", highInput),
        el("div", { class: "row" }, el("button", { type: "button", text: "Fit the view", onclick: () => { state.low = null; learnWindow().then(repaint); } }),
          el("button", { type: "button", text: "All", onclick: () => { if (state.window) { [state.low, state.high] = [state.window.low, state.window.high > state.window.low ? state.window.high : state.window.low + 1]; drawWindow(); repaint(); } } }))));
    }
    parts.push(line, el("div", { class: "row" }, el("button", { type: "button", text: "Copy the line", onclick: () => copy(line.textContent) })));
    side.replaceChildren(...parts);
    python();
    drawWindow();
  }

  let hovering = 0;
  function hover(there, axes) {
    const mine = ++hovering;
    if (!there) { note.textContent = ""; return; }
    const [row, column] = there;
    const place = `${axisName(axes.y < 0 ? axes.x : axes.y)} ${axes.y < 0 ? column : row}${axes.y < 0 ? "" : `, ${axisName(axes.x)} ${column}`}`;
    note.textContent = place;
    setTimeout(async () => {
      if (mine !== hovering || aborting.signal.aborted) return;
      try {
        const found = await ask("values", { ...asked(axes), row: Math.max(0, row), column, rows: 1, columns: 1 }, aborting.signal);
        if (mine === hovering) note.textContent = `${place}: ${found.rows[0][0]}`;
      } catch (error) {
        if (mine === hovering && error.name !== "AbortError") sayHere(error);
      }
    }, 60);
  }

  function picture(stage, axes, more = {}) {
    const one = new Picture(stage, {
      size: () => [dimension(axes().y), dimension(axes().x)],
      params: () => ({ ...coloured(), ...axes() }),
      onhover: (there) => hover(there, axes()),
      label: `Picture of ${name}${key ? ` ${key}` : ""}; arrows move it, + and − come closer and go further`, ...more,
    });
    one.onbroken = sayHere;
    pictures.push(one);
    return one;
  }

  let recentre = () => {};
  const showing = {
    picture: async () => {
      const stage = el("div", { class: "stage" }, note);
      main.replaceChildren(stage);
      await firstWindow();
      picture(stage, () => ({ y: state.y, x: state.x, c: state.c }), { onmove: moved });
      pictures[0].draw();
      window.hubarrayPicture = pictures[0];
    },
    "three cuts": async () => {
      const [z, y, x] = spatial.slice(-3);
      const pairs = [[y, x, z], [z, x, y], [z, y, x]];
      if (!params.at && [z, y, x].every((axis) => state.at[axis] === 0)) {
        [z, y, x].forEach((axis) => { state.at[axis] = Math.floor(info.shape[axis] / 2); });
        state.low = null;
      }
      const grid = el("div", { class: "cuts" });
      main.replaceChildren(grid);
      await firstWindow();
      pairs.forEach(([rows, columns]) => {
        const stage = el("div", { class: "stage" });
        grid.append(stage);
        const marks = () => [state.at[rows], state.at[columns]];
        const at = () => state.at.map((one, axis) => ([rows, columns, state.c].includes(axis) ? 0 : one)).join(",");
        const one = picture(stage, () => ({ y: rows, x: columns, c: state.c, at: at() }), {
          onclick: ([row, column]) => { setAt(rows, row); setAt(columns, column); },
          label: `Cut of ${axisName(rows)} and ${axisName(columns)}`,
        });
        one.marks = marks();
        one.recentre = () => { one.marks = marks(); one.refresh(); };
      });
      const said = el("div", { class: "stage" }, note);
      grid.append(said);
      recentre = () => { pictures.forEach((one) => one.recentre()); python(); note.textContent = [z, y, x].map((axis) => `${axisName(axis)} ${state.at[axis]}`).join(", "); };
      drawSide();
      recentre();
    },
    curve: async () => {
      main.replaceChildren(el("p", { class: "quiet", text: "Reading…" }));
      const length = info.shape[state.x];
      const show = async (first, end) => {
        const found = await ask("line", { ...asked({ y: -1, c: -1 }), at: state.at.join(","), each: state.each, first, end }, aborting.signal);
        closeMode();
        const drawn = curves(found.x, found.curves, {
          height: 380, title: `${name} along ${axisName(state.x)}`, text: timeText(info.dtype),
          onzoom: (low, high) => {
            const span = [Math.max(0, Math.floor(low)), Math.min(length, Math.ceil(high) + 1)];
            if (span[1] - span[0] > 1) show(...span).catch((error) => { if (error.name !== "AbortError") main.replaceChildren(problem(error)); });
          },
        });
        const part = first > 0 || end < length;
        const all = el("button", { type: "button", text: "All of it", onclick: () => show(0, length), hidden: !part });
        const said = el("span", { class: "quiet", text: part ? `${first.toLocaleString()} to ${(end - 1).toLocaleString()}` : "Drag over a part to come closer" });
        main.replaceChildren(el("div", { class: "bar" }, all, said), drawn.node);
        closeMode = drawn.close;
      };
      await show(0, length);
    },
    values: async () => {
      const isList = state.y < 0;
      const first = { row: 0, column: 0 };
      const table = el("table", { class: "values" });
      const where = el("span", { class: "quiet" });
      const [rows, columns] = isList ? [1, info.kind === "text" ? 50 : 100] : [32, info.kind === "text" ? 6 : 12];
      const load = async () => {
        paged = {};
        if (state.x >= 0) paged[state.x] = `${first.column}:${Math.min(first.column + columns, dimension(state.x))}`;
        if (!isList) paged[state.y] = `${first.row}:${Math.min(first.row + rows, dimension(state.y))}`;
        python();
        try {
          const found = await ask("values", asked({ row: first.row, column: first.column, rows, columns }), aborting.signal);
          where.textContent = state.x < 0 ? "" : isList ? `from ${first.column}` : `${axisName(state.y)} from ${first.row}, ${axisName(state.x)} from ${first.column}`;
          const head = (text) => el("th", { scope: "row", text: state.x < 0 ? "" : text });
          if (isList) table.replaceChildren(...found.rows[0].map((value, i) => el("tr", {}, head(first.column + i), el("td", { class: info.kind === "text" ? "text" : "", text: value }))));
          else {
            table.replaceChildren(el("tr", {}, el("td"), found.rows[0].map((_, i) => el("th", { scope: "col", text: first.column + i }))),
              ...found.rows.map((row, i) => el("tr", {}, head(first.row + i), row.map((value) => el("td", { class: info.kind === "text" ? "text" : "", text: value })))));
          }
        } catch (error) {
          if (error.name !== "AbortError") table.replaceChildren(el("tr", {}, el("td", { class: "bad", text: `${error.kind}: ${error.message}` })));
        }
      };
      const step = (down, right) => () => {
        const last = (axis, size) => Math.max(0, Math.floor((dimension(axis) - 1) / size) * size);
        first.row = Math.min(Math.max(0, first.row + down * rows), isList ? 0 : last(state.y, rows));
        first.column = Math.min(Math.max(0, first.column + right * columns), last(state.x, columns));
        load();
      };
      const button = (text, label, down, right) => el("button", { type: "button", text, "aria-label": label, onclick: step(down, right) });
      const buttons = state.x < 0 ? [] : isList ? [button("↑", "Before", 0, -1), button("↓", "After", 0, 1)]
        : [button("↑", "Rows before", -1, 0), button("↓", "Rows after", 1, 0), button("←", "Columns before", 0, -1), button("→", "Columns after", 0, 1)];
      main.replaceChildren(el("div", { class: "bar" }, buttons, where), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Values" }, table));
      await load();
    },
    chunks: async () => {
      const canvas = el("canvas", { role: "img", "aria-label": "Map of chunks: dark where nothing was written" });
      const said = el("p", { class: "quiet" });
      main.replaceChildren(said, canvas);
      const found = await ask("chunks", asked(), aborting.signal);
      const most = Math.max(1, ...found.rows.flat());
      const there = found.rows.flat().filter((one) => one > 0).length;
      const cell = Math.max(2, Math.min(28, Math.floor(900 / Math.max(1, found.rows[0]?.length || 1))));
      canvas.width = (found.rows[0]?.length || 1) * cell;
      canvas.height = found.rows.length * cell || 1;
      const context = canvas.getContext("2d");
      const style = getComputedStyle(document.documentElement);
      found.rows.forEach((row, y) => row.forEach((length, x) => {
        context.globalAlpha = length ? 0.35 + 0.65 * (length / most) : 1;
        context.fillStyle = style.getPropertyValue(length ? "--accent" : "--raised");
        context.fillRect(x * cell, y * cell, cell - 1, cell - 1);
      }));
      said.textContent = `Chunks of ${found.chunks.join(" × ")}; ${there.toLocaleString()} of ${found.rows.flat().length.toLocaleString()} looked at are written, the largest with ${bytes(most)}`
        + (found.steps.some((one) => one > 1) ? `; every ${found.steps.join(" × ")} is shown` : "");
    },
    about: async () => {
      main.replaceChildren(...[facts({
        shape: info.shape.join(" × "), dims: info.dims.some(Boolean) ? info.dims.join(", ") : "", dtype: info.dtype, chunks: info.chunks.join(" × "),
        codec: info.codec, "fill value": info.fill, "in memory": bytes(info.bytes), commit: `${about.commit}, ${when(about.time)}, ${about.author}: ${about.message}`,
        state: about.frozen ? "frozen" : "", root: info.root,
      }), attributes(info.attrs)].filter(Boolean));
    },
  };

  let modeTurn = 0;
  async function showMode() {
    const mine = ++modeTurn;
    closeMode();
    closeMode = () => {};
    pictures.forEach((one) => one.close());
    pictures = [];
    tabs.querySelectorAll("button[role=tab]").forEach((one) => one.setAttribute("aria-selected", String(one.textContent === state.mode)));
    try {
      await showing[state.mode]();
    } catch (error) {
      if (error.name !== "AbortError" && mine === modeTurn) main.replaceChildren(problem(error));
    }
  }
  const tabs = el("div", { class: "tabs" }, el("div", { role: "tablist", class: "tabs", "aria-label": "Ways to look" }, modes.map((mode) => el("button", {
    type: "button", role: "tab", text: mode, "aria-selected": "false",
    onclick: () => { stopPlaying(); state.mode = mode; paged = {}; recentre = () => {}; drawSide(); showMode(); },
  }))), el("button", { type: "button", text: "versions", onclick: () => go({ name: params.name, key, tab: "versions" }) }));

  function keys(event) {
    if (typing(event)) return;
    const button = event.target.tagName === "BUTTON";
    const active = pictures.find((one) => one.canvas === document.activeElement) || pictures[0];
    if (active && !(button && event.key.startsWith("Arrow") && event.target.getAttribute("role") === "tab") && active.key(event)) return;
    const axis = (state.mode === "curve" ? info.shape.map((_, one) => one).filter((one) => one !== state.x) : hidden()).find((one) => info.shape[one] > 1);
    if (axis !== undefined && event.key === "[") setAt(axis, state.at[axis] - 1);
    else if (axis !== undefined && event.key === "]") setAt(axis, state.at[axis] + 1);
    else if (axis !== undefined && event.key === " " && !button) { event.preventDefault(); togglePlay(axis); }
    else if (event.key === "c") copy(line.textContent);
    else if (event.key === "m" && state.c < 0 && pictures.length) { state.map = info.maps[(info.maps.indexOf(state.map) + 1) % info.maps.length]; drawSide(); repaint(); }
  }
  document.addEventListener("keydown", keys);
  drawSide();
  const emptiness = isEmpty ? el("p", { class: "quiet", text: `This array has no elements yet: its shape is (${info.shape.join(", ")}).` }) : null;
  const title = el("h1", {}, `${name}${key ? ` / ${key}` : ""} `, el("span", { class: "quiet", text: `${info.shape.join(" × ") || "scalar"} ${info.dtype}, ${bytes(info.bytes)}` }));
  return {
    node: [title, tabs, emptiness, el("div", { class: "split" }, main, side)].filter(Boolean),
    shown: () => showMode(),
    close: () => { stopPlaying(); aborting.abort(); closeMode(); pictures.forEach((one) => one.close()); document.removeEventListener("keydown", keys); },
  };
}

