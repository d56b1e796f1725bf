"use strict";
// Zooms and reads the timeline, which is drawn in the page's SVG already.

class Timeline {
  constructor(data) {
    this.data = data;
    this.events = data.timeline;
    this.step = this.events.step;
    this.box = document.querySelector(".lane-box");
    this.from = 0;
    this.to = this.step;
    this.current = -1;
    this.onOpen = () => {};
    this.rows = [0, 1, 2].map((row) => this.events.row.map((_, index) => index).filter((index) => this.events.row[index] === row));
    this.eventsOf = new Map();
    this.events.keys.forEach((keys, index) =>
      keys.forEach((key) => (this.eventsOf.has(key) ? this.eventsOf.get(key).push(index) : this.eventsOf.set(key, [index]))),
    );
    this.listen();
    this.draw();
  }

  show(from, to) {
    const width = Math.min(this.step, Math.max(to - from, this.step / 200000, 20));
    this.from = Math.min(Math.max(0, from), this.step - width);
    this.to = this.from + width;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  x(ns) {
    return ((ns - this.from) / (this.to - this.from)) * this.box.clientWidth;
  }

  draw() {
    const unit = 1000000 / this.step;
    for (const svg of this.box.querySelectorAll("svg")) {
      const height = svg.viewBox.baseVal.height;
      svg.setAttribute("viewBox", `${this.from * unit} 0 ${(this.to - this.from) * unit} ${height}`);
    }
    // Lines between events would cover them all where they are many.
    const seen = this.rows.reduce((sum, row) => sum + this.firstAfter(row, this.to) - this.firstAfter(row, this.from), 0);
    this.box.classList.toggle("near", seen < 600);
    this.drawLabels();
    this.drawAxis();
    this.drawCursor();
    document.getElementById("span").textContent =
      this.to - this.from < this.step * 0.9999 ? `${timeText(this.from * 1000)} to ${timeText(this.to * 1000)}` : "";
  }

  /** Names of the events that have room for one. */
  drawLabels() {
    const labels = [];
    for (const [row, indices] of this.rows.entries()) {
      for (let place = this.firstAfter(indices, this.from); place < indices.length; place += 1) {
        const index = indices[place];
        const left = Math.max(0, this.x(this.events.begin[index]));
        if (left > this.box.clientWidth || labels.length > 400) break;
        const width = Math.min(this.box.clientWidth, this.x(this.events.end[index])) - left;
        if (width < 34) continue;
        const label = document.createElement("span");
        label.textContent = this.name(index);
        if (row > 0) label.className = "on";
        label.style.cssText = `left: ${left}px; width: ${width}px; top: ${4 + 42 * row}px`;
        labels.push(label);
      }
    }
    document.getElementById("labels").replaceChildren(...labels);
  }

  drawAxis() {
    const target = ((this.to - this.from) * 1000) / Math.max(3, this.box.clientWidth / 130);
    const power = 10 ** Math.floor(Math.log10(target));
    const gap = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= target);
    const ticks = [];
    for (let tick = Math.ceil((this.from * 1000) / gap) * gap; tick <= this.to * 1000; tick += gap) {
      const mark = document.createElement("span");
      mark.textContent = timeText(tick);
      mark.style.left = `${Math.min(Math.max(this.x(tick / 1000), 14), this.box.clientWidth - 24)}px`;
      ticks.push(mark);
    }
    document.getElementById("axis").replaceChildren(...ticks);
  }

  drawCursor() {
    const unit = 1000000 / this.step;
    const path = this.current < 0 ? "" : this.outline(this.current, unit);
    this.box.querySelector(".streams .cursor").setAttribute("d", path);
    const time = this.current < 0 ? "" : `M${this.events.begin[this.current] * unit} 0V160`;
    this.box.querySelector(".memory .cursor").setAttribute("d", time);
  }

  outline(index, unit) {
    const width = (this.events.end[index] - this.events.begin[index]) * unit;
    return `M${this.events.begin[index] * unit} ${4 + 42 * this.events.row[index]}h${width}v36h${-width}z`;
  }

  underline(index, unit) {
    const width = (this.events.end[index] - this.events.begin[index]) * unit;
    return `M${this.events.begin[index] * unit} ${35 + 42 * this.events.row[index]}h${width}v8h${-width}z`;
  }

  /** Place of the first of a row's events that ends after `ns`. */
  firstAfter(indices, ns) {
    let low = 0;
    for (let high = indices.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (this.events.end[indices[middle]] > ns) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  at(event) {
    const place = this.box.getBoundingClientRect();
    const ns = this.from + ((event.clientX - place.left) / place.width) * (this.to - this.from);
    const y = event.clientY - place.top;
    const row = Math.floor((y - 1) / 42);
    const indices = row >= 0 && row < 3 ? this.rows[row] : [];
    const index = indices[this.firstAfter(indices, ns)];
    return { ns, y, index: index !== undefined && this.events.begin[index] <= ns ? index : -1 };
  }

  heldAt(ns) {
    let low = 0;
    for (let high = this.events.memory_at.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (this.events.memory_at[middle] > ns) high = middle;
      else low = middle + 1;
    }
    return this.events.memory[low - 1] ?? 0;
  }

  name(index) {
    return this.data.texts[this.events.label[index]].replace(/^aten\./, "").replace(/\.default$/, "");
  }

  describe(line, index, ns) {
    const parts = [];
    if (index >= 0) {
      const { begin, end, keys, dims } = this.events;
      const where = dims[index].map((dim) => this.data.dims[dim][0]).join(", ");
      const names = keys[index].slice(0, 3).map((key) => this.data.keys[key]);
      if (keys[index].length > 3) names.push(`${keys[index].length - 3} more`);
      const strong = document.createElement("b");
      strong.textContent = this.name(index) + (where ? ` over ${where}` : "");
      parts.push(strong, ` ${timeText((end[index] - begin[index]) * 1000)}, at ${timeText(begin[index] * 1000)}: ${names.join(", ")}`);
    }
    parts.push(`${parts.length ? "; " : ""}${bytesText(this.heldAt(ns))} held at ${timeText(ns * 1000)}`);
    line.replaceChildren(...parts);
  }

  /** Underlines all events of these nodes and values. */
  choose(keys) {
    const unit = 1000000 / this.step;
    const indices = keys.length < this.data.keys.length / 2 ? keys.flatMap((key) => this.eventsOf.get(key) ?? []) : [];
    this.chosen = indices;
    this.box.querySelector(".chosen").setAttribute("d", indices.map((index) => this.underline(index, unit)).join(""));
    document.getElementById("zoom-selection").disabled = !indices.length;
  }

  showChosen() {
    const from = Math.min(...this.chosen.map((index) => this.events.begin[index]));
    const to = Math.max(...this.chosen.map((index) => this.events.end[index]));
    this.show(from - (to - from) * 0.05, to + (to - from) * 0.05);
  }

  go(by) {
    // In the order of time over all rows.
    this.order ??= this.events.begin.map((_, index) => index).sort((a, b) => this.events.begin[a] - this.events.begin[b] || a - b);
    let at = this.current >= 0 ? this.order.indexOf(this.current) + by : this.order.findIndex((index) => this.events.begin[index] >= this.from);
    at = Math.min(Math.max(at, 0), this.order.length - 1);
    this.current = this.order[at];
    const { begin, end } = this.events;
    const width = this.to - this.from;
    if (begin[this.current] < this.from || end[this.current] > this.to) this.show(begin[this.current] - width / 3, begin[this.current] + (2 * width) / 3);
    this.pin(this.current);
  }

  /** Keeps an event's words below the picture, with a way to its module. */
  pin(index) {
    this.current = index;
    this.drawCursor();
    const line = document.getElementById("pinned");
    this.describe(line, index, this.events.begin[index] ?? 0);
    if (index < 0) line.replaceChildren();
    else if (this.events.keys[index].length) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = "Show among the modules";
      button.addEventListener("click", () => this.open(index));
      line.append(" ", button);
    }
  }

  listen() {
    const click = (id, action) => document.getElementById(id).addEventListener("click", action);
    click("zoom-in", () => this.zoom(0.5));
    click("zoom-out", () => this.zoom(2));
    click("zoom-all", () => this.show(0, this.step));
    click("zoom-selection", () => this.showChosen());
    document.getElementById("lanes").addEventListener("keydown", (event) => {
      const width = this.to - this.from;
      const actions = {
        "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), 0: () => this.show(0, this.step),
        ArrowLeft: () => this.show(this.from - width / 8, this.to - width / 8),
        ArrowRight: () => this.show(this.from + width / 8, this.to + width / 8),
        n: () => this.go(1), p: () => this.go(-1),
        Enter: () => this.current >= 0 && this.open(this.current),
      };
      if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
      event.preventDefault();
      actions[event.key]();
    });
    this.box.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.at(event).ns);
    }, { passive: false });
    this.box.addEventListener("dblclick", (event) => this.zoom(0.25, this.at(event).ns));
    this.listenDrag();
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  listenDrag() {
    let start = null;
    this.box.addEventListener("pointerdown", (event) => (start = { x: event.clientX, from: this.from, to: this.to }));
    window.addEventListener("pointerup", (event) => {
      const still = start && Math.abs(event.clientX - start.x) < 4;
      start = null;
      if (!still || !this.box.contains(event.target)) return;
      this.pin(this.at(event).index);
    });
    this.box.addEventListener("pointermove", (event) => {
      if (start && event.buttons) {
        const moved = ((start.x - event.clientX) / this.box.clientWidth) * (start.to - start.from);
        if (Math.abs(event.clientX - start.x) >= 4) this.show(start.from + moved, start.to + moved);
        return;
      }
      const { index, ns } = this.at(event);
      this.describe(document.getElementById("event"), index, ns);
    });
  }

  open(index) {
    if (this.events.keys[index].length) this.onOpen(this.events.keys[index][0]);
  }
}
