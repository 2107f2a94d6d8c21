// Sign-in: a token, a client certificate, or an OpenID Connect issuer.

import { h, replace, field } from "../core/dom.js";
import { session, keepToken, leaveForIssuer } from "../core/session.js";
import { get, whoAmI } from "../core/api.js";
import { problem, act } from "../views/parts.js";

export function showSignIn(enter, trouble) {
  document.title = "Sign in · kcp";
  const problems = h("div", { role: "alert" });
  if (trouble) replace(problems, problem(new Error(trouble)));
  replace(document.getElementById("app"), h("main.sign-in", { id: "main" },
    h("header", null, h("span.mark"), h("h1", null, "kcp"), h("p.quiet", null, `Sign in to ${location.host}`)), problems, ...ways(enter, problems)));
  document.querySelector("input")?.focus();
}

function ways(enter, problems) {
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", name: "token", required: true });
  const form = h("form", null, field("Token", input, "A bearer token, for example of a service account. It is kept until this tab is closed."), h("button.wide", { type: "submit", class: session.config?.oidc ? "" : "primary" }, "Sign in with token"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    keepToken(input.value.trim());
    try {
      await enter();
    } catch (error) {
      keepToken("");
      replace(problems, problem(error));
    }
  });
  const certificate = act("Use client certificate", async () => {
    keepToken("");
    try {
      await enter();
    } catch (error) {
      const why = error.status === 401 || error.status === 403 ? "The browser has sent no certificate that the server accepts. Import one into the browser (for example client.p12) and open this page again." : error.message;
      throw Object.assign(new Error(why), { reason: "Unauthorized" });
    }
  }, { problems, class: "wide" });
  return [
    session.config?.oidc && act("Sign in with OpenID Connect", async () => leaveForIssuer(await get("/console/api/issuer")), { problems, class: "primary wide" }),
    session.config?.oidc && h("p.or", null, "or"),
    form, h("p.or", null, "or"), certificate,
    h("p.quiet", null, "The console has no rights of its own: it shows what this user may see with kubectl."),
  ];
}

let asking = null;

// The sign-in has expired: asked for over the page, so that nothing in it is lost.
export function askAgain() {
  asking ||= new Promise((resolve) => {
    const problems = h("div", { role: "alert" });
    const element = h("dialog.sign-in", { "aria-label": "Sign in again" }, h("h2", null, "Your sign-in has expired"), h("p.quiet", null, "Sign in again to go on. What you have typed is kept."), problems);
    const enter = async () => {
      const user = await whoAmI();
      if (user.username !== session.user?.username) {
        location.reload();  // another user starts afresh
        return;
      }
      element.close();
    };
    element.append(...ways(enter, problems).filter(Boolean));
    element.addEventListener("cancel", (event) => event.preventDefault());
    element.addEventListener("close", () => { element.remove(); asking = null; resolve(); });
    document.getElementById("overlays").append(element);
    element.showModal();
  });
  return asking;
}
