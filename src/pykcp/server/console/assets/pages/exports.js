// APIs that a workspace offers, who uses them, and how much they hold.

import { h, replace } from "../core/dom.js";
import { address, get, services, EXPORTS } from "../core/api.js";
import { counted, again } from "../core/counted.js";
import { at } from "../core/router.js";
import { heading, loading, command, kubectl, problem, empty, plainTable, section, badge, age, size, number, conditions } from "../views/parts.js";
import { claimInWords } from "../core/words.js";

export async function show(main, { workspace, rest }, signal) {
  const name = rest[0] && rest.length === 1 ? rest[0] : "";
  return name ? showOne(main, workspace, name, signal) : showAll(main, workspace, signal);
}

async function showAll(main, workspace, signal) {
  const head = heading("Exports", `APIs that ${workspace} offers`, h("a.button.primary", { href: at.create(workspace, EXPORTS) }, "New export"));
  replace(main, head, loading());
  const list = await get(address(workspace, EXPORTS), { signal });
  if (signal.aborted) return;
  replace(main, head, list.items.length ? plainTable(["Name", "Resources", "Claims", "Ready", "Age"], list.items.map((e) => [
    h("a", { href: at.workspace(workspace, `exports/${encodeURIComponent(e.metadata.name)}`) }, e.metadata.name),
    (e.spec?.resources || []).map((r) => h("span.tag", null, r.group ? `${r.name}.${r.group}` : r.name)),
    number((e.spec?.permissionClaims || []).length), badge(readiness(e)), age(e.metadata.creationTimestamp)]), "Exports")
    : empty("This workspace exports no APIs.", h("p", null, "An export offers resources to other workspaces, which bind it.")),
  command(kubectl(workspace, "get", "apiexports")));
}

const readiness = (e) => ((e.status?.conditions || []).some((c) => c.status === "False") ? "False" : "True");

async function showOne(main, workspace, name, signal) {
  const head = heading(name, `APIExport of ${workspace}`, h("a.button", { href: at.object(workspace, EXPORTS, "", name) }, "YAML"));
  replace(main, head, loading());
  const found = await get(address(workspace, EXPORTS, "", name), { signal });
  if (signal.aborted) return;
  const consumers = h("div", null, loading("Counting"));
  replace(main, head,
    section("Consumers", consumers),
    section("Resources", (found.spec?.resources || []).length ? plainTable(["Resource", "Schema"], found.spec.resources.map((r) => [r.group ? `${r.name}.${r.group}` : r.name, h("code", null, r.schema)]), "Resources") : h("p.quiet", null, "It exports no resources.")),
    section("Claims", (found.spec?.permissionClaims || []).length ? h("ul", null, found.spec.permissionClaims.map((c) => h("li", null, claimInWords(c)))) : h("p.quiet", null, "It claims nothing of its consumers.")),
    section("Conditions", conditions(found.status?.conditions)),
    command(`kubectl --server "$SERVER${services.consumers(workspace, name).split("/apis/")[0]}" get consumers`));
  await showConsumers(consumers, workspace, name, signal);
}

async function showConsumers(place, workspace, name, signal) {
  const path = services.consumers(workspace, name);
  replace(place, loading("Counting what consumers hold"));
  try {
    const found = await counted(path, signal);
    const { items } = found.list;
    const [objects, bytes] = items.reduce((sum, c) => [sum[0] + c.status.objects, sum[1] + (c.status.bytes || 0)], [0, 0]);
    const most = Math.max(1, ...items.map((c) => c.status.bytes || 0));
    const share = (c) => h("meter", { min: 0, max: most, value: c.status.bytes || 0, "aria-label": `Share of ${c.spec.path}` });
    const rows = [...items].sort((a, b) => (b.status.bytes || 0) - (a.status.bytes || 0)).map((c) => [h("a", { href: at.workspace(c.spec.path) }, c.spec.path), c.spec.binding, badge(c.status.phase), number(c.status.objects), size(c.status.bytes), share(c), age(c.metadata.creationTimestamp)]);
    replace(place, items.length ? [h("p", null, `${number(items.length)} ${items.length === 1 ? "workspace holds" : "workspaces hold"} ${number(objects)} objects, ${size(bytes)}.`),
      plainTable(["Workspace", "Binding", "Phase", "Objects", "Bytes", "Share", "Since"], rows, "Consumers")]
      : empty("No workspace binds this export yet.", command(`kubectl kcp bind apiexport ${workspace}:${name}`)),
    again(path, found, () => showConsumers(place, workspace, name, signal)));
  } catch (error) {
    if (!signal.aborted) replace(place, problem(error, error.status === 403 && h("a.button", { href: at.why(workspace, { verb: "list", group: "apis.kcp.io", resource: "apiexports", subresource: "content", name }) }, "Why can’t I?")));
  }
}
