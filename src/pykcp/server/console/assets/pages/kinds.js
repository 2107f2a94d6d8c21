// The kinds of a workspace.

import { h, replace, debounce } from "../core/dom.js";
import { kinds } from "../core/api.js";
import { at } from "../core/router.js";
import { heading, loading, command, kubectl, empty } from "../views/parts.js";

export async function show(main, { workspace }, signal) {
  replace(main, heading("Resources", workspace), loading());
  const found = (await kinds(workspace, true)).filter((k) => k.verbs.includes("list"));
  if (signal.aborted) return;
  const list = h("div");
  const filter = h("input", { type: "search", placeholder: "Filter kinds", "aria-label": "Filter kinds", oninput: debounce(80, draw) });
  function draw() {
    const text = filter.value.trim().toLowerCase();
    const groups = new Map();
    for (const kind of found) {
      if (text && !`${kind.plural} ${kind.kind} ${kind.group} ${kind.short.join(" ")}`.toLowerCase().includes(text)) continue;
      groups.set(kind.group, [...(groups.get(kind.group) || []), kind]);
    }
    replace(list, [...groups].sort(([a], [b]) => order(a) - order(b) || a.localeCompare(b)).map(([group, members]) => h("section", null,
      h("h2", null, group || "core"), h("ul.kinds", null, members.map((kind) => h("li", null, h("a", { href: at.list(workspace, kind) }, h("span", null, kind.kind), h("small", null, kind.plural))))))),
    !groups.size && empty("No kind matches."));
  }
  draw();
  replace(main, heading("Resources", workspace), filter, list, command(kubectl(workspace, "api-resources")));
}

const order = (group) => (group === "" ? 0 : group.endsWith("kcp.io") ? 1 : group.includes("k8s.io") ? 3 : 2);
