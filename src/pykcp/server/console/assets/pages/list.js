// Objects of a kind, as the server's own table, watched live.

import { h, replace, debounce } from "../core/dom.js";
import { address, kindOf, pages, follow, TABLE, get, inWorkspace } from "../core/api.js";
import { at, go } from "../core/router.js";
import { heading, loading, command, kubectl, problem, empty, resourceWord } from "../views/parts.js";
import { Rows } from "../views/rows.js";

const HEIGHT = 34;

export async function show(main, place, signal) {
  const kind = await kindOf(place.workspace, place.group, place.version, place.plural);
  if (signal.aborted) return;
  const page = new ObjectList(main, place, kind, signal);
  page.start();
}

class ObjectList {
  constructor(main, place, kind, signal) {
    Object.assign(this, { main, kind, signal, workspace: place.workspace, namespace: place.query.get("ns") || "" });
    this.columns = [];
    this.byKey = new Map();
    this.found = [];
    this.sort = null;
    this.focus = 0;
    this.rows = new Rows({ height: HEIGHT, make: (i) => this.row(i), role: "grid", label: kind.kind, header: this.head = h("div.grid-head", { role: "row" }) });
    this.rows.element.addEventListener("keydown", (event) => this.onKey(event));
    this.summary = h("p.quiet", { role: "status" });
    this.state = h("span.live", { role: "img", "aria-label": "Connecting" });
    this.problems = h("div");
    this.filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter rows", oninput: debounce(80, () => this.layOut()) });
    this.body = h("div.list-body");
    signal.addEventListener("abort", () => this.rows.close());
  }

  async start() {
    const { kind, workspace } = this;
    replace(this.main,
      heading(kind.kind, `${resourceWord(kind)} in ${workspace}`, kind.verbs.includes("create") && h("a.button.primary", { href: at.create(workspace, kind) }, `New ${kind.kind}`)),
      h("div.toolbar", null, this.filter, kind.namespaced && this.namespaces(), this.state, this.summary),
      this.problems, this.body,
      command(kubectl(workspace, "get", resourceWord(kind), ...(this.namespace ? ["-n", this.namespace] : kind.namespaced ? ["-A"] : []), "--watch")));
    replace(this.body, loading());
    const path = `${address(workspace, kind, this.namespace)}?includeObject=Metadata`;
    await follow({
      path, accept: TABLE, signal: this.signal,
      list: () => this.load(path),
      onEvent: (event) => this.onEvent(event),
      onState: (state, error) => this.onState(state, error),
    }).catch((error) => this.onState("failed", error));
  }

  namespaces() {
    const select = h("select", { "aria-label": "Namespace", onchange: () => go(at.list(this.workspace, this.kind, select.value)) }, h("option", { value: "" }, "All namespaces"));
    const add = (name) => select.append(h("option", { value: name }, name));
    if (this.namespace) add(this.namespace);
    select.value = this.namespace;
    get(`${inWorkspace(this.workspace)}/api/v1/namespaces?limit=500`, { signal: this.signal }).then((list) => {
      for (const one of list.items) if (one.metadata.name !== this.namespace) add(one.metadata.name);
    }, () => {});
    return select;
  }

  async load(path) {
    const fresh = new Map();
    const version = await pages(path, TABLE, this.signal, (table) => {
      if (table.columnDefinitions?.length) this.columns = table.columnDefinitions;
      for (const row of table.rows || []) fresh.set(keyOf(row), row);
      if (fresh.size >= this.byKey.size) { this.byKey = fresh; this.layOut(); }
    });
    this.byKey = fresh;
    this.layOut();
    return version;
  }

  onEvent({ type, object }) {
    for (const row of object.rows || []) {
      if (type === "DELETED") this.byKey.delete(keyOf(row));
      else { row.isNew = true; this.byKey.set(keyOf(row), row); }
    }
    this.layOut();
  }

  onState(state, error) {
    this.state.dataset.state = state;
    const words = { live: "Live", waiting: "Reconnecting", failed: "Not live" }[state];
    this.state.setAttribute("aria-label", words);
    this.state.title = words;
    if (state === "live") replace(this.problems);
    else if (error) {
      const why = { verb: "list", group: this.kind.group, resource: this.kind.plural, namespace: this.namespace };
      replace(this.problems, problem(error, error.status === 403 && h("a.button", { href: at.why(this.workspace, why) }, "Why can’t I?")));
      if (!this.byKey.size && state === "failed") replace(this.body);
    }
  }

  layOut() {
    if (this.pending || this.signal.aborted) return;
    this.pending = requestAnimationFrame(() => { this.pending = 0; this.draw(); });
  }

  draw() {
    const text = this.filter.value.trim().toLowerCase();
    const all = [...this.byKey.values()];
    this.found = text ? all.filter((row) => row.cells.some((cell) => String(cell).toLowerCase().includes(text)) || (row.object?.metadata?.namespace || "").includes(text)) : all;
    if (this.sort) this.found.sort((a, b) => this.sort.sign * compare(a.cells[this.sort.column], b.cells[this.sort.column]));
    this.summary.textContent = text ? `${this.found.length.toLocaleString("en")} of ${all.length.toLocaleString("en")}` : `${all.length.toLocaleString("en")} objects`;
    if (!all.length) {
      replace(this.body, empty(`There are no ${this.kind.plural} here.`, this.kind.verbs.includes("create") && h("p", null, h("a.button", { href: at.create(this.workspace, this.kind) }, `New ${this.kind.kind}`))));
      return;
    }
    if (!this.rows.element.isConnected) replace(this.body, this.rows.element);
    this.shown = this.columns.map((c, i) => [c, i]).filter(([c]) => !c.priority);
    const least = [...(this.isWide() ? [8] : []), ...this.shown.map(([c]) => (c.name === "Name" ? 12 : 5))];  // in rem
    const { style } = this.rows.element;
    style.setProperty("--columns", least.map((width) => `minmax(${width}rem, ${width > 8 ? 2 : 1}fr)`).join(" "));
    style.setProperty("--least", `${least.reduce((sum, width) => sum + width + 0.75, 1.05)}rem`);
    style.maxHeight = `${HEIGHT * (this.found.length + 1) + 3}px`;
    replace(this.head, this.isWide() && h("div", { role: "columnheader" }, "Namespace"), this.shown.map(([c, i]) => h("div", { role: "columnheader", "aria-sort": this.sort?.column === i ? (this.sort.sign > 0 ? "ascending" : "descending") : undefined },
      h("button.plain", { type: "button", title: c.description, onclick: () => { this.sort = { column: i, sign: this.sort?.column === i ? -this.sort.sign : 1 }; this.layOut(); } }, c.name))));
    this.rows.resize(this.found.length);
  }

  isWide() { return this.kind.namespaced && !this.namespace; }

  row(index) {
    const row = this.found[index];
    const { name, namespace } = row.object?.metadata || {};
    const href = at.object(this.workspace, this.kind, namespace, name);
    const element = h("div.grid-row", { role: "row", "aria-rowindex": index + 2, class: `${index === this.focus ? "focused" : ""} ${row.isNew ? "fresh" : ""}`, onclick: (event) => { if (!event.target.closest("a")) go(href); } },
      this.isWide() && h("div", { role: "gridcell" }, namespace),
      this.shown.map(([c, i]) => h("div", { role: "gridcell", title: String(row.cells[i] ?? "") }, c.name === "Name" ? h("a", { href, tabindex: "-1" }, String(row.cells[i])) : format(row.cells[i]))));
    row.isNew = false;
    return element;
  }

  onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity }[event.key];
    if (step !== undefined) {
      this.focus = Math.max(0, Math.min(this.found.length - 1, this.focus + step));
      this.rows.refresh();
      this.rows.show(this.focus);
    } else if (event.key === "Enter" && event.target === this.rows.element && this.found[this.focus]) {
      const { name, namespace } = this.found[this.focus].object.metadata;
      go(at.object(this.workspace, this.kind, namespace, name));
    } else return;
    event.preventDefault();
  }
}

const keyOf = (row) => `${row.object?.metadata?.namespace || ""}/${row.object?.metadata?.name}`;
const format = (cell) => (cell === null || cell === undefined ? "" : Array.isArray(cell) ? cell.join(", ") : typeof cell === "object" ? JSON.stringify(cell) : String(cell));
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : format(a).localeCompare(format(b), undefined, { numeric: true }));
