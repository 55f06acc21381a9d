// An array: the ways to look at it, and what changes from one to the other.
import { ask, bytes, copy, el, go, keep, problem, typing } from "./lib.js";
import { showAbout, showChunks, showCurve, showValues } from "./array_lists.js";
import { Pictures } from "./array_pictures.js";
import { Side } from "./array_side.js";
import { Look } from "./look.js";

export async function arrayPage(about, params) {
  const name = about.name;
  const key = params.key || "";
  const info = await ask("array", { name, key });
  const look = new Look(info, name, key, params);
  const aborting = new AbortController();
  const main = el("div", { class: "main-view" });
  let closeMode = () => {};
  // The address is another page's until this one is shown.
  let isShown = false;
  let turn = 0;

  const told = {
    // The line of Python, and the address that finds all of it again.
    look: () => {
      side.line.textContent = look.python();
      if (isShown) keep(look.kept());
    },
    axes: () => {
      side.draw();
      showMode();
    },
    place: (axis, value) => {
      const next = Math.min(Math.max(0, Math.round(value) || 0), info.shape[axis] - 1);
      const isThere = next === look.at[axis];
      look.at[axis] = next;
      side.moved(axis);
      if (isThere) return;
      told.look();
      if (look.mode === "three cuts") pictures.recentre();
      else if (look.mode === "picture") pictures.repaint();
      else if (look.mode !== "about") showMode();
    },
    colours: () => {
      told.look();
      pictures.repaint();
    },
    // Shows a picture from a row and a column on.
    goto: (row, column) => {
      if (!look.modes.includes("picture")) return;
      look.view = [Math.max(0, row), Math.max(0, column), 1];
      setMode("picture");
    },
    fit: () => {
      look.isChosen = false;
      told.look();
      pictures.learnWindow(false, true).then(() => pictures.repaint());
    },
    isComplete: () => !isBusy && pictures.isComplete(),
  };
  const side = new Side(look, told);
  const page = { look, main, side, signal: aborting.signal, told, params, about };
  const pictures = new Pictures(page);
  const nothing = () => {};
  const showing = {
    picture: async () => {
      await pictures.showOne();
      return nothing;
    },
    "three cuts": async () => {
      await pictures.showCuts();
      return nothing;
    },
    curve: showCurve,
    values: showValues,
    chunks: showChunks,
    about: showAbout,
  };

  // What is on its way for one way of looking is not for the next.
  let showingMode = new AbortController();
  let isBusy = false;
  async function showMode() {
    const mine = ++turn;
    showingMode.abort();
    showingMode = new AbortController();
    const signal = AbortSignal.any([aborting.signal, showingMode.signal]);
    closeMode();
    closeMode = nothing;
    pictures.close();
    pictures.signal = signal;
    tabs
      .querySelectorAll("button[role=tab]")
      .forEach((one) => one.setAttribute("aria-selected", String(one.textContent === look.mode)));
    isBusy = true;
    try {
      const close = await showing[look.mode]({ ...page, signal });
      if (mine === turn) closeMode = close;
      else close();
    } catch (error) {
      if (error.name !== "AbortError" && mine === turn) main.replaceChildren(problem(error));
    } finally {
      if (mine === turn) isBusy = false;
    }
  }
  function setMode(mode) {
    look.mode = mode;
    if (mode === "three cuts" && look.spatial.length < 3) look.setAxis("c", -1);
    look.span = null;
    look.paged = {};
    look.step = 1;
    side.draw();
    showMode();
  }
  const ways = look.modes.map((mode) =>
    el("button", {
      type: "button",
      role: "tab",
      text: mode,
      "aria-selected": "false",
      onclick: () => setMode(mode),
    }),
  );
  const versions = () => go({ name: params.name, key, tab: "versions" });
  const tabs = el(
    "div",
    { class: "tabs" },
    el("div", { role: "tablist", class: "tabs", "aria-label": "Views" }, ways),
    el("button", { type: "button", text: "versions", onclick: versions }),
  );

  function nextMap() {
    look.map = info.maps[(info.maps.indexOf(look.map) + 1) % info.maps.length];
    side.draw();
    pictures.repaint();
  }
  function keys(event) {
    if (typing(event)) return;
    // What is pressed by the space bar, or moved through by arrows, keeps these keys.
    const pressed = ["BUTTON", "SUMMARY", "A"].includes(event.target.tagName);
    const tab = event.target.getAttribute("role") === "tab";
    if (tab && moveTab(event)) return;
    const active = pictures.shown.find((one) => one.canvas === document.activeElement) || pictures.shown[0];
    if (active && active.key(event)) return;
    const axis = look.mode === "curve" ? look.sliding()[0] : look.hidden().find((one) => info.shape[one] > 1);
    if (axis !== undefined && event.key === "[") told.place(axis, look.at[axis] - 1);
    else if (axis !== undefined && event.key === "]") told.place(axis, look.at[axis] + 1);
    else if (axis !== undefined && event.key === " " && !pressed) {
      event.preventDefault();
      side.toggle(axis);
    } else if (event.key === "c") copy(side.line.textContent);
    else if (event.key === "r") pictures.again();
    else if (event.key === "m" && look.c < 0 && pictures.shown.length) nextMap();
  }
  function moveTab(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return false;
    event.preventDefault();
    ways[(ways.indexOf(event.target) + by + ways.length) % ways.length].focus();
    return true;
  }
  document.addEventListener("keydown", keys);
  side.draw();
  const nothingYet = `This array has no elements yet: its shape is (${info.shape.join(", ")}).`;
  const sizes = `${info.shape.join(" × ") || "scalar"} ${info.dtype}, ${bytes(info.bytes)}`;
  return {
    node: [
      el("h1", {}, `${name}${key ? ` / ${key}` : ""} `, el("span", { class: "quiet", text: sizes })),
      tabs,
      look.isEmpty ? el("p", { class: "quiet", text: nothingYet }) : null,
      el("div", { class: "split" }, main, side.node),
    ].filter(Boolean),
    shown: () => {
      isShown = true;
      showMode();
    },
    close: () => {
      side.stop();
      aborting.abort();
      closeMode();
      pictures.close();
      document.removeEventListener("keydown", keys);
    },
  };
}
