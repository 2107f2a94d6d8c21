// The frame around all pages: the bar, the tree, the page.

import { h, replace } from "../core/dom.js";
import { session, forget, toggleTheme } from "../core/session.js";
import { at, go, here } from "../core/router.js";
import { Tree } from "./tree.js";
import { openPalette } from "./palette.js";
import { problem, loading } from "./parts.js";

const PAGES = {
  home: () => import("../pages/overview.js"),
  overview: () => import("../pages/overview.js"),
  kinds: () => import("../pages/kinds.js"),
  r: () => import("../pages/list.js"),
  o: () => import("../pages/object.js"),
  new: () => import("../pages/create.js"),
  exports: () => import("../pages/exports.js"),
  bindings: () => import("../pages/bindings.js"),
  why: () => import("../pages/why.js"),
  trash: () => import("../pages/trash.js"),
  usage: () => import("../pages/usage.js"),
  admin: () => import("../pages/admin.js"),
};
const TABS = [["", "Overview"], ["kinds", "Resources"], ["bindings", "Bindings"], ["exports", "Exports"], ["usage", "Usage"], ["trash", "Trash"], ["why", "Why can’t I?"]];

export class Shell {
  constructor() {
    this.tree = new Tree((path) => { this.showTree(false); go(at.workspace(path)); });
    this.path = h("ol.path", { "aria-label": "Path of the workspace" });
    this.tabs = h("nav.tabs", { "aria-label": "Workspace" });
    this.page = h("main", { id: "main", tabindex: "-1" });
    this.menu = h("button.ghost.menu", { type: "button", "aria-label": "Workspaces", "aria-expanded": "false", onclick: () => this.showTree() }, "☰");
    this.element = h("div.shell", null, this.bar(), h("div.body", null, this.tree.element, h("div.content", null, this.tabs, this.page)));
    addEventListener("hashchange", () => this.show());
    addEventListener("keydown", (event) => this.onKey(event));
  }

  bar() {
    return h("header.bar", null, this.menu, h("a.brand", { href: "#/" }, h("span.mark"), "kcp"), this.path,
      h("button.search", { type: "button", onclick: () => this.palette(), "aria-keyshortcuts": "Control+K" }, h("span", null, "Search"), h("kbd", null, "Ctrl K")),
      h("a.button.ghost", { href: at.admin() }, "Admin"),
      h("button.ghost", { type: "button", onclick: toggleTheme, "aria-label": "Light or dark" }, "◐"),
      h("details.user", null, h("summary", null, h("span.avatar", { "aria-hidden": "true" }, session.user.username.replace(/^system:/, "").slice(0, 1).toUpperCase()), h("span.user-name", null, session.user.username)),
        h("div.user-menu", null, h("p.quiet", null, `Groups: ${(session.user.groups || []).join(", ")}`),
          h("p", null, h("a", { href: at.admin() }, "Administration")),
          h("button", { type: "button", onclick: () => { forget(true); location.replace("/console/"); location.reload(); } }, "Sign out"))));
  }

  start() {
    replace(document.getElementById("app"), this.element);
    this.tree.start();
    this.show();
  }

  showTree(isShown = !this.element.classList.contains("with-tree")) {
    this.element.classList.toggle("with-tree", isShown);
    this.menu.setAttribute("aria-expanded", String(isShown));
  }

  palette() {
    const workspace = here().workspace || "root";
    openPalette(this.tree, [
      ["New workspace", () => go(at.create(workspace, { group: "tenancy.kcp.io", version: "v1alpha1", plural: "workspaces" }))],
      ["Bind an API", () => go(at.workspace(workspace, "bindings"))],
      ["Exports and their consumers", () => go(at.workspace(workspace, "exports"))],
      ["Why can’t I?", () => go(at.workspace(workspace, "why"))],
      ["Restore a deleted workspace", () => go(at.workspace(workspace, "trash"))],
      ["Usage", () => go(at.workspace(workspace, "usage"))],
      ["Shards", () => go(at.admin("shards"))],
      ["Moves between shards", () => go(at.admin("moves"))],
      ["Slow requests", () => go(at.admin("requests"))],
      ["Light or dark", toggleTheme],
    ]);
  }

  onKey(event) {
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      this.palette();
    } else if (event.key === "/" && !isTyping) {
      event.preventDefault();
      this.showTree(true);
      this.tree.filter.focus();
    } else if (event.key === "?" && !isTyping) this.palette();
  }

  async show() {
    const place = here();
    this.closing?.abort();
    this.closing = new AbortController();
    const { signal } = this.closing;
    this.showPath(place);
    this.showTabs(place);
    const path = place.workspace || (place.page === "home" ? "root" : "");
    if (path) this.tree.select(path);
    replace(this.page, loading());
    try {
      const load = PAGES[place.page];
      if (!load) throw Object.assign(new Error("There is no such page."), { reason: "NotFound" });
      const page = await load();
      if (signal.aborted) return;
      await page.show(this.page, { ...place, workspace: path || place.workspace }, signal);
      const title = this.page.querySelector("h1");
      document.title = `${title?.textContent || "kcp"} · ${path || "kcp"}`;
      if (!this.isFirst) this.isFirst = true;
      else title?.focus({ preventScroll: true });
    } catch (error) {
      if (!signal.aborted && error.name !== "AbortError") replace(this.page, h("h1", null, "This page cannot be shown"), problem(error, h("button", { type: "button", onclick: () => this.show() }, "Try again")));
    }
  }

  showPath(place) {
    const names = (place.workspace || (place.page === "admin" ? "" : "root")).split(":").filter(Boolean);
    replace(this.path, names.map((name, i) => h("li", null, h("a", { href: at.workspace(names.slice(0, i + 1).join(":")) }, name))));
  }

  showTabs(place) {
    const path = place.workspace || "root";
    const active = { home: "", overview: "", r: "kinds", o: "kinds", new: "kinds" }[place.page] ?? place.page;
    this.tabs.hidden = place.page === "admin";
    replace(this.tabs, TABS.map(([tab, title]) => h("a", { href: at.workspace(path, tab), "aria-current": tab === active ? "page" : undefined }, title)));
  }
}
