import { randomBytes } from "node:crypto";

/** What belongs to no tenant, not yet or no longer, stands under a name that none can have, which begins with this. */
export const ALIAS = "~";

export function aliasOf(id: string, what: "coming" | "gone"): string {
  return `${ALIAS}${id}-${what}`;
}

/** A new name for what somebody has lost. */
export function newAlias(): string {
  return aliasOf(randomBytes(8).toString("hex"), "gone");
}
