// APIs that a workspace uses: bindings, their claims, and new ones.

import { h, replace, say, field } from "../core/dom.js";
import { address, follow, get, patch, post, BINDINGS, EXPORTS } from "../core/api.js";
import { at } from "../core/router.js";
import { heading, loading, command, kubectl, badge, problem, act, confirmed, empty, section } from "../views/parts.js";
import { claimInWords, risk, sameClaim } from "../core/words.js";

export async function show(main, { workspace }, signal) {
  const known = new Map();
  const content = h("div.stack", null, loading());
  const draw = () => replace(content, known.size ? [...known.values()].map((b) => one(workspace, b)) : empty("This workspace binds no APIs."));
  replace(main, heading("Bindings", `APIs that ${workspace} uses`), newBinding(workspace), section("Bound APIs", content), command(kubectl(workspace, "get", "apibindings")));
  follow({
    path: address(workspace, BINDINGS), signal,
    list: async () => {
      const list = await get(address(workspace, BINDINGS), { signal });
      known.clear();
      for (const binding of list.items) known.set(binding.metadata.name, binding);
      draw();
      return list.metadata.resourceVersion;
    },
    onEvent: ({ type, object }) => {
      if (type === "DELETED") known.delete(object.metadata.name);
      else known.set(object.metadata.name, object);
      draw();
    },
    onState: (state, error) => { if (state === "failed") replace(content, problem(error)); },
  });
}

function one(workspace, binding) {
  const { metadata, spec, status } = binding;
  const claims = (status?.exportPermissionClaims || []).map((claim) => ({ claim, answer: (spec.permissionClaims || []).find((c) => sameClaim(c, claim)) }));
  const resources = (status?.boundResources || []).map((r) => h("span.tag", null, r.group ? `${r.resource}.${r.group}` : r.resource));
  const failed = (status?.conditions || []).filter((c) => c.status === "False" && c.message);
  return h("article.card-wide", { "aria-label": metadata.name },
    h("header", null, h("h3", null, h("a", { href: at.object(workspace, BINDINGS, "", metadata.name) }, metadata.name)), badge(status?.phase || "Binding"),
      h("span.quiet", null, `${spec.reference?.export?.path || "this workspace"} · ${spec.reference?.export?.name || ""}`)),
    resources.length > 0 && h("p", null, resources),
    failed.map((c) => h("p.bad-text", null, c.message)),
    claims.length > 0 && h("ul.claims", null, claims.map(({ claim, answer }) => claimRow(workspace, binding, claim, answer))));
}

function claimRow(workspace, binding, claim, answer) {
  const state = answer?.state || "Open";
  const words = claimInWords({ ...claim, selector: answer?.selector });
  const decide = (label, to) => h("button.small", {
    type: "button", class: to === "Rejected" ? "ghost" : "",
    onclick: () => confirmed(`${label} this claim?`, [
      h("p", null, words), to === "Accepted" && risk(claim) && h("p.risk", null, risk(claim)),
      to === "Rejected" && h("p.quiet", null, "The provider’s controllers may need it to work."),
    ], {
      label, commandText: kubectl(workspace, "kcp", "claims", label.toLowerCase(), binding.metadata.name, "--resource", named(claim)),
      work: async () => {
        const path = address(workspace, BINDINGS, "", binding.metadata.name);
        const { metadata: { resourceVersion }, spec } = await get(path);  // it may have changed while the user decided
        const rest = (spec.permissionClaims || []).filter((c) => !sameClaim(c, claim));
        const made = { ...plain(claim), selector: answer?.selector || { matchAll: true }, state: to };
        await patch(path, { metadata: { resourceVersion }, spec: { permissionClaims: [...rest, made] } });
        say(`Claim ${to.toLowerCase()}.`);
      },
    }),
  }, label);
  return h("li", null, h("div", null, badge(state, state === "Open" ? "warn" : undefined), " ", words, risk(claim) && h("small.risk", null, ` ${risk(claim)}`)),
    h("div.actions", null, state !== "Accepted" && decide("Accept", "Accepted"), state !== "Rejected" && decide("Reject", "Rejected")));
}

const named = ({ group, resource }) => (group ? `${resource}.${group}` : resource);
const plain = ({ group = "", resource, identityHash, verbs }) => ({ group, resource, ...(identityHash ? { identityHash } : {}), verbs });

function newBinding(workspace) {
  const path = h("input", { placeholder: "root:provider", autocomplete: "off", spellcheck: "false", required: true, name: "path" });
  const name = h("input", { placeholder: "name of the export", autocomplete: "off", spellcheck: "false", required: true, name: "export" });
  const claims = h("div");
  const problems = h("div");
  const shown = h("div");
  const look = act("Show claims", async () => {
    const found = await get(address(path.value.trim(), EXPORTS, "", name.value.trim())).catch((error) => {
      if (error.status === 403 || error.status === 404) return null;
      throw error;
    });
    const list = found?.spec?.permissionClaims || [];
    replace(claims, found ? (list.length ? h("p", null, "The provider asks for this:") : h("p.quiet", null, "The export claims nothing in this workspace.")) : h("p.quiet", null, "You may not read the export. Its claims are shown when it is bound."),
      h("ul.claims", null, list.map((claim, i) => h("li", null, h("fieldset", null, h("legend", null, claimInWords(claim), risk(claim) && h("small.risk", null, ` ${risk(claim)}`)),
        ["Accepted", "Rejected"].map((state) => h("label", null, h("input", { type: "radio", name: `claim-${i}`, value: state, checked: state === "Rejected", onchange: () => { claim.state = state; update(); } }), state === "Accepted" ? " Accept " : " Reject ")))))));
    for (const claim of list) claim.state = "Rejected";
    chosen = list;
    update();
  }, { problems });
  let chosen = [];
  const object = () => ({
    apiVersion: "apis.kcp.io/v1alpha2", kind: "APIBinding", metadata: { name: name.value.trim() },
    spec: { reference: { export: { path: path.value.trim(), name: name.value.trim() } }, permissionClaims: chosen.map((c) => ({ ...plain(c), selector: { matchAll: true }, state: c.state })) },
  });
  const update = () => {
    const words = ["kcp", "bind", "apiexport", `${path.value.trim()}:${name.value.trim()}`];
    for (const state of ["Accepted", "Rejected"]) {
      const list = chosen.filter((c) => c.state === state).map((c) => `${c.resource}.${c.group || "core"}`);
      if (list.length) words.push(state === "Accepted" ? "--accept-permission-claim" : "--reject-permission-claim", list.join(","));
    }
    replace(shown, path.value.trim() && name.value.trim() && command(kubectl(workspace, ...words)));
  };
  path.addEventListener("input", update);
  name.addEventListener("input", update);
  const bind = act("Bind", async () => {
    await post(address(workspace, BINDINGS), object());
    say("Bound.");
  }, { problems, class: "primary" });
  return h("details.panel", null, h("summary", null, "Bind an API"), h("div.question", null, field("Workspace of the provider", path), field("Export", name)), claims, problems, h("div.actions", null, look, bind), shown);
}
