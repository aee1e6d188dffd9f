import type { Response } from "express";
import { entryFields, type CidField } from "../../entry/entry-fields.ts";
import type { ContentUser } from "../../host/directory/content-users.ts";
import type { Host } from "../../host/host.ts";
import { isCid, isStructure, type Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import { indentedJson, isObject, tryParseJson } from "../../lib/json.ts";
import { reading } from "../access/permit.ts";
import type { PageRoute } from "../routed.ts";
import type { Pages } from "./pages.ts";
import { pathsOf } from "./parts/paths.ts";
import { bytesText, countOf, shortCid } from "./parts/text.ts";

/** The most that a page shows of a text, or of all files of a definition; more is for an editor. */
const SHOWN_UNITS_MAX = 200_000;
/** Content with more bytes has more characters than are shown. */
const READ_BYTES_MAX = 4 * SHOWN_UNITS_MAX;
/** The most files of a definition whose text the page shows. */
const FILES_MAX = 64;

/**
 * `GET /cid/<cid>`: content of the tenant, in readable form. `?raw` returns the bytes, which nobody has checked, so a
 * browser only ever saves them as a file.
 */
export const cidPage: PageRoute<{ readonly host: Host; readonly pages: Pages }> = {
  path: "/cid/:cid",
  permit: reading(),
  create({ host, pages }) {
    return async (context) => {
      const { request, response, tenant, base } = context;
      const read = (cid: Cid): Promise<Uint8Array | undefined> => host.content(tenant, cid);
      const cid = request.params["cid"]!;
      const bytes = isCid(cid) ? await read(cid) : undefined;
      if (!bytes) throw new BerthError("content_missing", `"${cid}"`);
      if (request.query["raw"] !== undefined) return sendBytes(response, cid, bytes);
      const text = textOf(bytes);
      // A text that is too long to show is not parsed, either.
      const value = text === undefined || text.length > SHOWN_UNITS_MAX ? undefined : parsed(text);
      const files = isStructure(cid) ? await filesOf(value, read) : [];
      const kind = kindOf(cid, value, text);
      const users = (await host.contentUsers(tenant, cid)).map((user) => userView(base, user));
      const [user] = users;
      await pages.send(context, "cid", {
        title: user ? `${sentence(user.use)} ${user.name}` : kind,
        users,
        section: "mcp",
        crumbs: [{ label: "Servers", href: `${base}/mcp` }, { label: "Content" }],
        cid,
        kind,
        about: ABOUT[kind] ?? "",
        size:
          files.length > 0 ? countOf(files.length, "file") : [bytesText(bytes.length), ...offersOf(value)].join(", "),
        raw: `${base}/cid/${cid}?raw`,
        isText: text !== undefined,
        cut: text !== undefined && text.length > SHOWN_UNITS_MAX,
        pieces: text === undefined ? [] : piecesOf(text, value),
        files,
      });
    };
  },
};

/** The meaning of structures, for readers who meet them here first. */
const ABOUT: Readonly<Record<string, string>> = {
  Release: "One version of a server: its source, its entry in mcps and its contract, together.",
  Contract: "The tools, resources and prompts that clients see of a server.",
};

/** The words before the name of a user, and the tab of its page. */
type Use = readonly [words: string, tab?: string];

const USES: Readonly<Record<Exclude<ContentUser["as"], CidField>, Use>> = {
  variable: ["the current value of the variable"],
  release: ["the current release of", "releases"],
  file: ["the file", "code"],
  config: ["the entry in mcps of", "settings"],
  contract: ["the contract of"],
  packages: ["the packages of", "code"],
};

function userView(base: string, { as, name, path, earlier }: ContentUser) {
  const [words, tab]: Use = isPart(as) ? USES[as] : entryFields[as].cid.use;
  const isItself = as === "release" || as === "variable";
  const page = pathsOf(base, as === "release" && earlier ? `${name}@${earlier}` : name).page;
  return {
    use: as === "file" ? `${words} ${path} of` : earlier ? words.replace("the current", "an earlier") : words,
    name,
    page: as === "variable" ? `${base}/variables/${encodeURIComponent(name)}` : tab ? `${page}?tab=${tab}` : page,
    release: earlier && !isItself && { short: shortCid(earlier), href: pathsOf(base, `${name}@${earlier}`).page },
  };
}

function isPart(as: ContentUser["as"]): as is keyof typeof USES {
  return as in USES;
}

function sentence(text: string): string {
  return text[0]!.toUpperCase() + text.slice(1);
}

/** The number of tools, resources and prompts of a contract. */
function offersOf(value: unknown): string[] {
  if (!isObject(value) || !Array.isArray(value["tools"])) return [];
  return ["tools", "resources", "prompts"].flatMap((list) => {
    const items = value[list];
    return Array.isArray(items) && items.length > 0 ? [countOf(items.length, list.slice(0, -1))] : [];
  });
}

function sendBytes(response: Response, cid: Cid, bytes: Uint8Array): void {
  response.setHeader("Content-Type", "application/octet-stream");
  response.setHeader("Content-Disposition", `attachment; filename="${cid}"`);
  response.setHeader("Content-Security-Policy", "sandbox; default-src 'none'");
  // The address determines the bytes; the reader's permission can change.
  response.setHeader("Cache-Control", "private, max-age=31536000, immutable");
  response.end(bytes);
}

/** Control characters that no text has: content with one is something else. */
// oxlint-disable-next-line eslint/no-control-regex
const BINARY = /[\0-\x08\x0e-\x1a\x1c-\x1f]/;

/** Decodes more of long content than is shown, but not all of it; undefined when it is not text. */
function textOf(bytes: Uint8Array): string | undefined {
  const begun = bytes.subarray(0, READ_BYTES_MAX);
  // A streaming decoder tolerates a character that was cut off.
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  try {
    const text = decoder.decode(begun, { stream: begun.length < bytes.length });
    return BINARY.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

/** Parses an object or a list; a text that is JSON by chance, such as a number, stays a text. */
function parsed(text: string): unknown {
  const value = tryParseJson(text);
  return typeof value === "object" ? value : undefined;
}

function piecesOf(text: string, value: unknown): Piece[] {
  const shown = value === undefined ? text : indentedJson(value);
  // A bundle is made from its definition, and is not content of the tenant.
  return linkCids(shown.slice(0, SHOWN_UNITS_MAX), isObject(value) ? value["bundle"] : undefined);
}

function kindOf(cid: Cid, value: unknown, text: string | undefined): string {
  if (isObject(value)) {
    const has = (...fields: string[]): boolean => fields.every((field) => Object.hasOwn(value, field));
    if (isStructure(cid) && has("definition", "config", "contract")) return "Release";
    if (isStructure(cid) && has("tools", "resources", "prompts")) return "Contract";
    if (isStructure(cid) && has("entry", "files")) return "Definition with several files";
  }
  if (isStructure(cid)) return "Structure";
  if (text === undefined) return "Bytes";
  return value === undefined ? "Text" : "JSON";
}

/** The sources of a definition, by their paths. */
async function filesOf(
  value: unknown,
  read: (cid: Cid) => Promise<Uint8Array | undefined>,
): Promise<{ path: string; cid: string; text: string; cut: boolean }[]> {
  if (!isObject(value) || typeof value["entry"] !== "string" || !isObject(value["files"])) return [];
  const files = [];
  let room = SHOWN_UNITS_MAX;
  for (const [path, cid] of Object.entries(value["files"]).slice(0, FILES_MAX)) {
    if (typeof cid !== "string" || !isCid(cid)) continue;
    if (room <= 0) {
      files.push({ path, cid, text: "", cut: true });
      continue;
    }
    await yieldToCalls();
    const bytes = await read(cid);
    const text = bytes && textOf(bytes);
    if (text !== undefined) files.push({ path, cid, text: text.slice(0, room), cut: text.length > room });
    // Files that are not text count, too, so that reading stays bounded.
    room -= text?.length ?? bytes?.length ?? 0;
  }
  return files;
}

/** A part of a text; `cid` is true for a CID, which links to its page. */
interface Piece {
  readonly text: string;
  readonly cid: boolean;
}

const CID_LIKE = /\bba(?:fkrei|guqeera)[a-z2-7]{40,60}\b/g;

/** Splits a text so that each CID in it, except `unlinked`, can be a link. */
function linkCids(text: string, unlinked?: unknown): Piece[] {
  const pieces: Piece[] = [];
  let end = 0;
  for (const { 0: found, index } of text.matchAll(CID_LIKE)) {
    if (found === unlinked || !isCid(found)) continue;
    if (index > end) pieces.push({ text: text.slice(end, index), cid: false });
    pieces.push({ text: found, cid: true });
    end = index + found.length;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), cid: false });
  return pieces;
}
