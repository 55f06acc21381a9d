// What all pages share: elements, questions to the server, numbers for people.

export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "text") made.textContent = value;
    else if (value === true) made.setAttribute(name, "");
    else made.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) made.append(child);
  return made;
}

export class Refused extends Error {
  constructor(kind, message, status) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

// What is asked of a commit is kept by its address; a version that was wiped and made again has another one.
let lineId = "";
export const setLineId = (id) => {
  lineId = id;
};

export function address(page, params) {
  const query = new URLSearchParams();
  if (lineId && page !== "facts" && page !== "home") query.set("line_id", lineId);
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== "") query.set(name, value);
  }
  return `api/${page}?${query}`;
}

async function answered(page, params, signal) {
  let answer;
  try {
    answer = await fetch(address(page, params), { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("Ended", "The viewer does not respond. It was stopped, or the connection was lost.", 0);
  }
  if (answer.ok) return answer;
  let told = { error: "Error", message: `the server answered ${answer.status}` };
  try {
    told = await answer.json();
  } catch {
    // What is no JSON says nothing more.
  }
  throw new Refused(told.error, told.message, answer.status);
}

export const ask = async (page, params, signal) => (await answered(page, params, signal)).json();
export const askBlob = async (page, params, signal) => (await answered(page, params, signal)).blob();
export const askBytes = async (page, params, signal) => (await answered(page, params, signal)).arrayBuffer();

export function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return unit ? `${count.toFixed(1)} ${units[unit]}` : `${count} B`;
}

export const several = (count, one, many = `${one}s`) => `${count.toLocaleString()} ${count === 1 ? one : many}`;
export const when = (iso) => (iso ? new Date(iso).toISOString().slice(0, 16).replace("T", " ") : "");
export const short = (value) =>
  typeof value === "number" && !Number.isInteger(value) ? value.toPrecision(5) : `${value}`;

let clearing;
export function say(text) {
  const status = document.getElementById("status");
  status.textContent = text;
  clearTimeout(clearing);
  clearing = setTimeout(() => {
    status.textContent = "";
  }, 2500);
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied");
  } catch {
    say("The browser does not allow this page to copy. Select the text.");
  }
}

export const problem = (error) =>
  el("p", { class: "bad", role: "alert", text: `${error.kind || "Error"}: ${error.message}` });

export function go(params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params))
    if (value !== undefined && value !== "" && value !== null) query.set(name, value);
  location.hash = query.toString().replaceAll("%2F", "/").replaceAll("%3A", ":").replaceAll("%40", "@");
}

// What is set on a page goes into its address, so that going back and loading it again find it.
export function keep(params) {
  const query = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === null || value === "" || value === false) query.delete(name);
    else query.set(name, value);
  }
  const text = query
    .toString()
    .replaceAll("%2F", "/")
    .replaceAll("%3A", ":")
    .replaceAll("%40", "@")
    .replaceAll("%2C", ",");
  history.replaceState(null, "", text ? `#${text}` : location.pathname);
}

export function facts(pairs) {
  return el(
    "dl",
    { class: "facts" },
    Object.entries(pairs)
      .filter(([, value]) => value !== "" && value !== undefined)
      .map(([name, value]) => [el("dt", { text: name }), el("dd", { text: `${value}` })]),
  );
}

export function attributes(attrs) {
  const names = Object.keys(attrs || {});
  if (!names.length) return null;
  return el(
    "details",
    {},
    el("summary", { text: `Attributes (${names.length})` }),
    facts(Object.fromEntries(names.map((name) => [name, JSON.stringify(attrs[name], null, 1)]))),
  );
}

export function typing(event) {
  if (document.querySelector("dialog[open]")) return true;
  const tag = event.target.tagName;
  return tag === "INPUT" || tag === "SELECT" || tag === "TEXTAREA" || event.ctrlKey || event.metaKey || event.altKey;
}
