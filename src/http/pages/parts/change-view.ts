import type { ContractChange } from "../../../contract/change.ts";

export const EFFECTS = {
  breaking: { label: "breaking", tone: "bad", rank: 0 },
  review: { label: "needs review", tone: "warn", rank: 1 },
  compatible: { label: "compatible", tone: "good", rank: 2 },
} as const satisfies Record<ContractChange["effect"], object>;

/** Sorts breaking changes first. */
export function byEffect(one: ContractChange, other: ContractChange): number {
  return EFFECTS[one.effect].rank - EFFECTS[other.effect].rank;
}

/** One change of a contract: a badge for its effect, and a sentence that names what has changed. */
export function changeView({ effect, subject, name, message }: ContractChange) {
  const { label, tone } = EFFECTS[effect];
  const prefix =
    subject === "server" || name === "" || message.includes(`"${name}"`) ? "" : `The ${subject} "${name}": `;
  return { label, tone, message: prefix + message };
}
