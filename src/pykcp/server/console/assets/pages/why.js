// "Why can't I?": which rule allows a request, or which grant is missing.

import { h, replace, field } from "../core/dom.js";
import { kinds, post, services } from "../core/api.js";
import { session } from "../core/session.js";
import { heading, command, kubectl, act, section, badge, plainTable, problem } from "../views/parts.js";
import { document as yaml } from "../core/yaml.js";

const VERBS = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind", "use", "access"];

export async function show(main, { workspace, query }, signal) {
  const input = (name, more = {}) => h("input", { value: query.get(name) || "", autocomplete: "off", spellcheck: "false", name, ...more });
  const verb = h("select", { name: "verb" }, VERBS.map((v) => h("option", { value: v }, v)));
  verb.value = query.get("verb") || "get";
  const resource = input("resource", { list: "known-kinds", placeholder: "configmaps, or widgets.example.com" });
  if (query.get("resource") && query.get("group")) resource.value = `${query.get("resource")}.${query.get("group")}`;
  const [sub, namespace, name, user, groups] = [input("subresource"), input("namespace"), input("name"), input("user", { placeholder: session.user.username }), input("groups", { placeholder: "staff, developers" })];
  const list = h("datalist", { id: "known-kinds" });
  kinds(workspace).then((all) => { for (const k of all) list.append(h("option", { value: k.group ? `${k.plural}.${k.group}` : k.plural })); }, () => {});
  const answer = h("div", { "aria-live": "polite" });
  const spec = () => {
    const [plural, ...group] = resource.value.trim().split(".");
    const attributes = { verb: verb.value, resource: plural, group: group.join("."), subresource: sub.value.trim(), namespace: namespace.value.trim(), name: name.value.trim() };
    const out = plural.startsWith("/") ? { nonResourceAttributes: { verb: verb.value, path: resource.value.trim() } } : { resourceAttributes: strip(attributes) };
    if (user.value.trim()) out.user = user.value.trim();
    const members = groups.value.split(",").map((g) => g.trim()).filter(Boolean);
    if (members.length) out.groups = members;
    return out;
  };
  const ask = async () => {
    if (!resource.value.trim()) throw Object.assign(new Error("Name a resource, or a path that begins with a slash."), { reason: "Incomplete" });
    const kind = { apiVersion: "access.pykcp.dev/v1alpha1", kind: "AccessExplanation", spec: spec() };
    const found = await post(services.access(workspace, "accessexplanations"), kind, { signal });
    replace(answer, explained(found.status), command(kubectl(workspace, ...asWords(kind.spec))), h("details", null, h("summary", null, "As a request"), command(`kubectl create --raw ${services.access(workspace, "accessexplanations")} -f why.yaml`), h("pre.yaml", { tabindex: "0" }, yaml(kind))));
  };
  const who = async () => {
    const { resourceAttributes, nonResourceAttributes } = spec();
    const kind = { apiVersion: "access.pykcp.dev/v1alpha1", kind: "ResourceAccessReview", spec: strip({ resourceAttributes, nonResourceAttributes }) };
    const { status } = await post(services.access(workspace, "resourceaccessreviews"), kind, { signal });
    replace(answer, section("Who can", status.grants.length ? grants(status.grants) : h("p", null, "No binding in this workspace allows it."), status.incomplete && h("p.quiet", null, "Grants that apply in all workspaces are shown to administrators only."), h("p.quiet", null, "Users also need access to the workspace.")));
  };
  const problems = h("div");
  const button = act("Explain", ask, { problems, class: "primary" });
  replace(main, heading("Why can’t I?", `Permissions in ${workspace}`),
    h("form.question", { onsubmit: (event) => { event.preventDefault(); button.click(); } },
      field("Verb", verb), field("Resource or path", resource), field("Namespace", namespace, "Empty: the whole workspace."), field("Name", name), field("Subresource", sub), field("User", user, "Empty: you."), field("Groups", groups), list,
      h("div.actions", null, button, act("Who can?", who, { problems }))),
    problems, answer);
  if (resource.value) button.click();
}

function asWords({ resourceAttributes: asked, nonResourceAttributes: other, user, groups }) {
  const resource = asked && [asked.resource, asked.group].filter(Boolean).join(".") + (asked.subresource ? `/${asked.subresource}` : "");
  const what = asked ? [asked.verb, resource, asked.name, ...(asked.namespace ? ["-n", asked.namespace] : ["-A"])] : [other.verb, other.path];
  return ["ws", "why", ...what, ...(user ? ["--as", user] : []), ...(groups || []).flatMap((g) => ["--as-group", g])];
}

const strip = (object) => Object.fromEntries(Object.entries(object).filter(([, v]) => v));

function explained(status) {
  return [
    h("div.answer", { class: status.allowed ? "good" : "bad" }, badge(status.allowed ? "Allowed" : "Denied", status.allowed ? "good" : "bad"), h("p", null, status.message)),
    status.missing && section("What is missing", h("p", null, status.missing.message), (status.missing.commands || []).map((c) => command(c)), status.missing.roles?.length > 0 && h("p", null, "These roles include it: ", status.missing.roles.map((r) => [h("code", null, r), " "]))),
    status.grants?.length > 0 && section("Allowed by", grants(status.grants)),
    status.nearMisses?.length > 0 && section("Nearly allowed by", grants(status.nearMisses, true)),
    status.stages?.length > 0 && section("Checks before roles", plainTable(["Check", "Result", "Reason"], status.stages.map((s) => [s.name, badge(s.result, s.result === "Passed" ? "good" : "bad"), s.message || ""]), "Checks")),
  ];
}

const LACKS = { verb: "the verb", apiGroup: "the API group", resource: "the resource or subresource", resourceName: "the name", namespace: "the namespace" };

function grants(list, isNear) {
  const columns = ["Subject", "Binding", "Role", "Rule", ...(isNear ? ["Does not fit"] : [])];
  return plainTable(columns, list.map((g) => [
    `${g.subject.kind} ${g.subject.name}`, `${g.binding.namespace ? `${g.binding.namespace}/` : ""}${g.binding.name}`, `${g.role.kind} ${g.role.name}`, rule(g.rule), ...(isNear ? [LACKS[g.lacks] || g.lacks] : [])]), "Grants");
}

function rule(r) {
  const what = r.nonResourceURLs?.join(", ") || (r.resources || []).map((one) => (r.apiGroups || []).map((g) => (g ? `${one}.${g}` : one)).join(", ")).join(", ");
  return `${(r.verbs || []).join(", ")} ${what}${r.resourceNames?.length ? ` named ${r.resourceNames.join(", ")}` : ""}`;
}
