// A list of which only the rows in sight exist. Rows have one height, so that positions are known.

import { h } from "../core/dom.js";

const SPARE = 6;
const MOST_PIXELS = 8_000_000;  // browsers cannot make elements much taller than this

export class Rows {
  // make(index) returns the element of a row
  constructor({ height, make, role = "grid", label, header }) {
    this.height = height;
    this.make = make;
    this.count = 0;
    this.shown = new Map();
    this.filler = h("div.rows-filler", { role: "presentation" });
    this.element = h("div.rows", { role, "aria-label": label, tabindex: "0" }, header, this.filler);
    this.element.addEventListener("scroll", () => this.schedule(), { passive: true });
    this.observer = new ResizeObserver(() => this.schedule());
    this.observer.observe(this.element);
  }

  resize(count) {
    this.count = count;
    this.element.setAttribute(this.element.getAttribute("role") === "tree" ? "data-rows" : "aria-rowcount", count);
    this.filler.style.height = `${Math.min(count * this.height, MOST_PIXELS)}px`;
    this.refresh();
  }

  // All rows are made again.
  refresh() {
    this.isStale = true;
    this.schedule();
  }

  schedule() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  // How far rows are from where they would be in a list of full height.
  scale() {
    const whole = this.count * this.height;
    const seen = this.element.clientHeight;
    return whole > MOST_PIXELS ? (whole - seen) / (MOST_PIXELS - seen) : 1;
  }

  draw() {
    if (this.isStale) {
      for (const element of this.shown.values()) element.remove();
      this.shown.clear();
      this.isStale = false;
    }
    const top = this.element.scrollTop;
    const start = top * this.scale();
    const first = Math.max(0, Math.floor(start / this.height) - SPARE);
    const last = Math.min(this.count, Math.ceil((start + this.element.clientHeight) / this.height) + SPARE);
    for (const [index, element] of this.shown) {
      if (index < first || index >= last) { element.remove(); this.shown.delete(index); }
    }
    let before = null;
    for (let index = last - 1; index >= first; index--) {
      let element = this.shown.get(index);
      if (!element) {
        element = this.make(index);
        element.classList.add("row");
        this.shown.set(index, element);
        this.filler.insertBefore(element, before);
      }
      element.style.transform = `translateY(${Math.round(index * this.height - start + top)}px)`;
      before = element;
    }
  }

  show(index) {
    const start = this.element.scrollTop * this.scale();
    const at = index * this.height;
    const room = this.element.clientHeight - this.height * 2;
    if (at < start) this.element.scrollTop = at / this.scale();
    else if (at > start + room) this.element.scrollTop = (at - room) / this.scale();
    this.draw();
  }

  close() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }
}
