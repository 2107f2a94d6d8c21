// Shards: whether they are alive, what they hold, their limits, and drains in progress.

import { h, say } from "../../core/dom.js";
import { get, patch, address, services } from "../../core/api.js";
import { at } from "../../core/router.js";
import { command, plainTable, badge, age, size, number, confirmed } from "../../views/parts.js";
import { listMoves, isMoving } from "./everywhere.js";

const SHARDS = { group: "core.kcp.io", version: "v1alpha1", plural: "shards" };
const CORDON = "experimental.core.kcp.io/unschedulable";

export async function content(signal, again) {
  const [list, usage, moves] = await Promise.all([
    get(address("root", SHARDS), { signal }), get(services.shardUsage, { signal }), listMoves(signal).catch(() => null),
  ]);
  const reports = new Map(usage.items.map((one) => [one.metadata.name, one.status || {}]));
  const rows = list.items.map((shard) => row(shard, reports.get(shard.metadata.name) || {}, (moves || []).filter(isMoving), again));
  return [
    plainTable(["Name", "State", "Logical clusters", "Store", "Limits", "Moves", "Report", ""], rows, "Shards"),
    rows.length === 1 && h("p.quiet", null, "A shard that runs alone does not report its load."),
    command("kubectl kcp shard list"),
    rows.length > 1 && [command("kubectl kcp shard drain NAME"), command("kubectl kcp shard rebalance")],
  ];
}

function row(shard, load, moves, again) {
  const { name, annotations = {} } = shard.metadata;
  const isAlive = load.alive !== false;
  const isCordoned = annotations[CORDON] === "true";
  const [out, into] = [moves.filter((m) => m.status?.originShard === name), moves.filter((m) => m.spec?.destinationShard === name)];
  return [
    [h("a", { href: at.object("root", SHARDS, "", name) }, name), h("div.quiet.address", null, shard.spec?.baseURL || "")],
    [badge(isAlive ? "Alive" : "Silent", isAlive ? "good" : "bad"), isCordoned && badge(out.length ? "Draining" : "Cordoned", "warn")],
    held(load, annotations), size(load.storeBytes), limits(annotations),
    [out.length > 0 && h("div", null, h("a", { href: at.admin("moves") }, `${number(out.length)} leaving`)), into.length > 0 && h("div", null, h("a", { href: at.admin("moves") }, `${number(into.length)} arriving`))],
    load.reportedAt ? age(load.reportedAt) : "",
    cordon(name, isCordoned, again),
  ];
}

const most = (annotations) => Number(annotations["core.kcp.io/max-logical-clusters"] || annotations["core.kcp.io/preferred-max-logical-clusters"] || 0);

function held(load, annotations) {
  const limit = most(annotations);
  if (load.logicalClusters === undefined || !limit) return number(load.logicalClusters);
  return [number(load.logicalClusters), h("meter", { min: 0, max: limit, value: load.logicalClusters, "aria-label": `of ${number(limit)}` })];
}

function limits(annotations) {
  const [preferred, hard] = [annotations["core.kcp.io/preferred-max-logical-clusters"], annotations["core.kcp.io/max-logical-clusters"]];
  return [preferred && `prefers ${number(Number(preferred))}`, hard && `at most ${number(Number(hard))}`].filter(Boolean).join(", ");
}

function cordon(name, isCordoned, again) {
  const [label, word] = isCordoned ? ["Uncordon", "uncordon"] : ["Cordon", "cordon"];
  const meaning = isCordoned ? "The shard gets new workspaces again." : "The shard gets no new workspaces. Those that it has stay, and are served.";
  return h("button.small", {
    type: "button",
    onclick: () => confirmed(`${label} ${name}?`, h("p", null, meaning), {
      label, commandText: `kubectl kcp shard ${word} ${name}`,
      work: async () => {
        await patch(address("root", SHARDS, "", name), { metadata: { annotations: { [CORDON]: isCordoned ? null : "true" } } });
        say(`${name} is ${word}ed.`);
        await again();
      },
    }),
  }, label);
}
