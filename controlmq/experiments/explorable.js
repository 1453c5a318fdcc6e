// Draws the numbers of every figure of this page: hover or arrow keys read values, a legend
// hides curves, dragging or + and - zoom. It loads nothing and needs no library.
(() => {
  "use strict";
  const LEFT = 58, RIGHT = 14, TOP = 26, BOTTOM = 40;
  const NARROWEST_SHARE = 1e-3, NEAR_PIXELS = 40, DRAG_PIXELS = 5, CHARACTER_PIXELS = 5.8;
  const HELP = "Arrow keys read values, plus and minus zoom, 0 shows all.";

  const shown = value => value === null || value === undefined ? "–"
    : String(Number(value.toPrecision(5)));
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  function html(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }
  function svg(parent, name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  // Round numbers between two ends, at most about this number of them.
  function ticks(low, high, most) {
    const rough = (high - low) / Math.max(1, most), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(each => each * power).find(each => each >= rough * 0.999);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++)
      found.push(Number((i * step).toPrecision(12)));
    return found;
  }

  // The ends of x that a panel shows when nothing is zoomed: all series and marks, half a step, and
  // room for points.
  function extent(panels) {
    let low = Infinity, high = -Infinity, points = false;
    for (const panel of panels) {
      for (const {x, kind} of panel.series) {
        const half = kind === "step" || kind === "bars" ? width(x) / 2 : 0;
        points = points || kind === "points";
        for (const each of x) {
          low = Math.min(low, each - half);
          high = Math.max(high, each + half);
        }
      }
      for (const mark of panel.marks) {
        low = Math.min(low, mark.x);
        high = Math.max(high, mark.x);
      }
    }
    if (!(low < high)) return [low - 0.5, high + 0.5];
    const room = points ? 0.03 * (high - low) : 0;
    return [low - room, high + room];
  }
  const width = x => x.length > 1 ? (x[x.length - 1] - x[0]) / (x.length - 1) : 1;

  class Figure {
    constructor(element, number) {
      this.number = number;
      this.panels = JSON.parse(element.querySelector("script").textContent);
      this.hidden = new Set();
      this.ranges = new Map(); // by the label of x, so that panels with the same one zoom together
      this.full = new Map();
      for (const {x, at_first} of this.panels) {
        this.full.set(x, extent(this.panels.filter(panel => panel.x === x)));
        if (at_first) this.ranges.set(x, at_first);
      }
      this.picture = element.querySelector(".picture");
      this.tip = html("div", {className: "tip", hidden: true});
      this.said = html("p", {className: "said"});
      this.said.setAttribute("aria-live", "polite");
      const charts = html("div", {className: "charts"});
      this.charts = this.panels.map(panel => new Chart(this, panel, charts));
      this.view = html("div", {className: "view"}, charts, this.tip, this.said);
      this.bar = this.tools();
      this.picture.before(this.bar, this.view);
      this.show(false);
      new ResizeObserver(() => this.draw()).observe(this.view);
      this.draw();
    }

    tools() {
      const names = new Map();
      for (const panel of this.panels)
        for (const series of panel.series) if (!names.has(series.name)) names.set(series.name, series);
      const button = (text, title, act) => html("button", {type: "button", textContent: text,
        title, onclick: act});
      const legend = [...names.values()].map(series => {
        const made = html("button", {type: "button", className: "legend " + series.kind,
          title: "hide or show", onclick: () => this.toggle(series.name, made)},
          html("i", {}), series.name);
        made.style.setProperty("--given", series.colour);
        made.setAttribute("aria-pressed", "true");
        return made;
      });
      this.zooming = [
        button("+", "zoom in", () => this.zoomAll(0.5)),
        button("−", "zoom out", () => this.zoomAll(2)),
        button("all", "show all", () => this.zoomAll(Infinity)),
      ];
      this.switch = button("picture", "the picture as it is printed", () => this.show(!this.asPicture));
      return html("div", {className: "tools"}, html("span", {}, ...legend),
        html("span", {}, ...this.zooming, this.switch));
    }

    show(asPicture) {
      this.asPicture = asPicture;
      this.picture.classList.toggle("unseen", !asPicture);
      this.view.hidden = asPicture;
      for (const each of this.zooming) each.disabled = asPicture;
      this.switch.textContent = asPicture ? "explore" : "picture";
    }

    toggle(name, button) {
      if (!this.hidden.delete(name)) this.hidden.add(name);
      button.setAttribute("aria-pressed", String(!this.hidden.has(name)));
      this.leave();
      this.draw();
    }

    range(x) { return this.ranges.get(x) || this.full.get(x); }

    zoomTo(x, low, high) {
      const [least, most] = this.full.get(x), all = most - least;
      const span = clamp(high - low, NARROWEST_SHARE * all, all);
      const start = clamp((low + high - span) / 2, least, most - span);
      if (span >= all * 0.9999) this.ranges.delete(x);
      else this.ranges.set(x, [start, start + span]);
      this.leave();
      this.draw();
    }
    zoom(x, factor, around) {
      const [low, high] = this.range(x), centre = around ?? (low + high) / 2;
      this.zoomTo(x, centre - (centre - low) * factor, centre + (high - centre) * factor);
    }
    zoomAll(factor) {
      for (const x of this.full.keys()) {
        if (factor === Infinity) this.zoomTo(x, ...this.full.get(x));
        else this.zoom(x, factor);
      }
    }

    draw() { for (const chart of this.charts) chart.draw(); }
    leave() {
      this.tip.hidden = true;
      for (const chart of this.charts) chart.pointed = null;
    }
  }

  class Chart {
    constructor(figure, panel, parent) {
      this.figure = figure;
      this.panel = panel;
      this.pointed = null; // the x of the values that are read
      this.root = svg(parent, "svg", {class: "chart", height: panel.height, tabindex: 0,
        role: "application", "aria-label": `${panel.title}: ${panel.y} over ${panel.x}. ${HELP}`});
      this.root.addEventListener("pointermove", event => this.moved(event));
      this.root.addEventListener("pointerleave", () => { if (!this.drag) this.out(); });
      this.root.addEventListener("blur", () => this.out());
      this.root.addEventListener("pointerdown", event => this.pressed(event));
      this.root.addEventListener("pointerup", event => this.released(event));
      this.root.addEventListener("pointercancel", () => { this.drag = null; this.draw(); });
      this.root.addEventListener("dblclick", () => figure.zoomTo(panel.x, ...figure.full.get(panel.x)));
      this.root.addEventListener("keydown", event => this.typed(event));
    }

    series() { return this.panel.series.filter(each => !this.figure.hidden.has(each.name)); }

    // Values within the range, and zero where it is near or bars stand on it.
    heights() {
      const [from, to] = this.figure.range(this.panel.x);
      let low = Infinity, high = -Infinity, zero = false;
      for (const {x, y, kind} of this.series()) {
        zero = zero || kind === "bars";
        y.forEach((value, i) => {
          if (value === null || x[i] < from || x[i] > to) return;
          low = Math.min(low, value);
          high = Math.max(high, value);
        });
      }
      if (low > high) return [0, 1];
      if (zero || (low > 0 && low < 0.5 * high)) low = Math.min(0, low);
      const room = (high - low || Math.abs(high) || 1) * 0.06;
      const above = this.panel.marks.length ? 3 : 1; // for their names
      return [low === 0 ? 0 : low - room, high + above * room];
    }

    draw() {
      const wide = Math.floor(this.root.getBoundingClientRect().width);
      if (wide < 2 * LEFT) return; // the picture is shown, or there is no room
      const {panel, root} = this, [from, to] = this.figure.range(panel.x), [low, high] = this.heights();
      this.right = wide - RIGHT;
      this.across = value => LEFT + (value - from) / (to - from) * (this.right - LEFT);
      this.back = pixel => from + (pixel - LEFT) / (this.right - LEFT) * (to - from);
      this.up = value => this.panel.height - BOTTOM - (value - low) / (high - low) * (this.panel.height - BOTTOM - TOP);
      root.replaceChildren();
      root.dataset.from = from;
      root.dataset.to = to;
      const clip = "clip-" + this.figure.number + "-" + this.figure.charts.indexOf(this);
      svg(svg(root, "clipPath", {id: clip}), "rect", {x: LEFT, y: TOP, width: this.right - LEFT,
        height: this.panel.height - TOP - BOTTOM});
      svg(root, "text", {class: "title", x: LEFT, y: 15}, panel.title);
      this.axes(from, to, low, high);
      const inside = svg(root, "g", {"clip-path": `url(#${clip})`});
      let free = -Infinity;
      for (const mark of panel.marks) free = this.mark(inside, mark, free);
      for (const series of this.series()) this.curve(inside, series);
      this.pointer = svg(root, "g", {class: "pointer", "clip-path": `url(#${clip})`});
    }

    axes(from, to, low, high) {
      const {root, right} = this, bottom = this.panel.height - BOTTOM;
      for (const value of ticks(low, high, 5)) {
        const y = this.up(value);
        svg(root, "line", {class: "grid", x1: LEFT, x2: right, y1: y, y2: y});
        svg(root, "text", {class: "tick y", x: LEFT - 7, y: y + 4}, shown(value));
      }
      for (const value of ticks(from, to, (right - LEFT) / 75)) {
        const x = this.across(value);
        svg(root, "line", {class: "grid", x1: x, x2: x, y1: TOP, y2: bottom});
        svg(root, "text", {class: "tick x", x, y: bottom + 16}, shown(value));
      }
      svg(root, "line", {class: "axis", x1: LEFT, x2: right, y1: bottom, y2: bottom});
      svg(root, "text", {class: "label x", x: (LEFT + right) / 2, y: this.panel.height - 6}, this.panel.x);
      svg(root, "text", {class: "label y", x: 13, y: (TOP + bottom) / 2,
        transform: `rotate(-90 13 ${(TOP + bottom) / 2})`}, this.panel.y);
    }

    // A line and, where there is room from the pixel ``free`` on, its name; returns what is free then.
    mark(parent, {x, name}, free) {
      const at = this.across(x), long = name.length * CHARACTER_PIXELS;
      svg(parent, "line", {class: "mark", x1: at, x2: at, y1: TOP, y2: this.panel.height - BOTTOM});
      const start = at + 4 + long > this.right ? at - 4 - long : at + 4;
      if (start < free || at < LEFT || at > this.right) return free;
      svg(parent, "text", {class: "mark", x: start, y: TOP + 10}, name);
      return start + long;
    }

    curve(parent, {name, colour, x, y, kind}) {
      const group = svg(parent, "g", {class: "series " + kind, "data-name": name});
      group.style.setProperty("--given", colour);
      const {across, up} = this, half = width(x) / 2;
      if (kind === "points") {
        x.forEach((value, i) => y[i] !== null
          && svg(group, "circle", {cx: across(value), cy: up(y[i]), r: 3.2}));
      } else if (kind === "bars") {
        x.forEach((value, i) => svg(group, "rect", {x: across(value - half) + 0.5, y: up(y[i]),
          width: Math.max(1, across(value + half) - across(value - half) - 1), height: up(0) - up(y[i])}));
      } else {
        let path = "", pen = "M";
        x.forEach((value, i) => {
          if (y[i] === null) { pen = "M"; return; }
          path += kind === "step" ? `${pen}${across(value - half)} ${up(y[i])}H${across(value + half)}`
            : `${pen}${across(value)} ${up(y[i])}`;
          pen = "L";
        });
        svg(group, "path", {d: path});
      }
    }

    // Of each curve its value nearest to x; of points, the one nearest to the place itself.
    nearest(x, pixelY) {
      const [from, to] = this.figure.range(this.panel.x), found = [];
      let point = null, least = NEAR_PIXELS;
      for (const series of this.series()) {
        let best = -1, distance = Infinity;
        series.x.forEach((value, i) => {
          if (value < from || value > to || series.y[i] === null) return;
          const apart = Math.abs(value - x);
          if (series.kind === "points" && pixelY !== undefined) {
            const away = Math.hypot(this.across(value) - this.across(x), this.up(series.y[i]) - pixelY);
            if (away < least) { least = away; point = {series, i}; }
          } else if (apart < distance) { distance = apart; best = i; }
        });
        if (best >= 0) found.push({series, i: best, distance});
      }
      if (point) return [point];
      // A series that has no value here is left out: its nearest one is elsewhere.
      const closest = Math.min(...found.map(each => each.distance));
      const step = Math.max(closest, ...found.map(({series}) =>
        series.x.length > 2 && series.kind !== "points" ? width(series.x) * 0.51 : 0));
      return found.filter(each => each.distance <= step);
    }

    read(x, pixelY) {
      const found = this.nearest(x, pixelY), {tip, said} = this.figure;
      this.pointer.replaceChildren();
      if (!found.length) { tip.hidden = true; return; }
      this.pointed = found[0].series.x[found[0].i];
      const at = this.across(this.pointed);
      svg(this.pointer, "line", {x1: at, x2: at, y1: TOP, y2: this.panel.height - BOTTOM});
      const rows = found.map(({series, i}) => {
        const dot = svg(this.pointer, "circle", {cx: this.across(series.x[i]), cy: this.up(series.y[i]), r: 4.5});
        dot.style.setProperty("--given", series.colour);
        const row = html("div", {className: "value"}, html("i", {}), `${series.name} `,
          html("b", {textContent: shown(series.y[i])}));
        row.style.setProperty("--given", series.colour);
        if (series.labels[i]) row.append(html("small", {textContent: series.labels[i]}));
        return row;
      });
      const heading = html("div", {textContent: `${this.panel.x}: ${shown(this.pointed)}`});
      const mark = this.panel.marks.findLast(each => each.x <= this.pointed);
      if (mark) heading.append(html("small", {textContent: "after " + mark.name}));
      tip.replaceChildren(heading, ...rows);
      tip.hidden = false;
      const place = this.root.getBoundingClientRect(), view = this.figure.view.getBoundingClientRect();
      const left = place.left - view.left + at, before = left + 14 + tip.offsetWidth > view.width;
      tip.style.left = `${clamp(before ? left - tip.offsetWidth - 14 : left + 14, 0,
        Math.max(0, view.width - tip.offsetWidth))}px`;
      tip.style.top = `${place.top - view.top + TOP}px`;
      if (document.activeElement === this.root)
        said.textContent = [heading, ...rows].map(each => each.textContent).join("; ");
    }

    out() {
      this.figure.tip.hidden = true;
      if (this.pointer) this.pointer.replaceChildren();
    }

    pixel(event) {
      const place = this.root.getBoundingClientRect();
      return [event.clientX - place.left, event.clientY - place.top];
    }
    moved(event) {
      const [x, y] = this.pixel(event);
      if (this.drag === null || this.drag === undefined) {
        if (x >= LEFT - 4 && x <= this.right + 4) this.read(this.back(clamp(x, LEFT, this.right)), y);
        return;
      }
      this.out();
      const [low, high] = [this.drag, clamp(x, LEFT, this.right)].sort((a, b) => a - b);
      svg(this.pointer, "rect", {class: "drag", x: low, y: TOP, width: high - low,
        height: this.panel.height - TOP - BOTTOM});
    }
    pressed(event) {
      if (event.button !== 0 || event.pointerType === "touch") return;
      this.drag = clamp(this.pixel(event)[0], LEFT, this.right);
      this.root.setPointerCapture(event.pointerId);
    }
    released(event) {
      if (this.drag === null || this.drag === undefined) return;
      const end = clamp(this.pixel(event)[0], LEFT, this.right), start = this.drag;
      this.drag = null;
      if (Math.abs(end - start) < DRAG_PIXELS) return;
      this.figure.zoomTo(this.panel.x, ...[this.back(start), this.back(end)].sort((a, b) => a - b));
    }

    typed(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const [low, high] = this.figure.range(this.panel.x), x = this.panel.x;
      const move = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (move) this.step(move);
      else if (event.key === "+" || event.key === "=") this.zoom(0.5);
      else if (event.key === "-") this.zoom(2);
      else if (event.key === "0") this.figure.zoomTo(x, ...this.figure.full.get(x));
      else if (event.key === "Home") this.read(low);
      else if (event.key === "End") this.read(high);
      else if (event.key === "Escape") this.out();
      else return;
      event.preventDefault();
    }
    // Around the values that are read, which stay there.
    zoom(factor) {
      const at = this.pointed;
      this.figure.zoom(this.panel.x, factor, at ?? undefined);
      if (at !== null) this.read(at);
    }
    // To the next x that any of the curves has; beyond the edge the range moves along.
    step(move) {
      const all = [...new Set(this.series().flatMap(each => each.x))].sort((a, b) => a - b);
      if (!all.length) return;
      const [low, high] = this.figure.range(this.panel.x);
      let next = this.pointed === null ? all.find(each => each >= low)
        : (move > 0 ? all.find(each => each > this.pointed) : all.findLast(each => each < this.pointed));
      if (next === undefined) return;
      if (next < low || next > high) {
        const by = next < low ? next - low : next - high;
        this.figure.zoomTo(this.panel.x, low + by, high + by);
      }
      this.read(next);
    }
  }

  document.querySelectorAll("figure.explorable").forEach((element, number) => {
    new Figure(element, number);
  });
})();
