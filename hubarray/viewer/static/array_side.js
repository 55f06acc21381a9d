// What stands beside an array: which axes are shown, sliders for the others, colours and their window.
import { copy, el, say } from "./lib.js";
import { PARTS } from "./look.js";
import { bars } from "./plot.js";

// Windows of Hounsfield units that radiologists use, for volumes that look like a CT.
const CT_WINDOWS = { "soft tissue": [-160, 240], lung: [-1350, 150], bone: [-450, 1050], brain: [0, 80] };
const TILES = [
  ["png", "exact"],
  ["webp", "smaller (WebP)"],
  ["jpeg", "smaller (JPEG)"],
];
const FRAME_MS = 80;

export class Side {
  // told: what the page does when something was changed: axes(), place(axis), colours(), fit(), look().
  constructor(look, told) {
    Object.assign(this, { look, told });
    this.node = el("div", { class: "side" });
    this.line = el("code", { class: "line", tabindex: 0, "aria-label": "Python code" });
    const ends = ["Minimum", "Maximum"];
    [this.low, this.high] = ends.map((label) =>
      el("input", { type: "number", step: "any", "aria-label": label, onchange: () => this.setWindow() }),
    );
    this.histogram = el("canvas", { class: "bars", role: "img", "aria-label": "Histogram of the view" });
    this.sliders = new Map();
    this.window = null;
    this.playing = null;
  }

  draw() {
    this.stop();
    this.sliders.clear();
    const { look } = this;
    const withColours = look.mode === "picture" || look.mode === "three cuts";
    const parts = [...this.axisChoices(), ...look.sliding().map((axis) => this.slider(axis))];
    if (look.info.kind === "complex" && withColours) {
      parts.push(
        choose("Part", look.part, PARTS.map(twice), (value) => {
          look.part = value;
          this.told.fit();
        }),
      );
    }
    if (withColours) parts.push(...this.colourChoices());
    parts.push(
      this.line,
      el(
        "div",
        { class: "row" },
        el("button", { type: "button", text: "Copy code", onclick: () => copy(this.line.textContent) }),
      ),
    );
    this.node.replaceChildren(...parts);
    this.told.look();
    this.drawWindow();
  }

  axisChoices() {
    const { look } = this;
    const { shape } = look.info;
    if (shape.length < 2 || look.mode === "about" || look.mode === "three cuts") return [];
    const named = (axis) => [axis, `${look.axisName(axis)} (${shape[axis].toLocaleString()})`];
    const axes = look.axes().map(named);
    const none = [-1, "none"];
    const set = (which) => (value) => {
      look.setAxis(which, Number(value));
      this.told.axes();
    };
    if (look.mode === "curve") {
      const others = axes.filter(([axis]) => axis !== look.x);
      return [
        choose("Axis", look.x, axes, set("x")),
        choose("One line per", look.each, [none, ...others], (value) => {
          look.each = Number(value);
          this.told.axes();
        }),
      ];
    }
    const choices = [choose("Rows", look.y, axes, set("y")), choose("Columns", look.x, axes, set("x"))];
    if (look.colourAxes().length && look.info.kind !== "text") {
      choices.push(choose("Channels", look.c, [none, ...look.colourAxes().map(named)], set("c")));
    }
    if (look.c >= 0 && look.bands.length) choices.push(this.bandChoices());
    return choices;
  }

  // Which channels are red, green and blue.
  bandChoices() {
    const { look } = this;
    const most = look.length(look.c) - 1;
    const inputs = ["Red", "Green", "Blue"].map((colour, which) => {
      const input = el("input", {
        type: "number",
        min: -1,
        max: most,
        value: look.bands[which],
        "aria-label": `${colour}, channel`,
        onchange: () => {
          const bands = look.bands.map((band, i) =>
            i === which ? Math.min(Math.max(-1, Math.round(input.value) || 0), most) : band,
          );
          if (bands.some((band) => band >= 0)) look.bands = bands;
          else say("At least one color needs a channel");
          input.value = look.bands[which];
          this.told.fit();
        },
      });
      return el("label", {}, colour, input);
    });
    const label = "Channels of red, green and blue, -1 for none";
    return el("div", { class: "bands", role: "group", "aria-label": label }, inputs);
  }

  slider(axis) {
    const { look } = this;
    const most = look.info.shape[axis] - 1;
    const label = look.axisName(axis);
    const set = (value) => this.told.place(axis, value);
    const range = el("input", {
      type: "range",
      min: 0,
      max: most,
      step: 1,
      value: look.at[axis],
      "aria-label": label,
      oninput: () => set(Number(range.value)),
    });
    const number = el("input", {
      type: "number",
      min: 0,
      max: most,
      value: look.at[axis],
      "aria-label": `${label}, number`,
      onchange: () => set(Number(number.value)),
    });
    this.sliders.set(axis, [range, number]);
    const play = el("button", {
      type: "button",
      text: "▶",
      "aria-label": `Play along ${label}`,
      "aria-pressed": "false",
      "data-axis": axis,
      onclick: () => this.toggle(axis),
    });
    return el(
      "div",
      {},
      el("span", { class: "quiet", text: `${label} (${look.info.shape[axis].toLocaleString()})` }),
      el("div", { class: "row" }, play, range, number),
    );
  }

  moved(axis) {
    for (const input of this.sliders.get(axis) || []) input.value = this.look.at[axis];
  }

  // Plays along an axis, or stops.
  toggle(axis) {
    const was = this.playing && this.playing.axis === axis;
    this.stop();
    if (was) return;
    const step = () => {
      if (this.told.isComplete()) this.told.place(axis, (this.look.at[axis] + 1) % this.look.info.shape[axis]);
    };
    this.playing = { axis, timer: setInterval(step, FRAME_MS) };
    this.showPlaying();
  }

  stop() {
    if (this.playing) clearInterval(this.playing.timer);
    this.playing = null;
    this.showPlaying();
  }

  showPlaying() {
    this.node
      .querySelectorAll("button[data-axis]")
      .forEach((one) =>
        one.setAttribute(
          "aria-pressed",
          String(this.playing !== null && Number(one.dataset.axis) === this.playing.axis),
        ),
      );
  }

  colourChoices() {
    const { look } = this;
    const choices = [];
    if (look.c < 0)
      choices.push(
        choose("Colormap", look.map, look.info.maps.map(twice), (value) => {
          look.map = value;
          this.told.colours();
        }),
      );
    if (this.window && this.window.low < -500 && this.window.low >= -4096 && this.window.high <= 65535) {
      const names = [["", "as it is"], ...Object.keys(CT_WINDOWS).map(twice)];
      const isThis = ([, [low, high]]) => low === look.low && high === look.high;
      const now = Object.entries(CT_WINDOWS).find(isThis)?.[0] || "";
      choices.push(
        choose("CT window", now, names, (value) => {
          if (CT_WINDOWS[value]) this.show(...CT_WINDOWS[value]);
          else this.told.fit();
        }),
      );
    }
    const all = () => {
      if (!this.window) return;
      const { low, high } = this.window;
      this.show(low, high > low ? high : low + 1);
    };
    choices.push(
      el(
        "div",
        {},
        el("span", { class: "quiet", text: "Contrast" }),
        this.histogram,
        el("div", { class: "row" }, this.low, "to", this.high),
        el(
          "div",
          { class: "row" },
          el("button", { type: "button", text: "Auto contrast", onclick: () => this.told.fit() }),
          el("button", { type: "button", text: "All", onclick: all }),
        ),
      ),
    );
    choices.push(
      choose("Tiles", look.kind, TILES, (value) => {
        look.kind = value;
        this.told.colours();
      }),
    );
    return choices;
  }

  show(low, high) {
    [this.look.low, this.look.high] = [low, high];
    this.look.isChosen = true;
    this.drawWindow();
    this.told.colours();
  }

  setWindow() {
    const [low, high] = [Number(this.low.value), Number(this.high.value)];
    if (Number.isFinite(low) && Number.isFinite(high) && high > low) this.show(low, high);
    else say("A window goes from a smaller value to a larger one");
    this.drawWindow(true);
  }

  drawWindow(isTyped = false) {
    const { low, high } = this.look;
    // What somebody is typing is not written over.
    for (const [input, value] of [
      [this.low, low],
      [this.high, high],
    ]) {
      if (isTyped || input !== document.activeElement) input.value = written(value);
    }
    if (this.window && this.histogram.isConnected) {
      bars(this.histogram, this.window.counts, this.window.low, this.window.high, [low, high]);
    }
  }
}

// Five digits, in as little room as they take.
function written(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  return size && (size >= 1e7 || size < 1e-3) ? value.toExponential(4) : `${Number(value.toPrecision(5))}`;
}

const twice = (one) => [one, one];

function choose(label, value, options, onchange) {
  const shown = options.map(([id, text]) => el("option", { value: id, text, selected: `${id}` === `${value}` }));
  const made = el("select", { "aria-label": label, onchange: () => onchange(made.value) }, shown);
  return el("label", {}, label, made);
}
