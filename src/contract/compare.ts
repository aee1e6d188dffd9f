import type { ContractChange } from "./change.ts";
import type { Contract } from "./contract.ts";

/** What changed from one contract of a server to another, judged by what it does to somebody who calls it. */
export function compareContracts(before: Contract, after: Contract): ContractChange[] {
  const [old, now] = [before, after].map(({ tools }) => tools.map(({ name }) => name)) as [string[], string[]];
  return [
    ...old
      .filter((name) => !now.includes(name))
      .map((name) => toolChange(name, "breaking", `The tool "${name}" is removed: calls of it fail.`)),
    ...now
      .filter((name) => !old.includes(name))
      .map((name) => toolChange(name, "compatible", `The tool "${name}" is new.`)),
  ];
}

function toolChange(name: string, effect: ContractChange["effect"], message: string): ContractChange {
  return { subject: "tool", name, effect, message };
}
