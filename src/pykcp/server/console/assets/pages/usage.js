// What a workspace holds.

import { h, replace } from "../core/dom.js";
import { services } from "../core/api.js";
import { counted, again } from "../core/counted.js";
import { at } from "../core/router.js";
import { heading, loading, command, problem, empty, plainTable, size, number } from "../views/parts.js";

export async function show(main, place, signal) {
  const { workspace } = place;
  const path = services.usage(workspace);
  const head = heading("Usage", `What ${workspace} holds`);
  const same = command(`kubectl --server "$SERVER/services/usage/clusters/${workspace}" get resourceusages`);
  replace(main, head, loading("Counting the objects of the workspace"), same);
  let found;
  try {
    found = await counted(path, signal);
  } catch (error) {
    if (!signal.aborted) replace(main, head, problem(error, error.status === 403 && h("a.button", { href: at.why(workspace, { verb: "list", group: "usage.pykcp.dev", resource: "resourceusages" }) }, "Why can’t I?")), same);
    return;
  }
  if (signal.aborted) return;
  const items = [...found.list.items].sort((a, b) => b.status.bytes - a.status.bytes);
  const [objects, bytes] = items.reduce((sum, i) => [sum[0] + i.status.objects, sum[1] + i.status.bytes], [0, 0]);
  const most = Math.max(1, ...items.map((i) => i.status.bytes));
  const share = (i) => h("meter", { min: 0, max: most, value: i.status.bytes, "aria-label": `Share of ${i.metadata.name}` });
  replace(main, head, items.length ? [h("div.cards", null, card("Objects", number(objects)), card("Bytes", size(bytes)), card("Resources", number(items.length))),
    plainTable(["Resource", "Objects", "Bytes", "Share"], items.map((i) => [i.metadata.name, number(i.status.objects), size(i.status.bytes), share(i)]), "Usage")] : empty("This workspace is empty."),
  again(path, found, () => show(main, place, signal)), same);
}

const card = (title, value) => h("div.card", null, h("span.quiet", null, title), h("strong.figure", null, value));
