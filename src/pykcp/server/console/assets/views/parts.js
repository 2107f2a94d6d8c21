// Small parts that pages are made of.

import { h, append, replace, say, unique } from "../core/dom.js";

// --- commands

export function command(text) {
  const button = h("button.ghost.small", {
    type: "button", "aria-label": "Copy the command", onclick: async () => {
      await navigator.clipboard?.writeText(text);
      say("Copied.");
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    },
  }, "Copy");
  return h("div.command", { role: "group", "aria-label": "The same with kubectl" }, h("code", { tabindex: "0" }, text), button);
}

export const quote = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

export function kubectl(workspace, ...words) {
  const rest = words.filter(Boolean).map(quote).join(" ");
  return workspace ? `kubectl ws :${workspace} && kubectl ${rest}` : `kubectl ${rest}`;
}

export const resourceWord = (kind) => (kind.group ? `${kind.plural}.${kind.group}` : kind.plural);

// --- states

export const loading = (what = "Loading") => h("p.quiet.loading", { role: "status" }, `${what}…`);

export function empty(title, ...hints) {
  return h("div.empty", null, h("div.empty-mark", { "aria-hidden": "true" }), h("p.empty-title", null, title), hints);
}

const NEXT = {
  Unauthorized: "Sign in again.",
  Forbidden: "Ask an administrator of the workspace, or look at what is missing.",
  NotFound: "It may have been deleted, or its API is not bound here. Go back, or search for it.",
  AlreadyExists: "Choose another name.",
  Conflict: "It was changed meanwhile. Merge your changes with the new version.",
  Invalid: "Correct the fields that the message names.",
  Unreachable: "The page tries again by itself. Nothing that you typed is lost.",
  TooManyRequests: "Wait a moment and try again.",
  ServiceUnavailable: "Try again in a moment.",
};

export function problem(error, ...actions) {
  const next = NEXT[error.reason] || (error.status >= 500 ? NEXT.ServiceUnavailable : "");
  const causes = (error.details?.causes || []).filter((c) => c.field);
  return h("div.problem", { role: "alert" },
    h("p.problem-title", null, h("strong", null, error.reason || "Error"), error.status ? ` (${error.status})` : ""),
    h("p", null, error.message),
    causes.length > 1 && h("ul", null, causes.map((c) => h("li", null, h("code", null, c.field), ": ", c.message))),
    next && h("p.quiet", null, next),
    actions.length > 0 && h("div.actions", null, actions));
}

// --- conditions and phases

const GOOD = new Set(["Ready", "Bound", "True", "Active", "Running", "Accepted", "Applied", "Succeeded"]);
const BAD = new Set(["Unavailable", "False", "Failed", "Rejected", "Error", "Terminating", "Deleting"]);

export function badge(text, tone) {
  const kind = tone || (GOOD.has(text) ? "good" : BAD.has(text) ? "bad" : "plain");
  return h("span.badge", { class: kind }, text);
}

export function conditions(list) {
  if (!list?.length) return h("p.quiet", null, "There are no conditions.");
  return plainTable(["Condition", "Status", "Reason", "Message", "Since"], list.map((c) => [
    c.type, badge(c.status, c.status === "True" ? "good" : c.status === "False" ? "bad" : "plain"),
    c.reason || "", c.message || "", age(c.lastTransitionTime),
  ]));
}

// --- tables of a few rows

export function plainTable(columns, rows, caption) {
  return h("div.scroller", { tabindex: "0", role: "region", "aria-label": caption || columns.join(", ") }, h("table", null,
    caption && h("caption.visually-hidden", null, caption),
    h("thead", null, h("tr", null, columns.map((c) => h("th", { scope: "col" }, c)))),
    h("tbody", null, rows.map((row) => h("tr", null, row.map((cell) => h("td", null, cell)))))));
}

export function pairs(...items) {
  return h("dl.pairs", null, items.filter((i) => i && i[1] !== undefined && i[1] !== "" && i[1].length !== 0).map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

export const section = (title, ...content) => h("section", null, h("h2", null, title), content);

// --- times and sizes

export function age(text) {
  if (!text) return "";
  const seconds = Math.max(0, (Date.now() - Date.parse(text)) / 1000);
  if (Number.isNaN(seconds)) return text;
  const [amount, unit] = seconds < 120 ? [seconds, "s"] : seconds < 7200 ? [seconds / 60, "m"] : seconds < 172800 ? [seconds / 3600, "h"] : [seconds / 86400, "d"];
  return h("time", { datetime: text, title: new Date(text).toLocaleString() }, `${Math.floor(amount)}${unit}`);
}

export function size(bytes) {
  if (bytes === undefined) return "";
  let unit = 0;
  let amount = bytes;
  while (amount >= 1024 && unit < 4) { amount /= 1024; unit++; }
  return `${unit ? amount.toFixed(1) : amount} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
}

export const number = (value) => (value === undefined ? "" : value.toLocaleString("en"));

// --- dialogs

export function dialog(title, content, actions = []) {
  const id = unique("dialog");
  const element = h("dialog", { "aria-labelledby": id },
    h("form", { method: "dialog" },
      h("h2", { id }, title), h("div.dialog-content", null, content),
      h("div.actions", null, actions, h("button.ghost", { value: "cancel" }, "Close"))));
  element.addEventListener("close", () => element.remove());
  document.getElementById("overlays").append(element);
  element.showModal();
  return element;
}

// Asks before something is done: what it means, and the command that does the same.
export function confirmed(title, content, { label, commandText, work, tone = "primary" }) {
  const problems = h("div");
  const button = act(label, async () => {
    await work();
    element.close();
  }, { problems, class: tone });
  const element = dialog(title, [content, problems, command(commandText)], [button]);
  button.focus();
}

// Runs work for a button: it is disabled meanwhile, and an error is shown next to it.
export function act(label, work, options = {}) {
  const button = h("button", { type: "button", class: options.class || "", title: options.title });
  append(button, [label]);
  button.addEventListener("click", async () => {
    button.disabled = true;
    button.setAttribute("aria-busy", "true");
    options.problems?.replaceChildren();
    try {
      await work();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!options.problems) throw error;
      replace(options.problems, problem(error));
    } finally {
      button.disabled = false;
      button.removeAttribute("aria-busy");
    }
  });
  return button;
}

export function heading(title, subtitle, ...actions) {
  return h("header.page-head", null,
    h("div", null, h("h1", { tabindex: "-1" }, title), subtitle && h("p.quiet", null, subtitle)),
    h("div.actions", null, actions));
}
