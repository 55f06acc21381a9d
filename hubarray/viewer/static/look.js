// What is looked at of an array: axes, places, colours; what is asked of the server for it, and the line of Python
// that reads it. No elements of the page.
const CHANNELS = [3, 4];
export const PARTS = ["abs", "phase", "real", "imag"];
const KINDS = ["png", "webp", "jpeg"];
const LEAST_COLOURS = 2;

export class Look {
  // info: as the server tells an array; params: of the page's address.
  constructor(info, name, key, params) {
    Object.assign(this, { info, name, key });
    [this.y, this.x, this.c] = info.axes;
    const places = `${params.at || ""}`.split(",").map(Number);
    this.at = info.shape.map((length, axis) => bounded(places[axis], length));
    this.map = info.maps.includes(params.map) ? params.map : "grey";
    this.bands = [];
    this.part = PARTS.includes(params.part) ? params.part : "abs";
    // Chosen by hand, or by what there is to see.
    [this.low, this.high] = numbers(params.window, 2) || [null, null];
    this.isChosen = this.low !== null;
    this.kind = KINDS.includes(params.tiles) ? params.tiles : "png";
    // Where a picture is, and how close: as it was when the address was kept.
    this.view = numbers(params.view, 3);
    this.viewed = "";
    // Of a curve: which axis has one for each, and the stretch that is seen.
    this.each = -1;
    this.span = null;
    this.step = 1;
    // Of values: the stretch of each axis that is listed, and where it begins.
    this.paged = {};
    this.first = { row: 0, column: 0 };
    // Of a picture: the rows, the columns, and every how many of them are seen.
    this.seen = null;
    this.isEmpty = info.shape.some((length) => length === 0);
    this.modes = this.possibleModes();
    this.setAxes(`${params.axes || ""}`.split(",").map(Number));
    const [tall, broad] = [this.length(this.y), this.length(this.x)];
    this.areSignals = this.modes.includes("curve") && this.c < 0 && areSignals(tall, broad);
    if (this.areSignals && tall > 1) this.each = this.y;
    this.setPlaces(params);
    this.firstMode = this.areSignals ? "curve" : this.modes[0];
    this.mode = this.modes.includes(params.mode) ? params.mode : this.firstMode;
    if (this.mode === "three cuts" && this.spatial.length < 3) this.c = -1;
  }

  possibleModes() {
    if (this.isEmpty) return ["about"];
    const areNumbers = this.info.kind !== "text";
    const modes = [];
    if (areNumbers && this.y >= 0) modes.push("picture");
    if (areNumbers && this.spatial.length >= 3) modes.push("three cuts");
    if (areNumbers && this.x >= 0) modes.push("curve");
    modes.push("values");
    if (this.x >= 0) modes.push("chunks");
    return [...modes, "about"];
  }

  // What the address has of a curve and of values.
  setPlaces({ each, span, first }) {
    const axis = numbers(each, 1)?.[0];
    if (Number.isInteger(axis) && axis >= -1 && axis < this.info.shape.length && axis !== this.x) this.each = axis;
    const part = numbers(span, 2);
    if (part && 0 <= part[0] && part[0] < part[1] && part[1] <= this.length(this.x)) this.span = part.map(Math.round);
    const place = numbers(first, 2);
    if (place)
      this.first = { row: bounded(place[0], this.length(this.y)), column: bounded(place[1], this.length(this.x)) };
  }

  // What the address keeps, so that going back and loading it again find the same.
  kept() {
    const { row, column } = this.first;
    const usual = this.areSignals && this.length(this.y) > 1 ? this.y : -1;
    return {
      at: this.at.some(Boolean) ? this.at.join(",") : "",
      mode: this.mode === this.firstMode ? "" : this.mode,
      map: this.map === "grey" ? "" : this.map,
      axes: this.keptAxes(),
      part: this.part === "abs" ? "" : this.part,
      window: this.isChosen && this.low !== null ? `${this.low},${this.high}` : "",
      tiles: this.kind === "png" ? "" : this.kind,
      view: this.mode === "picture" ? this.viewed : "",
      each: this.mode === "curve" && this.each !== usual ? this.each : "",
      span: this.mode === "curve" && this.span ? this.span.join(",") : "",
      first: this.mode === "values" && (row || column) ? `${row},${column}` : "",
    };
  }

  chunk(axis) {
    return axis < 0 ? 1 : this.info.chunks[axis];
  }

  get spatial() {
    return this.axes().filter((axis) => axis !== this.c);
  }

  // Axes as the page's address has them: rows, columns, channels and which of these are colours.
  setAxes([y, x, c, ...bands]) {
    const fits = (axis) => Number.isInteger(axis) && axis >= -1 && axis < this.info.shape.length;
    const some = [y, x, c].filter((axis) => axis >= 0);
    if (![y, x, c].every(fits) || x < 0 || new Set(some).size !== some.length) return;
    [this.y, this.x, this.c] = [y, x, c];
    this.bands = this.firstBands();
    const most = this.length(c);
    if (
      this.bands.length &&
      bands.length === 3 &&
      bands.every((one) => Number.isInteger(one) && one >= -1 && one < most) &&
      Math.max(...bands) >= 0
    )
      this.bands = bands;
  }

  firstBands() {
    if (this.c < 0 || this.areColours()) return [];
    return [0, 1, 2].map((band) => (band < this.length(this.c) ? band : -1));
  }

  // What the address keeps of the axes: nothing where they are as they were guessed.
  keptAxes() {
    const axes = [this.y, this.x, this.c];
    return axes.join() === this.info.axes.join() && !this.bands.length ? "" : [...axes, ...this.bands].join(",");
  }

  axisName(axis) {
    return this.info.dims[axis] || `axis ${axis}`;
  }

  length(axis) {
    return axis < 0 ? 1 : this.info.shape[axis];
  }

  axes() {
    return this.info.shape.map((_, axis) => axis);
  }

  isShown(axis) {
    return axis === this.y || axis === this.x || axis === this.c;
  }

  hidden() {
    return this.axes().filter((axis) => !this.isShown(axis));
  }

  // The axes that sliders move along, by the way in which it is looked at.
  sliding() {
    if (this.mode === "about") return [];
    let axes = this.hidden();
    if (this.mode === "curve") axes = this.axes().filter((axis) => axis !== this.x);
    if (this.mode === "three cuts") axes = this.axes().filter((axis) => axis !== this.c);
    return axes.filter((axis) => this.info.shape[axis] > 1);
  }

  colourAxes() {
    if (this.info.shape.length < 3) return [];
    return this.axes().filter((axis) => this.info.shape[axis] >= LEAST_COLOURS);
  }

  // Whether the channels are colours as they are; else three of them are chosen.
  areColours() {
    return this.c >= 0 && CHANNELS.includes(this.info.shape[this.c]);
  }

  setAxis(which, axis) {
    const before = this[which];
    for (const other of ["y", "x", "c"]) {
      if (other !== which && axis >= 0 && this[other] === axis) this[other] = other === "c" ? -1 : before;
    }
    this[which] = axis;
    const free = this.hidden();
    if (this.x < 0) this.x = free.length ? free.pop() : this.y;
    if (this.y === this.x) this.y = -1;
    if (this.y < 0 && which === "c" && free.length) this.y = free.pop();
    if (this.each === this.x) this.each = -1;
    this.bands = this.firstBands();
    this.low = null;
    this.isChosen = false;
    this.span = null;
    this.first = { row: 0, column: 0 };
    this.seen = null;
    this.view = null;
    this.viewed = "";
  }

  // The place along axes that are not shown.
  place(shown = [this.y, this.x, this.c]) {
    return this.at.map((one, axis) => (shown.includes(axis) ? 0 : one)).join(",");
  }

  asked(more = {}) {
    return {
      name: this.name,
      key: this.key,
      y: this.y,
      x: this.x,
      c: this.c,
      at: this.place(),
      bands: this.bands.join(","),
      part: this.info.kind === "complex" ? this.part : undefined,
      ...more,
    };
  }

  coloured(more = {}) {
    const map = this.c < 0 ? this.map : undefined;
    return this.asked({ map, low: this.low, high: this.high, as: this.kind === "png" ? "" : this.kind, ...more });
  }

  python() {
    const loaded = `hub.load("${this.name}")${this.key ? `[${JSON.stringify(this.key)}]` : ""}`;
    if (this.mode === "about") return loaded;
    if (this.mode === "three cuts") {
      const cuts = this.spatial.slice(-3).map((axis) => this.wrapped(`a[${this.index(this.isWhole(axis))}]`));
      return `a = ${loaded}; ${cuts.join(", ")}`;
    }
    const read = `${loaded}[${this.index((axis) => this.stretch(axis))}]`;
    return this.mode === "picture" ? this.wrapped(read) : read;
  }

  index(stretch) {
    return this.at.map((one, axis) => stretch(axis) ?? one).join(", ") || "()";
  }

  // Of a cut across an axis all of the other two, and of the channels.
  isWhole(across) {
    return (axis) => ((axis === this.c || this.spatial.slice(-3).includes(axis)) && axis !== across ? ":" : null);
  }

  stretch(axis) {
    const length = this.length(axis);
    if (this.mode === "values") return this.paged[axis] ? slice(...this.paged[axis], 1, length) : this.channels(axis);
    if (this.mode === "curve") {
      if (axis === this.x) return slice(...(this.span || [0, length]), this.step, length);
      return axis === this.each ? slice(this.at[axis], Math.min(length, this.at[axis] + 8), 1, length) : null;
    }
    if (axis === this.y || axis === this.x) {
      if (this.mode !== "picture" || !this.seen) return ":";
      return slice(...(axis === this.y ? this.seen.rows : this.seen.columns), this.seen.step, length);
    }
    return this.channels(axis);
  }

  channels(axis) {
    if (axis !== this.c) return this.isShown(axis) ? ":" : null;
    const bands = this.bands.filter((one) => one >= 0);
    if (!bands.length) return ":";
    const areInRow = bands.every((one, i) => one === bands[0] + i);
    return areInRow ? slice(bands[0], bands[bands.length - 1] + 1, 1, this.length(axis)) : `[${bands.join(", ")}]`;
  }

  wrapped(read) {
    if (this.info.kind !== "complex") return read;
    return { abs: `abs(${read})`, phase: `np.angle(${read})`, real: `${read}.real`, imag: `${read}.imag` }[this.part];
  }
}

// A few rows that are very long are signals, and no picture.
export const areSignals = (rows, columns) => rows <= 256 && columns > 64 * rows;

// So many finite numbers of a text, or null.
function numbers(text, count) {
  const found = `${text ?? ""}`.split(",").map(Number);
  return text && found.length === count && found.every(Number.isFinite) ? found : null;
}

const bounded = (value, length) => Math.min(Math.max(0, Math.round(Number(value)) || 0), Math.max(0, length - 1));

function slice(first, end, step, length) {
  const [from, to, by] = [first > 0 ? first : "", end < length ? end : "", step > 1 ? `:${step}` : ""];
  return `${from}:${to}${by}`;
}
