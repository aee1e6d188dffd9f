import { fixedLimits } from "../../src/limits/fixed-limits.ts";
import type { Limits } from "../../src/limits/limits.ts";

/** Limits that follow from others. */
const DERIVED: readonly (keyof Limits)[] = [
  "requestBurstPerTenant",
  "requestBurstPerPrincipal",
  "anonymousRequestBurst",
  "queuedCallsPerTenant",
  "runningTasksPerTenant",
  "guestFrameBytes",
  "scriptDiskMb",
  "sourceFileBytes",
];

const names = new Map(
  [...Object.keys(fixedLimits), ...DERIVED].map((name) => [
    `BERTH_${name.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`,
    name,
  ]),
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
