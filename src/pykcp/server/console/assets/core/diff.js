// Differences of texts by lines, and the merge of two texts that were one.

const MOST = 4000;  // lines for which the shortest difference is looked for

// The longest common run of lines, as pairs of line numbers.
function common(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let endA = a.length;
  let endB = b.length;
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) { endA--; endB--; }
  const pairs = [];
  for (let i = 0; i < start; i++) pairs.push([i, i]);
  for (const [i, j] of middle(a, b, start, endA, start, endB)) pairs.push([i, j]);
  for (let i = endA, j = endB; i < a.length; i++, j++) pairs.push([i, j]);
  return pairs;
}

function middle(a, b, fromA, toA, fromB, toB) {
  const n = toA - fromA;
  const m = toB - fromB;
  if (!n || !m) return [];
  if (n * m > MOST * MOST / 4) return uniqueLines(a, b, fromA, toA, fromB, toB);
  const table = Array.from({ length: n + 1 }, () => new Uint32Array(m + 1));
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      table[i][j] = a[fromA + i] === b[fromB + j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < n && j < m;) {
    if (a[fromA + i] === b[fromB + j]) pairs.push([fromA + i++, fromB + j++]);
    else if (table[i + 1][j] >= table[i][j + 1]) i++;
    else j++;
  }
  return pairs;
}

// For long texts: lines that are in both only once, in the order of both.
function uniqueLines(a, b, fromA, toA, fromB, toB) {
  const places = new Map();
  const note = (line, side, at) => {
    const place = places.get(line) || { a: -1, b: -1, often: false };
    if (place[side] >= 0) place.often = true;
    place[side] = at;
    places.set(line, place);
  };
  for (let i = fromA; i < toA; i++) note(a[i], "a", i);
  for (let j = fromB; j < toB; j++) note(b[j], "b", j);
  const pairs = [];
  let last = -1;
  for (const place of [...places.values()].filter((p) => !p.often && p.a >= 0 && p.b >= 0).sort((x, y) => x.a - y.a)) {
    if (place.b > last) { pairs.push([place.a, place.b]); last = place.b; }
  }
  return pairs;
}

// [{kind: "same" | "removed" | "added", text}]
export function diff(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  const out = [];
  let i = 0;
  let j = 0;
  for (const [x, y] of [...common(a, b), [a.length, b.length]]) {
    while (i < x) out.push({ kind: "removed", text: a[i++] });
    while (j < y) out.push({ kind: "added", text: b[j++] });
    if (i < a.length) { out.push({ kind: "same", text: a[i] }); i++; j++; }
  }
  return out;
}

// [{kind: "same" | "mine" | "theirs" | "conflict", base, mine, theirs}] with lists of lines
export function merge(base, mine, theirs) {
  const o = base.split("\n");
  const a = mine.split("\n");
  const b = theirs.split("\n");
  const toA = new Map(common(o, a));
  const toB = new Map(common(o, b));
  const parts = [];
  let at = [0, 0, 0];
  const flush = (i, j, k) => {
    const part = { base: o.slice(at[0], i), mine: a.slice(at[1], j), theirs: b.slice(at[2], k) };
    if (part.base.length || part.mine.length || part.theirs.length) parts.push({ kind: kindOf(part), ...part });
    at = [i, j, k];
  };
  for (let i = 0; i < o.length; i++) {
    if (!toA.has(i) || !toB.has(i)) continue;
    flush(i, toA.get(i), toB.get(i));
    const last = parts[parts.length - 1];
    if (last?.kind === "same") last.mine.push(o[i]);
    else parts.push({ kind: "same", base: [], mine: [o[i]], theirs: [] });
    at = [i + 1, toA.get(i) + 1, toB.get(i) + 1];
  }
  flush(o.length, a.length, b.length);
  return parts;
}

function kindOf({ base, mine, theirs }) {
  const [o, a, b] = [base, mine, theirs].map((lines) => lines.join("\n"));
  const sizes = [base, mine, theirs].map((lines) => lines.length);
  if (a === b && sizes[1] === sizes[2]) return "same";
  if (o === a && sizes[0] === sizes[1]) return "theirs";
  if (o === b && sizes[0] === sizes[2]) return "mine";
  return "conflict";
}
