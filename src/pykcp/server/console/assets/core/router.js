// Addresses of pages, after the #: the server never sees them.

const enc = (part) => encodeURIComponent(part || "-").replaceAll("%3A", ":");
const dec = (part) => { const text = decodeURIComponent(part); return text === "-" ? "" : text; };

const place = (kind) => `${enc(kind.group)}/${kind.version}/${kind.plural}`;

export const at = {
  workspace: (path, tab) => `#/w/${enc(path)}${tab ? `/${tab}` : ""}`,
  list: (path, kind, namespace) => `#/w/${enc(path)}/r/${place(kind)}${namespace ? `?ns=${enc(namespace)}` : ""}`,
  object: (path, kind, namespace, name) => `#/w/${enc(path)}/o/${place(kind)}/${enc(namespace)}/${enc(name)}`,
  create: (path, kind) => `#/w/${enc(path)}/new/${place(kind)}`,
  why: (path, query) => `#/w/${enc(path)}/why?${new URLSearchParams(query)}`,
  admin: (tab) => `#/admin${tab ? `/${tab}` : ""}`,
};

export function here() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean);
  const found = { page: "home", query: new URLSearchParams(query || ""), rest: [] };
  try {
    if (parts[0] === "admin") return { ...found, page: "admin", tab: parts[1] || "shards" };
    if (parts[0] !== "w" || !parts[1]) return found;
    found.workspace = dec(parts[1]);
    found.page = parts[2] || "overview";
    found.rest = parts.slice(3).map(dec);
  } catch {
    return { ...found, page: "lost" };
  }
  const [group, version, plural, namespace, name] = found.rest;
  if (plural) Object.assign(found, { group, version, plural, namespace, name });
  return found;
}

export function go(hash) {
  if (location.hash === hash) window.dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = hash;
}
