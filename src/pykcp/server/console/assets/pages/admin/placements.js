// Multi-cluster: clusters, placements, and why workloads are where they are.

import { h } from "../../core/dom.js";
import { get, services } from "../../core/api.js";
import { at } from "../../core/router.js";
import { age, badge, command, empty, number, plainTable, section } from "../../views/parts.js";
import { where } from "./everywhere.js";

const KIND = (plural) => ({ group: "workload.kcp.dev", version: "v1alpha1", plural });

// Of all workspaces that bind multi-cluster's export; null if the user may not see them.
async function workload(plural, signal) {
  try {
    return (await get(services.exported("workload.kcp.dev", `/apis/workload.kcp.dev/v1alpha1/${plural}`), { signal })).items;
  } catch (error) {
    if (error.status === 404 || error.status === 403) return null;
    throw error;
  }
}

export async function content(signal) {
  const [clusters, placements, decisions] = await Promise.all(["clusters", "placements", "workloadbindings"].map((plural) => workload(plural, signal)));
  if (!clusters) {
    return empty("There is no multi-cluster placement that you may see.",
      h("p", null, "Bind the export ", h("code", null, "workload.kcp.dev"), " of root to register clusters. Seeing those of all workspaces requires ", h("code", null, "apiexports/content"), " of that export."),
      command("kubectl kcp bind apiexport root:workload.kcp.dev"));
  }
  return [
    section("Clusters", clusters.length ? plainTable(["Name", "Workspace", "Ready", "Why not", "Version", "Waiting", "Age"], clusters.map(clusterRow), "Clusters") : h("p.quiet", null, "No cluster is registered.")),
    section("Placements", placements?.length ? plainTable(["Name", "Workspace", "Strategy", "Workloads", "Why", "Age"], placements.map(placementRow), "Placements") : h("p.quiet", null, "There are no placements.")),
    section("Decisions", decisions?.length ? plainTable(["Workload", "Workspace", "Clusters", "Why", "Age"], decisions.map(decisionRow), "Decisions") : h("p.quiet", null, "No workload is placed.")),
    command("kubectl kcp workload explain KIND/NAME"),
  ];
}

const inWorkspace = (object) => h("a", { href: at.workspace(where(object)) }, where(object));
const link = (object, plural) => h("a", { href: at.object(where(object), KIND(plural), object.metadata.namespace, object.metadata.name) }, object.metadata.name);
const condition = (object) => (object.status?.conditions || []).find((one) => one.type === "Ready" || one.type === "Scheduled")?.status || "Unknown";
const why = (object) => (object.status?.conditions || []).filter((c) => c.status !== "True").map((c) => c.message || c.reason).filter(Boolean).join("; ");

function clusterRow(c) {
  return [link(c, "clusters"), inWorkspace(c), badge(condition(c)), c.spec?.unschedulable ? [badge("Cordoned", "warn"), " ", why(c)] : why(c), c.status?.version || "", number(c.status?.syncer?.queueDepth), age(c.metadata.creationTimestamp)];
}

function placementRow(p) {
  return [link(p, "placements"), inWorkspace(p), p.spec?.strategy || "by kind", number(p.status?.selected), why(p), age(p.metadata.creationTimestamp)];
}

function decisionRow(b) {
  const shares = (b.spec?.clusters || []).map((c) => h("span.tag", null, c.replicas === undefined ? c.name : `${c.name}: ${c.replicas}`));
  const verdicts = (b.status?.explanation || []).map((v) => h("div", null, badge(v.chosen ? "chosen" : "not chosen", v.chosen ? "good" : "plain"), ` ${v.name}${v.reason ? `: ${v.reason}` : ""}`));
  return [`${b.spec?.ref?.kind || ""} ${b.spec?.ref?.name || b.metadata.name}`, inWorkspace(b), shares, [verdicts, why(b)], age(b.metadata.creationTimestamp)];
}
