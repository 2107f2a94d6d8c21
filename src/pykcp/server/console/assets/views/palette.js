// The command palette: go anywhere, do anything, by typing.

import { h, replace } from "../core/dom.js";
import { kinds } from "../core/api.js";
import { go, here, at } from "../core/router.js";

const MOST = 40;

export function openPalette(tree, actions) {
  if (document.querySelector("dialog.palette")) return;
  const input = h("input", { type: "text", placeholder: "Workspace, kind or command", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-label": "Workspace, kind or command", autocomplete: "off" });
  const list = h("ul", { id: "palette-list", role: "listbox", "aria-label": "Results" });
  const element = h("dialog.palette", { "aria-label": "Command palette" }, input, list);
  let found = [];
  let chosen = 0;
  let known = [];
  const workspace = here().workspace || "root";

  const draw = () => {
    const text = input.value.trim().toLowerCase();
    found = search(text, { tree, actions, known, workspace }).slice(0, MOST);
    chosen = 0;
    show();
  };
  const show = () => {
    replace(list, found.map((one, i) => h("li", {
      role: "option", id: `palette-${i}`, "aria-selected": String(i === chosen), class: i === chosen ? "chosen" : "",
      onclick: () => run(one),
    }, h("span", null, one.title), h("small", null, one.hint))), !found.length && h("li.quiet", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, "Nothing found. A path such as root:org opens that workspace."));
    input.setAttribute("aria-activedescendant", found.length ? `palette-${chosen}` : "");
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };
  const run = (one) => { element.close(); one.run(); };

  input.addEventListener("input", draw);
  element.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") chosen = Math.min(found.length - 1, chosen + 1);
    else if (event.key === "ArrowUp") chosen = Math.max(0, chosen - 1);
    else if (event.key === "Enter" && found[chosen]) { event.preventDefault(); run(found[chosen]); return; }
    else return;
    event.preventDefault();
    show();
  });
  element.addEventListener("close", () => element.remove());
  element.addEventListener("click", (event) => { if (event.target === element) element.close(); });
  document.getElementById("overlays").append(element);
  element.showModal();
  draw();
  kinds(workspace).then((list) => { known = list; draw(); }, () => {});
}

function search(text, { tree, actions, known, workspace }) {
  const out = [];
  const add = (title, hint, run) => out.push({ title, hint, run });
  if (/^:?[a-z0-9~]+(:[a-z0-9-]+)+$/.test(text)) {
    const path = text.replace(/^:/, "");
    add(path, "open this workspace", () => go(at.workspace(path)));
  }
  for (const [title, run] of actions) if (title.toLowerCase().includes(text)) add(title, "command", run);
  for (const kind of known) {
    const name = kind.group ? `${kind.plural}.${kind.group}` : kind.plural;
    if (text && !`${name} ${kind.kind} ${kind.short.join(" ")}`.toLowerCase().includes(text)) continue;
    if (kind.verbs.includes("list")) add(kind.kind, `${name} in ${workspace}`, () => go(at.list(workspace, kind)));
    if (text && kind.verbs.includes("create") && kind.verbs.includes("list")) add(`New ${kind.kind}`, `create in ${workspace}`, () => go(at.create(workspace, kind)));
  }
  if (text && tree.root) for (const node of tree.matches(text, MOST)) add(node.path, "workspace", () => go(at.workspace(node.path)));
  return out.sort((a, b) => rank(a, text) - rank(b, text));
}

function rank(one, text) {
  const title = one.title.toLowerCase();
  return title === text ? 0 : title.startsWith(text) ? 1 : 2;
}
