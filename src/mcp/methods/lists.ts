import { callersOf } from "../../contract/apps.ts";
import type { ContractList } from "../../contract/contract.ts";
import { EXTENSION_UI } from "../../contract/extensions.ts";
import type { Catalog, ToolContract } from "../../host/offers/catalog.ts";
import { viewRoom, type Kept } from "../../host/offers/view-cache.ts";
import { BerthError } from "../../lib/errors.ts";
import { turnTaker } from "../../lib/event-loop.ts";
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
  readonly written: Map<string, { readonly page: string; readonly kept: Kept }>;
  readonly making: Map<string, Promise<string>>;
}

/** One way to write lists. All revisions that write them in the same way share their pages, by its name. */
export interface ListForm {
  readonly name: string;
  listItem(list: ContractList, item: object): object;
  /** The JSON text of a page without its items. */
  listPage(catalog: Catalog, page: { readonly nextCursor?: string }): string;
}

/**
 * The result of `tools/list` and its like: a page is written once per release, and then served as existing bytes while
 * there is room for it. It is the whole list unless that exceeds the limits: many clients never ask for a second page.
 */
export function listPage(
  list: ContractList,
  { catalog, params, client }: Pick<MethodCall, "catalog" | "params"> & Partial<Pick<MethodCall, "client">>,
  form: ListForm,
): string | Promise<string> {
  const cursor = params["cursor"];
  const isForModels = list === "tools" && catalog.servers !== undefined && !showsApps(client?.capabilities ?? {});
  const start = cursor === undefined ? 0 : startOf(cursor, list, itemsOf(list, catalog).length);
  const pages = pagesOf(catalog.memo, isForModels ? `${form.name}:models` : form.name, list);
  const found = pages.written.get(String(start));
  if (!found) return makePage(pages, start, { list, catalog, form, isForModels });
  found.kept.used = true;
  return found.page;
}

/** A client without apps would offer the tools of apps to its model. */
function showsApps({ extensions }: JsonObject): boolean {
  return isObject(extensions) && isObject(extensions[EXTENSION_UI]);
}

function itemsOf(list: ContractList, { contract }: Catalog): readonly object[] {
  return contract[list] ?? [];
}

interface PageSource {
  readonly list: ContractList;
  readonly catalog: Catalog;
  readonly form: ListForm;
  /** Leaves out tools for apps alone. Places in the list stay what they are. */
  readonly isForModels: boolean;
}

/** Concurrent requests for the same page wait for this one. */
function makePage({ written, making }: Pages, start: number, source: PageSource): Promise<string> {
  const key = String(start);
  const underWay = making.get(key);
  if (underWay) return underWay;
  const made = writePage(start, source)
    .then((page) => {
      written.set(key, { page, kept: viewRoom.keep(written, key, UNIT_BYTES * page.length) });
      return page;
    })
    .finally(() => making.delete(key));
  making.set(key, made);
  return made;
}

/** The size of a character in a text that is not all Latin-1. */
const UNIT_BYTES = 2;

async function writePage(start: number, { list, catalog, form, isForModels }: PageSource): Promise<string> {
  const items = itemsOf(list, catalog);
  const texts: string[] = [];
  let skipped = 0;
  const turn = turnTaker();
  let bytes = 0;
  for (let at = start; at < items.length; at++) {
    const pause = turn();
    if (pause) await pause;
    if (isForModels && !callersOf(items[at] as ToolContract).model) {
      skipped++;
      continue;
    }
    const item = list === "tools" ? listedTool(items[at] as ToolContract, catalog) : items[at]!;
    const text = JSON.stringify(form.listItem(list, item));
    bytes += Buffer.byteLength(text) + 1;
    // A page without an item would lead to itself.
    if (bytes > pageBounds.listPageBytes && texts.length > 0) break;
    texts.push(text);
  }
  const end = start + texts.length + skipped;
  const rest = form.listPage(catalog, end < items.length ? { nextCursor: cursorOf(list, end) } : {});
  return `{"${list}":[${texts.join(",")}]${rest === "{}" ? "" : ","}${rest.slice(1)}`;
}

/**
 * Adds the identity of a tool, so that a client can tell another behaviour behind the same contract, and the same tool
 * under another name.
 */
export function listedTool(own: ToolContract, catalog: Catalog): object {
  const tool = own.execution ? withoutTaskSupport(own) : own;
  const identity = catalog.identity(tool.name);
  if (!identity) return tool;
  const { contract, implementation } = identity;
  return { ...tool, _meta: { ...tool._meta, [META_CONTRACT]: contract, [META_IMPLEMENTATION]: implementation } };
}

/**
 * An upstream of 2025-11-25 says with `execution.taskSupport` how its own client calls the tool. Berth does that in its
 * clients' place: to them each call is a plain one (they refuse a tool that requires a task), and modern ones are not asked.
 */
function withoutTaskSupport({ execution, ...tool }: ToolContract): ToolContract {
  const { taskSupport: _taskSupport, ...others } = execution!;
  return Object.keys(others).length > 0 ? { ...tool, execution: others } : tool;
}

function pagesOf(memo: Map<string, unknown>, form: string, list: ContractList): Pages {
  const key = `list:${form}:${list}`;
  let pages = memo.get(key) as Pages | undefined;
  if (!pages) memo.set(key, (pages = { written: new Map(), making: new Map() }));
  return pages;
}

export function cursorOf(list: string, start: number): string {
  return Buffer.from(`${list}:${start}`).toString("base64url");
}

/** The list may have changed since it gave the cursor, so any place in it will do. */
export function startOf(cursor: unknown, list: string, count: number): number {
  const isShort = typeof cursor === "string" && cursor.length <= CURSOR_UNITS_MAX;
  const text = isShort ? Buffer.from(cursor, "base64url").toString() : "";
  const [name, digits = ""] = text.split(":");
  const start = /^[0-9]{1,9}$/.test(digits) ? Number(digits) : 0;
  if (!(name === list && start > 0 && start < count)) {
    throw new BerthError("invalid_params", '"cursor" is not from this list');
  }
  return start;
}
