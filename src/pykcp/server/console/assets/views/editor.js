// Edits an object: the server's difference first, then the change; a conflict becomes a merge.

import { h, replace, say, debounce } from "../core/dom.js";
import { text, YAML } from "../core/api.js";
import { drafts } from "../core/session.js";
import { diff, merge } from "../core/diff.js";
import { withoutManagers } from "../core/yaml.js";
import { act, problem, command, kubectl, resourceWord, loading } from "./parts.js";

const CONTEXT = 3;
const SHORT = 100_000;  // characters of a text that is kept at every key

export class Editor {
  constructor({ path, workspace, kind, namespace, name, signal, done }) {
    Object.assign(this, { path, workspace, kind, namespace, name, signal, done });
    this.key = path;
    this.area = textArea(() => { this.closePreview(); this.keep(); });
    const keep = () => { if (this.area.value !== this.base) drafts.keep(this.key, { base: this.base, text: this.area.value }); };
    const keepSoon = debounce(300, keep);
    this.keep = () => (this.area.value.length < SHORT ? keep() : keepSoon());
    this.problems = h("div");
    this.notices = h("div");
    this.preview = h("div");
    this.element = h("div.editor", null, this.notices, this.area, this.problems,
      h("div.actions", null,
        act("Show difference", () => this.showDifference(), { problems: this.problems, class: "primary" }),
        act("Discard", () => this.discard(), { problems: this.problems, class: "ghost" })),
      this.preview,
      command(kubectl(workspace, "edit", resourceWord(kind), name, ...(namespace ? ["-n", namespace] : []))));
  }

  async start() {
    replace(this.preview, loading());
    this.base = await this.read();
    replace(this.preview);
    const draft = drafts.find(this.key);
    this.area.value = draft?.text ?? this.base;
    if (draft) {
      this.base = draft.base;
      replace(this.notices, h("div.notice", { role: "status" }, "Your unfinished changes are back."));
    }
    this.area.focus({ preventScroll: true });
  }

  read() {
    return text("GET", this.path, { signal: this.signal }).then(withoutManagers);
  }

  write(query) {
    return text("PUT", `${this.path}?${query}`, { body: this.area.value, type: YAML });
  }

  async showDifference() {
    try {
      const result = withoutManagers(await this.write("dryRun=All&fieldValidation=Strict&fieldManager=console"));
      const changes = diff(this.base, result);
      const isSame = changes.every((c) => c.kind === "same" || /^ {2}(resourceVersion|generation):/.test(c.text));
      replace(this.preview, h("h2", { tabindex: "-1" }, isSame ? "This changes nothing" : "The server would make these changes"), !isSame && difference(changes),
        !isSame && h("div.actions", null, act("Apply", () => this.apply(), { problems: this.problems, class: "primary" })));
      this.preview.querySelector("h2").focus();
    } catch (error) {
      await this.onError(error);
    }
  }

  async apply() {
    try {
      await this.write("fieldValidation=Strict&fieldManager=console");
      drafts.drop(this.key);
      say("Saved.");
      this.done();
    } catch (error) {
      await this.onError(error);
    }
  }

  async onError(error) {
    if (error.status !== 409) throw error;
    const theirs = await this.read();
    replace(this.preview, new Merge(this.base, this.area.value, theirs, (merged) => {
      this.base = theirs;
      this.area.value = merged;
      drafts.keep(this.key, { base: theirs, text: merged });
      replace(this.preview);
      replace(this.notices, h("div.notice", { role: "status" }, "Merged with the newest version. Look at the difference, then apply it."));
      this.area.focus();
    }).element);
    this.preview.querySelector("h2").focus();
  }

  closePreview() {
    if (!this.preview.querySelector(".merge")) replace(this.preview);
  }

  discard() {
    drafts.drop(this.key);
    this.done();
  }
}

export function textArea(oninput) {
  const area = h("textarea.yaml", { spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": "YAML", rows: 30, wrap: "off", oninput });
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Tab" || event.shiftKey || area.dataset.escaped) { delete area.dataset.escaped; return; }
    event.preventDefault();
    area.setRangeText("  ", area.selectionStart, area.selectionEnd, "end");
    oninput();
  });
  // Escape, then Tab, leaves the field: the keyboard is not trapped in it.
  area.addEventListener("keydown", (event) => { if (event.key === "Escape") area.dataset.escaped = "yes"; });
  area.title = "Tab indents; Escape and then Tab leaves the field";
  return area;
}

export function difference(changes) {
  const shown = new Set();
  changes.forEach((change, i) => {
    if (change.kind !== "same") for (let j = i - CONTEXT; j <= i + CONTEXT; j++) shown.add(j);
  });
  const out = [];
  changes.forEach((change, i) => {
    if (!shown.has(i)) { if (shown.has(i - 1) || i === 0) out.push(h("div.gap", { "aria-hidden": "true" }, "⋯")); return; }
    const sign = { same: " ", removed: "−", added: "+" }[change.kind];
    out.push(h("div", { class: change.kind }, h("span.sign", { "aria-label": change.kind === "same" ? undefined : change.kind }, sign), change.text));
  });
  return h("div.diff", { tabindex: "0", role: "region", "aria-label": "Difference" }, out);
}

class Merge {
  constructor(base, mine, theirs, done) {
    this.parts = merge(base, mine, theirs);
    this.done = done;
    this.choices = new Map();
    this.button = act("Use the merged text", () => this.finish(), { class: "primary" });
    const conflicts = this.parts.filter((p) => p.kind === "conflict").length;
    this.element = h("section.merge", { "aria-label": "Merge" },
      h("h2", { tabindex: "-1" }, "The object was changed meanwhile"),
      h("p", null, conflicts ? `${conflicts} ${conflicts === 1 ? "place was" : "places were"} changed on both sides. Choose a side for each.` : "Your changes and the other ones are in different places, and can be combined."),
      h("div.diff", { tabindex: "0", role: "region", "aria-label": "Merge" }, this.parts.map((part, i) => this.show(part, i))),
      h("div.actions", null, this.button));
    this.update();
  }

  show(part, i) {
    const lines = (list, kind, sign) => list.map((line) => h("div", { class: kind }, h("span.sign", null, sign), line));
    if (part.kind === "same") {
      const hidden = part.mine.length > 2 * CONTEXT;
      return hidden ? [lines(part.mine.slice(0, CONTEXT), "same", " "), h("div.gap", null, "⋯"), lines(part.mine.slice(-CONTEXT), "same", " ")] : lines(part.mine, "same", " ");
    }
    if (part.kind === "mine") return [lines(part.base, "removed", "−"), lines(part.mine, "added", "+")];
    if (part.kind === "theirs") return [lines(part.base, "removed", "−"), lines(part.theirs, "theirs", "⇐")];
    const choose = (side, label) => h("label", null, h("input", { type: "radio", name: `conflict-${i}`, value: side, onchange: () => { this.choices.set(i, side); this.update(); } }), ` ${label}`);
    return h("fieldset.conflict", null, h("legend", null, "Changed on both sides"),
      choose("mine", "Keep mine"), lines(part.mine, "added", "+"), choose("theirs", "Take theirs"), lines(part.theirs, "theirs", "⇐"));
  }

  update() {
    this.button.disabled = this.parts.some((part, i) => part.kind === "conflict" && !this.choices.has(i));
  }

  finish() {
    const lines = this.parts.flatMap((part, i) => {
      if (part.kind === "theirs") return part.theirs;
      return part.kind === "conflict" && this.choices.get(i) === "theirs" ? part.theirs : part.mine;
    });
    this.done(lines.join("\n"));
  }
}

