"use strict";
// The tree of modules, its search, and the details of what is chosen. All text goes in as text, never as HTML.

/** make("div", {class: "x"}, "text", other) */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function scaled(number, step, units) {
  if (!number) return `0 ${units[0]}`;
  let unit = 0;
  while (Math.abs(number) >= step - 0.05 && unit < units.length - 1) {
    number /= step;
    unit += 1;
  }
  const digits = unit === 0 ? 0 : Math.max(0, 4 - String(Math.trunc(Math.abs(number))).length);
  return `${number.toFixed(digits)} ${units[unit]}`;
}
const timeText = (ps) => scaled(ps, 1000, ["ps", "ns", "µs", "ms", "s"]);
const bytesText = (bytes) => scaled(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);

class Tree {
  constructor(data) {
    this.data = data;
    this.box = document.getElementById("tree");
    this.details = document.getElementById("details");
    this.query = document.getElementById("query");
    this.onChoose = () => {};
    this.leafOf = new Map(); // by key
    this.unfolded = new Set();
    this.matches = [];
    this.root = this.module(data.tree, null, 0);
    this.top = this.root;
    this.unfolded.add(this.root);
  }

  start() {
    // Unfolded as far as a screen has room.
    for (let next = [this.root]; next.length; ) {
      const children = next.flatMap((item) => item.modules);
      const rows = [...this.unfolded].reduce((sum, item) => sum + item.modules.length, 0);
      if (!children.length || rows + children.flatMap((item) => item.modules).length > 22) break;
      children.forEach((item) => this.unfolded.add(item));
      next = children;
    }
    this.focused = this.root;
    this.draw();
    this.choose(this.root);
    this.listen();
  }

  module(source, parent, level) {
    const item = { source, parent, level, isModule: true, name: source.name, path: source.path };
    item.times = (parent?.times ?? 1) * source.times;
    item.foldedPath = parent?.parent ? `${parent.foldedPath}.${source.name}` : source.name;
    item.modules = source.modules.map((child) => this.module(child, item, level + 1));
    item.leaves = source.leaves.map((leaf) => this.leaf(leaf, item));
    for (const sum of ["compute", "waited", "hidden", "bytes"]) {
      item[sum] = [...item.modules, ...item.leaves].reduce((total, child) => total + child[sum], 0);
    }
    item.keys = [...item.modules, ...item.leaves].flatMap((child) => child.keys);
    item.text = `${source.path} ${Object.values(source.words ?? {}).join(" ")}`.toLowerCase();
    return item;
  }

  leaf(source, parent) {
    const { compute, waited, hidden, keys, bytes = 0 } = source;
    const item = { source, parent, level: parent.level + 1, name: source.name, compute, waited, hidden, bytes, keys };
    item.modules = item.leaves = [];
    item.path = this.data.keys[keys[0]];
    item.op = source.op === undefined ? "" : this.data.texts[source.op];
    const placed = source.rest ?? source.outputs?.[0];
    item.placed = placed === undefined || placed === null ? null : this.data.placed[placed];
    item.isFree = source.kind === "node" && !compute && !waited && !hidden && !source.gets?.length;
    item.text = `${item.path} ${item.op} ${item.placed?.join(" ") ?? ""} ${source.again ? "again" : ""}`.toLowerCase();
    keys.forEach((key, place) => this.leafOf.set(key, [item, place]));
    return item;
  }

  // What of an item is shown.

  shows(leaf) {
    const phase = document.getElementById("phase").value;
    if (phase && leaf.source.phase && leaf.source.phase !== phase) return false;
    return !leaf.isFree || document.getElementById("free").checked || this.matched?.has(leaf) || leaf === this.opened;
  }

  children(item) {
    return [...item.modules, ...item.leaves.filter((leaf) => this.shows(leaf))];
  }

  rows(item = this.top, into = []) {
    into.push(item);
    if (item.isModule && this.unfolded.has(item)) this.children(item).forEach((child) => this.rows(child, into));
    return into;
  }

  draw() {
    this.visible = this.rows();
    if (!this.visible.includes(this.focused)) this.focused = this.top;
    this.elements = new Map(this.visible.map((item) => [item, this.row(item)]));
    this.box.replaceChildren(...this.elements.values());
    this.drawZoom();
  }

  row(item) {
    const row = make("div", { class: "row", role: "treeitem", tabindex: item === this.focused ? 0 : -1 });
    row.setAttribute("aria-level", item.level - this.top.level + 1);
    row.setAttribute("aria-selected", item === this.chosen);
    if (item.isModule) row.setAttribute("aria-expanded", this.unfolded.has(item));
    row.item = item;
    const name = make("span", { class: "name", title: item.path });
    name.style.paddingLeft = `${(item.level - this.top.level) * 15}px`;
    name.append(make("span", { class: "twist" }, item.isModule ? (this.unfolded.has(item) ? "▾" : "▸") : ""));
    name.append(make(item.isModule ? "b" : "span", null, ...this.marked(item.name)));
    const times = item.isModule ? item.source.times : 1;
    if (times > 1) name.append(make("span", { class: "times" }, `×${times}`));
    if (item.op && item.source.kind === "node") name.append(make("span", { class: "op" }, item.op.replace(/^aten\./, "")));
    if (item.source.again) name.append(make("span", { class: "tag" }, "runs again"));
    row.append(name, this.place(item), this.number(item.compute, timeText, this.data.step_ps));
    row.append(this.number(item.waited, timeText, this.data.step_ps), this.number(item.bytes, bytesText, this.root.bytes));
    return row;
  }

  place(item) {
    const place = make("span", { class: "place" });
    if (item.placed) place.append(...this.chips(item.placed));
    for (const [name, words] of Object.entries(item.source.words ?? {})) {
      const dim = this.data.dims.findIndex(([each]) => each === name);
      place.append(make("span", { class: `word d${dim}`, title: `${name}: ${words}` }, make("i"), words));
    }
    if (item.source.gets?.length) place.append(make("span", { class: "tag" }, "moves its inputs"));
    return place;
  }

  number(value, text, whole) {
    const cell = make("span", { class: "number" }, value ? text(value) : "");
    if (value) cell.style.setProperty("--part", `${Math.min(100, (100 * value) / (whole || 1)).toFixed(1)}%`);
    return cell;
  }

  chips(placed) {
    return placed.map((one, dim) =>
      make("span", { class: `chip ${one[0].toLowerCase()} d${dim}`, title: `${this.data.dims[dim][0]}: ${one}` }, one),
    );
  }

  marked(text) {
    const at = this.wanted ? text.toLowerCase().indexOf(this.wanted) : -1;
    if (at < 0) return [text];
    return [text.slice(0, at), make("mark", null, text.slice(at, at + this.wanted.length)), text.slice(at + this.wanted.length)];
  }

  // Moving about.

  listen() {
    this.box.addEventListener("click", (event) => {
      const item = event.target.closest(".row")?.item;
      if (!item) return;
      if (item.isModule && (event.target.closest(".twist") || item === this.chosen)) this.fold(item);
      this.focus(item);
      this.choose(item);
    });
    this.box.addEventListener("dblclick", (event) => {
      const item = event.target.closest(".row")?.item;
      if (item?.isModule) this.zoom(item);
    });
    this.box.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.key(event.key)) return;
      event.preventDefault();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.target.matches("input, select, textarea")) return;
      event.preventDefault();
      this.query.scrollIntoView({ block: "center" });
      this.query.focus();
    });
    this.query.addEventListener("input", () => this.search(this.query.value));
    this.query.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") this.search((this.query.value = ""));
      if (event.key === "ArrowDown") this.focus(this.focused);
    });
    document.getElementById("phase").addEventListener("change", () => this.draw());
    document.getElementById("free").addEventListener("change", () => this.draw());
    document.getElementById("expand").addEventListener("click", () => this.foldAll(false));
    document.getElementById("collapse").addEventListener("click", () => this.foldAll(true));
  }

  key(key) {
    const item = this.focused;
    const at = this.visible.indexOf(item);
    const is = (...keys) => keys.includes(key);
    if (is("ArrowDown")) this.focus(this.visible[Math.min(at + 1, this.visible.length - 1)]);
    else if (is("ArrowUp")) this.focus(this.visible[Math.max(at - 1, 0)]);
    else if (is("Home")) this.focus(this.visible[0]);
    else if (is("End")) this.focus(this.visible.at(-1));
    else if (is("ArrowRight") && item.isModule && !this.unfolded.has(item)) this.fold(item);
    else if (is("ArrowRight") && item.isModule) this.focus(this.children(item)[0] ?? item);
    else if (is("ArrowLeft") && item.isModule && this.unfolded.has(item)) this.fold(item);
    else if (is("ArrowLeft") && item !== this.top) this.focus(item.parent);
    else if (is("Enter", " ")) this.choose(item);
    else if (is("*")) this.children(item.parent ?? item).forEach((each) => this.fold(each, false));
    else if (is("z")) this.zoom(item.isModule ? item : item.parent);
    else if (is("Backspace", "Escape")) this.zoom(this.top.parent ?? this.root);
    else return false;
    return true;
  }

  focus(item) {
    this.elements.get(this.focused)?.setAttribute("tabindex", -1);
    this.focused = item;
    const row = this.elements.get(item);
    row.setAttribute("tabindex", 0);
    row.focus({ preventScroll: true });
    this.reveal(row);
  }

  reveal(row) {
    // Only the tree's own box scrolls, below its head.
    const box = this.box.parentElement;
    const head = box.firstElementChild.offsetHeight;
    const above = row.getBoundingClientRect().top - box.getBoundingClientRect().top - head;
    const below = row.getBoundingClientRect().bottom - box.getBoundingClientRect().bottom;
    if (above < 0) box.scrollTop += above;
    else if (below > 0) box.scrollTop += below + 4;
  }

  fold(item, folded = this.unfolded.has(item)) {
    if (!item.isModule) return;
    if (folded) this.unfolded.delete(item);
    else this.unfolded.add(item);
    this.draw();
    if (this.box.contains(document.activeElement) || document.activeElement === document.body) this.focus(this.focused);
  }

  foldAll(folded) {
    const visit = (item) => {
      if (folded && item !== this.top) this.unfolded.delete(item);
      else this.unfolded.add(item);
      item.modules.forEach(visit);
    };
    visit(this.top);
    this.draw();
  }

  zoom(item) {
    this.top = item;
    this.unfolded.add(item);
    this.focused = item;
    this.draw();
    this.focus(item);
    this.choose(item);
  }

  drawZoom() {
    const place = document.getElementById("zoomed");
    place.hidden = this.top === this.root;
    const crumbs = [];
    for (let item = this.top; item; item = item.parent) crumbs.unshift(item);
    place.replaceChildren(
      ...crumbs.flatMap((item, index) => {
        const button = make("button", { type: "button", class: "link" }, item.name);
        button.addEventListener("click", () => this.zoom(item));
        return index ? [" › ", button] : [button];
      }),
    );
  }

  search(text) {
    this.wanted = text.trim().toLowerCase();
    this.matches = [];
    this.matched = null;
    if (this.wanted) {
      const phase = document.getElementById("phase").value;
      const visit = (item) => {
        if (item !== this.top && item.text.includes(this.wanted) && !(phase && item.source.phase && item.source.phase !== phase)) {
          this.matches.push(item);
        }
        [...item.modules, ...item.leaves].forEach(visit);
      };
      visit(this.top);
      // A module that matches brings its children along, whose paths have it, too: the outermost is what was meant.
      const names = this.matches.filter((item) => item.name.toLowerCase().includes(this.wanted));
      if (names.length) this.matches = names;
      this.matched = new Set(this.matches);
      this.matches.slice(0, 300).forEach((item) => this.unfoldTo(item));
    }
    this.at = -1;
    this.draw();
    this.count();
    if (this.matches.length) this.reveal(this.elements.get(this.matches[0]));
  }

  count() {
    const found = document.getElementById("found");
    if (!this.wanted) found.textContent = "";
    else if (!this.matches.length) found.textContent = "nothing found";
    else found.textContent = this.at < 0 ? `${this.matches.length} found` : `${this.at + 1} of ${this.matches.length}`;
  }

  next(by) {
    if (!this.matches.length) return;
    this.at = this.at < 0 ? (by > 0 ? 0 : this.matches.length - 1) : (this.at + by + this.matches.length) % this.matches.length;
    this.unfoldTo(this.matches[this.at]);
    this.draw();
    this.focused = this.matches[this.at];
    this.reveal(this.elements.get(this.focused));
    this.choose(this.focused);
    this.count();
  }

  unfoldTo(item) {
    for (let outer = item.parent; outer; outer = outer.parent) this.unfolded.add(outer);
  }

  /** Shows what has this key, as its own member of a folded module. */
  open(key) {
    const [leaf, place] = this.leafOf.get(key) ?? [];
    if (!leaf) return;
    let top = leaf;
    while (top && top !== this.top) top = top.parent;
    if (!top) this.top = this.root;
    this.opened = leaf;
    this.unfoldTo(leaf);
    this.draw();
    document.getElementById("modules").scrollIntoView({ block: "start" });
    this.focus(leaf);
    this.choose(leaf, place);
  }

  // Details.

  choose(item, member = 0) {
    this.elements.get(this.chosen)?.setAttribute("aria-selected", false);
    this.chosen = item;
    this.elements.get(item)?.setAttribute("aria-selected", true);
    this.details.replaceChildren(...(item.isModule ? this.moduleDetails(item) : this.leafDetails(item, member)));
    this.details.scrollTop = 0;
    this.onChoose(item.keys);
  }

  facts(entries) {
    const list = make("dl");
    for (const [name, value] of entries) {
      if (value !== null && value !== undefined && value !== "") list.append(make("dt", null, name), make("dd", null, ...[value].flat()));
    }
    return list;
  }

  part(title, items) {
    return items.length ? [make("h3", null, title), make("ul", null, ...items)] : [];
  }

  moduleDetails(item) {
    const share = (ps) => (ps ? `${timeText(ps)} (${((100 * ps) / this.data.step_ps).toFixed(1)}% of the step)` : null);
    const words = Object.entries(item.source.words ?? {}).map(([name, text]) => {
      const dim = this.data.dims.findIndex(([each]) => each === name);
      return make("li", null, make("span", { class: `dim d${dim}` }, name), ` ${text}`);
    });
    const parameters = [];
    const visit = (each) => {
      each.leaves.filter((leaf) => leaf.source.kind === "parameter").forEach((leaf) => parameters.push(leaf));
      each.modules.forEach(visit);
    };
    visit(item);
    return [
      make("h3", null, item.foldedPath),
      this.facts([
        ["stands for", item.times > 1 ? `${item.times} modules that do the same; figures are of all` : null],
        ["compute", share(item.compute)],
        ["communication", item.waited + item.hidden ? timeText(item.waited + item.hidden) : null],
        ["of it waited for", share(item.waited)],
        ["parameters", item.bytes ? `${bytesText(item.bytes)} at rest on one device` : null],
      ]),
      ...this.part("What each mesh dim does", words),
      ...this.part("Parameters at rest", parameters.slice(0, 60).map((leaf) => make("li", null, ...this.chips(leaf.placed), " ", this.link(leaf.keys[0], leaf.path)))),
      ...this.part("Communication", this.totals(item)),
      ...(parameters.length > 60 ? [make("p", { class: "note" }, `${parameters.length - 60} more`)] : []),
    ];
  }

  /** Of the moves of a module's own leaves: by step and mesh dims. Members of folded modules count. */
  totals(item) {
    const sums = new Map();
    const visit = (each) => {
      for (const leaf of each.leaves) {
        for (const move of (leaf.source.gives ?? []).map((index) => this.data.moves[index])) {
          for (const [kind, dims, bytes, time] of move.steps) {
            if (!dims.length || kind === "slice" || kind === "zero") continue;
            const name = `${kind.replaceAll("_", "-")} ${dims.join(",")} ${move.phase}`;
            const sum = sums.get(name) ?? { kind, dims, phase: move.phase, count: 0, bytes: 0, time: 0 };
            sum.count += leaf.keys.length;
            sum.bytes += bytes * leaf.keys.length;
            sum.time += time * leaf.keys.length;
            sums.set(name, sum);
          }
        }
      }
      each.modules.forEach(visit);
    };
    visit(item);
    return [...sums.values()]
      .sort((a, b) => b.time - a.time)
      .map((sum) => make("li", null, ...sum.dims.map((dim) => this.dim(dim)), ` ${sum.kind.replaceAll("_", "-")}, ${sum.phase}: ${sum.count} of ${bytesText(sum.bytes)} together, ${timeText(sum.time)}`));
  }

  dim(index) {
    return make("span", { class: `dim d${index}` }, this.data.dims[index][0]);
  }

  link(key, text = this.data.keys[key]) {
    const button = make("button", { type: "button", class: "link" }, make("code", null, text));
    button.addEventListener("click", () => this.open(key));
    return button;
  }

  leafDetails(item, member) {
    const leaf = item.source;
    const many = leaf.keys.length;
    const tensors = (leaf.tensors ?? []).map((text) => (text === null ? null : this.data.texts[text]));
    const each = (value, text) => (value ? `${text(value / many)}${many > 1 ? ` each, ${text(value)} together` : ""}` : null);
    const inputs = (leaf.inputs ?? []).map((placed, place) => {
      const moves = leaf.gets.filter(([at]) => at === place);
      const row = make("li", null, ...this.chips(this.data.placed[placed]), " ");
      if (leaf.reads?.[place] !== undefined) row.append(this.link(leaf.reads[place]));
      moves.forEach(([, index]) => row.append(this.steps(this.data.moves[index])));
      return row;
    });
    const outputs = (leaf.outputs ?? []).map((placed, place) =>
      placed === null ? null : make("li", null, ...this.chips(this.data.placed[placed]), " ", make("code", null, tensors[place] ?? "")),
    );
    const gives = (leaf.gives ?? []).map((index) => this.move(this.data.moves[index]));
    return [
      make("h3", null, this.data.keys[leaf.keys[member]]),
      this.facts([
        ["stands for", many > 1 ? `${many} alike, such as ${this.data.keys[leaf.keys.at(member ? 0 : -1)]}` : null],
        ["op", leaf.kind === "node" ? make("code", null, item.op) : leaf.kind],
        ["phase", leaf.phase],
        ["at rest", leaf.rest === undefined ? null : this.chips(this.data.placed[leaf.rest])],
        ["tensor", leaf.kind === "node" ? null : make("code", null, tensors[0] ?? "")],
        ["on one device", each(leaf.bytes, bytesText)],
        [leaf.kind === "parameter" ? "optimizer's step" : "compute", each(leaf.compute, timeText)],
        ["waited for", each(leaf.waited, timeText)],
        ["hidden communication", each(leaf.hidden, timeText)],
        ["memory while it runs", leaf.memory ? `${bytesText(leaf.memory)} ${many > 1 ? "at most" : ""}` : null],
        ["local programs", leaf.programs?.map((name) => name || "–").join(", ")],
        ["recomputed", leaf.again ? "runs again in the backward" : null],
      ]),
      ...this.part("Gets", inputs),
      ...this.part("Gives", leaf.kind === "node" ? outputs.filter(Boolean) : []),
      ...this.part("Is moved", gives),
      ...this.explained(leaf.explained),
    ];
  }

  steps(move) {
    const words = move.steps.map(([kind, dims, bytes, time]) => {
      const where = dims.map((dim) => this.data.dims[dim][0]).join(", ");
      return `${kind.replaceAll("_", "-")} over ${where}${bytes ? `, ${bytesText(bytes)}, ${timeText(time)}` : ""}`;
    });
    const how = [move.ahead ? "runs ahead" : null, move.saved ? "kept for the backward" : null].filter(Boolean);
    return make("div", { class: "steps" }, [...words, ...how].join("; "));
  }

  move(move) {
    const row = make("li", null, ...this.chips(this.data.placed[move.from]), "→ ", ...this.chips(this.data.placed[move.to]));
    row.append(make("span", { class: "tag" }, move.phase), this.steps(move));
    const readers = move.readers.slice(0, 4).flatMap((key, index) => [index ? ", " : "for ", this.link(key)]);
    if (readers.length) row.append(make("div", null, ...readers, move.num_readers > 4 ? ` and ${move.num_readers - 4} more` : ""));
    return row;
  }

  explained(explained) {
    if (!explained) return [];
    const others = explained.alternatives.filter((one) => one.status !== "not_searched").map((one) => {
      const found = one.more_ps !== undefined ? `${one.more_ps < 0 ? "" : "+"}${timeText(one.more_ps)} for the best plan with it` : (one.why ?? "no plan");
      return make("li", null, ...this.chips(one.placements), " ", found);
    });
    const rest = explained.alternatives.filter((one) => one.status === "not_searched");
    if (rest.length) others.push(make("li", null, "not searched: ", ...rest.flatMap((one) => [...this.chips(one.placements), " "])));
    const blocked = explained.blocked.map((one) => make("li", null, this.dim(this.data.dims.findIndex(([name]) => name === one.mesh_dim)), ` ${one.placement}: ${one.text}`));
    return [...this.part("What else was possible", others), ...this.part("What was not", blocked)];
  }
}
