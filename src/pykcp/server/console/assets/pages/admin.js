// For administrators: shards, moves, caches, placements, certificates, requests.

import { h, replace } from "../core/dom.js";
import { get, services, inWorkspace } from "../core/api.js";
import { at } from "../core/router.js";
import { heading, loading, command, problem, empty, plainTable, badge, age, size, number, section } from "../views/parts.js";

const TABS = [["shards", "Shards"], ["moves", "Moves"], ["caches", "Caches"], ["placements", "Placements"], ["certificates", "Certificates"], ["requests", "Requests"]];
const SHOW = { shards, moves, caches, placements, certificates, requests };

export async function show(main, { tab }, signal) {
  const content = h("div", null, loading());
  replace(main, heading("Administration"), h("nav.tabs.inner", { "aria-label": "Administration" }, TABS.map(([name, title]) => h("a", { href: at.admin(name), "aria-current": name === tab ? "page" : undefined }, title))), content);
  try {
    const found = await (SHOW[tab] || shards)(signal);
    if (!signal.aborted) replace(content, found);
  } catch (error) {
    if (!signal.aborted) replace(content, problem(error));
  }
}

async function shards(signal) {
  const list = await get(`${inWorkspace("root")}/apis/core.kcp.io/v1alpha1/shards`, { signal });
  const reports = new Map((await get(services.shardUsage, { signal })).items.map((one) => [one.metadata.name, one.status || {}]));
  const rows = list.items.map((shard) => {
    const notes = shard.metadata.annotations || {};
    const load = reports.get(shard.metadata.name) || {};
    const beat = load.reportedAt;
    const isAlive = load.alive !== false;
    const isCordoned = Object.entries(notes).some(([k, v]) => /unschedulable/.test(k) && v === "true");
    return [
      h("a", { href: at.object("root", { group: "core.kcp.io", version: "v1alpha1", plural: "shards" }, "", shard.metadata.name) }, shard.metadata.name),
      [badge(isAlive ? "Alive" : "Silent", isAlive ? "good" : "bad"), isCordoned && badge("Cordoned", "warn")],
      number(load.logicalClusters), size(load.storeBytes), limits(notes), shard.spec?.baseURL || "", beat ? age(beat) : "",
    ];
  });
  return [plainTable(["Name", "State", "Logical clusters", "Store", "Limits", "Address", "Report"], rows, "Shards"),
    rows.length === 1 && h("p.quiet", null, "A shard that runs alone does not report its load."), command("kubectl ws :root && kubectl get shards"), command("kubectl kcp shard drain NAME"), command("kubectl kcp shard rebalance")];
}

function limits(notes) {
  const [preferred, most] = [notes["core.kcp.io/preferred-max-logical-clusters"], notes["core.kcp.io/max-logical-clusters"]];
  return [preferred && `prefers ${number(Number(preferred))}`, most && `at most ${number(Number(most))}`].filter(Boolean).join(", ");
}

// Everything of a kind that the user may list, in any workspace; null if the kind is not served.
async function everywhere(group, version, plural, signal) {
  try {
    return (await get(services.readable(`/apis/${group}/${version}/${plural}`), { signal })).items;
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

async function moves(signal) {
  const found = await everywhere("migration.kcp.io", "v1alpha1", "logicalclustermigrations", signal);
  if (!found) return empty("Moves between shards are not enabled.", h("p", null, "Start the shards with ", h("code", null, "--feature-gates=LogicalClusterMigration=true"), "."));
  const rows = found.map((m) => [m.metadata.name, m.spec?.logicalCluster || "", m.status?.originShard || "", m.spec?.destinationShard || "", badge(m.status?.phase || "Preparing", m.status?.phase === "Completed" ? "good" : undefined), number(m.status?.entriesCopied), (m.status?.conditions || []).find((c) => c.status === "False")?.message || "", age(m.metadata.creationTimestamp)]);
  return [rows.length ? plainTable(["Name", "Logical cluster", "From", "To", "Phase", "Entries", "Message", "Age"], rows, "Moves") : empty("No workspace is being moved."), command("kubectl kcp shard move WORKSPACE --to SHARD"), command("kubectl kcp shard drain SHARD")];
}

async function caches(signal) {
  const list = (await everywhere("cache.kcp.io", "v1alpha1", "clustercachedresources", signal)) || [];
  const health = await get("/readyz?verbose", { accept: "text/plain", signal }).then(() => "ready", (error) => (error instanceof SyntaxError ? "ready" : error.message));
  const partitions = (await everywhere("topology.kcp.io", "v1alpha1", "partitions", signal).catch(() => null)) || [];
  return [
    section("This server", h("p", null, badge(health === "ready" ? "Ready" : "Not ready", health === "ready" ? "good" : "bad"), health === "ready" ? ` ${location.host}` : ` ${health}`)),
    section("Cached resources", list.length ? plainTable(["Name", "Workspace", "Resource", "Phase", "Age"], list.map((c) => [c.metadata.name, c.metadata.annotations?.["kcp.io/path"] || c.metadata.annotations?.["kcp.io/cluster"], `${c.spec?.resource || ""}.${c.spec?.group || ""}`, badge(c.status?.phase || "Pending"), age(c.metadata.creationTimestamp)]), "Cached resources") : h("p.quiet", null, "No resource is published in the cache.")),
    section("Partitions", partitions.length ? plainTable(["Name", "Workspace", "Selector"], partitions.map((p) => [p.metadata.name, p.metadata.annotations?.["kcp.io/path"] || "", JSON.stringify(p.spec?.selector || {})]), "Partitions") : h("p.quiet", null, "There are no partitions.")),
    command("kubectl get --raw '/readyz?verbose'"),
  ];
}

// Of all workspaces that bind multi-cluster's export; null if the user may not see them.
async function workload(plural, signal) {
  try {
    return (await get(services.exported("workload.kcp.dev", `/apis/workload.kcp.dev/v1alpha1/${plural}`), { signal })).items;
  } catch (error) {
    if (error.status === 404 || error.status === 403) return null;
    throw error;
  }
}

async function placements(signal) {
  const [clusters, list, decisions] = await Promise.all(["clusters", "placements", "workloadbindings"].map((plural) => workload(plural, signal)));
  if (!clusters) return empty("There is no multi-cluster placement that you may see.", h("p", null, "Bind the export ", h("code", null, "workload.kcp.dev"), " of root to register clusters. Seeing those of all workspaces requires ", h("code", null, "apiexports/content"), " of that export."));
  const where = (o) => o.metadata.annotations?.["kcp.io/path"] || o.metadata.annotations?.["kcp.io/cluster"] || "";
  const why = (o) => (o.status?.conditions || []).filter((c) => c.status !== "True").map((c) => c.message || c.reason).filter(Boolean).join("; ");
  const ready = (o) => badge((o.status?.conditions || []).find((x) => x.type === "Ready" || x.type === "Scheduled")?.status || "Unknown");
  const verdicts = (o) => (o.status?.explanation || []).map((v) => h("div", null, `${v.name}: ${v.chosen ? "chosen" : "not chosen"}${v.reason ? `, ${v.reason}` : ""}`));
  const shares = (o) => (o.spec?.clusters || []).map((c) => h("span.tag", null, c.replicas === undefined ? c.name : `${c.name}: ${c.replicas}`));
  return [
    section("Clusters", clusters.length ? plainTable(["Name", "Workspace", "Ready", "Why not", "Version", "Waiting", "Age"], clusters.map((c) => [c.metadata.name, where(c), ready(c), c.spec?.unschedulable ? [badge("Cordoned", "warn"), " ", why(c)] : why(c), c.status?.version || "", number(c.status?.syncer?.queueDepth), age(c.metadata.creationTimestamp)]), "Clusters") : h("p.quiet", null, "No cluster is registered.")),
    section("Placements", list?.length ? plainTable(["Name", "Workspace", "Strategy", "Workloads", "Why", "Age"], list.map((p) => [p.metadata.name, where(p), p.spec?.strategy || "by kind", number(p.status?.selected), why(p), age(p.metadata.creationTimestamp)]), "Placements") : h("p.quiet", null, "There are no placements.")),
    section("Decisions", decisions?.length ? plainTable(["Workload", "Workspace", "Clusters", "Why", "Age"], decisions.map((b) => [`${b.spec?.ref?.kind || ""} ${b.spec?.ref?.name || b.metadata.name}`, where(b), shares(b), [verdicts(b), why(b)], age(b.metadata.creationTimestamp)]), "Decisions") : h("p.quiet", null, "No workload is placed.")),
    command("kubectl kcp workload explain KIND NAME"),
  ];
}

async function debugTable(name, signal) {
  const response = await get(`/debug/${name}`, { signal }).catch((error) => {
    if (error.status === 404) return null;
    throw error;
  });
  return response;
}

async function certificates(signal) {
  const found = await debugTable("certificates", signal);
  if (!found) return empty("This server does not list its certificates.");
  const days = (c) => Math.floor((Date.parse(c.notAfter) - Date.now()) / 86_400_000);
  return [plainTable(["Use", "Subject", "Issuer", "Valid until", "Remaining"], found.items.map((c) => [c.use, c.subject, c.issuer, new Date(c.notAfter).toLocaleString(), badge(`${days(c)} days`, days(c) < 7 ? "bad" : days(c) < 30 ? "warn" : "good")]), "Certificates"), command("kubectl get --raw /debug/certificates")];
}

async function requests(signal) {
  const found = await debugTable("slow-requests", signal);
  if (!found) return empty("This server does not record slow requests.");
  if (!found.items.length) return [empty("No request was slow."), command("kubectl get --raw /debug/slow-requests")];
  return [plainTable(["When", "Duration", "Request", "User", "Workspace", "Status"], found.items.map((r) => [age(r.time), `${Math.round(r.seconds * 1000)} ms`, `${r.method} ${r.path}`, r.user, r.cluster, r.status]), "Slow requests"), command("kubectl get --raw /debug/slow-requests")];
}

