import type {
  PromptArgument,
  PromptContract,
  ResourceContract,
  ResourceTemplateContract,
  ToolContract,
} from "../contract/contract.ts";
import { isObject } from "../json.ts";
import type { Problem } from "../problem.ts";
import { turnTaker } from "../turns.ts";
import type { LeftOutEntry } from "./long-answers.ts";

/**
 * What a server lists, entry by entry: what is sound is kept whole, and what is not is told. The official client
 * refuses the whole list for one bad schema, and real servers have such (`{"$schema": …}` without a `type`).
 */
export interface Listed<T> {
  /** In the server's own order. */
  readonly items: readonly T[];
  readonly problems: readonly Problem[];
  /** Of all entries that were taken over. */
  readonly bytes: number;
}

/** Entries keep every field that the server gave them; these are the ones that are known. */
export type ListedTool = ToolContract & { readonly [field: string]: unknown };
export type ListedResource = ResourceContract & { readonly [field: string]: unknown };
export type ListedTemplate = ResourceTemplateContract & { readonly [field: string]: unknown };
export type ListedPrompt = PromptContract & { readonly [field: string]: unknown };

/** One entry made sound, or what is wrong with it. `warnings` collects what was mended. */
type Mend<T> = (entry: Record<string, unknown>, warnings: string[]) => T | string;

/** Calls of others have their turns meanwhile. */
export async function readEntries<T>(
  what: string,
  entries: readonly unknown[],
  key: string,
  mend: Mend<T>,
): Promise<Omit<Listed<T>, "bytes">> {
  const turn = turnTaker();
  const items: T[] = [];
  const problems: Problem[] = [];
  const seen = new Set<string>();
  for (const [index, entry] of entries.entries()) {
    await turn();
    const name = isObject(entry) ? entry[key] : undefined;
    if (!isObject(entry) || typeof name !== "string" || name === "") {
      problems.push(problem("error", `${what} number ${index + 1} has no ${key} and is left out.`));
      continue;
    }
    if (seen.has(name)) {
      problems.push(problem("error", `${what} "${name}" is listed twice; the first one counts.`, name));
      continue;
    }
    const warnings: string[] = [];
    const mended = mend(entry, warnings);
    if (typeof mended === "string") {
      problems.push(problem("error", `${what} "${name}" is left out: ${mended}.`, name));
      continue;
    }
    seen.add(name);
    items.push(mended);
    problems.push(...warnings.map((warning) => problem("warning", `${what} "${name}": ${warning}.`, name)));
  }
  return { items, problems };
}

/** Says what of a list was left out before it was looked at, as many times as there are reasons. */
export function problemsOf(what: string, leftOut: readonly LeftOutEntry[]): Problem[] {
  const byReason = new Map<string, { name: string; others: number }>();
  for (const { name, why } of leftOut) {
    const known = byReason.get(why);
    if (known) known.others += 1;
    else byReason.set(why, { name, others: 0 });
  }
  return Array.from(byReason, ([why, { name, others }]) => {
    const more = others === 0 ? "is left out" : `and ${others} more are left out`;
    return problem("error", `${what} "${name}" ${more}: ${why}.`, name);
  });
}

export const mendTool: Mend<ListedTool> = (entry, warnings) => {
  const { inputSchema, outputSchema } = entry;
  if (inputSchema !== undefined && !isObject(inputSchema)) return "its inputSchema is not an object";
  if (inputSchema?.["type"] !== "object") {
    if (inputSchema?.["type"] !== undefined) return `its inputSchema is of type ${JSON.stringify(inputSchema["type"])}`;
    warnings.push('its inputSchema does not say "type": "object"');
  }
  const { outputSchema: _outputSchema, ...rest } = entry;
  const soundOutput = outputSchema === undefined || isObject(outputSchema);
  if (!soundOutput) warnings.push("its outputSchema is not an object and is left out");
  return {
    ...(soundOutput ? entry : rest),
    inputSchema: { ...inputSchema, type: "object" },
  } as unknown as ListedTool;
};

export const mendResource: Mend<ListedResource> = (entry) => withName(entry, "uri") as ListedResource;

export const mendTemplate: Mend<ListedTemplate> = (entry) => withName(entry, "uriTemplate") as ListedTemplate;

export const mendPrompt: Mend<ListedPrompt> = (entry, warnings) => {
  const given = entry["arguments"];
  if (given !== undefined && !Array.isArray(given)) warnings.push("its arguments are not a list and are left out");
  const list: unknown[] = Array.isArray(given) ? given : [];
  const args = list.flatMap((argument): PromptArgument[] =>
    isObject(argument) && typeof argument["name"] === "string"
      ? [{ ...argument, name: argument["name"], required: argument["required"] === true }]
      : [],
  );
  const { arguments: _arguments, ...rest } = entry;
  return { ...rest, ...(given !== undefined && { arguments: args }) } as unknown as ListedPrompt;
};

function withName(entry: Record<string, unknown>, key: string): Record<string, unknown> {
  return typeof entry["name"] === "string" ? entry : { ...entry, name: entry[key] };
}

function problem(severity: Problem["severity"], message: string, name?: string): Problem {
  return { code: "bad-list-entry", message, severity, ...(name !== undefined && { tool: name }) };
}
