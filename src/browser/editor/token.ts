import { tenantBase } from "../base.ts";
import { button, element } from "./dom.ts";

/** A token of one tenant is shown to no other. */
const KEY = `berth:token:${tenantBase}`;

/** The administrator's token, as long as this tab is open; null when none was given. */
export function keptToken(): string | null {
  return sessionStorage.getItem(KEY);
}

/** Asks for the token that allows changes from elsewhere; false when the person gives none. */
export function askToken(why: string): Promise<boolean> {
  return new Promise((resolve) => {
    const heading = element("h2", { id: "token-heading" }, "Who may change this?");
    const input = element("input", { type: "password", required: true, autocomplete: "current-password" });
    const dialog = element("dialog", { className: "question" });
    dialog.setAttribute("aria-labelledby", heading.id);
    const form = element(
      "form",
      {},
      heading,
      element("p", {}, `${why}. Your text is kept.`),
      element("label", { className: "inline" }, "Administrator's token ", input),
      element(
        "div",
        { className: "choices" },
        button("Not now", () => dialog.close()),
        element("button", { className: "primary" }, "Go on"),
      ),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(KEY, input.value.trim());
      dialog.close("given");
    });
    dialog.append(form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "given");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
