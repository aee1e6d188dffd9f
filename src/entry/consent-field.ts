import type { Problem } from "../lib/problem.ts";
import { complain, inside } from "./config-place.ts";
import { OFFERED_NAME, type ConfiguredTool } from "./tool-fields.ts";

/** The fields of an entry that say which calls need consent. */
interface Consenting {
  readonly consent: readonly string[];
  readonly tools: Readonly<Record<string, ConfiguredTool>>;
}

/** Stands for all tools of a server. */
const ALL = "*";

/** Tools are named as clients know them. */
export function consentToolFault(name: string): string | undefined {
  if (name === ALL || OFFERED_NAME.test(name)) return undefined;
  return `${JSON.stringify(name.slice(0, 150))} is no name of a tool; use "${ALL}" for all tools`;
}

/**
 * True for a tool whose calls each need consent. It is meant by each of its names, so that a second name, or one of
 * an earlier release, is no way around.
 */
export function asksConsent({ consent, tools }: Consenting, name: string, own: string): boolean {
  if (consent.length === 0) return false;
  if (consent.includes(ALL) || consent.includes(name) || consent.includes(own)) return true;
  return functionsOf({ consent, tools }).includes(own);
}

/** The functions that tools of an entry's own names call. */
function functionsOf({ consent, tools }: Consenting): string[] {
  return consent.flatMap((name) => configured({ tools }, name) ?? []);
}

function configured({ tools }: Pick<Consenting, "tools">, name: string): string | undefined {
  return Object.hasOwn(tools, name) ? tools[name]!.function : undefined;
}

/**
 * True if some call needs consent under `before` and not under `after`: a name is taken from "consent", or "tools" gives
 * the function behind it another name.
 */
export function relaxesConsent(before: Consenting, after: Consenting | undefined): boolean {
  if (!after) return before.consent.length > 0;
  const named = [...before.consent, ...functionsOf(before)];
  return named.some((name) => !asksConsent(after, name, configured(after, name) ?? name));
}

/** A name that no tool has would protect nothing, and nobody would notice. */
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
    complain(place, "no-such-tool", `"consent" names "${name}", and this server offers no such tool`, "warning");
  }
  return problems;
}

/** The tools that either entry asks for consent to: an earlier release is no way around the current rule, under whatever name. */
export function consentOfEither(then: Consenting, now: Consenting): string[] {
  return [...new Set([...then.consent, ...now.consent, ...functionsOf(now)])].sort();
}
