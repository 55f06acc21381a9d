// An array as a picture, and as three cuts of a volume; the histogram of what is in sight.
import { ask, el } from "./lib.js";
import { Picture } from "./tiles.js";

const SETTLED_MS = 500;
const HOVER_MS = 60;
const KEPT_MS = 250;

export class Pictures {
  constructor({ look, main, side, signal, told, params }) {
    Object.assign(this, { look, main, side, signal, told, params });
    this.note = el("div", { class: "note" });
    this.shown = [];
    this.turn = 0;
    this.hovering = 0;
    this.recentre = () => {};
  }

  close() {
    clearTimeout(this.settling);
    clearTimeout(this.keeping);
    this.shown.forEach((one) => one.close());
    this.shown = [];
    this.recentre = () => {};
    this.look.seen = null;
  }

  repaint() {
    this.shown.forEach((one) => one.refresh());
  }

  again() {
    this.shown.forEach((one) => one.again());
  }

  isComplete() {
    return this.shown.every((one) => one.complete);
  }

  say(error) {
    this.note.textContent = `${error.kind || "Error"}: ${error.message}`;
  }

  // The rows and columns in sight, where they are not all.
  view() {
    const seen = this.look.seen;
    return seen && seen.isPart ? [...seen.rows, ...seen.columns].join(",") : "";
  }

  see() {
    const one = this.shown.length === 1 ? this.shown[0] : null;
    if (!one || !one.view) return;
    const [height, width] = one.size();
    const [wide, high] = one.box();
    const { scale, x, y } = one.view;
    const step = 2 ** one.level();
    const span = (first, length, most) => {
      const begin = Math.min(Math.max(0, Math.floor(first)), most - 1);
      return [begin - (begin % step), Math.min(most, Math.max(begin + 1, Math.ceil(first + length)))];
    };
    const [rows, columns] = [span(y, high / scale, height), span(x, wide / scale, width)];
    const isPart = rows[0] > 0 || columns[0] > 0 || rows[1] < height || columns[1] < width;
    this.look.seen = { rows, columns, step, isPart };
    const isFitted = Math.abs(scale - one.fitted().scale) < 1e-9 * scale;
    this.look.viewed = isFitted ? "" : [y, x, scale].map((value) => Number(value.toPrecision(7))).join(",");
    this.side.line.textContent = this.look.python();
  }

  moved() {
    this.see();
    clearTimeout(this.keeping);
    // Browsers take few changes of an address a second.
    this.keeping = setTimeout(() => this.told.look(), KEPT_MS);
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      if (!this.signal.aborted && this.shown.length === 1) this.learnWindow(true);
    }, SETTLED_MS);
  }

  async learnWindow(keepShown, fit = false) {
    const mine = ++this.turn;
    const { look, side } = this;
    try {
      const found = await ask("window", look.asked({ view: this.view(), fit: fit ? 1 : "" }), this.signal);
      if (mine !== this.turn) return;
      const isFirst = !side.window;
      side.window = found;
      if (isFirst && found.low < -500) side.draw();
      // What somebody chose meanwhile stays.
      if (look.low === null || (!keepShown && !look.isChosen)) [look.low, look.high] = found.shown;
      side.drawWindow();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.say(error);
      if (look.low === null) [look.low, look.high] = [0, 1];
    }
  }

  // Bytes are shown as they are at once, and their histogram follows.
  async firstWindow() {
    const { look } = this;
    if (look.low !== null) return;
    if (look.info.dtype !== "uint8" || !look.areColours()) {
      await this.learnWindow();
      return;
    }
    [look.low, look.high] = [0, 255];
    setTimeout(() => {
      if (!this.signal.aborted) this.learnWindow(true);
    }, SETTLED_MS);
  }

  hover(there, axes) {
    const mine = ++this.hovering;
    if (!there) {
      this.note.textContent = "";
      return;
    }
    const [row, column] = there;
    const named = (axis, at) => `${this.look.axisName(axis)} ${at}`;
    const place = axes.y < 0 ? named(axes.x, column) : `${named(axes.y, row)}, ${named(axes.x, column)}`;
    this.note.textContent = place;
    setTimeout(async () => {
      if (mine !== this.hovering || this.signal.aborted) return;
      try {
        const asked = { ...this.look.asked(axes), row: Math.max(0, row), column, rows: 1, columns: 1 };
        const found = await ask("values", asked, this.signal);
        if (mine === this.hovering) this.note.textContent = `${place}: ${found.rows[0][0]}`;
      } catch (error) {
        if (mine === this.hovering && error.name !== "AbortError") this.say(error);
      }
    }, HOVER_MS);
  }

  add(stage, axes, more) {
    const { look } = this;
    const one = new Picture(stage, {
      size: () => [look.length(axes().y), look.length(axes().x)],
      params: () => look.coloured(axes()),
      onhover: (there) => this.hover(there, axes()),
      label: `Picture of ${look.name} ${look.key}; arrows move it, + and − come closer and go further`,
      ...more,
    });
    one.onbroken = (error) => this.say(error);
    this.shown.push(one);
    return one;
  }

  async showOne() {
    const { look } = this;
    const stage = el("div", { class: "stage" }, this.note);
    this.main.replaceChildren(stage);
    const { signal } = this;
    await this.firstWindow();
    if (signal.aborted) return;
    const one = this.add(stage, () => ({ y: look.y, x: look.x, c: look.c }), { onmove: () => this.moved() });
    if (look.view) {
      const [y, x, scale] = look.view;
      one.view = { y, x, scale: Math.min(64, Math.max(1e-9, scale)) };
      look.view = null;
      one.moved();
    } else {
      one.draw();
    }
    window.hubarrayPicture = one;
  }

  async showCuts() {
    const { look, note } = this;
    const volume = look.spatial.slice(-3);
    const [z, y, x] = volume;
    if (!this.params.at && volume.every((axis) => look.at[axis] === 0)) {
      volume.forEach((axis) => {
        look.at[axis] = Math.floor(look.info.shape[axis] / 2);
      });
      if (!look.isChosen) look.low = null;
    }
    const grid = el("div", { class: "cuts" });
    this.main.replaceChildren(grid);
    const { signal } = this;
    await this.firstWindow();
    if (signal.aborted) return;
    for (const [rows, columns] of [
      [y, x],
      [z, x],
      [z, y],
    ]) {
      const stage = el("div", { class: "stage" });
      grid.append(stage);
      const axes = () => ({ y: rows, x: columns, c: look.c, at: look.place([rows, columns, look.c]) });
      const one = this.add(stage, axes, {
        onclick: ([row, column]) => {
          this.told.place(rows, row);
          this.told.place(columns, column);
        },
        label: `Cut of ${look.axisName(rows)} and ${look.axisName(columns)}`,
      });
      one.centre = () => {
        one.marks = [look.at[rows], look.at[columns]];
        one.refresh();
      };
    }
    grid.append(el("div", { class: "stage" }, note));
    this.recentre = () => {
      this.shown.forEach((one) => one.centre());
      note.textContent = volume.map((axis) => `${look.axisName(axis)} ${look.at[axis]}`).join(", ");
    };
    this.side.draw();
    this.recentre();
  }
}
