import { knownVariables } from "../../src/compose/unknown-settings.ts";
import { changeFixed } from "../../src/limits/fixed.ts";
import { defaultLimits, type Limits } from "../../src/limits/limits.ts";

/**
 * The limits that no setting changes and that a test's environment lowers nevertheless, as if each had a variable:
 * `{ BERTH_RETRY_MS: "1" }`.
 */
export function loweredLimits(env: Readonly<Record<string, string | undefined>>): Partial<Limits> {
  const lowered = Object.entries(env).flatMap(([variable, value]) => {
    if (!/^BERTH_[A-Z_]+$/.test(variable) || !/^\d+$/.test(value ?? "") || knownVariables.includes(variable)) return [];
    const name = variable
      .slice("BERTH_".length)
      .toLowerCase()
      .replaceAll(/_[a-z]/g, (letter) => letter[1]!.toUpperCase());
    return [[name, Number(value)] as const];
  });
  return Object.fromEntries(lowered);
}

/**
 * Lowers fixed bounds in this process, until the returned function is called: `after(lower({ headersMs: 50 }))`. Tests of
 * one process run one after the other; no other Berth may serve in it meanwhile.
 */
export function lower(values: Readonly<Record<string, number>>): () => void {
  for (const name of Object.keys(values))
    if (Object.hasOwn(defaultLimits, name)) throw new Error(`${name} is no fixed bound`);
  return changeFixed(values);
}
