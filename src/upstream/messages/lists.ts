import type {
  PromptContract,
  ResourceContract,
  ResourceTemplateContract,
  SkillContract,
  ToolContract,
} from "../../contract/contract.ts";
import { findHeaderFaults } from "../../contract/parameter-headers.ts";
import { isKey, sanitizeArguments, sanitizeFields } from "../../contract/sanitize.ts";
import { findSkillFault } from "../../contract/skills.ts";
import { cutText } from "../../lib/cut-text.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { isObject, jsonText } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import { fixed } from "../../limits/fixed.ts";
import { listBounds, checkListEntry, checkListEntryText } from "./long-answers.ts";
import { LongPage, protocolError, isString, shortResult, type LeftOutEntry, type AnyResult } from "./results.ts";
import { isMethodError, type UpstreamError } from "./upstream-error.ts";

/**
 * The entries of a server's list: valid ones are passed on whole, and invalid ones are reported. The official client
 * rejects the whole list for one bad schema, which real servers have (`{"$schema": …}` without a `type`).
 */
export interface UpstreamListed<T> {
  readonly items: readonly T[];
  readonly problems: readonly Problem[];
  readonly bytes: number;
  /** Set if a page after the first failed, so that further entries are unknown. */
  readonly failure?: UpstreamError;
}

/** Entries keep every field that the server sent; these are the known ones. */
export type ListedTool = ToolContract & { readonly [field: string]: unknown };
export type ListedResource = ResourceContract & { readonly [field: string]: unknown };
export type ListedTemplate = ResourceTemplateContract & { readonly [field: string]: unknown };
export type ListedPrompt = PromptContract & { readonly [field: string]: unknown };

/** Returns a corrected entry, or the reason why it is omitted. `warnings` collects the corrections. */
type Fix<T> = (entry: Record<string, unknown>, warnings: string[]) => T | string;

/** Yields to other calls. */
export async function readEntries<T>(
  what: string,
  entries: readonly unknown[],
  key: string,
  fix: Fix<T>,
): Promise<Pick<UpstreamListed<T>, "items" | "problems">> {
  const maybeYield = createYielder();
  const items: T[] = [];
  const problems: Problem[] = [];
  const seen = new Set<string>();
  for (const [index, entry] of entries.entries()) {
    await maybeYield();
    const name = isObject(entry) ? entry[key] : undefined;
    if (!isObject(entry) || !isKey(name)) {
      problems.push(problem(`${what} number ${index + 1} has no valid ${key} and is left out.`));
      continue;
    }
    if (seen.has(name)) {
      problems.push(problem(`${what} "${name}" is listed twice; the first one counts.`, name));
      continue;
    }
    const warnings: string[] = [];
    const result = fix(entry, warnings);
    if (typeof result === "string") {
      problems.push(problem(`${what} "${name}" is left out: ${result}.`, name));
      continue;
    }
    seen.add(name);
    items.push(result);
    problems.push(...warnings.map((warning) => problem(`${what} "${name}": ${warning}.`, name)));
  }
  return { items, problems };
}

/** Reports the entries of a list that were omitted unread, one problem for each reason, and the unread pages. */
export function unreadProblems(method: string, what: string, { leftOut, cut }: ReadList): Problem[] {
  const byReason = new Map<string, { name: string; others: number }>();
  for (const { name, why } of leftOut) {
    const reported = byReason.get(why);
    if (reported) reported.others += 1;
    else byReason.set(why, { name, others: 0 });
  }
  const all = Array.from(byReason, ([why, { name, others }]) => {
    const more = others === 0 ? "is left out" : `and ${others} more are left out`;
    return problem(`${what} "${name}" ${more}: ${why}.`, name);
  });
  return cut === undefined ? all : [...all, problem(`${method} is not read to its end: ${cut}.`)];
}

export const fixTool: Fix<ListedTool> = (entry, warnings) => {
  if (!isObject(entry["inputSchema"])) warnings.push("its inputSchema is not a JSON Schema and accepts any object");
  const valid = sanitizeFields("tool", entry, collectWarnings(warnings));
  const inputSchema = isObject(valid["inputSchema"]) ? valid["inputSchema"] : { type: "object" };
  const { type } = inputSchema;
  if (type !== "object") {
    const isOther = type !== undefined && !(Array.isArray(type) && type.includes("object"));
    if (isOther) return `its inputSchema is of type ${cutText(jsonText(type), TYPE_UNITS_MAX)}`;
    warnings.push('its inputSchema does not say "type": "object"');
  }
  const [header] = findHeaderFaults(inputSchema);
  // HTTP clients must reject such a tool.
  if (header) return cutText(header.message, FAULT_UNITS_MAX);
  return { ...valid, inputSchema: { ...inputSchema, type: "object" } } as unknown as ListedTool;
};

export const fixResource: Fix<ListedResource> = (entry, warnings) =>
  sanitizeFields("resource", withName(entry, "uri"), collectWarnings(warnings)) as unknown as ListedResource;

export const fixTemplate: Fix<ListedTemplate> = (entry, warnings) =>
  sanitizeFields("template", withName(entry, "uriTemplate"), collectWarnings(warnings)) as unknown as ListedTemplate;

export const fixPrompt: Fix<ListedPrompt> = (entry, warnings) => {
  const valid = sanitizeFields("prompt", entry, collectWarnings(warnings));
  const listed = valid["arguments"];
  if (listed === undefined) return valid as unknown as ListedPrompt;
  if (!Array.isArray(listed)) warnings.push("its arguments are not a list and are left out");
  const args = sanitizeArguments(Array.isArray(listed) ? (listed as unknown[]) : [], collectWarnings(warnings));
  return { ...valid, arguments: args } as unknown as ListedPrompt;
};

/** Passed on as it was sent: clients check each of its fields. */
export const fixSkill: Fix<SkillContract> = (entry) => findSkillFault(entry) ?? (entry as unknown as SkillContract);

const TYPE_UNITS_MAX = 100;
const FAULT_UNITS_MAX = 300;

function collectWarnings(warnings: string[]): (field: string, type: string) => void {
  return (field, type) => {
    // Thousands of arguments may be wrong in the same way.
    if (warnings.length >= WARNINGS_MAX) return;
    const warning = `its ${cutText(field, FAULT_UNITS_MAX)} is not ${type} and is left out`;
    if (!warnings.includes(warning)) warnings.push(warning);
  };
}

const WARNINGS_MAX = 10;

function withName(entry: Record<string, unknown>, key: string): Record<string, unknown> {
  return typeof entry["name"] === "string" ? entry : { ...entry, name: entry[key] };
}

/** A warning, so that one bad entry of an upstream does not prevent its server from being saved. */
function problem(message: string, name?: string): Problem {
  return { code: "bad-list-entry", message, severity: "warning", ...(name !== undefined && { tool: name }) };
}

const bounds = fixed({ upstreamListPages: 100 });

interface ListKeys {
  readonly key: string;
  readonly nameKey: string;
}

interface ReadList {
  readonly entries: unknown[];
  /** Entries that are too large or too deep. */
  readonly leftOut: LeftOutEntry[];
  bytes: number;
  values: number;
  cut?: string;
  failure?: UpstreamError;
}

type Cursor = string | number;

/** All entries of a list, page by page; `page` requests one. Rejects if the first page fails. */
export async function readPages(
  method: string,
  keys: ListKeys,
  page: (params: { cursor?: Cursor }) => Promise<AnyResult>,
): Promise<ReadList> {
  const list: ReadList = { entries: [], leftOut: [], bytes: 0, values: 0 };
  const { upstreamListPages } = bounds;
  const cursors = new Set<Cursor>();
  let params: { cursor?: Cursor } = {};
  for (;;) {
    let next: unknown;
    try {
      next = await readPage(method, keys, await page(params), list);
    } catch (error) {
      if (cursors.size === 0 || !isMethodError(error)) throw error;
      return { ...list, failure: error };
    }
    // Servers write null, "", false or 0 on the last page.
    if (!next) return list;
    if (!isCursor(next)) list.cut = "its nextCursor is not a string";
    else if (cursors.has(next)) list.cut = "its nextCursor repeats";
    else if (cursors.add(next).size >= upstreamListPages) list.cut = `it has more than ${upstreamListPages} pages`;
    else params = { cursor: next };
    if (list.cut !== undefined) return list;
  }
}

async function readPage(
  method: string,
  { key, nameKey }: ListKeys,
  answer: AnyResult,
  list: ReadList,
): Promise<unknown> {
  const { upstreamListItems } = listBounds;
  const isLong = answer instanceof LongPage;
  const page = isLong ? { [key]: answer.entries, nextCursor: answer.nextCursor } : shortResult(method, answer);
  const { [key]: items, nextCursor } = page;
  // Go serializes an empty slice as null.
  const entries = items === null ? [] : items;
  if (!Array.isArray(entries)) throw protocolError(method, `its ${key} are not a list`);
  if (isLong) list.leftOut.push(...answer.leftOut);
  const maybeYield = createYielder();
  for (const [index, each] of (entries as unknown[]).entries()) {
    await maybeYield();
    if (list.entries.length + list.leftOut.length >= upstreamListItems) {
      list.cut = `it has more than ${upstreamListItems} entries`;
      return undefined;
    }
    const position = { nameKey, index, bytes: list.bytes, values: list.values };
    const checked = isLong ? checkListEntryText(each as string, position) : checkListEntry(each, position);
    if ("why" in checked) list.leftOut.push(checked);
    else {
      list.entries.push(checked.entry);
      list.bytes += checked.bytes;
      list.values += checked.values;
    }
  }
  return nextCursor;
}

/** Larger numbers lose precision in JavaScript. */
function isCursor(value: unknown): value is Cursor {
  return isString(value) || (typeof value === "number" && Math.abs(value) <= Number.MAX_SAFE_INTEGER);
}
