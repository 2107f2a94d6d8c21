// Elements from values. Text is always text: nothing here, or elsewhere, parses markup.

export function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value") element.value = value;
    else if (key === "class") element.className += (element.className ? " " : "") + value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function replace(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

// A link is made of parts that are escaped one by one.
export function link(hash, ...children) {
  return h("a", { href: hash }, ...children);
}

export function say(text) {
  const status = document.getElementById("status");
  status.textContent = "";
  requestAnimationFrame(() => { status.textContent = text; });
}

let numbers = 0;
export const unique = (prefix) => `${prefix}-${++numbers}`;

export function field(label, input, help) {
  input.id ||= unique("field");
  const parts = [h("label", { for: input.id }, label), input];
  if (help) {
    const note = h("small", { id: `${input.id}-help` }, help);
    input.setAttribute("aria-describedby", note.id);
    parts.push(note);
  }
  return h("div.field", null, ...parts);
}

export function debounce(wait, work) {
  let timer;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...args), wait);
  };
}
