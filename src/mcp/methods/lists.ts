import { BerthError } from "../../errors.ts";
import type { Catalog, ToolContract } from "../../host/catalog.ts";
import { keptInView } from "../../host/permitted.ts";
import type { Limits } from "../../limits.ts";
import { turnTaker } from "../../turns.ts";
import type { Codec, ListName, Method } from "../protocol.ts";
import { META_CONTRACT, META_IMPLEMENTATION } from "../revisions.ts";

export type ListPageLimits = Pick<Limits, "listPageBytes" | "listPageItems">;

/** Longer than any that a list gives. */
const CURSOR_UNITS_MAX = 64;
/** Pages of one list that are kept, and their characters together. */
const PAGES_MAX = 64;
const PAGES_UNITS_MAX = 32 * 1024 * 1024;

/** By their first items. */
type Pages = Map<number, string | Promise<string>>;

/**
 * `tools/list` and its like: a page is written once for a release, and is bytes that already exist from then on. It is
 * the whole list unless that exceeds the limits: many clients never ask for a second page.
 */
export function listMethod(list: ListName, limits: ListPageLimits): Method {
  return ({ catalog, params, codec }) => {
    const cursor = params["cursor"];
    const start = cursor === undefined ? 0 : startOf(cursor, list, catalog.contract[list].length);
    const pages = pagesOf(catalog.memo, codec.shape, list);
    return pages.get(start) ?? makePage(pages, start, { list, catalog, codec, limits });
  };
}

interface PageSource {
  readonly list: ListName;
  readonly catalog: Catalog;
  readonly codec: Codec;
  readonly limits: ListPageLimits;
}

/** Whoever asks for the same page meanwhile waits for this one. */
function makePage(pages: Pages, start: number, source: PageSource): Promise<string> {
  const made = writePage(start, source).then(
    (page) => {
      pages.set(start, page);
      const units = page.length - makeRoom(pages, start);
      if (source.catalog.isNarrowed) keptInView(source.catalog, 2 * units);
      return page;
    },
    (error: unknown) => {
      pages.delete(start);
      throw error;
    },
  );
  pages.set(start, made);
  return made;
}

async function writePage(start: number, { list, catalog, codec, limits }: PageSource): Promise<string> {
  const { listPageBytes, listPageItems } = limits;
  const items: readonly object[] = catalog.contract[list];
  const texts: string[] = [];
  const turn = turnTaker();
  let bytes = 0;
  for (let at = start; at < items.length; at++) {
    const pause = turn();
    if (pause) await pause;
    const item = list === "tools" ? listedTool(items[at] as ToolContract, catalog) : items[at]!;
    const text = JSON.stringify(codec.listItem(list, item));
    bytes += Buffer.byteLength(text) + 1;
    const isFull = bytes > listPageBytes || (listPageItems > 0 && texts.length >= listPageItems);
    // A page without an item would lead to itself.
    if (isFull && texts.length > 0) break;
    texts.push(text);
  }
  const end = start + texts.length;
  const rest = codec.listPage(catalog, end < items.length ? { nextCursor: cursorOf(list, end) } : {});
  return `{"${list}":[${texts.join(",")}]${rest === "{}" ? "" : ","}${rest.slice(1)}`;
}

/** Lets the oldest pages go where there are too many; gives their length. The first one is what most clients ask for. */
function makeRoom(pages: Pages, made: number): number {
  let units = 0;
  for (const page of pages.values()) if (typeof page === "string") units += page.length;
  let gone = 0;
  for (const [start, page] of pages) {
    if (pages.size <= PAGES_MAX && units - gone <= PAGES_UNITS_MAX) break;
    if (start === 0 || start === made || typeof page !== "string") continue;
    pages.delete(start);
    gone += page.length;
  }
  return gone;
}

/** So that a client can tell another behaviour behind the same contract, and the same tool under another name. */
export function listedTool(tool: ToolContract, catalog: Catalog): object {
  const identity = catalog.identity(tool.name);
  if (!identity) return tool;
  const { contract, implementation } = identity;
  return { ...tool, _meta: { [META_CONTRACT]: contract, [META_IMPLEMENTATION]: implementation } };
}

function pagesOf(memo: Map<string, unknown>, shape: string, list: ListName): Pages {
  const key = `list:${shape}:${list}`;
  let pages = memo.get(key) as Pages | undefined;
  if (!pages) memo.set(key, (pages = new Map()));
  return pages;
}

function cursorOf(list: ListName, start: number): string {
  return Buffer.from(`${list}:${start}`).toString("base64url");
}

/** The list may have become another one since it gave the cursor, so that any place in it will do. */
function startOf(cursor: unknown, list: ListName, count: number): number {
  const isShort = typeof cursor === "string" && cursor.length <= CURSOR_UNITS_MAX;
  const text = isShort ? Buffer.from(cursor, "base64url").toString() : "";
  const [name, digits = ""] = text.split(":");
  const start = /^[0-9]{1,9}$/.test(digits) ? Number(digits) : 0;
  if (!(name === list && start > 0 && start < count)) {
    throw new BerthError("invalid_params", '"cursor" is none that this list gave');
  }
  return start;
}
