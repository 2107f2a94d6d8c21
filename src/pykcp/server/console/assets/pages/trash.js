// Deleted workspaces, and restoring them.

import { h, replace, say } from "../core/dom.js";
import { get, post, services } from "../core/api.js";
import { at, go } from "../core/router.js";
import { heading, loading, command, kubectl, problem, empty, plainTable, act, age, number } from "../views/parts.js";

export async function show(main, { workspace }, signal) {
  const head = heading("Trash", `Deleted workspaces of ${workspace}`);
  replace(main, head, loading());
  const problems = h("div");
  let list;
  try {
    list = await get(services.trash(workspace), { signal });
  } catch (error) {
    if (signal.aborted) return;
    const isOff = error.status === 403 && /not resolved/.test(error.message) || error.status === 404;
    replace(main, head, isOff ? empty("Deleted workspaces are not kept here.", h("p", null, "Start the server with ", h("code", null, "--workspace-undelete-window=24h"), " to keep them.")) : problem(error));
    return;
  }
  if (signal.aborted) return;
  const restore = (item, isWhole) => async () => {
    const query = new URLSearchParams({ cluster: item.cluster, ...(isWhole ? { recursive: "true" } : {}) });
    await post(services.trash(workspace, `/${item.name}/undelete?${query}`), {});
    say(`${item.name} is restored.`);
    go(at.workspace(item.path));
  };
  replace(main, head, problems, list.items.length ? plainTable(["Name", "Type", "Deleted", "Kept until", "Below it", ""], list.items.map((item) => [
    item.name, item.type, age(item.deletedAt), new Date(item.expiresAt).toLocaleString(), number(item.children),
    h("div.actions", null, act("Restore", restore(item, false), { problems, class: "small" }), item.children > 0 && act("Restore all", restore(item, true), { problems, class: "small ghost", title: "With the workspaces below it" }))]), "Deleted workspaces")
    : empty("The trash is empty."), command(kubectl("", "ws", `:${workspace}`) + " && kubectl ws undelete NAME"));
}
