import { randomBytes } from "node:crypto";

/** Names with this prefix are not valid tenant names. They own what belongs to no tenant, not yet or no longer. */
export const ALIAS = "~";

export function makeAlias(id: string, what: "coming" | "gone"): string {
  return `${ALIAS}${id}-${what}`;
}

/** A new alias for data that lost its owner. */
export function newAlias(): string {
  return makeAlias(randomBytes(8).toString("hex"), "gone");
}
