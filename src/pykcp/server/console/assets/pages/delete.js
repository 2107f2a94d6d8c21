// Deleting, with what would happen and what blocks it.

import { h, replace, say, field } from "../core/dom.js";
import { address, del, get } from "../core/api.js";
import { dialog, act, command, kubectl, resourceWord, problem } from "../views/parts.js";

export function deleteDialog(workspace, kind, namespace, name, done) {
  const path = address(workspace, kind, namespace, name);
  const problems = h("div");
  const check = h("div", null, h("p.quiet", null, "Asking the server whether this is possible…"));
  const isWorkspace = kind.plural === "workspaces";
  const typed = h("input", { autocomplete: "off", spellcheck: "false" });
  const button = act("Delete", async () => {
    if (isWorkspace && typed.value !== name) throw Object.assign(new Error(`Type ${name} to confirm.`), { reason: "Not confirmed" });
    await del(path);
    const rest = await get(path).catch(() => null);
    if (!rest) {
      element.close();
      say(`${name} is deleted.`);
      done();
      return;
    }
    replace(problems, h("div.notice", { role: "status" }, h("strong", null, "It is being deleted."), blockers(rest)));
    button.replaceWith(h("button", { type: "button", onclick: () => { element.close(); done(); } }, "Continue"));
  }, { problems, class: "danger" });
  const element = dialog(`Delete ${name}?`, [
    h("p", null, isWorkspace ? "Everything in the workspace is deleted, with all workspaces below it." : `The ${kind.kind} is deleted, and the objects that it owns.`),
    check,
    isWorkspace && field(`Type ${name} to confirm`, typed),
    problems,
    command(kubectl(workspace, "delete", resourceWord(kind), name, ...(namespace ? ["-n", namespace] : []))),
  ], [button]);
  del(`${path}?dryRun=All`).then(
    () => get(path).then((object) => replace(check, blockers(object)), () => replace(check)),
    (error) => replace(check, problem(error)));
}

export function blockers(object) {
  const { finalizers = [], deletionTimestamp } = object.metadata;
  const conditions = (object.status?.conditions || []).filter((c) => c.status === "False" && c.message && /Delet|Terminat/.test(c.type));
  if (!finalizers.length && !conditions.length) return h("p.quiet", null, "Nothing blocks the deletion.");
  return [
    finalizers.length > 0 && h("p", null, deletionTimestamp ? "Waits for these finalizers: " : "These finalizers run first, and block the deletion until they are done: ", finalizers.map((f) => [h("code", null, f), " "])),
    conditions.map((c) => h("p", null, c.message)),
  ];
}
