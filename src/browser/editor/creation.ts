import { formatLocation, type Problem } from "../../lib/problem.ts";
import { askToken } from "../shared/ask-token.ts";
import { button, element } from "../shared/dom.ts";
import type { Notices } from "../shared/notices.ts";
import { EditApi } from "./api.ts";

/**
 * The work that is left once the definition of a new server is saved: to give the server what its template needs, and to
 * go to the page that `data-created` names. Undefined on other pages. The grants can be changed until then.
 */
export function creationOf(place: HTMLElement, name: string): ((notices: Notices) => Promise<string>) | undefined {
  const address = place.closest<HTMLElement>("[data-created]")?.dataset["created"];
  if (address === undefined) return undefined;
  const grants = document.querySelector<HTMLTextAreaElement>("#grants");
  if (grants) grants.readOnly = false;
  return async (notices) => {
    for (;;) {
      const fault = grants && (await give(grants, name));
      if (!fault) return address;
      await pressed(notices, fault);
    }
  };
}

/** True for a problem that the page shows elsewhere: a requested grant, a change to approve, a package of a template. */
export function shownElsewhere(place: HTMLElement): ((problem: Problem) => boolean) | undefined {
  const isGranted = place.closest("[data-created]")
    ? document.querySelector("#grants") !== null
    : place.closest("[data-tab='settings']") !== null;
  const packages = document.querySelector<HTMLElement>("[data-missing]")?.dataset["missing"]?.split(" ") ?? [];
  return ({ code, message }) =>
    (isGranted && GRANT_CODES.has(code)) ||
    (code === "contract-changed" && document.querySelector("#server-head") !== null) ||
    // Types of packages that are not there yet are unknown.
    (code === "type-error" && packages.length > 0) ||
    (code === "import-refused" && packages.some((name) => message.startsWith(`"${name}" cannot be imported.`)));
}

/** Problems that depend on the entry, which the page shows next to the definition. */
const GRANT_CODES: ReadonlySet<string> = new Set(["secret-requested", "network-requested", "unset-variable"]);

/** Saves the entry; resolves with the reason when it was not saved. */
async function give(grants: HTMLTextAreaElement, name: string): Promise<string | undefined> {
  const api = new EditApi(grants.dataset["api"]!);
  const draft = { entry: name, files: { [name]: grants.value } };
  // A definition without an entry gets an empty one.
  const current = await api.current();
  if (current && current.files[name]?.trim() !== "{}") return "another user has created its entry in the meantime";
  const outcome = await api.save(draft, current?.cid ?? null, false);
  switch (outcome.kind) {
    case "saved":
      return undefined;
    case "forbidden":
      return (await askToken(outcome.message)) ? await give(grants, name) : outcome.message;
    case "refused":
      return outcome.problems
        .map((problem) => `${problem.message} (${formatLocation(problem) || "the entry"})`)
        .join("\n");
    case "moved":
      return "another user has created its entry in the meantime";
    case "breaking":
      return "it would break callers";
    case "failed":
      return outcome.message;
  }
}

function pressed(notices: Notices, fault: string): Promise<void> {
  return new Promise((resolve) => {
    const again = button("Try again", resolve);
    const message = `The server is saved, but it was not given what stands above: ${fault}`;
    notices.show("save", "bad", element("p", { className: "pre-line" }, message), again);
    again.focus();
  });
}
