// Starts the console: finds out who is signed in, then shows the frame or the sign-in page.

import { session, applyTheme, keepToken, forget, returned, nonceOf } from "./core/session.js";
import { get, post, whoAmI, signIn } from "./core/api.js";
import { showSignIn, askAgain } from "./pages/signin.js";
import { Shell } from "./views/shell.js";

applyTheme();
const configured = get("/console/api/config").catch(() => ({ server: "shard", oidc: false }));
const answer = returned();
const known = answer ? null : whoAmI().catch((error) => error);  // asked at the same time
session.config = await configured;

let trouble = answer?.error || "";
if (answer?.code) {
  try {
    const { code, verifier, redirectURI } = answer;
    const found = await post("/console/api/token", { code, verifier, redirectURI });
    if (nonceOf(found.token) !== answer.nonce) throw new Error("The issuer’s answer belongs to another sign-in. Start again.");
    keepToken(found.token);
  } catch (error) {
    trouble = error.message;
  }
}

export async function enter(asked = whoAmI()) {
  const user = await asked;
  if (user instanceof Error) throw user;
  if (user.username === "system:anonymous") {
    throw Object.assign(new Error("The server does not know who you are."), { reason: "Unauthorized", status: 401 });
  }
  session.user = user;
  signIn.again = askAgain;
  new Shell().start();
}

try {
  if (trouble) throw new Error(trouble);
  await (known ? enter(known) : enter());
} catch (error) {
  if (trouble || error.status === 401) forget(false);
  showSignIn(enter, trouble || (error.status && error.status !== 401 && error.status !== 403 ? error.message : ""));
}
