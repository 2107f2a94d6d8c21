// A workspace at a glance.

import { h, replace } from "../core/dom.js";
import { get, address, inWorkspace, CLUSTERS, WORKSPACES } from "../core/api.js";
import { at, go } from "../core/router.js";
import { badge, pairs, section, conditions, command, kubectl, problem, loading, age, plainTable, heading, empty } from "../views/parts.js";
import { deleteDialog } from "./delete.js";

export async function show(main, { workspace }, signal) {
  replace(main, heading(lastName(workspace), subtitle(workspace)), loading());
  const [cluster, item] = await Promise.allSettled([get(address(workspace, CLUSTERS, "", "cluster"), { signal }), ownWorkspace(workspace, signal)]);
  if (signal.aborted) return;
  const found = item.status === "fulfilled" ? item.value : null;
  if (cluster.status === "rejected" && !found) {
    replace(main, heading(lastName(workspace), subtitle(workspace)), problem(cluster.reason,
      h("a.button", { href: at.why(workspace, { verb: "get", resource: "logicalclusters", group: "core.kcp.io", name: "cluster" }) }, "Why can’t I?")));
    return;
  }
  const logical = cluster.value || {};
  const about = found || {};
  const kind = about.spec?.type;
  const phase = about.metadata?.deletionTimestamp ? "Terminating" : logical.status?.phase || about.status?.phase || "";
  replace(main,
    heading(lastName(workspace), subtitle(workspace),
      h("a.button.primary", { href: at.create(workspace, WORKSPACES) }, "New workspace"),
      found && h("button.danger", { type: "button", onclick: () => deleteDialog(parent(workspace), { ...WORKSPACES, kind: "Workspace" }, "", about.metadata.name, () => go(at.workspace(parent(workspace)))) }, "Delete")),
    h("div.cards", null,
      card("Phase", badge(phase || "Unknown")),
      kind && card("Type", h("a", { href: at.object(kind.path, { group: "tenancy.kcp.io", version: "v1alpha1", plural: "workspacetypes" }, "", kind.name) }, `${kind.path}:${kind.name}`)),
      card("Logical cluster", h("code", null, about.spec?.cluster || logical.metadata?.annotations?.["kcp.io/cluster"] || workspace)),
      shardOf(about, logical),
      card("Age", age(logical.metadata?.creationTimestamp || about.metadata?.creationTimestamp))),
    blocked(about, logical),
    about.spec?.mount && section("Mount", h("p", null, "Requests to this workspace are sent to the server that this object names."), pairs(...Object.entries(about.spec.mount.ref || {}))),
    pending(logical),
    section("Children", await children(workspace, signal)),
    section("Conditions", conditions(logical.status?.conditions?.length ? logical.status.conditions : about.status?.conditions)),
    section("Details", pairs(
      ["URL", h("code", null, logical.status?.URL || about.spec?.URL || "")],
      ["Created by", logical.spec?.createdBy?.username || ""],
      ["Protected from deletion", about.metadata?.annotations?.["tenancy.pykcp.io/deletion-protection"] === "true" ? "yes" : ""],
      ["Labels", labels(about.metadata?.labels)])),
    command(`kubectl ws :${workspace} && kubectl ws tree`));
}

const lastName = (path) => path.split(":").pop();
const parent = (path) => path.split(":").slice(0, -1).join(":");
const subtitle = (path) => (path.includes(":") ? path : "");
const card = (title, ...value) => h("div.card", null, h("span.quiet", null, title), h("strong", null, value));
const labels = (map) => (map ? Object.entries(map).map(([k, v]) => h("span.tag", null, `${k}=${v}`)) : "");

async function ownWorkspace(path, signal) {
  return parent(path) ? get(address(parent(path), WORKSPACES, "", lastName(path)), { signal }) : null;
}

function shardOf(about, logical) {
  const shard = about.metadata?.annotations?.["core.kcp.io/shard"] || about.status?.shard || logical.metadata?.annotations?.["kcp.io/shard"];
  return shard && card("Shard", shard);
}

function blocked(about, logical) {
  if (!about.metadata?.deletionTimestamp) return null;
  const found = (logical.status?.conditions || about.status?.conditions || []).find((c) => c.type === "WorkspaceContentDeleted" && c.status === "False");
  return h("div.notice", { role: "status" }, h("strong", null, "This workspace is being deleted."), h("p", null, found?.message || "Its content is being deleted."),
    h("p.quiet", null, "Objects with finalizers block the deletion until their controllers remove them. The workspace can still be opened to do that."));
}

function pending(logical) {
  const waiting = logical.status?.initializers || [];
  return waiting.length > 0 && h("div.notice", { role: "status" }, h("strong", null, "Not ready yet."), h("p", null, `Waiting for: ${waiting.join(", ")}`));
}

async function children(path, signal) {
  try {
    const list = await get(`${inWorkspace(path)}/apis/tenancy.kcp.io/v1alpha1/workspaces?limit=20`, { signal });
    if (!list.items.length) return empty("There are no workspaces in this one.", h("p", null, h("a.button", { href: at.create(path, WORKSPACES) }, "New workspace")));
    return [plainTable(["Name", "Type", "Phase", "Age"], list.items.map((w) => [
      h("a", { href: at.workspace(`${path}:${w.metadata.name}`) }, w.metadata.name), w.spec?.type?.name || "",
      badge(w.metadata.deletionTimestamp ? "Terminating" : w.status?.phase || ""), age(w.metadata.creationTimestamp)]), "Workspaces"),
    list.metadata.remainingItemCount > 0 && h("p", null, h("a", { href: at.list(path, WORKSPACES) }, `And ${list.metadata.remainingItemCount.toLocaleString("en")} more`)), command(kubectl(path, "get", "workspaces"))];
  } catch (error) {
    return problem(error);
  }
}
