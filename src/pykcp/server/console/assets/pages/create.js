// A new object, begun from the schema of its kind.

import { h, replace, say, field } from "../core/dom.js";
import { address, get, inWorkspace, kindOf, text, YAML } from "../core/api.js";
import { at, go } from "../core/router.js";
import { drafts } from "../core/session.js";
import { heading, loading, command, kubectl, act, problem } from "../views/parts.js";
import { schemaOf, resolve, typeOf, skeleton } from "../core/schema.js";
import { document as yaml, withoutManagers } from "../core/yaml.js";
import { textArea, difference } from "../views/editor.js";
import { diff } from "../core/diff.js";

export async function show(main, place, signal) {
  const { workspace } = place;
  const kind = await kindOf(workspace, place.group, place.version, place.plural);
  replace(main, heading(`New ${kind.kind}`, workspace), loading("Reading the schema"));
  const schema = await schemaOf(workspace, kind, signal).catch(() => null);
  if (signal.aborted) return;
  const key = `new:${workspace}:${kind.group}/${kind.plural}`;
  const area = textArea(() => drafts.keep(key, area.value));
  area.value = drafts.find(key) ?? yaml(begun(kind, schema));
  const problems = h("div");
  const preview = h("div");
  const create = async (query) => text("POST", `${address(workspace, kind, namespaceOf(area.value, kind))}?${query}`, { body: area.value, type: YAML });
  const check = act("Check", async () => {
    const result = withoutManagers(await create("dryRun=All&fieldValidation=Strict&fieldManager=console"));
    replace(preview, h("h2", null, "The server would store this"), difference(diff(area.value.trimEnd(), result.trimEnd())));
  }, { problems });
  const make = act("Create", async () => {
    const result = await create("fieldValidation=Strict&fieldManager=console");
    drafts.drop(key);
    say("Created.");
    const name = result.match(/^ {2}name: "?([^"\n]+)"?$/m)?.[1] || "";
    if (kind.plural === "workspaces") await ready(workspace, name, signal);
    go(kind.plural === "workspaces" ? at.workspace(`${workspace}:${name}`) : at.object(workspace, kind, namespaceOf(result, kind), name));
  }, { problems, class: "primary" });
  const same = h("div", null, command(kubectl(workspace, "create", "-f", "object.yaml", "--validate=strict")));
  replace(main, heading(`New ${kind.kind}`, workspace),
    kind.plural === "workspaces" && quickWorkspace(workspace, area, key, (...words) => replace(same, command(kubectl(workspace, "create", "workspace", ...words)))),
    h("div.columns", null,
      h("div.editor", null, area, problems, h("div.actions", null, make, check), preview),
      h("div", null, h("h2", null, "Fields"), schema ? fieldList(resolve(schema.root, schema.all), schema.all, 0) : h("p.quiet", null, "The kind has no schema."))),
    same);
  if (kind.plural !== "workspaces") area.focus({ preventScroll: true });
}

// Until it can be entered, or some seconds.
async function ready(workspace, name, signal) {
  for (let i = 0; i < 40; i++) {
    const found = await get(`${inWorkspace(workspace)}/apis/tenancy.kcp.io/v1alpha1/workspaces/${name}`, { signal });
    if (found.status?.phase === "Ready") return;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

// Most workspaces need a name and a type only.
function quickWorkspace(workspace, area, key, showCommand) {
  const name = h("input", { autocomplete: "off", spellcheck: "false", pattern: "[a-z0-9]([a-z0-9-]*[a-z0-9])?" });
  const types = h("select", null, h("option", { value: "" }, "the default type"));
  get(`${inWorkspace("root")}/apis/tenancy.kcp.io/v1alpha1/workspacetypes`).then((list) => {
    for (const type of list.items) types.append(h("option", { value: `root:${type.metadata.name}` }, `root:${type.metadata.name}`));
  }, () => {});
  const update = () => {
    const object = { apiVersion: "tenancy.kcp.io/v1alpha1", kind: "Workspace", metadata: { name: name.value } };
    if (types.value) object.spec = { type: { name: types.value.split(":").pop(), path: types.value.split(":").slice(0, -1).join(":") } };
    area.value = yaml(object);
    drafts.keep(key, area.value);
    showCommand(name.value || "NAME", ...(types.value ? ["--type", types.value] : []));
  };
  name.addEventListener("input", update);
  types.addEventListener("change", update);
  return h("div.toolbar", null, field("Name", name), field("Type", types));
}

function begun(kind, schema) {
  const object = { apiVersion: kind.group ? `${kind.group}/${kind.version}` : kind.version, kind: kind.kind, metadata: { name: "" } };
  if (kind.namespaced) object.metadata.namespace = "default";
  if (!schema) return object;
  const root = resolve(schema.root, schema.all);
  for (const [name, part] of Object.entries(root.properties || {})) {
    if (["apiVersion", "kind", "metadata", "status"].includes(name)) continue;
    const isNeeded = (root.required || []).includes(name) || name === "spec";
    if (isNeeded) object[name] = skeleton(part, schema.all);
  }
  if (kind.kind === "ConfigMap") object.data = {};
  return object;
}

function namespaceOf(text, kind) {
  if (!kind.namespaced) return "";
  return text.match(/^ {2}namespace: "?([^"\n]+)"?$/m)?.[1] || "default";
}

function fieldList(schema, all, depth) {
  const required = new Set(schema.required || []);
  const names = Object.keys(schema.properties || {}).filter((n) => depth || !["apiVersion", "kind", "status"].includes(n));
  return h("ul.fields", null, names.map((name) => {
    const part = resolve(schema.properties[name], all);
    const inner = part.properties ? part : part.items ? resolve(part.items, all) : null;
    const head = [h("code", null, name), required.has(name) && h("span.required", null, " required"), h("small", null, ` ${typeOf(schema.properties[name], all)}`)];
    const text = part.description && h("p.quiet", null, part.description);
    if (!inner?.properties || depth > 6) return h("li", null, h("p", null, head), text);
    const details = h("details", null, h("summary", null, head), text);
    details.addEventListener("toggle", () => { if (details.open && !details.querySelector("ul")) details.append(fieldList(inner, all, depth + 1)); });
    if (!depth && name === "spec") details.open = true;
    return h("li", null, details);
  }));
}
