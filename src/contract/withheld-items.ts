import type { Contract, PromptContract, SkillContract, ToolContract } from "./contract.ts";

/** The kinds of items that are withheld individually if they differ from their approved version: models read them. */
export type WithheldKind = "tool" | "prompt" | "skill";

export type WithheldItem = ToolContract | PromptContract | SkillContract;

export const withheldKinds: readonly WithheldKind[] = ["tool", "prompt", "skill"];

/** The items of one kind. */
export function listItems(
  contract: Pick<Contract, "tools" | "prompts" | "skills">,
  kind: WithheldKind,
): readonly WithheldItem[] {
  if (kind === "skill") return contract.skills ?? [];
  return kind === "tool" ? contract.tools : contract.prompts;
}

/** The name or URI that identifies an item for clients. Fields of an item do not tell its kind. */
export function itemKey(kind: WithheldKind, item: WithheldItem): string {
  return kind === "skill" ? (item as SkillContract).uri : (item as ToolContract | PromptContract).name;
}

export function byKey<Item extends WithheldItem>(
  kind: WithheldKind,
  items: readonly Item[],
): ReadonlyMap<string, Item> {
  return new Map(items.map((item) => [itemKey(kind, item), item]));
}
