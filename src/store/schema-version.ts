import { createHash } from "node:crypto";

const STEPS_BITS = 8;

/**
 * The version of a schema that a database stores: the number of migration steps it took in the lowest byte, and above it 23
 * bits of a fingerprint of these steps, without their comments.
 */
export function schemaVersion(steps: readonly string[]): number {
  const text = steps.join("\n").replaceAll(/--.*$/gm, "").replaceAll(/\s+/g, " ");
  const fingerprint = createHash("sha256").update(text).digest().readUInt32BE() >>> (STEPS_BITS + 1);
  return (fingerprint << STEPS_BITS) | steps.length;
}

export function stepsTaken(version: number): number {
  return version & ((1 << STEPS_BITS) - 1);
}

/** True for a database that other steps than the known ones created; those of a newer Berth cannot be compared. */
export function hasOtherSchema(version: number, known: readonly string[]): boolean {
  const taken = stepsTaken(version);
  // Development versions stored no fingerprint.
  return version === taken || (taken <= known.length && version !== schemaVersion(known.slice(0, taken)));
}

export const OTHER_SCHEMA =
  "has another schema than any released version of Berth: a development version or a fork wrote it";
