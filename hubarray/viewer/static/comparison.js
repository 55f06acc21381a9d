// Two commits side by side: pictures under a slider with what changed outlined, curves over each other, else words.
import { ask, bytes, el, several } from "./lib.js";
import { areSignals } from "./look.js";
import { curves } from "./plot.js";
import { Picture } from "./tiles.js";

const MOST_LOOKED_AT = 32;
const SHOWN_REGIONS = 3;
const nothing = { node: [], key: () => false, shown: () => {}, close: () => {} };

// Gives { node, key(event), shown(), close() }.
export async function comparison({ kind, key, bare, numbers, signal }) {
  const names = numbers.map((number) => `${bare}@${number}`);
  const found = await ask("changes", { one: names[0], two: names[1], key }, signal);
  if (kind === "table" || (kind === "dataset" && !key)) {
    const told = kind === "table" ? "" : "By array, the chunks in which the commits differ:";
    return {
      ...nothing,
      node: [el("p", { class: "quiet", text: told }), el("pre", { class: "line", text: found.text })],
    };
  }
  const named = (region) => `[${region.map((part) => part.join(":")).join(", ")}]`;
  const some = found.regions.slice(0, SHOWN_REGIONS).map(named).join(", ");
  const others = found.regions.length > SHOWN_REGIONS ? ` and ${found.regions.length - SHOWN_REGIONS} more` : "";
  const changed = `Chunks that changed: ${some}${others}; ${bytes(found.bytes)} stored.`;
  const told = [found.regions.length ? changed : "", found.text].filter(Boolean).join(" ");
  const said = el("p", { text: told });
  const infos = await Promise.all(names.map((name) => ask("array", { name, key }, signal)));
  if (
    infos.some((one) => one.kind === "text" || one.axes[1] < 0 || one.shape.some((length) => !length)) ||
    infos[0].shape.length !== infos[1].shape.length
  )
    return { ...nothing, node: [said] };
  const first = found.regions[0];
  const asked = { one: names[0], two: names[1], key, region: first ? first.flat().join(",") : "" };
  const place = first
    ? (await ask("first-difference", asked, signal).catch(() => ({}))).at || first.map(([at]) => at)
    : null;
  const both = { names, key, numbers, infos, found, place, signal };
  const [y, x] = infos[0].axes;
  const made = y < 0 || areSignals(infos[0].shape[y], infos[0].shape[x]) ? await overlaid(both) : await divided(both);
  return { ...made, node: [said, ...made.node] };
}

// Sliders along the axes that are not shown, which begin where something changed.
function places({ infos, place }, shown, moved) {
  const most = infos[0].shape.map((_, axis) => Math.max(...infos.map((one) => one.shape[axis])) - 1);
  const at = most.map((last, axis) => (place && !shown.includes(axis) ? Math.min(place[axis], last) : 0));
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
  // Whether a side has this place: one may have grown since.
  const has = (which) => at.every((one, axis) => shown.includes(axis) || one < infos[which].shape[axis]);
  return { at, has, text: () => at.map((one, axis) => (shown.includes(axis) ? 0 : one)).join(","), sliders };
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
    const there = names.filter((_, which) => place.has(which));
    const lines = await Promise.all(there.map((name) => ask("line", { ...asked, name }, signal)));
    if (mine !== turn) return;
    plots.forEach((one) => one.close());
    const shown = numbers.filter((_, which) => place.has(which));
    const named = lines.map((line, which) =>
      Object.fromEntries(
        Object.entries(line.curves).map(([name, curve]) => [
          `commit ${shown[which]}${name === "value" ? "" : ` ${name}`}`,
          curve,
        ]),
      ),
    );
    const areAlike = lines.every((line) => line.x.join() === lines[0].x.join());
    plots = areAlike
      ? [curves(lines[0].x, Object.assign({}, ...named), { height: 300, title: "both commits" })]
      : lines.map((line, which) => curves(line.x, named[which], { height: 200, title: `commit ${shown[which]}` }));
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
  const seen = await ask("window", { ...asked(), name: names[place.has(0) ? 0 : 1] }, signal);
  const pictures = names.map(
    (name, which) =>
      new Picture(stage, {
        size: () => [y < 0 ? 1 : infos[which].shape[y], infos[which].shape[x]],
        isThere: () => place.has(which),
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
    const lacking = numbers
      .filter((_, which) => !place.has(which))
      .map((number) => `; commit ${number} ends before this`);
    note.textContent = `${sides}; outlined: ${outlined}${lacking.join("")}`;
    pictures.forEach((one) => {
      one.outlines = drawn;
      one.refresh();
    });
  }
  let isClosed = false;
  async function look() {
    for (const box of regions().slice(0, MOST_LOOKED_AT)) {
      const id = named(box);
      if (exact.has(id) || !place.has(0) || !place.has(1)) continue;
      exact.set(id, null);
      const given = { ...asked(), one: names[0], two: names[1], view: box.flat().join(",") };
      exact.set(id, await ask("differing", given, signal).catch(() => ({ box: null, elements: null })));
      if (isClosed) return;
      outline();
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
    "aria-label": "Divider between left and right",
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
      isClosed = true;
      pictures.forEach((one) => one.close());
    },
  };
}
