// The schema of a kind, from the workspace's OpenAPI documents.

import { get, inWorkspace } from "./api.js";

export async function schemaOf(workspace, kind, signal) {
  const index = await get(`${inWorkspace(workspace)}/openapi/v3`, { signal });
  const place = index.paths[kind.group ? `apis/${kind.group}/${kind.version}` : `api/${kind.version}`];
  if (!place) return null;
  const relative = place.serverRelativeURL;
  const path = relative.startsWith("/clusters/") || relative.startsWith("/services/") ? relative : inWorkspace(workspace) + relative;
  const document = await get(path, { signal });
  const all = document.components?.schemas || {};
  const found = Object.values(all).find((s) => (s["x-kubernetes-group-version-kind"] || []).some((g) => g.kind === kind.kind && g.group === kind.group && g.version === kind.version));
  return found ? { root: found, all } : null;
}

export function resolve(schema, all) {
  if (!schema) return {};
  const ref = schema.$ref || schema.allOf?.find((s) => s.$ref)?.$ref;
  return ref ? { ...all[ref.split("/").pop()], description: schema.description || all[ref.split("/").pop()]?.description } : schema;
}

export function typeOf(schema, all) {
  const found = resolve(schema, all);
  if (found.type === "array") return `list of ${typeOf(found.items, all)}`;
  if (found.type === "object" && found.additionalProperties) return `map of ${typeOf(found.additionalProperties, all)}`;
  if (found["x-kubernetes-int-or-string"]) return "integer or string";
  return found.type || "object";
}

// The smallest object that has all required fields.
export function skeleton(schema, all, depth = 0) {
  const found = resolve(schema, all);
  if (found.default !== undefined) return found.default;
  if (found.enum) return found.enum[0];
  if (found.type === "array") return [];
  if (found.type === "object" || found.properties) {
    const out = {};
    if (depth < 6) for (const name of found.required || []) out[name] = skeleton(found.properties?.[name], all, depth + 1);
    return out;
  }
  return { integer: 0, number: 0, boolean: false }[found.type] ?? "";
}
