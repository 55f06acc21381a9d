// Two commits side by side: pictures under a slider with what changed outlined, curves over each other, else words.
import { ask, bytes, el, several } from "./lib.js";
import { curves } from "./plot.js";
import { Picture } from "./tiles.js";

const MOST_LOOKED_AT = 32;
const nothing = { node: [], key: () => false, shown: () => {}, close: () => {} };

// Gives { node, key(event), shown(), close() }.
export async function comparison({ about, key, bare, numbers, signal }) {
  const names = numbers.map((number) => `${bare}@${number}`);
  const found = await ask("changes", { one: names[0], two: names[1], key }, signal);
  if (about.kind === "table" || (about.kind === "dataset" && !key)) {
    return { ...nothing, node: [el("pre", { class: "line", text: found.text })] };
  }
  const told = found.regions.length
    ? `Chunks that changed are ${several(found.regions.length, "region")}, ${bytes(found.bytes)} stored. ${found.text}`
    : found.text;
  const said = el("p", { text: told });
  const infos = await Promise.all(names.map((name) => ask("array", { name, key }, signal)));
  if (
    infos.some((one) => one.kind === "text" || one.axes[1] < 0 || one.shape.some((length) => !length)) ||
    infos[0].shape.length !== infos[1].shape.length
  )
    return { ...nothing, node: [said] };
  const both = { names, key, numbers, infos, found, signal };
  const [y, x] = infos[0].axes;
  const areSignals = y < 0 || (infos[0].shape[y] <= 16 && infos[0].shape[x] > 64 * infos[0].shape[y]);
  const made = areSignals ? await overlaid(both) : await divided(both);
  return { ...made, node: [said, ...made.node] };
}

// Sliders along the axes that are not shown, which begin where something changed.
function places({ infos, found }, shown, moved) {
  const at = infos[0].shape.map(() => 0);
  const first = found.regions[0];
  if (first)
    at.forEach((_, axis) => {
      if (!shown.includes(axis)) at[axis] = first[axis][0];
    });
  const most = at.map((_, axis) => Math.min(...infos.map((one) => one.shape[axis])) - 1);
  at.forEach((one, axis) => {
    at[axis] = Math.min(one, most[axis]);
  });
  const axes = at.map((_, axis) => axis).filter((axis) => !shown.includes(axis) && most[axis] > 0);
  const sliders = axes.map((axis) => {
    const label = infos[0].dims[axis] || `axis ${axis}`;
    const number = el("span", { text: `${at[axis]}` });
    const range = el("input", {
      type: "range",
      min: 0,
      max: most[axis],
      value: at[axis],
      "aria-label": label,
      oninput: () => {
        at[axis] = Number(range.value);
        number.textContent = range.value;
        moved();
      },
    });
    return el("label", {}, label, range, number);
  });
  return { at, text: () => at.map((one, axis) => (shown.includes(axis) ? 0 : one)).join(","), sliders };
}

async function overlaid(both) {
  const { names, key, numbers, infos, signal } = both;
  const x = infos[0].axes[1];
  const holder = el("div");
  let plots = [];
  let turn = 0;
  const place = places(both, [x], () => draw().catch(() => {}));
  async function draw() {
    const mine = ++turn;
    const asked = { key, y: -1, c: -1, x, at: place.text() };
    const lines = await Promise.all(names.map((name) => ask("line", { ...asked, name }, signal)));
    if (mine !== turn) return;
    plots.forEach((one) => one.close());
    const named = lines.map((line, which) =>
      Object.fromEntries(
        Object.entries(line.curves).map(([name, curve]) => [
          `commit ${numbers[which]}${name === "value" ? "" : ` ${name}`}`,
          curve,
        ]),
      ),
    );
    const areAlike = lines[0].x.length === lines[1].x.length && lines[0].x.every((one, i) => one === lines[1].x[i]);
    plots = areAlike
      ? [curves(lines[0].x, { ...named[0], ...named[1] }, { height: 300, title: "both commits" })]
      : lines.map((line, which) => curves(line.x, named[which], { height: 200, title: `commit ${numbers[which]}` }));
    holder.replaceChildren(...plots.map((one) => one.node));
  }
  await draw();
  const close = () => {
    turn += 1;
    plots.forEach((one) => one.close());
  };
  return { ...nothing, node: [el("div", { class: "bar" }, place.sliders), holder], close };
}

async function divided(both) {
  const { names, key, numbers, infos, found, signal } = both;
  const [y, x, c] = infos[0].axes;
  const shown = [y, x, c];
  let divide = 0.5;
  const stage = el("div", { class: "stage compared" });
  const divider = el("div", { class: "divider" });
  const sides = `left: commit ${numbers[0]}, right: commit ${numbers[1]}`;
  const note = el("div", { class: "note", text: sides });
  stage.append(divider, note);
  const place = places(both, shown, () => redraw());
  const asked = () => ({ key, y, x, c, at: place.text() });
  const seen = await ask("window", { ...asked(), name: names[0] }, signal);
  const pictures = names.map(
    (name, which) =>
      new Picture(stage, {
        size: () => [y < 0 ? 1 : infos[which].shape[y], infos[which].shape[x]],
        params: () => ({ ...asked(), name, low: seen.shown[0], high: seen.shown[1] }),
        onmove: (view) => {
          const other = pictures[1 - which];
          if (other && other.view !== view) {
            other.view = view;
            other.draw();
          }
        },
        label: `Commit ${numbers[which]}`,
      }),
  );
  pictures[0].clip = (wide, high) => [0, 0, wide * divide, high];
  pictures[1].clip = (wide, high) => [wide * divide, 0, wide, high];

  // Chunks that changed by their refs at once; then, of the elements in them, the least boxes that differ.
  const exact = new Map();
  function regions() {
    const here = (region) =>
      place.at.every((one, axis) => shown.includes(axis) || (region[axis][0] <= one && one < region[axis][1]));
    return found.regions.filter(here).map((region) => [y < 0 ? [0, 1] : region[y], region[x]]);
  }
  const named = (box) => `${place.text()} ${box.join()}`;
  function outline() {
    const boxes = regions();
    const known = boxes.map((box) => exact.get(named(box)));
    const drawn = boxes.map((box, i) => (known[i] && known[i].elements !== null ? known[i].box : box)).filter(Boolean);
    const areKnown = boxes.length > 0 && known.every((one) => one && one.elements !== null);
    const count = known.reduce((sum, one) => sum + (one?.elements || 0), 0);
    const outlined = areKnown ? `${several(count, "element")} that differ` : "chunks that changed";
    note.textContent = `${sides}; outlined: ${outlined}`;
    pictures.forEach((one) => {
      one.outlines = drawn;
      one.refresh();
    });
  }
  let looking = 0;
  async function look() {
    const mine = ++looking;
    for (const box of regions().slice(0, MOST_LOOKED_AT)) {
      if (mine !== looking) return;
      const id = named(box);
      if (exact.has(id)) continue;
      const given = { ...asked(), one: names[0], two: names[1], view: box.flat().join(",") };
      const told = await ask("differing", given, signal).catch(() => ({ box: null, elements: null }));
      exact.set(id, told);
      if (mine === looking) outline();
    }
  }
  function redraw() {
    divider.style.left = `calc(${divide * 100}% - 1px)`;
    outline();
    look();
  }
  const slide = el("input", {
    type: "range",
    class: "divide",
    min: 0,
    max: 1,
    step: 0.005,
    value: divide,
    "aria-label": "Divide between left and right",
    oninput: () => {
      divide = Number(slide.value);
      redraw();
    },
  });
  window.hubarrayPictures = pictures;
  return {
    node: [slide, stage, el("div", { class: "bar" }, place.sliders)],
    shown: redraw,
    // The one on top gets the pointer, and moves both.
    key: (event) => pictures[0].key(event),
    close: () => {
      looking += 1;
      pictures.forEach((one) => one.close());
    },
  };
}
