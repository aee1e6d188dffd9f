import { tenantBase, button, element } from "./dom.ts";

/** The API's error codes for a missing or insufficient token. */
const CODES: ReadonlySet<unknown> = new Set([
  "token_missing",
  "unauthorized",
  "forbidden",
  "token_required",
  "write_forbidden",
]);

/**
 * The token last typed into this page: it is stored nowhere else, and unlike cookies, goes to no other port of the
 * host.
 */
let typed: string | undefined;

/** Adds the typed token, if any, to the headers of a request. */
export function withTyped<Headers extends Record<string, string>>(headers: Headers): Headers {
  return typed === undefined ? headers : { ...headers, Authorization: `Bearer ${typed}` };
}

/** True when another token would help against an error of this code. */
export function asksForToken(code: unknown): boolean {
  return CODES.has(code);
}

/**
 * Asks for a token and signs in with it. The page sends it with its changes, until it is left. False when the person
 * gives none.
 */
export function askToken(why: string): Promise<boolean> {
  return new Promise((resolve) => {
    const heading = element("h2", { id: "token-heading" }, "Who may do this?");
    const input = element("input", { type: "password", required: true, autocomplete: "current-password" });
    const refusal = element("p", { className: "notice bad", hidden: true, role: "alert" });
    const dialog = element("dialog", { className: "question" });
    dialog.setAttribute("aria-labelledby", heading.id);
    const form = element(
      "form",
      {},
      heading,
      element("p", {}, `${why}. Your changes are kept.`),
      refusal,
      element("label", { className: "inline" }, "Token ", input),
      element(
        "div",
        { className: "choices" },
        button("Not now", () => dialog.close()),
        element("button", { className: "primary" }, "Sign in"),
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void send();
    });
    const send = async (): Promise<void> => {
      const message = await signIn(input.value);
      if (message === undefined) return dialog.close("given");
      refusal.textContent = message;
      refusal.hidden = false;
      input.focus();
    };
    dialog.append(form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "given");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Signs in; returns undefined, or what is wrong with the token. */
async function signIn(token: string): Promise<string | undefined> {
  try {
    const response = await fetch(`${tenantBase}/sign-in`, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify({ token }),
    });
    if (response.ok) {
      typed = token.trim();
      return undefined;
    }
    const { error } = (await response.json().catch(() => ({}))) as { error?: { message?: string } };
    return error?.message ?? `The server answered ${response.status}`;
  } catch {
    return "The server could not be reached";
  }
}
