// What a workspace holds.

import { h, replace } from "../core/dom.js";
import { get, services } from "../core/api.js";
import { at } from "../core/router.js";
import { heading, loading, command, problem, empty, plainTable, size, number } from "../views/parts.js";

export async function show(main, { workspace }, signal) {
  const head = heading("Usage", `What ${workspace} holds`);
  replace(main, head, loading("Counting"));
  let list;
  try {
    list = await get(services.usage(workspace), { signal });
  } catch (error) {
    if (!signal.aborted) replace(main, head, problem(error, error.status === 403 && h("a.button", { href: at.why(workspace, { verb: "list", group: "usage.pykcp.dev", resource: "resourceusages" }) }, "Why can’t I?")));
    return;
  }
  if (signal.aborted) return;
  const items = list.items.sort((a, b) => b.status.bytes - a.status.bytes);
  const [objects, bytes] = items.reduce((sum, i) => [sum[0] + i.status.objects, sum[1] + i.status.bytes], [0, 0]);
  const most = Math.max(1, ...items.map((i) => i.status.bytes));
  replace(main, head, items.length ? [h("p", null, `${number(objects)} objects, ${size(bytes)}.`),
    plainTable(["Resource", "Objects", "Bytes", "Share"], items.map((i) => [i.metadata.name, number(i.status.objects), size(i.status.bytes), h("meter", { min: 0, max: most, value: i.status.bytes, "aria-label": `Share of ${i.metadata.name}` })]), "Usage")] : empty("This workspace is empty."),
  command(`kubectl --server "$SERVER/services/usage/clusters/${workspace}" get resourceusages`));
}
