import { readCallers } from "../../contract/apps.ts";
import type { ContractList } from "../../contract/contract.ts";
import { EXTENSION_UI } from "../../contract/extensions.ts";
import type { Catalog, ToolContract } from "../../host/offers/catalog.ts";
import { viewRoom, type Kept } from "../../host/offers/view-cache.ts";
import { BerthError } from "../../lib/errors.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import { fixed } from "../../limits/fixed.ts";
import type { MethodCall } from "../protocol.ts";
import { META_CONTRACT, META_IMPLEMENTATION } from "../revisions.ts";

export const pageBounds = fixed({
  /** The items of one page of a list. A shorter list comes in one page: many clients never ask for a second. */
  listPageBytes: 2 * 1024 * 1024,
});

/** Longer than any cursor of a list. */
const CURSOR_UNITS_MAX = 64;
/** Keyed by the index of their first item. */
interface Pages {
  readonly cached: Map<string, { readonly page: string; readonly kept: Kept }>;
  readonly pending: Map<string, Promise<string>>;
}

/** A representation of lists. Revisions with the same one share cached pages, by its name. */
export interface ListForm {
  readonly name: string;
  listItem(list: ContractList, item: object): object;
  /** The JSON text of a page without its items. */
  listPage(catalog: Catalog, page: { readonly nextCursor?: string }): string;
}

/**
 * Returns the result of `tools/list` and the like. A page is serialized once per release, and served from memory while
 * capacity permits. It is the whole list unless that exceeds the limits: many clients never ask for a second page.
 */
export function listPage(
  list: ContractList,
  { catalog, params, client }: Pick<MethodCall, "catalog" | "params"> & Partial<Pick<MethodCall, "client">>,
  form: ListForm,
): string | Promise<string> {
  const cursor = params["cursor"];
  const isForModels = list === "tools" && catalog.servers !== undefined && !supportsApps(client?.capabilities ?? {});
  const start = cursor === undefined ? 0 : parseCursor(cursor, list, listItems(list, catalog).length);
  const pages = cachedPages(catalog.memo, isForModels ? `${form.name}:models` : form.name, list);
  const page = pages.cached.get(String(start));
  if (!page) return createPage(pages, start, { list, catalog, form, isForModels });
  page.kept.used = true;
  return page.page;
}

/** A client without support for apps would offer the tools of apps to its model. */
function supportsApps({ extensions }: JsonObject): boolean {
  return isObject(extensions) && isObject(extensions[EXTENSION_UI]);
}

function listItems(list: ContractList, { contract }: Catalog): readonly object[] {
  return contract[list] ?? [];
}

interface PageSource {
  readonly list: ContractList;
  readonly catalog: Catalog;
  readonly form: ListForm;
  /** Omits tools that are for apps only. Positions in the list stay the same. */
  readonly isForModels: boolean;
}

/** Concurrent requests for the same page wait for this one. */
function createPage({ cached, pending }: Pages, start: number, source: PageSource): Promise<string> {
  const key = String(start);
  const inProgress = pending.get(key);
  if (inProgress) return inProgress;
  const created = writePage(start, source)
    .then((page) => {
      cached.set(key, { page, kept: viewRoom.keep(cached, key, UNIT_BYTES * page.length) });
      return page;
    })
    .finally(() => pending.delete(key));
  pending.set(key, created);
  return created;
}

/** The size of a character in a string that is not all Latin-1. */
const UNIT_BYTES = 2;

async function writePage(start: number, { list, catalog, form, isForModels }: PageSource): Promise<string> {
  const items = listItems(list, catalog);
  const texts: string[] = [];
  let skipped = 0;
  const maybeYield = createYielder();
  let bytes = 0;
  for (let at = start; at < items.length; at++) {
    const pause = maybeYield();
    if (pause) await pause;
    if (isForModels && !readCallers(items[at] as ToolContract).model) {
      skipped++;
      continue;
    }
    const item = list === "tools" ? listedTool(items[at] as ToolContract, catalog) : items[at]!;
    const text = JSON.stringify(form.listItem(list, item));
    bytes += Buffer.byteLength(text) + 1;
    // An empty page would lead to itself.
    if (bytes > pageBounds.listPageBytes && texts.length > 0) break;
    texts.push(text);
  }
  const end = start + texts.length + skipped;
  const rest = form.listPage(catalog, end < items.length ? { nextCursor: toCursor(list, end) } : {});
  return `{"${list}":[${texts.join(",")}]${rest === "{}" ? "" : ","}${rest.slice(1)}`;
}

/**
 * Adds the identity of a tool, so that a client can recognize changed behavior behind the same contract, and the same
 * tool under another name.
 */
export function listedTool(declared: ToolContract, catalog: Catalog): object {
  const tool = declared.execution ? withoutTaskSupport(declared) : declared;
  const identity = catalog.identity(tool.name);
  if (!identity) return tool;
  const { contract, implementation } = identity;
  return { ...tool, _meta: { ...tool._meta, [META_CONTRACT]: contract, [META_IMPLEMENTATION]: implementation } };
}

/**
 * `execution.taskSupport` of a 2025-11-25 upstream tells its client, which is Berth, how to call the tool. For Berth's
 * clients each call is a plain one: legacy ones refuse a tool that requires a task, and modern ones are not asked.
 */
function withoutTaskSupport({ execution, ...tool }: ToolContract): ToolContract {
  const { taskSupport: _taskSupport, ...others } = execution!;
  return Object.keys(others).length > 0 ? { ...tool, execution: others } : tool;
}

function cachedPages(memo: Map<string, unknown>, form: string, list: ContractList): Pages {
  const key = `list:${form}:${list}`;
  let pages = memo.get(key) as Pages | undefined;
  if (!pages) memo.set(key, (pages = { cached: new Map(), pending: new Map() }));
  return pages;
}

export function toCursor(list: string, start: number): string {
  return Buffer.from(`${list}:${start}`).toString("base64url");
}

/** The list may have changed since the cursor was issued, so any position in it is valid. */
export function parseCursor(cursor: unknown, list: string, count: number): number {
  const isShort = typeof cursor === "string" && cursor.length <= CURSOR_UNITS_MAX;
  const text = isShort ? Buffer.from(cursor, "base64url").toString() : "";
  const [name, digits = ""] = text.split(":");
  const start = /^[0-9]{1,9}$/.test(digits) ? Number(digits) : 0;
  if (!(name === list && start > 0 && start < count)) {
    throw new BerthError("invalid_params", '"cursor" is not from this list');
  }
  return start;
}
