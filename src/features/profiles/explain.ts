import type { ContractChange } from "../../contract/change.ts";
import { printable } from "../../lib/printable.ts";
import type { ProfileCheck } from "./check.ts";

const kinds = [
  ["breaking", "breaking"],
  ["compatible", "not breaking"],
  ["review", "needs review"],
] as const satisfies readonly (readonly [ContractChange["effect"], string])[];

/** The message at a terminal when a profile's server has changed. */
export function explainDrift(name: string, reference: string, check: ProfileCheck): string {
  return [
    "Warning: MCP server schema has changed since profile was created.",
    "",
    ...listChanges(check.changes, HARMLESS_SHOWN_AT_USE),
    "",
    `Profile hash: ${check.expectedHash}`,
    `Current hash: ${check.currentHash}`,
    "",
    "Options:",
    `  1. Update profile: berth profile update @${name}`,
    `  2. Explore changes: berth mcp explore @${name}`,
    `  3. Ignore (may cause errors): berth cat "${reference}" --ignore-schema`,
  ].join("\n");
}

/** One line per change, breaking ones first; at most `harmlessMax` of the others. */
export function listChanges(changes: readonly ContractChange[], harmlessMax = CHANGES_SHOWN_MAX): string[] {
  if (changes.length === 0) return ["No changes."];
  const lines = kinds.flatMap(([effect, said]) => {
    const own = changes.filter((change) => change.effect === effect);
    const shown = own
      .slice(0, effect === "breaking" ? CHANGES_SHOWN_MAX : harmlessMax)
      .map((change) => `  - ${printable(subjectOf(change) + change.message).replaceAll("\n", " ")} (${said})`);
    return own.length === shown.length ? shown : shown.concat(`  - and ${own.length - shown.length} more (${said})`);
  });
  return ["Changes detected:", ...lines];
}

/** Per kind; `--format json` lists all of them. */
const CHANGES_SHOWN_MAX = 50;
/** Callers need to know why the call may fail; `berth profile validate` lists the rest. */
const HARMLESS_SHOWN_AT_USE = 3;

/** Most messages are about a part of something, without naming it. */
function subjectOf({ subject, name, pointer }: ContractChange): string {
  return pointer === undefined || name === "" ? "" : `${subject[0]!.toUpperCase()}${subject.slice(1)} '${name}': `;
}
