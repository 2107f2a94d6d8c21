// Permission claims in words.

const READ = ["get", "list", "watch"];
const ACTIONS = [["create", ["create"]], ["change", ["update", "patch"]], ["delete", ["delete", "deletecollection"]]];

export function verbsInWords(verbs = []) {
  const all = verbs.includes("*");
  const words = [];
  if (all || READ.some((v) => verbs.includes(v))) words.push("read");
  for (const [word, needed] of ACTIONS) if (all || needed.some((v) => verbs.includes(v))) words.push(word);
  for (const verb of verbs) if (verb !== "*" && !READ.includes(verb) && !ACTIONS.some(([, n]) => n.includes(verb))) words.push(verb);
  if (words.length < 2) return words.join("") || "nothing with";
  return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

export function selectorInWords(selector) {
  if (!selector || selector.matchAll || !Object.keys(selector).length) return "all";
  const parts = Object.entries(selector.matchLabels || {}).map(([k, v]) => `${k}=${v}`);
  for (const one of selector.matchExpressions || []) parts.push(`${one.key} ${one.operator} ${(one.values || []).join(", ")}`.trim());
  return `those labelled ${parts.join(" and ")}`;
}

const RISKS = {
  secrets: "Secrets hold passwords and keys.",
  clusterroles: "It can change who may do what in this workspace.",
  clusterrolebindings: "It can change who may do what in this workspace.",
  roles: "It can change who may do what in this workspace.",
  rolebindings: "It can change who may do what in this workspace.",
  serviceaccounts: "Service accounts are identities that programs act as.",
  namespaces: "Namespaces hold all namespaced objects.",
  apibindings: "It can see which APIs this workspace uses.",
};

export function claimInWords(claim) {
  const resource = claim.group ? `${claim.resource}.${claim.group}` : claim.resource;
  return `The provider may ${verbsInWords(claim.verbs)} ${resource} in this workspace (${selectorInWords(claim.selector)}).`;
}

export const risk = (claim) => RISKS[claim.resource] || "";

export const sameClaim = (a, b) => a.group === b.group && a.resource === b.resource && (a.identityHash || "") === (b.identityHash || "");
