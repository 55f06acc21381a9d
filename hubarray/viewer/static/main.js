import { ask, el, go, problem, setLineId, typing } from "./lib.js";

// A first page waits for its own scripts only; the others' come after it, for when the server is gone.
const PAGES = {
  home: async () => (await import("./home.js")).homePage,
  array: async () => (await import("./array.js")).arrayPage,
  table: async () => (await import("./table.js")).tablePage,
  dataset: async () => (await import("./dataset.js")).datasetPage,
  versions: async () => (await import("./versions.js")).versionsPage,
};
const OTHERS_AFTER_MS = 1500;

const page = document.getElementById("page");
const crumbs = document.getElementById("crumbs");
let close = () => {};
let turn = 0;

const KEYS = [
  ["/", "search, or filter"],
  ["?", "this list"],
  ["Esc", "back to all names"],
  ["arrows", "move the picture"],
  ["+ −", "closer, further"],
  ["0", "all of it"],
  ["[ ]", "one back or on along the first slider; rows of a table"],
  ["space", "play along the first slider"],
  ["m", "next colour map"],
  ["c", "copy the line of Python"],
  ["r", "try again what could not be shown"],
];

function showHelp() {
  const help = document.getElementById("help");
  help.replaceChildren(
    el("h1", { text: "Keyboard shortcuts" }),
    el(
      "table",
      { class: "list" },
      KEYS.map(([key, what]) => el("tr", {}, el("td", {}, el("kbd", { text: key })), el("td", { text: what }))),
    ),
    el("p", {}, el("button", { class: "main", text: "Close", onclick: () => help.close() })),
  );
  help.showModal();
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  document.dispatchEvent(new Event("theme"));
}

function nextTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("hubarray-theme", next);
  } catch {
    /* Not kept, then. */
  }
  setTheme(next);
}

function trail(name, key, tab) {
  const parts = [];
  if (name) {
    const link = (text, params) =>
      el("a", {
        href: "#",
        text,
        onclick: (event) => {
          event.preventDefault();
          go(params);
        },
      });
    parts.push(link(name, { name }));
    if (key) parts.push(" / ", link(key, { name, key }));
    if (tab) parts.push(` / ${tab}`);
  }
  crumbs.replaceChildren(...parts);
  document.title = name ? `${name}${key ? ` ${key}` : ""} · hubarray` : "hubarray";
}

// Of a version that was deleted there are its earlier commits, and nothing else.
async function known(name, tab) {
  try {
    return await ask("facts", { name });
  } catch (error) {
    if (tab !== "versions" || error.kind !== "NotFoundError") throw error;
    return { name, kind: "", line_id: "" };
  }
}

function kindOf(about, { key, tab }) {
  if (!about) return "home";
  if (tab === "versions") return "versions";
  return key && about.kind === "dataset" ? "array" : about.kind;
}

async function show() {
  const mine = ++turn;
  close();
  close = () => {};
  const params = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const { name, key, tab } = params;
  trail(name, key, tab);
  page.replaceChildren(el("p", { class: "quiet", text: "Opening…" }));
  try {
    let about = null;
    if (name) {
      about = await known(name, tab);
      if (mine !== turn) return;
      setLineId(about.line_id);
    }
    const open = await PAGES[kindOf(about, params)]();
    const shown = await (about ? open(about, params) : open(params));
    if (mine !== turn) {
      (shown.close || (() => {}))();
      return;
    }
    page.replaceChildren(...[shown.node].flat());
    close = shown.close || (() => {});
    (shown.shown || (() => {}))();
  } catch (error) {
    if (mine === turn) {
      const isGone = error.kind === "NotFoundError" && /deleted/.test(error.message);
      page.replaceChildren(
        problem(error),
        el(
          "p",
          {},
          el("button", { text: "Try again", onclick: show }),
          " ",
          isGone ? el("button", { text: "Earlier commits", onclick: () => go({ name, key, tab: "versions" }) }) : null,
          " ",
          el("button", { text: "All names", onclick: () => go({}) }),
        ),
      );
    }
  }
}

document.getElementById("keys").addEventListener("click", showHelp);
document.getElementById("theme").addEventListener("click", nextTheme);
document.getElementById("brand").addEventListener("click", (event) => {
  event.preventDefault();
  go({});
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  page.focus();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector("dialog[open]")) {
    if (typing(event)) event.target.blur();
    else go({});
  }
  if (typing(event)) return;
  if (event.key === "?") showHelp();
  if (event.key === "/") {
    const search = page.querySelector("input[type=search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
});
try {
  setTheme(localStorage.getItem("hubarray-theme") || "");
} catch {
  /* Nothing is kept there. */
}
addEventListener("hashchange", show);
show();
setTimeout(() => Object.values(PAGES).forEach((load) => load().catch(() => {})), OTHERS_AFTER_MS);
