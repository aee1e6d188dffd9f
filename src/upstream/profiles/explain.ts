import type { ContractChange } from "../../contract/change.ts";
import type { ProfileCheck } from "./check.ts";

const kinds = [
  ["breaking", "breaking"],
  ["compatible", "not breaking"],
  ["review", "needs review"],
] as const satisfies readonly (readonly [ContractChange["effect"], string])[];

/** What a person at a terminal is told when a profile's server is not what it was (seed 000, "User Experience"). */
export function explainDrift(name: string, reference: string, check: ProfileCheck): string {
  return [
    "Warning: MCP server schema has changed since profile was created.",
    "",
    ...listChanges(check.changes),
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

/** One line a change, those that break callers first. */
export function listChanges(changes: readonly ContractChange[]): string[] {
  if (changes.length === 0) return ["No changes."];
  const lines = kinds.flatMap(([effect, said]) =>
    changes.filter((change) => change.effect === effect).map(({ message }) => `  - ${message} (${said})`),
  );
  return ["Changes detected:", ...lines];
}
