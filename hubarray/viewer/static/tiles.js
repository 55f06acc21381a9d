// A picture far larger than the screen: tiles that are in sight, a coarse look at each first, and a view that moves.
import { askBlob } from "./lib.js";

export const TILE = 256;
const AT_ONCE = 5;
const MOST_KEPT = 400;
// What storage, or the way to it, may answer another time: asked again after a while, less and less often.
const PASSING = [0, 499, 500, 502, 503, 504, 507];
const FIRST_PAUSE_MS = 1000;
const MOST_TRIES = 6;

export class Picture {
  // params(): what every tile of now is asked with; size(): [height, width] in elements.
  constructor(stage, { size, params, onhover, onmove, onclick, label, isThere = () => true }) {
    this.stage = stage;
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label || "Image; arrows pan, + and − zoom");
    stage.prepend(this.canvas);
    this.busy = document.createElement("div");
    this.busy.className = "busy";
    this.busy.hidden = true;
    this.retry = document.createElement("button");
    Object.assign(this.retry, { className: "retry", type: "button", textContent: "Try again (r)", hidden: true });
    this.retry.addEventListener("click", () => this.again());
    stage.append(this.busy, this.retry);
    Object.assign(this, { size, params, onhover, onmove, onclick, isThere });
    this.kept = new Map();
    this.wanted = new Map();
    this.running = new Map();
    this.outlines = [];
    this.clip = null;
    this.marks = null;
    this.frames = 0;
    this.inSight = 0;
    this.view = null;
    this.listen();
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(stage);
    this.redraw = () => this.draw();
    document.addEventListener("theme", this.redraw);
  }

  close() {
    this.closed = true;
    this.observer.disconnect();
    document.removeEventListener("theme", this.redraw);
    for (const one of this.running.values()) one.abort();
    this.running.clear();
    this.wanted.clear();
    for (const one of this.kept.values()) if (one.bitmap) one.bitmap.close();
    this.kept.clear();
  }

  box() {
    return [this.stage.clientWidth || 1, this.stage.clientHeight || 1];
  }

  // Elements on the screen: scale pixels of the screen for each, and the element in the corner.
  fitted() {
    const [height, width] = this.size();
    const [wide, high] = this.box();
    const scale = Math.min(wide / Math.max(1, width), high / Math.max(1, height), 64);
    return { scale, x: (width - wide / scale) / 2, y: (height - high / scale) / 2 };
  }

  fit() {
    this.view = this.fitted();
    this.moved();
  }

  moved() {
    if (this.onmove) this.onmove(this.view);
    this.draw();
  }

  zoom(times, at) {
    const [wide, high] = this.box();
    const [x, y] = at || [wide / 2, high / 2];
    const before = this.view.scale;
    const [height, width] = this.size();
    const least = Math.min(wide / Math.max(1, width), high / Math.max(1, height), 1) / 4;
    const scale = Math.min(64, Math.max(least, before * times));
    this.view = { scale, x: this.view.x + x / before - x / scale, y: this.view.y + y / before - y / scale };
    this.moved();
  }

  pan(dx, dy) {
    this.view = { ...this.view, x: this.view.x + dx / this.view.scale, y: this.view.y + dy / this.view.scale };
    this.moved();
  }

  element(clientX, clientY) {
    const there = this.canvas.getBoundingClientRect();
    const [height, width] = this.size();
    const x = Math.floor(this.view.x + (clientX - there.left) / this.view.scale);
    const y = Math.floor(this.view.y + (clientY - there.top) / this.view.scale);
    return x >= 0 && y >= 0 && x < width && y < height ? [y, x] : null;
  }

  listen() {
    const pointers = new Map();
    let pinch = 0;
    let travelled = 0;
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      travelled = 0;
      pinch = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) {
        if (this.onhover && this.view) this.onhover(this.element(event.clientX, event.clientY));
        return;
      }
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
      if (pointers.size === 2) {
        const [one, two] = [...pointers.values()];
        const apart = Math.hypot(one[0] - two[0], one[1] - two[1]);
        const there = canvas.getBoundingClientRect();
        if (pinch) this.zoom(apart / pinch, [(one[0] + two[0]) / 2 - there.left, (one[1] + two[1]) / 2 - there.top]);
        pinch = apart;
        return;
      }
      const [dx, dy] = [before[0] - event.clientX, before[1] - event.clientY];
      travelled += Math.abs(dx) + Math.abs(dy);
      this.pan(dx, dy);
    });
    const release = (event) => {
      if (pointers.delete(event.pointerId) && event.type === "pointerup" && travelled < 4 && this.onclick) {
        const there = this.element(event.clientX, event.clientY);
        if (there) this.onclick(there);
      }
    };
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => this.onhover && this.onhover(null));
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const there = canvas.getBoundingClientRect();
        this.zoom(Math.exp(-event.deltaY * 0.002), [event.clientX - there.left, event.clientY - there.top]);
      },
      { passive: false },
    );
  }

  key(event) {
    const steps = { ArrowLeft: [-80, 0], ArrowRight: [80, 0], ArrowUp: [0, -80], ArrowDown: [0, 80] };
    if (steps[event.key]) this.pan(...steps[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.5);
    else if (event.key === "-" || event.key === "−") this.zoom(1 / 1.5);
    else if (event.key === "0") this.fit();
    else return false;
    event.preventDefault();
    return true;
  }

  // What is asked has changed: other elements, other colours. Old tiles stay until their successors are there.
  refresh() {
    this.draw();
  }

  // Ask once more for tiles that could not be shown.
  again() {
    for (const [id, one] of this.kept) if (one.error) this.kept.delete(id);
    this.draw();
  }

  draw() {
    this.complete = false;
    if (this.drawing || this.closed) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      if (!this.closed) this.paint();
    });
  }

  level() {
    const [height, width] = this.size();
    const top = Math.max(0, Math.ceil(Math.log2(Math.max(height, width, 1) / TILE)));
    const ratio = window.devicePixelRatio || 1;
    return Math.min(top, Math.max(0, Math.floor(Math.log2(1 / (this.view.scale * ratio)) + 0.3)));
  }

  paint() {
    if (!this.view) this.fit();
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = this.box();
    const canvas = this.canvas;
    if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
      canvas.width = Math.round(wide * ratio);
      canvas.height = Math.round(high * ratio);
    }
    const context = canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (this.clip) {
      context.save();
      context.beginPath();
      context.rect(...this.clip(wide, high));
      context.clip();
    }
    const { scale, x, y } = this.view;
    const [height, width] = this.size();
    const level = this.level();
    const side = TILE * 2 ** level;
    const params = this.params();
    const prefix = JSON.stringify(params);
    context.imageSmoothingEnabled = scale < 1;
    const wanted = new Map();
    const rows = [
      Math.max(0, Math.floor(y / side)),
      Math.min(Math.ceil(height / side), Math.ceil((y + high / scale) / side)),
    ];
    const columns = [
      Math.max(0, Math.floor(x / side)),
      Math.min(Math.ceil(width / side), Math.ceil((x + wide / scale) / side)),
    ];
    let missing = 0;
    let broken = 0;
    if (!this.isThere()) rows[1] = rows[0];
    this.inSight = Math.max(0, rows[1] - rows[0]) * Math.max(0, columns[1] - columns[0]);
    for (let row = rows[0]; row < rows[1]; row += 1) {
      for (let column = columns[0]; column < columns[1]; column += 1) {
        const id = `${prefix} ${level} ${row} ${column}`;
        // Edges on pixels of the device, so that no seam is seen.
        const edge = (value) => Math.round(value * ratio) / ratio;
        const [left, top] = [edge((column * side - x) * scale), edge((row * side - y) * scale)];
        const place = [
          left,
          top,
          edge((Math.min((column + 1) * side, width) - x) * scale) - left,
          edge((Math.min((row + 1) * side, height) - y) * scale) - top,
        ];
        const found = this.kept.get(id);
        if (found) {
          this.kept.delete(id);
          this.kept.set(id, found);
        }
        if (found && found.bitmap) context.drawImage(found.bitmap, ...place);
        else this.standIn(context, prefix, level, row, column, place);
        if (found && found.error) {
          this.sayBroken(context, found.error, place);
          broken += 1;
        }
        const isDue = found && found.error && found.due <= performance.now();
        if (!found || found.coarse || isDue) {
          const far = Math.hypot(place[0] + place[2] / 2 - wide / 2, place[1] + place[3] / 2 - high / 2);
          wanted.set(id, { id, ask: { ...params, level, row, column }, far, coarse: !found && level > 0 });
          missing += found ? 0 : 1;
        }
      }
    }
    this.drawOutlines(context, wide, high);
    if (this.clip) context.restore();
    this.frames += 1;
    this.retry.hidden = !broken;
    this.busy.hidden = !wanted.size;
    this.busy.textContent = wanted.size ? `${wanted.size} to come` : "";
    this.wanted = wanted;
    this.complete = !wanted.size;
    for (const [id, running] of this.running)
      if (!wanted.has(id)) {
        running.abort();
        this.running.delete(id);
      }
    this.pump();
    return missing;
  }

  // While a tile is on its way: what lies above it in the pyramid, or was there before.
  standIn(context, prefix, level, row, column, [left, top, width, height]) {
    for (let up = level + 1; up < level + 8; up += 1) {
      const times = 2 ** (up - level);
      const found = this.kept.get(`${prefix} ${up} ${Math.floor(row / times)} ${Math.floor(column / times)}`);
      if (!found || !found.bitmap) continue;
      const part = TILE / times;
      const [x, y] = [(column % times) * part, (row % times) * part];
      const across = Math.min(part, found.bitmap.width - x);
      const down = Math.min(part, found.bitmap.height - y);
      if (across > 0 && down > 0) context.drawImage(found.bitmap, x, y, across, down, left, top, width, height);
      return;
    }
  }

  sayBroken(context, text, [left, top, width, height]) {
    const style = getComputedStyle(document.documentElement);
    context.save();
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    context.strokeStyle = style.getPropertyValue("--bad");
    context.lineWidth = 2;
    context.strokeRect(left + 1, top + 1, width - 2, height - 2);
    context.fillStyle = style.getPropertyValue("--bad");
    context.font = "12px system-ui, sans-serif";
    const words = text.split(" ");
    let line = "";
    let y = top + 16;
    for (const word of words) {
      if (context.measureText(`${line} ${word}`).width > width - 12 && line) {
        context.fillText(line, left + 6, y);
        y += 14;
        line = "";
      }
      line = line ? `${line} ${word}` : word;
    }
    context.fillText(line, left + 6, y);
    context.restore();
  }

  drawOutlines(context) {
    const { scale, x, y } = this.view;
    const style = getComputedStyle(document.documentElement);
    context.lineWidth = 2;
    context.strokeStyle = style.getPropertyValue("--bad");
    for (const [[y0, y1], [x0, x1]] of this.outlines) {
      context.strokeRect((x0 - x) * scale, (y0 - y) * scale, (x1 - x0) * scale, (y1 - y0) * scale);
    }
    if (this.marks) {
      const [wide, high] = this.box();
      context.strokeStyle = style.getPropertyValue("--accent");
      context.lineWidth = 1;
      context.beginPath();
      const [row, column] = this.marks;
      context.moveTo(0, (row + 0.5 - y) * scale);
      context.lineTo(wide, (row + 0.5 - y) * scale);
      context.moveTo((column + 0.5 - x) * scale, 0);
      context.lineTo((column + 0.5 - x) * scale, high);
      context.stroke();
    }
  }

  pump() {
    const waiting = [...this.wanted.values()].filter((one) => !this.running.has(one.id));
    waiting.sort((a, b) => b.coarse - a.coarse || a.far - b.far);
    for (const one of waiting) {
      if (this.running.size >= AT_ONCE) return;
      const abort = new AbortController();
      this.running.set(one.id, abort);
      this.fetch(one, abort).finally(() => {
        if (this.running.get(one.id) === abort) this.running.delete(one.id);
        if (!this.closed) this.draw();
      });
    }
  }

  async fetch(one, abort) {
    try {
      const blob = await askBlob("picture", one.coarse ? { ...one.ask, coarse: 1 } : one.ask, abort.signal);
      const bitmap = await createImageBitmap(blob);
      if (this.closed || abort.signal.aborted) {
        bitmap.close();
        return;
      }
      this.keep(one.id, { bitmap, coarse: one.coarse });
    } catch (error) {
      if (error.name === "AbortError") return;
      this.broke(one.id, error);
    }
  }

  broke(id, error) {
    const before = this.kept.get(id);
    const tries = (before?.tries || 0) + 1;
    const isPassing = PASSING.includes(error.status) && tries < MOST_TRIES;
    const pause = isPassing ? FIRST_PAUSE_MS * 2 ** (tries - 1) : Infinity;
    this.keep(id, {
      bitmap: before?.bitmap,
      error: `${error.kind || ""} ${error.message}`.trim(),
      tries,
      due: performance.now() + pause,
    });
    if (isPassing)
      setTimeout(() => {
        if (!this.closed) this.draw();
      }, pause + 1);
    if (this.onbroken) this.onbroken(error);
  }

  keep(id, tile) {
    const before = this.kept.get(id);
    if (before && before.bitmap && before.bitmap !== tile.bitmap) before.bitmap.close();
    this.kept.delete(id);
    this.kept.set(id, tile);
    for (const [old, one] of this.kept) {
      if (this.kept.size <= Math.max(MOST_KEPT, 2 * this.inSight)) break;
      this.kept.delete(old);
      if (one.bitmap) one.bitmap.close();
    }
  }
}
