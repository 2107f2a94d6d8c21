// YAML as the server writes it. The server also parses it: there is no parser here.

// Without managedFields, which no one edits.
export function withoutManagers(text) {
  const out = [];
  let inside = false;
  for (const line of text.split("\n")) {
    if (line === "  managedFields:") { inside = true; continue; }
    if (inside && (line.startsWith("  - ") || line.startsWith("    ") || line === "")) continue;
    inside = false;
    out.push(line);
  }
  return out.join("\n");
}

export function versionOf(text) {
  return text.match(/^ {2}resourceVersion: "?([^"\n]*)"?$/m)?.[1] || "";
}

const PLAIN = /^[A-Za-z_][\w ./-]*$/;
const SPECIAL = /^(true|false|null|yes|no|on|off|y|n|~)$/i;

export function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  return PLAIN.test(value) && !SPECIAL.test(value) && !value.endsWith(" ") ? value : JSON.stringify(value);
}

// An object as YAML, for what is made here: skeletons and commands.
export function dump(value, indent = "") {
  if (Array.isArray(value)) {
    if (!value.length) return " []\n";
    return "\n" + value.map((one) => `${indent}-${item(one, indent)}`).join("");
  }
  if (value && typeof value === "object") {
    const keys = Object.keys(value);
    if (!keys.length) return " {}\n";
    return "\n" + keys.map((key) => `${indent}${scalar(key)}:${dump(value[key], indent + "  ")}`).join("");
  }
  return ` ${scalar(value)}\n`;
}

function item(value, indent) {
  const text = dump(value, indent + "  ");
  return text.startsWith("\n") ? " " + text.slice(1 + indent.length + 2) : text;
}

export const document = (value) => dump(value).slice(1);
