// What pages for administrators read from all shards.

import { h } from "../../core/dom.js";
import { get, services } from "../../core/api.js";

// Everything of a kind that the user may list, in any workspace; null if the kind is not served.
export async function everywhere(group, version, plural, signal) {
  try {
    return (await get(services.readable(`/apis/${group}/${version}/${plural}`), { signal })).items;
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

// Moves between shards; null if they are not enabled.
export const listMoves = (signal) => everywhere("migration.kcp.io", "v1alpha1", "logicalclustermigrations", signal);

export const isMoving = (move) => !["Completed", "Failed"].includes(move.status?.phase);

export const where = (object) => object.metadata.annotations?.["kcp.io/path"] || object.metadata.annotations?.["kcp.io/cluster"] || "";

// A report of this server, or of all shards behind this front-proxy: {items, problems}.
export async function reports(name, signal) {
  const found = await Promise.allSettled(services.reports(name).map((path) => get(path, { signal })));
  const served = found.filter((one) => one.status === "fulfilled").map((one) => one.value);
  if (!served.length) throw found[0].reason;
  return { items: served.flatMap((one) => one.items || []), problems: served.flatMap((one) => one.problems || []), thresholdSeconds: served[0].thresholdSeconds };
}

export const unanswered = (problems) => problems.map((one) => h("div.notice", { role: "status" }, h("strong", null, `Shard ${one.shard}: `), one.message));
