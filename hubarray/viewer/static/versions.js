// The commits of a version; two of them side by side.
import { ask, bytes, el, go, keep, problem, several, typing, when } from "./lib.js";
import { curves } from "./plot.js";
import { Picture } from "./tiles.js";

export async function versionsPage(about, params) {
  const bare = params.name.split("@")[0];
  const aborting = new AbortController();
  let commits = [];
  let chosen = [params.one, params.two].map((one) => (one ? Number(one) : null));
  let pictures = [];
  const body = el("tbody");
  // Sizes of the commits that are on the screen.
  const sizes = new Map();
  const inSight = new IntersectionObserver((entries) => entries.filter((one) => one.isIntersecting).forEach((one) => {
    const number = Number(one.target.dataset.number);
    inSight.unobserve(one.target);
    if (sizes.has(number)) return;
    sizes.set(number, "…");
    ask("facts", { name: `${bare}@${number}` }, aborting.signal).then((found) => `${found.shape}, ${bytes(found.bytes)}`, () => "")
      .then((text) => { sizes.set(number, text); body.querySelectorAll(`td[data-number="${number}"]`).forEach((cell) => { cell.textContent = text; }); });
  }));
  const more = el("button", { type: "button", text: "Older ones", onclick: () => load() });
  const below = el("div");

  async function load() {
    const before = commits.length ? commits[commits.length - 1].number : undefined;
    const found = await ask("log", { name: bare, before }, aborting.signal);
    commits = commits.concat(found.commits);
    more.hidden = !found.more;
    draw();
  }
  function pick(which, number) {
    chosen[which] = number;
    draw();
    if (chosen[0] && chosen[1]) compare();
  }
  function draw() {
    body.replaceChildren(...commits.map((one) => {
      const radio = (which, label) => el("input", { type: "radio", name: `side-${which}`, "aria-label": `${label} ${one.number}`, checked: chosen[which] === one.number, disabled: one.kind === "deleted" || one.kind === "expired", onchange: () => pick(which, one.number) });
      return el("tr", { class: chosen.includes(one.number) ? "chosen" : "" }, el("td", {}, radio(0, "Left:")), el("td", {}, radio(1, "Right:")),
        el("td", {}, one.kind === "deleted" || one.kind === "expired" ? `${one.number} ${one.kind}` : el("a", { href: `#name=${bare}@${one.number}${params.key ? `&key=${encodeURIComponent(params.key)}` : ""}`, text: `${one.number}` }), one.tags.length ? ` ${one.tags.join(", ")}` : ""),
        el("td", { text: when(one.time) }), el("td", { "data-number": one.number, text: sizes.get(one.number) || "" }), el("td", { text: one.author, class: "hide-small" }), el("td", { text: one.message + (one.frozen ? " (frozen)" : "") }));
    }));
    body.querySelectorAll("td[data-number]").forEach((cell) => inSight.observe(cell));
  }

  let turn = 0;
  async function compare() {
    const mine = ++turn;
    pictures.forEach((one) => one.close());
    pictures = [];
    const names = chosen.map((number) => `${bare}@${number}`);
    keep({ one: chosen[0], two: chosen[1] });
    below.replaceChildren(el("p", { class: "quiet", text: "Comparing…" }));
    try {
      const found = await ask("changes", { one: names[0], two: names[1], key: params.key }, aborting.signal);
      if (mine !== turn) return;
      const told = el("p", { text: found.regions.length ? `Chunks that changed are ${several(found.regions.length, "region")}, ${bytes(found.bytes)} stored. ${found.text}` : about.kind === "array" || params.key ? found.text : "" });
      below.replaceChildren(told);
      if (about.kind === "table" || (about.kind === "dataset" && !params.key)) {
        below.append(el("pre", { class: "line", text: found.text }));
        return;
      }
      await sideBySide(names, found, mine);
    } catch (error) {
      if (error.name !== "AbortError" && mine === turn) below.replaceChildren(problem(error));
    }
  }

  // Curves over each other.
  async function overlaid(names, infos, mine) {
    const x = infos[0].axes[1];
    if (x < 0 || infos.some((one) => one.kind === "text" || one.shape.some((length) => !length))) return;
    const at = infos[0].shape.map(() => 0).join(",");
    const lines = await Promise.all(names.map((one) => ask("line", { name: one, key: params.key, y: -1, c: -1, x, at }, aborting.signal)));
    if (mine !== turn) return;
    lines.forEach((found, which) => {
      const drawn = curves(found.x, found.curves, { height: 200, title: `commit ${chosen[which]}` });
      pictures.push({ close: drawn.close, key: () => false });
      below.append(drawn.node);
    });
  }

  async function sideBySide(names, found, mine) {
    const infos = await Promise.all(names.map((name) => ask("array", { name, key: params.key }, aborting.signal)));
    const [rows, columns] = infos[0].axes;
    if (rows < 0 || (infos[0].shape[rows] <= 16 && infos[0].shape[columns] > 64 * infos[0].shape[rows])) {
      await overlaid(names, infos, mine);
      return;
    }
    if (mine !== turn || infos.some((one) => one.kind === "text" || one.axes[1] < 0 || one.shape.some((length) => !length))) return;
    const [y, x, c] = infos[0].axes;
    const at = infos[0].shape.map(() => 0);
    const first = found.regions[0];
    if (first) at.forEach((_, axis) => { if (![y, x, c].includes(axis)) at[axis] = first[axis][0]; });
    const most = at.map((_, axis) => Math.min(...infos.map((one) => one.shape[axis])) - 1);
    let divide = 0.5;
    const stage = el("div", { class: "stage" });
    const divider = el("div", { class: "divider" });
    const note = el("div", { class: "note", text: `left: commit ${chosen[0]}, right: commit ${chosen[1]}; outlined: chunks that changed` });
    stage.append(divider, note);
    stage.style.height = "60vh";
    const plain = () => at.map((one, axis) => ([y, x, c].includes(axis) ? 0 : one)).join(",");
    const seen = await ask("window", { name: names[0], key: params.key, y, x, c, at: plain() }, aborting.signal);
    if (mine !== turn) return;
    const here = () => found.regions.filter((region) => at.every((one, axis) => [y, x, c].includes(axis) || (region[axis][0] <= one && one < region[axis][1])))
      .map((region) => [y < 0 ? [0, 1] : region[y], region[x]]);
    pictures = names.map((name, which) => new Picture(stage, {
      size: () => [y < 0 ? 1 : infos[which].shape[y], infos[which].shape[x]],
      params: () => ({ name, key: params.key, y, x, c, at: plain(), low: seen.shown[0], high: seen.shown[1] }),
      onmove: (view) => { const other = pictures[1 - which]; if (other && other.view !== view) { other.view = view; other.draw(); } },
      label: `Commit ${chosen[which]}`,
    }));
    pictures[0].clip = (wide, high) => [0, 0, wide * divide, high];
    pictures[1].clip = (wide, high) => [wide * divide, 0, wide, high];
    // The one on top gets the pointer, and moves both.
    const redraw = () => {
      divider.style.left = `calc(${divide * 100}% - 1px)`;
      pictures.forEach((one) => { one.outlines = here(); one.refresh(); });
    };
    const slide = el("input", { type: "range", min: 0, max: 1, step: 0.005, value: divide, "aria-label": "Divide between left and right", oninput: () => { divide = Number(slide.value); redraw(); } });
    slide.style.width = "100%";
    const others = at.map((_, axis) => axis).filter((axis) => ![y, x, c].includes(axis) && most[axis] > 0).map((axis) => {
      const range = el("input", { type: "range", min: 0, max: most[axis], value: at[axis], "aria-label": infos[0].dims[axis] || `axis ${axis}`, oninput: () => { at[axis] = Number(range.value); redraw(); } });
      return el("label", {}, infos[0].dims[axis] || `axis ${axis}`, range);
    });
    below.append(slide, stage, el("div", { class: "bar" }, others));
    redraw();
  }
  function keys(event) {
    if (!typing(event) && pictures.length) pictures[0].key(event);
  }
  document.addEventListener("keydown", keys);
  await load();
  if (!params.one && commits.length > 1) chosen = [commits[1].number, commits[0].number];
  draw();
  const head = ["Left", "Right", "Commit", "Time", "Size", "Author", "Message"].map((text) => el("th", { scope: "col", text, class: text === "Author" ? "hide-small" : "" }));
  return {
    node: [el("h1", { text: `${bare}: versions` }), el("p", {}, el("button", { type: "button", text: "Back to the data", onclick: () => go({ name: params.name, key: params.key }) })),
      below, el("div", { class: "scroll" }, el("table", { class: "list" }, el("thead", {}, el("tr", {}, head)), body)), more],
    shown: () => { if (chosen[0] && chosen[1] && commits.some((one) => one.kind === about.kind)) compare(); },
    close: () => { aborting.abort(); inSight.disconnect(); turn += 1; pictures.forEach((one) => one.close()); document.removeEventListener("keydown", keys); },
  };
}
