import type { ContractChange } from "../../contract/change.ts";
import type { ToolSummary, Review, ServerEffect } from "../../contract/review.ts";
import { badge, element } from "../shared/dom.ts";

/** Describes what a save does to servers and their callers. */
export function showEffects(review: Review): HTMLElement {
  return element("ul", { className: "effects" }, ...review.servers.map(showServer));
}

/** Shows only the effects that may break a caller. */
export function showBreaking(review: Review): HTMLElement {
  const servers: ServerEffect[] = [];
  for (const effect of review.servers) {
    const changes = effect.changes.filter((change) => change.effect === "breaking");
    const isGone = effect.outcome === "removed" || effect.outcome === "refused";
    if (isGone || changes.length > 0) servers.push({ ...effect, changes, newBehaviour: [] });
  }
  return showEffects({ ...review, servers });
}

const OUTCOMES = {
  added: ["new server", "good"],
  removed: ["goes away", "bad"],
  changed: ["changes", "accent"],
  refused: ["stops serving", "bad"],
  starting: ["still starting", "warn"],
} as const;

const EFFECTS = {
  breaking: ["breaking", "bad"],
  compatible: ["compatible", "good"],
  review: ["needs review", "warn"],
} as const;

function showServer({ server, outcome, changes, newBehaviour, bundleBytes, tools }: ServerEffect): HTMLElement {
  const [label, tone] = OUTCOMES[outcome];
  const items = [...changes.map(showChange), ...newBehaviour.map(showBehaviour)];
  const nothing = outcome === "changed" && items.length === 0;
  return element(
    "li",
    {},
    element("p", {}, element("strong", {}, server), " ", badge(label, tone)),
    nothing ? element("p", { className: "muted" }, "Clients see no difference.") : "",
    items.length > 0 ? element("ul", {}, ...items) : "",
    tools ? showTools(tools) : "",
    bundleBytes
      ? element(
          "p",
          { className: "muted small" },
          `Its bundle: ${sizeOf(bundleBytes.before)} now, ${sizeOf(bundleBytes.after)} then.`,
        )
      : "",
  );
}

function showTools(tools: readonly ToolSummary[]): HTMLElement {
  if (tools.length === 0) return element("p", { className: "muted" }, "It has no tools.");
  const items = tools.map(({ signature, description }) =>
    element("li", {}, element("code", {}, signature), element("p", { className: "muted small" }, description)),
  );
  return element("ul", { className: "offered" }, ...items);
}

function sizeOf(bytes: number | undefined): string {
  return bytes === undefined ? "none" : `${(bytes / 1000).toFixed(1)} kB`;
}

function showChange({ effect, subject, name, message }: ContractChange): HTMLElement {
  const [label, tone] = EFFECTS[effect];
  const of = subject === "server" || message.includes(name) ? "" : `${subject} ${name}: `;
  return element("li", {}, badge(label, tone), " ", of, message);
}

function showBehaviour(tool: string): HTMLElement {
  return element(
    "li",
    {},
    badge("new behaviour", "warn"),
    " ",
    `${tool} looks the same to clients, but its code has changed.`,
  );
}
