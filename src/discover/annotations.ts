import type { ToolAnnotations } from "./discovery.ts";
import type { Doc, Tag } from "./doc-comments.ts";

const hints: Readonly<Record<string, keyof ToolAnnotations>> = {
  readonly: "readOnlyHint",
  destructive: "destructiveHint",
  idempotent: "idempotentHint",
  openworld: "openWorldHint",
};

/** MCP's behaviour hints from tags: `@readOnly`, or `@destructive false` to say that it is not. */
export function annotationsOf(doc: { readonly tags: readonly Pick<Tag, "name" | "text">[] }): ToolAnnotations {
  const annotations: Partial<Record<keyof ToolAnnotations, boolean>> = {};
  for (const tag of doc.tags) {
    const hint = hints[tag.name.replace(/hint$/, "")];
    if (hint) annotations[hint] = !/^(false|no)\b/i.test(tag.text);
  }
  return annotations;
}

/** Functions that a module must export for other modules, and that are no tools. */
export function isHidden(name: string, doc: Doc): boolean {
  return name.startsWith("_") || doc.tags.some((tag) => ["internal", "private", "hidden"].includes(tag.name));
}
