// The commits of a version, and the choice of two.
import { ask, bytes, el, go, keep, problem, typing, when } from "./lib.js";
import { comparison } from "./comparison.js";

const GONE = ["deleted", "expired"];

export async function versionsPage(about, params) {
  const bare = params.name.split("@")[0];
  const aborting = new AbortController();
  let commits = [];
  let chosen = [params.one, params.two].map((one) => (one ? Number(one) : null));
  let shown = null;
  let turn = 0;
  const body = el("tbody");
  const more = el("button", { type: "button", text: "Older commits", onclick: () => load() });
  const below = el("div");

  // Sizes of the commits that are on the screen.
  const sizes = new Map();
  const inSight = new IntersectionObserver((entries) =>
    entries
      .filter((one) => one.isIntersecting)
      .forEach(({ target }) => {
        inSight.unobserve(target);
        learnSize(Number(target.dataset.number));
      }),
  );
  async function learnSize(number) {
    if (sizes.has(number)) return;
    sizes.set(number, "…");
    const text = await ask("facts", { name: `${bare}@${number}` }, aborting.signal).then(
      (found) => `${found.shape}, ${bytes(found.bytes)}`,
      () => "",
    );
    sizes.set(number, text);
    body.querySelectorAll(`td[data-number="${number}"]`).forEach((cell) => {
      cell.textContent = text;
    });
  }

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
    body.replaceChildren(...commits.map(row));
    body.querySelectorAll("td[data-number]").forEach((cell) => inSight.observe(cell));
  }
  function row(one) {
    const isGone = GONE.includes(one.kind);
    const radio = (which, label) =>
      el(
        "td",
        {},
        el("input", {
          type: "radio",
          name: `side-${which}`,
          "aria-label": `${label} ${one.number}`,
          checked: chosen[which] === one.number,
          disabled: isGone,
          onchange: () => pick(which, one.number),
        }),
      );
    const key = params.key ? `&key=${encodeURIComponent(params.key)}` : "";
    const number = isGone
      ? `${one.number} ${one.kind}`
      : el("a", { href: `#name=${bare}@${one.number}${key}`, text: `${one.number}` });
    return el(
      "tr",
      { class: chosen.includes(one.number) ? "chosen" : "" },
      radio(0, "Left:"),
      radio(1, "Right:"),
      el("td", {}, number, one.tags.length ? ` ${one.tags.join(", ")}` : ""),
      el("td", { text: when(one.time) }),
      el("td", { "data-number": one.number, text: sizes.get(one.number) || "" }),
      el("td", { text: one.author, class: "hide-small" }),
      el("td", { text: one.message + (one.frozen ? " (frozen)" : "") }),
    );
  }

  async function compare() {
    const mine = ++turn;
    if (shown) shown.close();
    shown = null;
    keep({ one: chosen[0], two: chosen[1] });
    below.replaceChildren(el("p", { class: "quiet", text: "Comparing…" }));
    try {
      const numbers = [...chosen];
      const kind = commits.find((one) => one.number === numbers[1])?.kind || about.kind;
      const made = await comparison({ kind, key: params.key, bare, numbers, signal: aborting.signal });
      if (mine !== turn) {
        made.close();
        return;
      }
      shown = made;
      below.replaceChildren(...made.node);
      made.shown();
    } catch (error) {
      if (error.name !== "AbortError" && mine === turn) below.replaceChildren(problem(error));
    }
  }

  function keys(event) {
    if (!typing(event) && shown) shown.key(event);
  }
  document.addEventListener("keydown", keys);
  await load();
  if (!params.one && commits.length > 1) chosen = [commits[1].number, commits[0].number];
  draw();
  const head = ["Left", "Right", "Commit", "Time", "Size", "Author", "Message"].map((text) =>
    el("th", { scope: "col", text, class: text === "Author" ? "hide-small" : "" }),
  );
  const back = () => go({ name: params.name, key: params.key });
  return {
    node: [
      el("h1", { text: `${bare}: history` }),
      el("p", {}, el("button", { type: "button", text: "Back to the data", onclick: back })),
      below,
      el(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "History" },
        el("table", { class: "list" }, el("thead", {}, el("tr", {}, head)), body),
      ),
      more,
    ],
    shown: () => {
      if (chosen[0] && chosen[1] && (!about.kind || commits.some((one) => one.kind === about.kind))) compare();
    },
    close: () => {
      aborting.abort();
      inSight.disconnect();
      turn += 1;
      if (shown) shown.close();
      document.removeEventListener("keydown", keys);
    },
  };
}
