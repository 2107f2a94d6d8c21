// Who is signed in. A token lives in this tab's session storage, and nowhere longer.

const TOKEN = "kcp.token";
const FLOW = "kcp.flow";

export const session = { user: null, config: null };

export function token() {
  return sessionStorage.getItem(TOKEN) || "";
}

export function keepToken(value) {
  if (value) sessionStorage.setItem(TOKEN, value);
  else sessionStorage.removeItem(TOKEN);
}

// Signing out forgets everything of the session; drafts stay if the sign-in has only expired.
export function forget(everything) {
  keepToken("");
  session.user = null;
  if (!everything) return;
  for (const key of Object.keys(sessionStorage)) {
    if (key.startsWith("kcp.")) sessionStorage.removeItem(key);
  }
}

export const drafts = {
  keep(key, text) {
    try {
      sessionStorage.setItem(`kcp.draft:${key}`, JSON.stringify(text));
    } catch {
      // A draft that is too large for the storage is kept in the page only.
    }
  },
  find(key) {
    const found = sessionStorage.getItem(`kcp.draft:${key}`);
    return found ? JSON.parse(found) : null;
  },
  drop(key) {
    sessionStorage.removeItem(`kcp.draft:${key}`);
  },
};

// --- OpenID Connect: the code flow with PKCE

const random = () => encode(crypto.getRandomValues(new Uint8Array(32)));

function encode(bytes) {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

const redirectURI = () => `${location.origin}/console/`;

export async function leaveForIssuer(issuer) {
  const flow = { state: random(), verifier: random(), nonce: random(), hash: location.hash };
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(flow.verifier));
  sessionStorage.setItem(FLOW, JSON.stringify(flow));
  const query = new URLSearchParams({
    response_type: "code",
    client_id: issuer.clientID,
    redirect_uri: redirectURI(),
    scope: issuer.scopes,
    state: flow.state,
    nonce: flow.nonce,
    code_challenge: encode(new Uint8Array(digest)),
    code_challenge_method: "S256",
  });
  const joint = issuer.authorizationEndpoint.includes("?") ? "&" : "?";
  location.assign(issuer.authorizationEndpoint + joint + query);
}

// What the issuer sent back, once; null if this page was not opened by it.
export function returned() {
  const query = new URLSearchParams(location.search);
  if (!query.has("code") && !query.has("error")) return null;
  const flow = JSON.parse(sessionStorage.getItem(FLOW) || "null");
  sessionStorage.removeItem(FLOW);
  history.replaceState(null, "", `/console/${flow?.hash || ""}`);
  if (!flow || query.get("state") !== flow.state) {
    return { error: "This sign-in was not started in this tab. Start again." };
  }
  if (query.has("error")) {
    return { error: query.get("error_description") || query.get("error") };
  }
  return { code: query.get("code"), verifier: flow.verifier, nonce: flow.nonce, redirectURI: redirectURI() };
}

export function nonceOf(idToken) {
  try {
    const part = idToken.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    return JSON.parse(atob(part)).nonce;
  } catch {
    return undefined;
  }
}

// --- appearance

const THEME = "kcp-theme";

export function applyTheme() {
  const theme = localStorage.getItem(THEME);
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

export function toggleTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  localStorage.setItem(THEME, now === "dark" ? "light" : "dark");
  applyTheme();
}
