// YAML with quiet colours; a long text is shown plain, in one piece.

import { h } from "../core/dom.js";

const MOST = 3000;
const LINE = /^(\s*(?:- )?)((?:"(?:[^"\\]|\\.)*"|[^\s"'#:][^:#]*?)(?=:(?:\s|$)))?(:?)(.*)$/;

export function highlighted(text) {
  const lines = text.split("\n");
  const pre = h("pre.yaml", { tabindex: "0", "aria-label": "YAML" });
  if (lines.length > MOST || text.length > 400_000) {
    pre.textContent = text;
    return pre;
  }
  for (const line of lines) {
    const [, lead, key, colon, rest] = line.match(LINE) || [null, "", "", "", line];
    if (key) pre.append(lead, h("span.key", null, key), colon, value(rest), "\n");
    else pre.append(lead, value((colon || "") + rest), "\n");
  }
  return pre;
}

function value(text) {
  if (/^\s*(#.*)$/.test(text)) return h("span.comment", null, text);
  if (/^\s*(-?\d+(\.\d+)?|true|false|null|\{\}|\[\])\s*$/.test(text)) return h("span.literal", null, text);
  return text;
}
