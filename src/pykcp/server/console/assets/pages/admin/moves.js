// Moves of workspaces between shards.

import { h, say, field } from "../../core/dom.js";
import { address, get, post, kindOf, CLUSTERS } from "../../core/api.js";
import { at } from "../../core/router.js";
import { act, badge, age, number, command, confirmed, empty, plainTable } from "../../views/parts.js";
import { listMoves } from "./everywhere.js";

const MIGRATIONS = { group: "migration.kcp.io", version: "v1alpha1", plural: "logicalclustermigrations" };
const SHARDS = { group: "core.kcp.io", version: "v1alpha1", plural: "shards" };

export async function content(signal, again) {
  const [found, shards] = await Promise.all([listMoves(signal), get(address("root", SHARDS), { signal })]);
  if (!found) return empty("Moves between shards are not enabled.", h("p", null, "Start the shards with ", h("code", null, "--feature-gates=LogicalClusterMigration=true"), "."));
  return [
    shards.items.length > 1 && newMove(shards.items.map((one) => one.metadata.name), again),
    found.length ? plainTable(["Name", "Logical cluster", "From", "To", "Phase", "Entries", "Message", "Age"], found.map(row), "Moves")
      : empty("No workspace is being moved.", h("p", null, "A workspace can be moved to another shard while it is used.")),
    command("kubectl kcp shard move WORKSPACE --to SHARD"), command("kubectl kcp shard drain SHARD"),
  ];
}

function row({ metadata, spec, status }) {
  const message = (status?.conditions || []).find((c) => c.status === "False")?.message || "";
  return [metadata.name, h("code", null, spec?.logicalCluster || ""), status?.originShard || "", spec?.destinationShard || "", badge(status?.phase || "Preparing", status?.phase === "Completed" ? "good" : undefined), number(status?.entriesCopied), message, age(metadata.creationTimestamp)];
}

function newMove(shards, again) {
  const path = h("input", { placeholder: "root:org:team", autocomplete: "off", spellcheck: "false" });
  const to = h("select", null, shards.map((name) => h("option", { value: name }, name)));
  const problems = h("div");
  const ask = act("Move…", async () => {
    const workspace = path.value.trim().replace(/^:/, "");
    if (!workspace) throw Object.assign(new Error("Name a workspace."), { reason: "Incomplete" });
    const cluster = (await get(address(workspace, CLUSTERS, "", "cluster"))).metadata.annotations["kcp.io/cluster"];
    confirmed(`Move ${workspace} to ${to.value}?`, h("p", null, "It is served all the time; writes may be delayed by less than a second. Workspaces below it stay where they are."), {
      label: "Move", commandText: `kubectl kcp shard move :${workspace} --to ${to.value}`,
      work: () => move(cluster, to.value, again),
    });
  }, { problems });
  return h("details.panel", null, h("summary", null, "Move a workspace"), h("div.question", null, field("Workspace", path), field("To", to)), problems, h("div.actions", null, ask));
}

async function move(cluster, destinationShard, again) {
  const kind = await kindOf("root", MIGRATIONS.group, MIGRATIONS.version, MIGRATIONS.plural);
  if (kind.unknown) throw Object.assign(new Error("root does not bind the export migration.kcp.io."), { reason: "NotFound" });
  await post(address("root", MIGRATIONS), { apiVersion: "migration.kcp.io/v1alpha1", kind: "LogicalClusterMigration", metadata: { generateName: `${cluster}-` }, spec: { logicalCluster: cluster, destinationShard } });
  say("The move has begun.");
  await again();
}
