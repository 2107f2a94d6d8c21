// Deleted workspaces, and restoring them.

import { h, replace, say } from "../core/dom.js";
import { get, post, services } from "../core/api.js";
import { at, go } from "../core/router.js";
import { heading, loading, command, kubectl, problem, empty, plainTable, confirmed, age, number } from "../views/parts.js";

export async function show(main, { workspace }, signal) {
  const head = heading("Trash", `Deleted workspaces of ${workspace}`);
  replace(main, head, loading());
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
  const restore = (item, isWhole) => h("button.small", {
    type: "button", class: isWhole ? "ghost" : "",
    onclick: () => confirmed(`Restore ${item.name}?`, h("p", null, isWhole ? `The workspace is restored with its content and the ${number(item.children)} workspaces below it.` : "The workspace is restored with its content, as it was when it was deleted."), {
      label: "Restore", commandText: `kubectl ws undelete :${item.path}${isWhole ? " --recursive" : ""}`,
      work: async () => {
        const query = new URLSearchParams({ cluster: item.cluster, ...(isWhole ? { recursive: "true" } : {}) });
        await post(services.trash(workspace, `/${item.name}/undelete?${query}`), {});
        say(`${item.name} is restored.`);
        go(at.workspace(item.path));
      },
    }),
  }, isWhole ? "Restore all" : "Restore");
  replace(main, head, list.items.length ? plainTable(["Name", "Type", "Deleted", "Kept until", "Below it", ""], list.items.map((item) => [
    item.name, item.type, age(item.deletedAt), new Date(item.expiresAt).toLocaleString(), number(item.children),
    h("div.actions", null, restore(item, false), item.children > 0 && restore(item, true))]), "Deleted workspaces")
    : empty("The trash is empty.", h("p", null, "Deleted workspaces are kept here for a while and can be restored.")), command(kubectl(workspace, "ws", "trash")));
}
