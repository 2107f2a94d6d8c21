// Answers that cost the server much: asked for once, and again only when the user wants it.

import { h } from "./dom.js";
import { get } from "./api.js";
import { age } from "../views/parts.js";

const MOST = 20;
const known = new Map();  // path -> {when, list}

export async function counted(path, signal) {
  const old = known.get(path);
  if (old) return old;
  const found = { when: new Date().toISOString(), list: await get(path, { signal }) };
  known.set(path, found);
  if (known.size > MOST) known.delete(known.keys().next().value);
  return found;
}

export function again(path, { when }, draw) {
  return h("p.quiet", null, "Counted ", age(when), " ago. ", h("button.small.ghost", { type: "button", onclick: () => { known.delete(path); draw(); } }, "Count again"));
}
