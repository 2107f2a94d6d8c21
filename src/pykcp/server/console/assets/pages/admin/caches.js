// What is published in the cache, partitions, and this server.

import { h } from "../../core/dom.js";
import { get, text, inWorkspace } from "../../core/api.js";
import { session } from "../../core/session.js";
import { at } from "../../core/router.js";
import { badge, age, command, plainTable, section } from "../../views/parts.js";
import { everywhere, where } from "./everywhere.js";

const PROGRAMS = { "front-proxy": "Front-proxy", shard: "Shard" };

export async function content(signal) {
  const [list, partitions, health, shards] = await Promise.all([
    everywhere("cache.kcp.io", "v1alpha1", "clustercachedresources", signal).catch(() => null),
    everywhere("topology.kcp.io", "v1alpha1", "partitions", signal).catch(() => null),
    text("GET", "/readyz?verbose", { accept: "text/plain", signal }).then(() => "ready", (error) => error.message),
    get(`${inWorkspace("root")}/apis/core.kcp.io/v1alpha1/shards`, { signal }).then((found) => found.items, () => []),
  ]);
  return [
    section("Servers", plainTable(["Program", "Address", "State", "Serves"], [
      [PROGRAMS[session.config.server], location.host, [badge(health === "ready" ? "Ready" : "Not ready", health === "ready" ? "good" : "bad"), health === "ready" ? "" : ` ${health}`], "this console"],
      ...shards.flatMap(({ metadata, spec }) => addresses(spec).map(([what, url]) => [`Shard ${metadata.name}`, url, "", what])),
    ], "Servers")),
    section("Cached resources", list?.length ? plainTable(["Name", "Workspace", "Resource", "Phase", "Age"], list.map((c) => [c.metadata.name, h("a", { href: at.workspace(where(c)) }, where(c)), [c.spec?.resource, c.spec?.group].filter(Boolean).join("."), badge(c.status?.phase || "Pending"), age(c.metadata.creationTimestamp)]), "Cached resources") : h("p.quiet", null, "No resource is published in the cache.")),
    section("Partitions", partitions?.length ? plainTable(["Name", "Workspace", "Selector"], partitions.map((p) => [p.metadata.name, where(p), h("code", null, JSON.stringify(p.spec?.selector || {}))]), "Partitions") : h("p.quiet", null, "There are no partitions.")),
    command("kubectl get --raw '/readyz?verbose'"),
  ];
}

function addresses({ baseURL, externalURL, virtualWorkspaceURL }) {
  const found = new Map();
  for (const [url, what] of [[baseURL, "its API"], [externalURL, "its address for clients"], [virtualWorkspaceURL, "virtual workspaces"]]) {
    if (url) found.set(url, [...(found.get(url) || []), what]);
  }
  return [...found].map(([url, uses]) => [uses.join(", "), url]);
}
