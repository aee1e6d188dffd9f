import { randomBytes } from "node:crypto";

/** A name that no tenant can have begins with this; under such a name stands what belongs to none, not yet or no longer. */
export const ALIAS = "~";

export function aliasOf(id: string, what: "coming" | "gone"): string {
  return `${ALIAS}${id}-${what}`;
}

/** A new name for what somebody has lost. */
export function newAlias(): string {
  return aliasOf(randomBytes(8).toString("hex"), "gone");
}
