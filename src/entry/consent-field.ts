import type { Json } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { complain, inside, type ConfigPlace } from "./config-place.ts";
import { readTexts } from "./grants-fields.ts";
import { OFFERED_NAME, type ConfiguredTool } from "./tool-fields.ts";

/** The fields of an entry that say which calls are approved. */
interface Approving {
  readonly approve: readonly string[];
  readonly tools: Readonly<Record<string, ConfiguredTool>>;
}

/** Stands for all tools of a server. */
const ALL = "*";

/**
 * Reads the field "approve" of an entry: the tools whose every call the user must approve, by the names that clients
 * know; sorted, without duplicates.
 */
export function readApprove(raw: readonly Json[], place: ConfigPlace): string[] {
  const names = readTexts(raw, place, (value, at) => {
    if (value === ALL || OFFERED_NAME.test(value)) return value;
    const message = `${JSON.stringify(value.slice(0, 150))} is no name of a tool; use "${ALL}" for all tools`;
    return complain(at, "bad-name", message);
  });
  return [...new Set(names)].sort();
}

/**
 * True for a tool whose calls are approved one by one. It is meant by each of its names, so that a second name, or one of
 * an earlier release, is no way around.
 */
export function asksConsent({ approve, tools }: Approving, name: string, own: string): boolean {
  if (approve.length === 0) return false;
  if (approve.includes(ALL) || approve.includes(name) || approve.includes(own)) return true;
  return functionsOf({ approve, tools }).includes(own);
}

/** The functions that tools of an entry's own names call. */
function functionsOf({ approve, tools }: Approving): string[] {
  return approve.flatMap((name) => configured({ tools }, name) ?? []);
}

function configured({ tools }: Pick<Approving, "tools">, name: string): string | undefined {
  return Object.hasOwn(tools, name) ? tools[name]!.function : undefined;
}

/**
 * True if some call needs consent under `before` and not under `after`: a name is taken from "approve", or "tools" gives
 * the function behind it another name.
 */
export function relaxesApprove(before: Approving, after: Approving | undefined): boolean {
  if (!after) return before.approve.length > 0;
  const named = [...before.approve, ...functionsOf(before)];
  return named.some((name) => !asksConsent(after, name, configured(after, name) ?? name));
}

/** A name that no tool has would protect nothing, and nobody would notice. */
export function approveProblems(
  server: string,
  { approve }: Approving,
  offered: readonly { readonly name: string }[],
): Problem[] {
  const problems: Problem[] = [];
  const place = inside(inside({ pointer: "", problems }, server), "approve");
  const names = new Set([ALL, ...offered.map(({ name }) => name)]);
  for (const name of approve) {
    if (names.has(name)) continue;
    complain(place, "no-such-tool", `"approve" names "${name}", and this server offers no such tool`, "warning");
  }
  return problems;
}

/** The tools that either entry asks to be approved: an earlier release is no way around the current rule, under whatever name. */
export function approvedByEither(then: Approving, now: Approving): string[] {
  return [...new Set([...then.approve, ...now.approve, ...functionsOf(now)])].sort();
}
