import { createHash } from "node:crypto";

const STEP_COUNT_BITS = 8;

/**
 * The schema version that a database stores: the lowest byte is the number of applied migration steps, and the 23 bits
 * above it are a fingerprint of these steps without their comments.
 */
export function schemaVersion(steps: readonly string[]): number {
  const text = steps.join("\n").replaceAll(/--.*$/gm, "").replaceAll(/\s+/g, " ");
  const fingerprint = createHash("sha256").update(text).digest().readUInt32BE() >>> (STEP_COUNT_BITS + 1);
  return (fingerprint << STEP_COUNT_BITS) | steps.length;
}

export function appliedSteps(version: number): number {
  return version & ((1 << STEP_COUNT_BITS) - 1);
}

/** True for a database created by other migration steps. Steps of a newer Berth cannot be compared. */
export function hasOtherSchema(version: number, known: readonly string[]): boolean {
  const stepCount = appliedSteps(version);
  // Early development versions stored no fingerprint.
  return version === stepCount || (stepCount <= known.length && version !== schemaVersion(known.slice(0, stepCount)));
}

export const OTHER_SCHEMA =
  "has a schema of no released version of Berth: it was created by a development version or a fork";
