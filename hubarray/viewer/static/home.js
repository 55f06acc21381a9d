// All names under the root; of those that are on the screen, what they are.
import { ask, bytes, el, go, keep, when } from "./lib.js";

const COLUMNS = [
  ["name", "Name"],
  ["kind", "Kind"],
  ["shape", "Size"],
  ["dtype", "Type"],
  ["bytes", "Bytes"],
  ["time", "Last commit"],
];
const STEP = 200;

export async function homePage(params) {
  const { root, names, more } = await ask("home", {});
  const known = new Map(names.map((one) => [one.name, { ...one }]));
  const aborting = new AbortController();
  let order = { by: "name", down: false };
  let most = STEP;
  const search = el("input", {
    type: "search",
    placeholder: "Search names",
    "aria-label": "Search names",
    value: params.q || "",
    oninput: () => {
      most = STEP;
      keep({ q: search.value });
      draw();
    },
  });
  const body = el("tbody");
  const count = el("span", { class: "quiet", role: "status" });
  const heads = COLUMNS.map(([id, text]) =>
    el(
      "th",
      { scope: "col", class: id === "dtype" || id === "time" ? "hide-small" : "" },
      el("button", {
        type: "button",
        text,
        onclick: () => {
          order = { by: id, down: order.by === id && !order.down };
          if (id !== "name") learnAll();
          draw();
        },
      }),
    ),
  );
  const table = el("table", { class: "list" }, el("thead", {}, el("tr", {}, heads)), body);
  const further = el("button", {
    type: "button",
    text: "More",
    onclick: () => {
      most += STEP;
      draw();
    },
  });

  const waiting = [];
  let running = 0;
  function pump() {
    while (running < 4 && waiting.length) {
      const row = waiting.shift();
      running += 1;
      ask("facts", { name: row.name }, aborting.signal)
        .then((found) => Object.assign(row, found, { name: row.name, known: true }))
        .catch((error) => {
          if (error.name !== "AbortError") Object.assign(row, { problem: error.message, known: true });
        })
        .finally(() => {
          running -= 1;
          if (!aborting.signal.aborted) {
            fill(row);
            if (order.by !== "name") drawSoon();
            pump();
          }
        });
    }
  }
  function learn(row) {
    if (row.asked) return;
    row.asked = true;
    waiting.push(row);
    pump();
  }
  // Rows find their places as more is known of them.
  let drawing = null;
  function drawSoon() {
    if (drawing) return;
    drawing = setTimeout(() => {
      drawing = null;
      if (!aborting.signal.aborted) draw();
    }, 300);
  }
  const learnAll = () => known.forEach(learn);

  const seen = new IntersectionObserver((entries) => {
    for (const one of entries) if (one.isIntersecting) learn(known.get(one.target.dataset.name));
  });

  function cells(row) {
    if (row.problem) return [el("td", { class: "bad", colspan: 5, text: row.problem })];
    return [
      el("td", { text: row.kind || "…" }),
      el("td", { text: row.shape || "" }),
      el("td", { class: "hide-small", text: row.dtype || "" }),
      el("td", { text: row.bytes === undefined ? "" : `${bytes(row.bytes)}${row.kind === "table" ? " stored" : ""}` }),
      el("td", { class: "hide-small", text: row.time ? `${when(row.time)} · ${row.author}: ${row.message}` : "" }),
    ];
  }
  function fill(row) {
    const there = row.line;
    if (!there) return;
    while (there.children.length > 1) there.lastChild.remove();
    there.append(...cells(row));
  }
  function draw() {
    const wanted = search.value.toLowerCase();
    const rows = [...known.values()].filter((one) => one.name.toLowerCase().includes(wanted));
    rows.sort((a, b) => {
      const [one, two] = [a[order.by] ?? "", b[order.by] ?? ""];
      return (one < two ? -1 : one > two ? 1 : 0) * (order.down ? -1 : 1);
    });
    heads.forEach((head, i) =>
      head.setAttribute("aria-sort", COLUMNS[i][0] === order.by ? (order.down ? "descending" : "ascending") : "none"),
    );
    seen.disconnect();
    body.replaceChildren(
      ...rows.slice(0, most).map((row) => {
        row.line = el(
          "tr",
          { "data-name": row.name },
          el("td", {}, el("a", { href: `#name=${row.name}`, text: row.name })),
          cells(row),
        );
        seen.observe(row.line);
        return row.line;
      }),
    );
    const unlisted = more ? ` (and ${more} more, not listed)` : "";
    count.textContent = `${rows.length.toLocaleString()} of ${names.length.toLocaleString()}${unlisted}`;
    further.hidden = rows.length <= most;
  }
  function keys(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const links = [...body.querySelectorAll("a")];
    if (!links.length || (event.target !== search && !links.includes(event.target))) return;
    event.preventDefault();
    const at = links.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1);
    (at < 0 ? search : links[Math.min(at, links.length - 1)]).focus();
  }
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && body.querySelector("a")) go({ name: body.querySelector("a").textContent });
  });
  document.addEventListener("keydown", keys);
  draw();
  const empty = names.length ? null : el("p", { class: "quiet", text: "This root is empty." });
  return {
    node: [
      el("h1", { text: root }),
      el("div", { class: "bar" }, search, count),
      empty,
      el("div", { class: "scroll-small" }, table),
      further,
    ].filter(Boolean),
    close: () => {
      aborting.abort();
      seen.disconnect();
      document.removeEventListener("keydown", keys);
    },
  };
}
