// For administrators: shards, moves, caches, placements, certificates, requests.

import { h, replace } from "../core/dom.js";
import { at } from "../core/router.js";
import { heading, loading, problem, empty } from "../views/parts.js";

const TABS = [["shards", "Shards"], ["moves", "Moves"], ["caches", "Caches"], ["placements", "Placements"], ["certificates", "Certificates"], ["requests", "Requests"]];
const SHOW = {
  shards: () => import("./admin/shards.js"),
  moves: () => import("./admin/moves.js"),
  caches: () => import("./admin/caches.js"),
  placements: () => import("./admin/placements.js"),
  certificates: () => import("./admin/certificates.js"),
  requests: () => import("./admin/requests.js"),
};

export async function show(main, { tab }, signal) {
  const content = h("div", null, loading());
  replace(main, heading("Administration"), h("nav.tabs.inner", { "aria-label": "Administration" }, TABS.map(([name, title]) => h("a", { href: at.admin(name), "aria-current": name === tab ? "page" : undefined }, title))), content);
  if (!SHOW[tab]) { replace(content, empty("There is no such page.")); return; }
  const draw = async () => {
    try {
      const page = await SHOW[tab]();
      const found = await page.content(signal, draw);
      if (!signal.aborted) replace(content, found);
    } catch (error) {
      if (!signal.aborted) replace(content, problem(error, h("button", { type: "button", onclick: draw }, "Try again")));
    }
  };
  await draw();
}
