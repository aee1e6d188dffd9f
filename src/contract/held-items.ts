import type { Contract, PromptContract, SkillContract, ToolContract } from "./contract.ts";

/** The kinds of items that are withheld individually if they differ from their approved version: models read them. */
export type HeldKind = "tool" | "prompt" | "skill";

export type HeldItem = ToolContract | PromptContract | SkillContract;

export const heldKinds: readonly HeldKind[] = ["tool", "prompt", "skill"];

/** The items of one kind. */
export function itemsOf(contract: Pick<Contract, "tools" | "prompts" | "skills">, kind: HeldKind): readonly HeldItem[] {
  if (kind === "skill") return contract.skills ?? [];
  return kind === "tool" ? contract.tools : contract.prompts;
}

/** The name or URI that identifies an item for clients. Fields of an item do not tell its kind. */
export function keyOf(kind: HeldKind, item: HeldItem): string {
  return kind === "skill" ? (item as SkillContract).uri : (item as ToolContract | PromptContract).name;
}

export function byKey<Item extends HeldItem>(kind: HeldKind, items: readonly Item[]): ReadonlyMap<string, Item> {
  return new Map(items.map((item) => [keyOf(kind, item), item]));
}
