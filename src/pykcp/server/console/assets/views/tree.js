// The tree of workspaces: children are loaded when a workspace is opened, changes arrive by one watch.

import { h, replace } from "../core/dom.js";
import { get, follow, services, inWorkspace, WORKSPACES } from "../core/api.js";
import { Rows } from "./rows.js";
import { problem } from "./parts.js";

const PAGE = 500;
const LONG_PAGE = 2000;  // of a workspace with many children, without the number of their children
const HEIGHT = 28;
const SLICE = 6;  // milliseconds of a frame that are spent on a search
const EVENTS = `/apis/${WORKSPACES.group}/${WORKSPACES.version}/${WORKSPACES.plural}`;

class Node {
  constructor(parent, item) {
    this.parent = parent;
    this.depth = parent ? parent.depth + 1 : 0;
    this.update(item);
    this.children = null;  // by name, once the first are loaded
    this.order = [];  // their names, sorted
    this.isOpen = false;
    this.loading = null;  // a promise
    this.gone = null;  // names that were deleted while they are loaded
  }

  add(child) {
    const { name } = child;
    const last = this.order.length - 1;
    if (last < 0 || this.order[last] < name) this.order.push(name);
    else this.order.splice(position(this.order, name), 0, name);
    this.children.set(name, child);
  }

  drop(name) {
    this.gone?.add(name);
    if (this.children.delete(name)) this.order.splice(position(this.order, name), 1);
  }

  update(item) {
    this.name = item.name;
    this.path = item.path;
    this.cluster = item.cluster || this.cluster || "";
    this.type = item.type || "";
    this.phase = item.phase || "";
    this.mount = item.mount;
    this.isDeleting = Boolean(item.deletionTimestamp);
    if (item.children !== undefined) this.count = item.children;
  }

  get mayOpen() {
    return this.children ? this.order.length > 0 || Boolean(this.loading) : this.count !== 0 && !this.mount && this.phase !== "Scheduling";
  }
}

export class Tree {
  constructor(open) {
    this.open = open;  // called with a path
    this.flat = [];
    this.byCluster = new Map();
    this.current = "";
    this.focus = 0;
    this.rows = new Rows({ height: HEIGHT, make: (i) => this.row(i), role: "tree", label: "Workspaces" });
    this.state = h("span.live", { role: "img", "aria-label": "Connecting" });
    this.notes = h("div.tree-notes");
    this.filter = h("input", { type: "search", placeholder: "Filter or type a path", "aria-label": "Filter workspaces, or type a path and press Enter", oninput: () => this.layOut() });
    this.filter.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && this.filter.value.includes(":")) this.open(this.filter.value.trim().replace(/^:/, ""));
      if (event.key === "ArrowDown") this.rows.element.focus();
    });
    this.element = h("nav.tree", { "aria-label": "Workspaces" },
      h("div.tree-head", null, this.filter, this.state), this.notes, this.rows.element);
    this.rows.element.addEventListener("keydown", (event) => this.onKey(event));
    this.ending = new AbortController();
  }

  async start() {
    this.root = new Node(null, { name: "root", path: "root", cluster: "root", phase: "Ready" });
    this.byCluster.set("root", this.root);
    this.root.isOpen = true;
    const { signal } = this.ending;
    follow({
      path: services.readable(EVENTS), signal,
      list: () => this.load(this.root),
      onEvent: (event) => this.onEvent(event),
      onState: (state) => this.onState(state),
    }).catch((error) => this.note(error));
    this.findHome();
  }

  close() {
    this.ending.abort();
    this.rows.close();
  }

  onState(state) {
    const words = { live: "Live", waiting: "Reconnecting", failed: "Not live" };
    this.state.dataset.state = state;
    this.state.setAttribute("aria-label", words[state]);
    this.state.title = words[state];
  }

  note(error) {
    replace(this.notes, error.status === 403 ? h("p.quiet", null, "You may not list the workspaces of root. Type a path to open a workspace.") : problem(error));
  }

  // The user's own workspace, for users who may not see the rest.
  async findHome() {
    try {
      const home = await get(`${inWorkspace("root")}${EVENTS}/~`);
      const url = home.spec?.URL || "";
      const path = decodeURIComponent(url.slice(url.indexOf("/clusters/") + 10));
      if (!path || home.status?.phase !== "Ready") return;
      this.home = path;
      this.notes.append(h("p", null, h("a.home", { href: `#/w/${path}` }, "⌂ Home workspace")));
    } catch {
      // There are no home workspaces here.
    }
  }

  // Load the children of a node, once at a time; returns the version to watch from.
  load(node) {
    node.loading ||= this.read(node).finally(() => { node.loading = null; this.layOut(); });
    return node.loading;
  }

  async read(node) {
    const isFirst = !node.children;
    const seen = isFirst ? null : new Set();
    let version = "";
    let token = "";
    node.children ||= new Map();
    node.gone = new Set();
    try {
      do {
        const query = { depth: 1, limit: PAGE };
        if (token) Object.assign(query, { continue: token, limit: LONG_PAGE, counts: "false" });
        const page = await get(services.tree(node.path, query), { signal: this.ending.signal });
        version ||= page.metadata.resourceVersion;
        token = page.metadata.continue || "";
        for (const item of page.items || []) {
          seen?.add(item.name);
          if (!node.gone.has(item.name)) this.learn(node, item);
        }
        node.count = node.order.length;
        node.problem = null;
        this.layOut();
      } while (token);
      if (seen) for (const name of [...node.order]) if (!seen.has(name)) node.drop(name);
      node.count = node.order.length;
      if (node === this.root) for (const child of node.children.values()) if (child.isOpen) this.load(child);
    } catch (error) {
      if (error.name === "AbortError") return version;
      if (isFirst && !node.order.length) { node.children = null; node.isOpen = node === this.root; }
      if (node !== this.root) node.problem = error;
      else if (error.status === 403) { this.note(error); return "0"; }
      else throw error;
    } finally {
      node.gone = null;
    }
    return version;
  }

  learn(parent, item) {
    let child = parent.children.get(item.name);
    if (child) child.update(item);
    else parent.add(child = new Node(parent, item));
    if (child.cluster) this.byCluster.set(child.cluster, child);
    return child;
  }

  onEvent({ type, object }) {
    const parent = this.byCluster.get(object.metadata.annotations?.["kcp.io/cluster"]);
    if (!parent) return;
    const name = object.metadata.name;
    if (!parent.children) {
      if (type === "ADDED") parent.count = (parent.count || 0) + 1;
      if (type === "DELETED" && parent.count) parent.count--;
      this.layOut();
      return;
    }
    if (type === "DELETED") parent.drop(name);
    else {
      const kind = object.spec?.type;
      parent.gone?.delete(name);
      const isNew = !parent.children.has(name);
      const child = this.learn(parent, {
        name, path: `${parent.path}:${name}`, cluster: object.spec?.cluster, type: kind ? `${kind.path}:${kind.name}` : "",
        phase: object.status?.phase, mount: object.spec?.mount, deletionTimestamp: object.metadata.deletionTimestamp,
      });
      if (isNew) child.count = 0;
      else { this.rows.refresh(); return; }  // nothing moves
    }
    parent.count = parent.order.length;
    this.layOut();
  }

  layOut() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      const text = this.filter.value.trim().toLowerCase();
      this.search = text ? { text, found: [], way: [{ node: { children: new Map([["root", this.root]]), order: ["root"] }, next: 0 }] } : null;
      if (this.search) { this.searchOn(this.search); return; }
      this.flat = [];
      this.collect(this.root);
      this.rows.resize(this.flat.length);
    });
  }

  // A little in every frame, so that typing is never delayed.
  searchOn(search) {
    if (search !== this.search) return;
    const end = performance.now() + SLICE;
    const { text, found, way } = search;
    for (let steps = 1; way.length && (steps % 256 || performance.now() < end); steps++) {
      const place = way[way.length - 1];
      if (place.next >= place.node.order.length) { way.pop(); continue; }
      const node = place.node.children.get(place.node.order[place.next++]);
      if (!node) continue;
      if (node.path.includes(text)) found.push(node);  // paths are lower case
      if (node.children) way.push({ node, next: 0 });
    }
    this.flat = found;
    this.rows.resize(found.length);
    if (way.length) requestAnimationFrame(() => this.searchOn(search));
  }

  collect(top) {
    const stack = [top];
    while (stack.length) {
      const node = stack.pop();
      this.flat.push(node);
      if (!node.isOpen || !node.children) continue;
      for (let i = node.order.length - 1; i >= 0; i--) stack.push(node.children.get(node.order[i]));
    }
  }

  matches(text, most) {
    const found = [];
    const stack = [this.root];
    while (stack.length && found.length < most) {
      const node = stack.pop();
      if (node.path.includes(text)) found.push(node);
      if (node.children) for (const child of node.children.values()) stack.push(child);
    }
    return found;
  }

  toggle(node, isOpen = !node.isOpen) {
    if (isOpen && !node.mayOpen) return;
    node.isOpen = isOpen;
    if (isOpen && !node.children) this.load(node).catch((error) => this.note(error));
    this.layOut();
  }

  select(path) {
    this.current = path;
    this.rows.refresh();
    this.reveal(path);
  }

  // Open the way to a path, loading what is not known yet.
  async reveal(path) {
    const names = path.split(":");
    if (names.shift() !== "root" || !this.root) return;
    let node = this.root;
    for (const name of names) {
      node.isOpen = true;
      if (!node.children?.has(name) && (node.loading || !node.children)) await this.load(node).catch(() => {});
      node = node.children?.get(name);
      if (!node || this.current !== path) { this.layOut(); return; }
    }
    this.layOut();
    requestAnimationFrame(() => requestAnimationFrame(() => {
      const index = this.flat.findIndex((one) => one.path === path);
      if (index >= 0) { this.focus = index; this.rows.show(index); }
    }));
  }

  row(index) {
    const node = this.flat[index];
    const isFiltered = Boolean(this.filter.value.trim());
    const mark = node.mayOpen && !isFiltered ? (node.isOpen ? "▾" : "▸") : "";
    const phase = node.isDeleting ? "Terminating" : node.phase;
    const element = h("div.tree-row", {
      role: "treeitem", "aria-level": isFiltered ? 1 : node.depth + 1,
      "aria-setsize": isFiltered ? this.flat.length : node.parent?.order.length || 1,
      "aria-posinset": isFiltered ? index + 1 : node.parent ? position(node.parent.order, node.name) + 1 : 1, "aria-selected": String(node.path === this.current),
      "aria-expanded": node.mayOpen ? String(node.isOpen) : undefined, id: `ws-${index}`,
      class: `${node.path === this.current ? "current" : ""} ${index === this.focus ? "focused" : ""}`,
      title: [node.path, node.type, phase].filter(Boolean).join("\n"),
      onclick: (event) => {
        this.focus = index;
        if (event.target.classList.contains("twist")) this.toggle(node);
        else this.open(node.path);
      },
    }, h("span.twist", { "aria-hidden": "true" }, mark),
      h("span.name", null, isFiltered ? node.path : node.name),
      node.mount && h("span.tag", null, "mount"),
      phase && phase !== "Ready" && h("span.tag", { class: phase === "Terminating" ? "bad" : "" }, phase),
      node.problem && h("span.tag.bad", { title: node.problem.message }, "not listed"),
      node.count > 0 && h("span.count", null, node.count.toLocaleString("en")));
    element.style.paddingLeft = `${0.2 + 0.95 * (isFiltered ? 0 : Math.min(node.depth, 12))}rem`;
    return element;
  }

  onKey(event) {
    const node = this.flat[this.focus];
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity }[event.key];
    if (step !== undefined) this.move(this.focus + step);
    else if (event.key === "ArrowRight" && node) node.isOpen ? this.move(this.focus + 1) : this.toggle(node, true);
    else if (event.key === "ArrowLeft" && node) node.isOpen ? this.toggle(node, false) : node.parent && this.move(this.flat.indexOf(node.parent));
    else if ((event.key === "Enter" || event.key === " ") && node) this.open(node.path);
    else return;
    event.preventDefault();
  }

  move(index) {
    this.focus = Math.max(0, Math.min(this.flat.length - 1, index));
    this.rows.refresh();
    this.rows.show(this.focus);
    this.rows.element.setAttribute("aria-activedescendant", `ws-${this.focus}`);
  }
}

function position(order, name) {
  let low = 0;
  let high = order.length;
  while (low < high) {
    const half = (low + high) >> 1;
    if (order[half] < name) low = half + 1;
    else high = half;
  }
  return low;
}
