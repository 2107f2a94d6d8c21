// One object: as YAML, with all that belongs to it; edited with the server's own difference.

import { h, replace, say } from "../core/dom.js";
import { address, get, kindOf, kinds, text, inWorkspace, follow } from "../core/api.js";
import { at, go } from "../core/router.js";
import { heading, loading, command, kubectl, resourceWord, problem, section, pairs, conditions, plainTable, age, badge, act } from "../views/parts.js";
import { withoutManagers } from "../core/yaml.js";
import { Editor } from "../views/editor.js";
import { highlighted } from "../views/highlight.js";
import { deleteDialog, blockers } from "./delete.js";

export async function show(main, place, signal) {
  const { workspace, namespace, name } = place;
  const kind = await kindOf(workspace, place.group, place.version, place.plural);
  const path = address(workspace, kind, namespace, name);
  const object = await get(path, { signal });
  if (signal.aborted) return;
  const content = h("div.object");
  const isEditing = place.query.has("edit");
  const base = at.object(workspace, kind, namespace, name);
  const mayEdit = !kind.verbs.length || kind.verbs.includes("update");
  replace(main,
    heading(name, [kind.kind, namespace && ` in namespace ${namespace}`],
      kind.plural === "workspaces" && h("a.button", { href: at.workspace(`${workspace}:${name}`) }, "Open"),
      kind.plural === "apibindings" && h("a.button", { href: at.workspace(workspace, "bindings") }, "Claims"),
      kind.plural === "apiexports" && h("a.button", { href: at.workspace(workspace, `exports/${encodeURIComponent(name)}`) }, "Consumers"),
      mayEdit && (isEditing ? h("a.button", { href: base }, "Stop editing") : h("a.button.primary", { href: `${base}?edit` }, "Edit")),
      h("button.danger", { type: "button", onclick: () => deleteDialog(workspace, kind, namespace, name, () => go(at.list(workspace, kind))) }, "Delete")),
    content);
  if (isEditing) {
    const editor = new Editor({ path, workspace, kind, namespace, name, signal, done: () => go(base) });
    content.append(editor.element);
    await editor.start();
    return;
  }
  const update = async (now) => replace(content, await body(workspace, kind, path, now, signal));
  await update(object);
  followObject(path, name, object, signal, update, content);
}

// The page changes with the object.
function followObject(path, name, object, signal, update, content) {
  const collection = path.slice(0, path.lastIndexOf("/"));
  const deleted = () => content.prepend(h("div.notice", { role: "status" }, h("strong", null, "This object was deleted.")));
  let isRead = true;
  follow({
    path: `${collection}?${new URLSearchParams({ fieldSelector: `metadata.name=${name}` })}`, signal,
    list: async () => {
      if (!isRead) { object = await get(path, { signal }); await update(object); }  // the watch was too far behind
      isRead = false;
      return object.metadata.resourceVersion;
    },
    onEvent: (event) => {
      if (event.type === "DELETED") deleted();
      else if (event.object.metadata.resourceVersion !== object.metadata.resourceVersion) { object = event.object; update(event.object).catch(() => {}); }
    },
    onState: (state, error) => { if (state === "failed" && error?.status === 404) deleted(); },
  }).catch(() => {});
}

async function body(workspace, kind, path, object, signal) {
  const { metadata } = object;
  const [yaml, events, owners] = await Promise.all([
    text("GET", path, { signal }).catch(() => JSON.stringify(object, null, 2)),
    eventsOf(workspace, object, signal), ownersOf(workspace, metadata),
  ]);
  return [
    metadata.deletionTimestamp && h("div.notice", { role: "status" }, h("strong", null, "This object is being deleted."), blockers(object)),
    h("div.columns", null,
      h("div", null, section("YAML", highlighted(withoutManagers(yaml)))),
      h("div", null,
        section("About", pairs(["Created", age(metadata.creationTimestamp)], ["UID", h("code", null, metadata.uid || "")], ["Version", h("code", null, metadata.resourceVersion || "")],
          ["Owners", owners], ["Finalizers", (metadata.finalizers || []).map((f) => h("code.block", null, f))],
          ["Labels", Object.entries(metadata.labels || {}).map(([k, v]) => h("span.tag", null, `${k}=${v}`))])),
        object.status?.conditions && section("Conditions", conditions(object.status.conditions)),
        section("Events", events),
        section("Managers", managers(metadata.managedFields)))),
    command(kubectl(workspace, "get", resourceWord(kind), metadata.name, ...(metadata.namespace ? ["-n", metadata.namespace] : []), "-o", "yaml")),
  ];
}

async function eventsOf(workspace, { metadata }, signal) {
  const where = metadata.namespace ? `/namespaces/${encodeURIComponent(metadata.namespace)}` : "";
  try {
    const query = new URLSearchParams({ fieldSelector: `involvedObject.uid=${metadata.uid}`, limit: 50 });
    const list = await get(`${inWorkspace(workspace)}/api/v1${where}/events?${query}`, { signal });
    if (!list.items.length) return h("p.quiet", null, "There are no events.");
    return plainTable(["Type", "Reason", "Message", "Last"], list.items.map((e) => [badge(e.type || "", e.type === "Warning" ? "bad" : "plain"), e.reason, e.message, age(e.lastTimestamp || e.eventTime || e.metadata.creationTimestamp)]), "Events");
  } catch (error) {
    return h("p.quiet", null, `Events cannot be shown: ${error.message}`);
  }
}

async function ownersOf(workspace, metadata) {
  if (!metadata.ownerReferences?.length) return "";
  const known = await kinds(workspace).catch(() => []);
  return metadata.ownerReferences.map((owner) => {
    const [group, version] = owner.apiVersion.includes("/") ? owner.apiVersion.split("/") : ["", owner.apiVersion];
    const kind = known.find((k) => k.group === group && k.kind === owner.kind);
    const label = `${owner.kind} ${owner.name}`;
    return h("div", null, kind ? h("a", { href: at.object(workspace, { ...kind, version }, kind.namespaced ? metadata.namespace : "", owner.name) }, label) : label);
  });
}

function managers(list) {
  if (!list?.length) return h("p.quiet", null, "No manager is recorded.");
  return plainTable(["Manager", "Operation", "Fields", "Last"], list.map((m) => [m.manager, m.subresource ? `${m.operation} (${m.subresource})` : m.operation, fields(m.fieldsV1).slice(0, 6).join(", "), age(m.time)]), "Managers");
}

function fields(tree, path = "", out = []) {
  for (const [key, value] of Object.entries(tree || {})) {
    if (!key.startsWith("f:")) continue;
    const here = path ? `${path}.${key.slice(2)}` : key.slice(2);
    const inner = Object.keys(value || {}).filter((k) => k.startsWith("f:"));
    if (inner.length && here.split(".").length < 2) fields(value, here, out);
    else out.push(here);
  }
  return out;
}
