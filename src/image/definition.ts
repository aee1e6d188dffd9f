import { posix } from "node:path";
import type { DefinitionSource } from "../discover/discovery.ts";
import { isBinary } from "../discover/files/resolve.ts";
import { isStructure, jsonBlock, rawBlock, type Block, type Cid } from "../lib/cid.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";
import { isScript } from "../lib/script-text.ts";
import type { Store } from "../store/store.ts";

/**
 * Stores a definition as content. A single file is the raw block of its text; a definition of several files is a
 * structure `{ entry, files: { path: cid } }` whose files are raw blocks. An entry file that starts with `#!` is shell,
 * everything else is TypeScript. Binary files, which are base64 wherever files are strings, are stored as bytes.
 */
export interface PackedDefinition {
  readonly cid: Cid;
  /** The definition's own block and those of its files. */
  readonly blocks: readonly Block[];
}

export function packDefinition(entry: string, files: Readonly<Record<string, string>>): PackedDefinition {
  const blocks = new Map(Object.entries(files).map(([path, text]) => [path, toBlock(path, text)]));
  if (blocks.size === 1) {
    const [block] = blocks.values();
    return { cid: block!.cid, blocks: [block!] };
  }
  const cids = Object.fromEntries([...blocks].map(([path, { cid }]) => [path, cid]));
  const tree = jsonBlock({ entry, files: cids });
  return { cid: tree.cid, blocks: [tree, ...blocks.values()] };
}

function toBlock(path: string, text: string): Block {
  return rawBlock(isBinary(path) ? Buffer.from(text, "base64") : text);
}

/**
 * Loads the definition in the compiler's form. `read` returns verified bytes, and `readAll` those of many files at
 * once. Rejects with `content_missing` if a part is missing, and with `image_invalid` if the content is not a
 * definition.
 */
export async function loadDefinition(
  read: (cid: Cid) => Promise<Uint8Array | undefined>,
  cid: Cid,
  server: string,
  readAll?: (cids: readonly Cid[]) => Promise<ReadonlyMap<Cid, Uint8Array>>,
): Promise<DefinitionSource> {
  const readRequired = async (cid: Cid, label: string): Promise<Uint8Array> => {
    const bytes = await read(cid);
    if (!bytes) throw new BerthError("content_missing", `${cid}, ${label}`, { data: { cid } });
    return bytes;
  };

  const own = decodeText(await readRequired(cid, `the definition of "${server}"`), cid);
  if (!isStructure(cid)) return singleFile(own, server);

  const tree = parseTree(own, cid);
  const paths = Object.keys(tree.files).sort();
  const prefetched = await readAll?.(Object.values(tree.files));
  const files = await Promise.all(
    paths.map(async (path) => {
      const cid = tree.files[path]!;
      const bytes = prefetched?.get(cid) ?? (await readRequired(cid, `"${path}" of the definition of "${server}"`));
      return [path, isBinary(path) ? Buffer.from(bytes).toString("base64") : decodeText(bytes, cid)];
    }),
  );
  const texts = Object.fromEntries(files);
  return { language: detectLanguage(texts[tree.entry]), server, entry: tree.entry, files: texts };
}

/** `loadDefinition` for a definition that a tenant has stored. */
export function loadStoredDefinition(
  store: Pick<Store, "content" | "contents">,
  tenant: string,
  cid: Cid,
  server: string,
): Promise<DefinitionSource> {
  const readAll = (all: readonly Cid[]) => store.contents(tenant, all);
  return loadDefinition((part) => store.content(tenant, part), cid, server, readAll);
}

/** A definition of one file is named after its server, so that the compiled result depends only on CID and server. */
function singleFile(text: string, server: string): DefinitionSource {
  const language = detectLanguage(text);
  const entry = `${server}.${language === "shell" ? "sh" : "ts"}`;
  return { language, server, entry, files: { [entry]: text } };
}

export function detectLanguage(text: string): DefinitionSource["language"] {
  return isScript(text) ? "shell" : "typescript";
}

interface DefinitionTree {
  readonly entry: string;
  readonly files: Readonly<Record<string, Cid>>;
}

function parseTree(text: string, cid: Cid): DefinitionTree {
  let tree: unknown;
  try {
    tree = JSON.parse(text);
  } catch (error) {
    throw new BerthError("image_invalid", `${cid} is not a definition`, { cause: error });
  }
  if (!isTree(tree)) throw new BerthError("image_invalid", `${cid} is not a definition: { entry, files }`);
  return tree;
}

function isTree(tree: unknown): tree is DefinitionTree {
  if (!isObject(tree) || typeof tree["entry"] !== "string" || !isObject(tree["files"])) return false;
  const { entry, files } = tree;
  const isFile = ([path, cid]: [string, unknown]): boolean => isOwnPath(path) && typeof cid === "string";
  return Object.hasOwn(files, entry) && Object.entries(files).every(isFile);
}

/** True if a path is relative, below the folder of sources, and normalized. */
export function isOwnPath(path: string): boolean {
  const isPlain = path !== "" && path !== "." && posix.normalize(path) === path && !/[\\\0]/.test(path);
  return isPlain && !path.startsWith("/") && path !== ".." && !path.startsWith("../") && !path.endsWith("/");
}

function decodeText(bytes: Uint8Array, cid: Cid): string {
  try {
    return decoder.decode(bytes);
  } catch (error) {
    throw new BerthError("image_invalid", `${cid} is not UTF-8 text`, { cause: error });
  }
}

// Keeps a byte-order mark: without it, the text would have another CID than its file.
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
