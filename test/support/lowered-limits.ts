import { defaultLimits, limitSettings, type Limits } from "../../src/limits/limits.ts";

const settable = new Set<string>(limitSettings);
const names = new Map(
  Object.keys(defaultLimits)
    .filter((name) => !settable.has(name))
    .map((name) => [`BERTH_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`, name]),
);

/**
 * The limits that no setting changes and that a test's environment lowers nevertheless, as if each had a variable:
 * `{ BERTH_RETRY_MS: "1" }`.
 */
export function loweredLimits(env: Readonly<Record<string, string | undefined>>): Partial<Limits> {
  const lowered = Object.entries(env).flatMap(([variable, value]) => {
    const name = names.get(variable);
    return name === undefined || value === undefined ? [] : [[name, Number(value)] as const];
  });
  return Object.fromEntries(lowered);
}
