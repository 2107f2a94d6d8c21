// Requests that took long.

import { h } from "../../core/dom.js";
import { session } from "../../core/session.js";
import { age, badge, command, empty, plainTable } from "../../views/parts.js";
import { reports, unanswered } from "./everywhere.js";

export async function content(signal) {
  const { items, problems, thresholdSeconds } = await reports("slow-requests", signal);
  const isFleet = session.config.server === "front-proxy";
  items.sort((a, b) => b.time.localeCompare(a.time));
  const rows = items.map((r) => [age(r.time), ...(isFleet ? [r.shard] : []), badge(`${Math.round(r.seconds * 1000).toLocaleString("en")} ms`, r.seconds > 5 ? "bad" : "warn"), h("code", null, `${r.method} ${r.path}`), r.user, h("code", null, r.cluster), String(r.status)]);
  return [
    unanswered(problems),
    rows.length ? plainTable(["When", ...(isFleet ? ["Shard"] : []), "Duration", "Request", "User", "Logical cluster", "Status"], rows, "Slow requests")
      : empty("No request was slow.", h("p", null, `Requests that take longer than ${(thresholdSeconds || 0.5) * 1000} ms are listed here; watches never are.`)),
    command(`kubectl get --raw ${isFleet ? "/services/merged" : ""}/debug/slow-requests`),
  ];
}
