import { BerthError } from "../../errors.ts";
import type { Catalog, ToolContract } from "../../host/catalog.ts";
import { keptInView } from "../../host/permitted.ts";
import type { ListName, Method } from "../protocol.ts";
import { META_CONTRACT, META_IMPLEMENTATION } from "../revisions.ts";

/** Items on one page of a list. */
const PAGE_ITEMS = 50;
/** Longer than any that a list gives. */
const CURSOR_UNITS_MAX = 64;
/** Pages of one list that are kept. */
const PAGES_MAX = 64;

/** `tools/list` and its like: a page is written once for a release, and is bytes that already exist from then on. */
export function listMethod(list: ListName): Method {
  return ({ catalog, params, codec }) => {
    const items = catalog.contract[list];
    const cursor = params["cursor"];
    const start = cursor === undefined ? 0 : startOf(cursor, list, items.length);
    const pages = pagesOf(catalog.memo, codec.shape, list);
    let page = pages.get(start);
    if (page === undefined) {
      const end = start + PAGE_ITEMS;
      const nextCursor = end < items.length ? { nextCursor: cursorOf(list, end) } : {};
      const own = items.slice(start, end);
      const shown = list === "tools" ? (own as ToolContract[]).map((tool) => listedTool(tool, catalog)) : own;
      page = codec.listPage(catalog, list, { items: shown, ...nextCursor });
      pages.set(start, page);
      let units = page.length;
      // Of all servers there may be thousands of pages.
      for (const [oldest, { length }] of pages) {
        if (pages.size <= PAGES_MAX) break;
        pages.delete(oldest);
        units -= length;
      }
      if (catalog.isNarrowed) keptInView(catalog, 2 * units);
    }
    return page;
  };
}

/** So that a client can tell another behaviour behind the same contract, and the same tool under another name. */
export function listedTool(tool: ToolContract, catalog: Catalog): object {
  const identity = catalog.identity(tool.name);
  if (!identity) return tool;
  const { contract, implementation } = identity;
  return { ...tool, _meta: { [META_CONTRACT]: contract, [META_IMPLEMENTATION]: implementation } };
}

function pagesOf(memo: Map<string, unknown>, shape: string, list: ListName): Map<number, string> {
  const key = `list:${shape}:${list}`;
  let pages = memo.get(key) as Map<number, string> | undefined;
  if (!pages) memo.set(key, (pages = new Map()));
  return pages;
}

function cursorOf(list: ListName, start: number): string {
  return Buffer.from(`${list}:${start}`).toString("base64url");
}

function startOf(cursor: unknown, list: ListName, count: number): number {
  const isShort = typeof cursor === "string" && cursor.length <= CURSOR_UNITS_MAX;
  const text = isShort ? Buffer.from(cursor, "base64url").toString() : "";
  const [name, digits = ""] = text.split(":");
  const start = /^[0-9]{1,9}$/.test(digits) ? Number(digits) : 0;
  if (!(name === list && start > 0 && start < count && start % PAGE_ITEMS === 0)) {
    throw new BerthError("invalid_params", '"cursor" is none that this list gave');
  }
  return start;
}
