import type { Problem } from "../lib/problem.ts";
import { addProblem, inside } from "./config-place.ts";
import { OFFERED_NAME, type ConfiguredTool } from "./tool-fields.ts";

/** The fields of an entry that decide which calls need consent. */
interface Consenting {
  readonly consent: readonly string[];
  readonly tools: Readonly<Record<string, ConfiguredTool>>;
}

/** Matches all tools of a server. */
const ALL = "*";

/** Expects tool names as clients see them. */
export function consentToolFault(name: string): string | undefined {
  if (name === ALL || OFFERED_NAME.test(name)) return undefined;
  return `${JSON.stringify(name.slice(0, 150))} is not the name of a tool; use "${ALL}" for all tools`;
}

/** True if calls of a tool need consent under any of its names, so that a second name cannot bypass consent. */
export function requiresConsent({ consent, tools }: Consenting, name: string, own: string): boolean {
  if (consent.length === 0) return false;
  if (consent.includes(ALL) || consent.includes(name) || consent.includes(own)) return true;
  return configuredFunctions({ consent, tools }).includes(own);
}

/** The functions that are called by tools with names of the entry's own. */
function configuredFunctions({ consent, tools }: Consenting): string[] {
  return consent.flatMap((name) => configured({ tools }, name) ?? []);
}

function configured({ tools }: Pick<Consenting, "tools">, name: string): string | undefined {
  return Object.hasOwn(tools, name) ? tools[name]!.function : undefined;
}

/** True if some call needs consent under `before` and not under `after`. */
export function relaxesConsent(before: Consenting, after: Consenting | undefined): boolean {
  if (!after) return before.consent.length > 0;
  const named = [...before.consent, ...configuredFunctions(before)];
  return named.some((name) => !requiresConsent(after, name, configured(after, name) ?? name));
}

/** A name that no tool has would protect nothing, unnoticed. */
export function consentProblems(
  server: string,
  { consent }: Consenting,
  offered: readonly { readonly name: string }[],
): Problem[] {
  const problems: Problem[] = [];
  const place = inside(inside({ pointer: "", problems }, server), "consent");
  const names = new Set([ALL, ...offered.map(({ name }) => name)]);
  for (const name of consent) {
    if (names.has(name)) continue;
    addProblem(place, "no-such-tool", `"consent" names "${name}", but this server offers no such tool`, "warning");
  }
  return problems;
}

/** The tools for which either entry requires consent: an earlier release cannot bypass the current rule. */
export function combineConsent(earlier: Consenting, current: Consenting): string[] {
  return [...new Set([...earlier.consent, ...current.consent, ...configuredFunctions(current)])].sort();
}
