import type {
  PromptContract,
  ResourceContract,
  ResourceTemplateContract,
  SkillContract,
  ToolContract,
} from "../contract/contract.ts";
import { faultsOfHeaders } from "../contract/parameter-headers.ts";
import { faultOfSkill } from "../contract/skills.ts";
import { faultOfShape, isKey, soundArguments, soundFields } from "../contract/sound.ts";
import { cutText } from "../lib/cut-text.ts";
import { turnTaker } from "../lib/event-loop.ts";
import { isObject, jsonText, type JsonSchema } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { fixed } from "../limits/fixed.ts";
import { listBounds, sift, siftText } from "./long-answers.ts";
import { LongPage, broken, isText, shortResult, type LeftOutEntry, type AnyResult } from "./results.ts";

/**
 * The entries of a server's list: valid ones are kept whole, and invalid ones are reported. The official client refuses
 * the whole list for one bad schema, and real servers have such (`{"$schema": …}` without a `type`).
 */
export interface UpstreamListed<T> {
  /** In the server's own order. */
  readonly items: readonly T[];
  readonly problems: readonly Problem[];
  /** The size of all accepted entries. */
  readonly bytes: number;
}

/** Entries keep every field that the server sent; these are the known ones. */
export type ListedTool = ToolContract & { readonly [field: string]: unknown };
export type ListedResource = ResourceContract & { readonly [field: string]: unknown };
export type ListedTemplate = ResourceTemplateContract & { readonly [field: string]: unknown };
export type ListedPrompt = PromptContract & { readonly [field: string]: unknown };

/** One corrected entry, or its fault. `warnings` collects the corrections. */
type Mend<T> = (entry: Record<string, unknown>, warnings: string[]) => T | string;

/** Other calls get their turn meanwhile. */
export async function readEntries<T>(
  what: string,
  entries: readonly unknown[],
  key: string,
  mend: Mend<T>,
): Promise<Omit<UpstreamListed<T>, "bytes">> {
  const turn = turnTaker();
  const items: T[] = [];
  const problems: Problem[] = [];
  const seen = new Set<string>();
  for (const [index, entry] of entries.entries()) {
    await turn();
    const name = isObject(entry) ? entry[key] : undefined;
    if (!isObject(entry) || !isKey(name)) {
      problems.push(problem("error", `${what} number ${index + 1} has no valid ${key} and is left out.`));
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

/** Reports the entries of a list that were left out unread, one problem for each reason. */
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
  const { inputSchema } = entry;
  const fault = inputSchema === undefined ? undefined : faultOfShape(inputSchema);
  if (fault !== undefined) return `its inputSchema is ${fault}`;
  const { type } = (inputSchema ?? {}) as JsonSchema;
  if (type !== "object") {
    if (type !== undefined) return `its inputSchema is of type ${cutText(jsonText(type), TYPE_UNITS_MAX)}`;
    warnings.push('its inputSchema does not say "type": "object"');
  }
  const [header] = faultsOfHeaders(inputSchema);
  // Clients over HTTP must refuse such a tool.
  if (header) return cutText(header.message, FAULT_UNITS_MAX);
  const sound = soundFields("tool", entry, warningOf(warnings));
  return { ...sound, inputSchema: { ...(inputSchema as JsonSchema), type: "object" } } as unknown as ListedTool;
};

export const mendResource: Mend<ListedResource> = (entry, warnings) =>
  soundFields("resource", withName(entry, "uri"), warningOf(warnings)) as unknown as ListedResource;

export const mendTemplate: Mend<ListedTemplate> = (entry, warnings) =>
  soundFields("template", withName(entry, "uriTemplate"), warningOf(warnings)) as unknown as ListedTemplate;

export const mendPrompt: Mend<ListedPrompt> = (entry, warnings) => {
  const sound = soundFields("prompt", entry, warningOf(warnings));
  const given = sound["arguments"];
  if (given === undefined) return sound as unknown as ListedPrompt;
  if (!Array.isArray(given)) warnings.push("its arguments are not a list and are left out");
  const args = soundArguments(Array.isArray(given) ? (given as unknown[]) : [], warningOf(warnings));
  return { ...sound, arguments: args } as unknown as ListedPrompt;
};

/** Kept as it was sent: the client of a client checks each of its fields. */
export const mendSkill: Mend<SkillContract> = (entry) => faultOfSkill(entry) ?? (entry as unknown as SkillContract);

const TYPE_UNITS_MAX = 100;
const FAULT_UNITS_MAX = 300;

function warningOf(warnings: string[]): (field: string, type: string) => void {
  return (field, type) => {
    // Thousands of arguments may be wrong in the same way.
    if (warnings.length < WARNINGS_MAX) warnings.push(`its ${field} is not ${type} and is left out`);
  };
}

/** For one entry. */
const WARNINGS_MAX = 10;

function withName(entry: Record<string, unknown>, key: string): Record<string, unknown> {
  return typeof entry["name"] === "string" ? entry : { ...entry, name: entry[key] };
}

function problem(severity: Problem["severity"], message: string, name?: string): Problem {
  return { code: "bad-list-entry", message, severity, ...(name !== undefined && { tool: name }) };
}

/** Pages of one list of an upstream. */
const bounds = fixed({ upstreamListPages: 100 });

/** The member that holds a page's entries, and the key of each entry. */
interface ListKeys {
  readonly key: string;
  readonly nameKey: string;
}

interface ListedEntries {
  readonly entries: readonly unknown[];
  /** Entries that are too large or too deep. */
  readonly leftOut: readonly LeftOutEntry[];
  readonly bytes: number;
}

/**
 * All entries of a list, page by page; `page` requests one. Throws `upstream_protocol` for pages that are invalid, form
 * a circle or never end.
 */
export async function readPages(
  method: string,
  { key, nameKey }: ListKeys,
  page: (params: { cursor?: string }) => Promise<AnyResult>,
): Promise<ListedEntries> {
  const { upstreamListItems } = listBounds;
  const entries: unknown[] = [];
  const leftOut: LeftOutEntry[] = [];
  const cursors = new Set<string>();
  const turn = turnTaker();
  let [bytes, values] = [0, 0];
  let cursor: string | undefined;
  do {
    const answer = await page(cursor === undefined ? {} : { cursor });
    const isLong = answer instanceof LongPage;
    const given = isLong ? { [key]: answer.entries, nextCursor: answer.nextCursor } : shortResult(method, answer);
    const { [key]: list, nextCursor } = given;
    if (!Array.isArray(list)) throw broken(method, `its ${key} are not a list`);
    if (isLong) leftOut.push(...answer.leftOut);
    for (const [index, each] of (list as unknown[]).entries()) {
      await turn();
      const at = { nameKey, index, bytes, values };
      const sifted = isLong ? siftText(each as string, at) : sift(each, at);
      if ("why" in sifted) leftOut.push(sifted);
      else {
        entries.push(sifted.entry);
        bytes += sifted.bytes;
        values += sifted.values;
      }
      if (entries.length + leftOut.length > upstreamListItems) {
        throw broken(method, `it has more than ${upstreamListItems} entries`);
      }
    }
    cursor = isText(nextCursor) && nextCursor !== "" ? nextCursor : undefined;
    if (cursor !== undefined && cursors.has(cursor)) throw broken(method, "its pages repeat");
    cursors.add(cursor ?? "");
    if (cursors.size > bounds.upstreamListPages)
      throw broken(method, `it has more than ${bounds.upstreamListPages} pages`);
  } while (cursor !== undefined);
  return { entries, leftOut, bytes };
}
