// The public API, as any other client uses it.

import { token, session } from "./session.js";

export const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
export const YAML = "application/yaml";
export const MERGE = "application/merge-patch+json";
const PAGE = 500;

export class ApiError extends Error {
  constructor(status, body) {
    super(body?.message || `The server answered with status ${status}.`);
    this.status = status;
    this.reason = body?.reason || "";
    this.details = body?.details || {};
  }
}

export class Unreachable extends Error {
  constructor() {
    super("The server does not answer.");
    this.status = 0;
    this.reason = "Unreachable";
  }
}

// Asked for a new sign-in when a request gets 401; resolves when the user has signed in again.
export const signIn = { again: null };

async function send(method, path, options = {}) {
  const headers = { Accept: options.accept || "application/json", ...options.headers };
  const bearer = token();
  if (bearer) headers.Authorization = `Bearer ${bearer}`;
  let body = options.body;
  if (body !== undefined) {
    headers["Content-Type"] = options.type || "application/json";
    if (typeof body !== "string") body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, {
      method, headers, body, signal: options.signal, cache: "no-store", redirect: "error",
      credentials: "same-origin", referrerPolicy: "no-referrer",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable();
  }
  if (response.status === 401 && session.user && signIn.again && !options.isSignIn) {
    await signIn.again();
    return send(method, path, options);
  }
  if (!response.ok) {
    const text = await response.text();
    let content = null;
    try {
      content = JSON.parse(text);
    } catch {
      content = text ? { message: text.slice(0, 2000) } : null;
    }
    throw new ApiError(response.status, content);
  }
  return response;
}

export async function json(method, path, options) {
  return (await send(method, path, options)).json();
}

export const get = (path, options) => json("GET", path, options);
export const post = (path, body, options) => json("POST", path, { body, ...options });
export const del = (path, options) => json("DELETE", path, options);
export const patch = (path, body, options) => json("PATCH", path, { body, type: MERGE, ...options });

export async function text(method, path, options) {
  return (await send(method, path, { accept: YAML, ...options })).text();
}

// --- addresses

export const inWorkspace = (path) => `/clusters/${encodeURIComponent(path).replaceAll("%3A", ":")}`;

export function address(workspace, kind, namespace, name) {
  const root = kind.group ? `/apis/${kind.group}/${kind.version}` : `/api/${kind.version}`;
  const within = namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  const last = name ? `/${encodeURIComponent(name)}` : "";
  return `${inWorkspace(workspace)}${root}${within}/${kind.plural}${last}`;
}

const prefix = () => (session.config?.server === "front-proxy" ? "/services/merged" : "/services");
export const services = {
  tree: (path, query) => `/services/tree/clusters/${path}?${new URLSearchParams(query)}`,
  readable: (rest) => `${prefix()}/readable/clusters/*${rest}`,
  exported: (name, rest) => `${prefix()}/apiexport/root/${name}/clusters/*${rest}`,
  access: (path, plural) => `/services/access/clusters/${path}/apis/access.pykcp.dev/v1alpha1/${plural}`,
  usage: (path) => `/services/usage/clusters/${path}/apis/usage.pykcp.dev/v1alpha1/resourceusages`,
  shardUsage: "/services/usage/clusters/root/apis/usage.pykcp.dev/v1alpha1/shardusages",
  reports: (name) => (session.config?.server === "front-proxy" ? [`/services/merged/debug/${name}`, ...(name === "certificates" ? [`/debug/${name}`] : [])] : [`/debug/${name}`]),
  trash: (path, rest = "") => `/services/trash/clusters/${path}/workspaces${rest}`,
  consumers: (path, name) =>
    `/services/exports/${path}/${encodeURIComponent(name)}/clusters/*/apis/usage.pykcp.dev/v1alpha1/consumers`,
};

export const WORKSPACES = { group: "tenancy.kcp.io", version: "v1alpha1", plural: "workspaces" };
export const EXPORTS = { group: "apis.kcp.io", version: "v1alpha2", plural: "apiexports" };
export const BINDINGS = { group: "apis.kcp.io", version: "v1alpha2", plural: "apibindings" };
export const CLUSTERS = { group: "core.kcp.io", version: "v1alpha1", plural: "logicalclusters" };

// --- lists, page by page

export async function pages(path, accept, signal, use) {
  let token = "";
  for (;;) {
    const query = new URLSearchParams({ limit: PAGE });
    if (token) query.set("continue", token);
    const joint = path.includes("?") ? "&" : "?";
    let found;
    try {
      found = await get(path + joint + query, { accept, signal });
    } catch (error) {
      if (error.status === 410 && token) return pages(path, accept, signal, use);  // too slow: again
      throw error;
    }
    token = found.metadata?.continue || "";
    use(found, !token);
    if (!token) return found.metadata?.resourceVersion || "";
  }
}

// --- watches, which reconnect until their signal ends them

const wait = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
});

async function* lines(body, signal) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let parts = [];
  signal.addEventListener("abort", () => reader.cancel().catch(() => {}), { once: true });
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    let chunk = decoder.decode(value, { stream: true });
    let end;
    while ((end = chunk.indexOf("\n")) >= 0) {
      parts.push(chunk.slice(0, end));
      chunk = chunk.slice(end + 1);
      const line = parts.join("");
      parts = [];
      if (line) yield JSON.parse(line);
    }
    if (chunk) parts.push(chunk);
  }
}

// `follow({path, accept, signal, list, onEvent, onState})`: list() returns the version to go on from.
// Without bookmarks, so that an idle page costs the server nothing: at worst it lists again.
export async function follow({ path, accept, signal, list, onEvent, onState = () => {} }) {
  let version = "";
  let pause = 500;
  while (!signal.aborted) {
    try {
      if (!version) version = await list();
      const query = new URLSearchParams({ watch: "true", resourceVersion: version });
      const joint = path.includes("?") ? "&" : "?";
      const response = await send("GET", path + joint + query, { accept, signal });
      onState("live");
      pause = 500;
      for await (const event of lines(response.body, signal)) {
        if (event.type === "ERROR") {
          if (event.object?.code === 410) version = "";
          break;
        }
        const newest = event.object?.metadata?.resourceVersion || event.object?.rows?.[0]?.object?.metadata?.resourceVersion;
        if (newest) version = newest;
        if (event.type !== "BOOKMARK") onEvent(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 410) version = "";
      else if (error.status && error.status !== 503 && error.status !== 429 && error.status !== 502) {
        onState("failed", error);
        return;
      } else onState("waiting", error);
      await wait(pause, signal);
      pause = Math.min(pause * 2, 15000);
    }
  }
}

// --- discovery: which kinds a workspace serves

const DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const known = new Map();

export async function kinds(workspace, isFresh) {
  if (!isFresh && known.has(workspace)) return known.get(workspace);
  const root = inWorkspace(workspace);
  const found = [];
  for (const path of ["/api", "/apis"]) {
    const groups = await get(root + path, { accept: DISCOVERY });
    for (const group of groups.items || []) {
      const seen = new Set();
      for (const version of group.versions || []) {
        for (const one of version.resources || []) {
          if (seen.has(one.resource)) continue;
          seen.add(one.resource);
          found.push({
            group: group.metadata?.name || "", version: version.version, plural: one.resource,
            kind: one.responseKind?.kind || one.resource, namespaced: one.scope === "Namespaced",
            verbs: one.verbs || [], short: one.shortNames || [],
            subresources: (one.subresources || []).map((s) => s.subresource),
          });
        }
      }
    }
  }
  found.sort((a, b) => a.plural.localeCompare(b.plural) || a.group.localeCompare(b.group));
  known.set(workspace, found);
  if (known.size > 50) known.delete(known.keys().next().value);
  return found;
}

export async function kindOf(workspace, group, version, plural) {
  const found = (await kinds(workspace)).find((k) => k.group === group && k.plural === plural);
  return found ? { ...found, version: version || found.version } : { group, version, plural, kind: plural, namespaced: false, verbs: [], subresources: [], unknown: true };
}

export async function whoAmI() {
  const kind = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
  const review = await post(`${inWorkspace("root")}/apis/authentication.k8s.io/v1/selfsubjectreviews`, kind, { isSignIn: true });
  return review.status.userInfo;
}
