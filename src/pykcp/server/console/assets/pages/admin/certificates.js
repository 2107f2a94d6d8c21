// Certificates of servers, and until when they are valid.

import { h } from "../../core/dom.js";
import { session } from "../../core/session.js";
import { badge, command, plainTable } from "../../views/parts.js";
import { reports, unanswered } from "./everywhere.js";

const DAY = 86_400_000;

export async function content(signal) {
  const { items, problems } = await reports("certificates", signal);
  const isFleet = session.config.server === "front-proxy";
  const rows = items.map((c) => [
    ...(isFleet ? [c.shard || "front-proxy"] : []), c.use, c.error ? h("span.bad-text", null, c.error) : c.subject, c.issuer || "",
    c.notAfter ? h("time", { datetime: c.notAfter }, new Date(c.notAfter).toLocaleString(undefined, { dateStyle: "medium" })) : "", c.notAfter ? remaining(c) : "",
  ]);
  return [
    unanswered(problems),
    plainTable([...(isFleet ? ["Server"] : []), "Use", "Subject", "Issuer", "Valid until", "Remaining"], rows, "Certificates"),
    command("kubectl get --raw /debug/certificates"), isFleet && command("kubectl get --raw /services/merged/debug/certificates"),
  ];
}

function remaining(certificate) {
  const days = Math.floor((Date.parse(certificate.notAfter) - Date.now()) / DAY);
  return badge(`${days.toLocaleString("en")} days`, days < 7 ? "bad" : days < 30 ? "warn" : "good");
}
