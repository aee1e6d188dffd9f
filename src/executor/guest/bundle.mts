import { rmSync, writeFileSync } from "node:fs";
import { SourceMap, type SourceMapPayload, type SourceMapping } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/**
 * The program's module and the way back from its positions to its sources. Stacks are mapped when an error is shown,
 * not when a bundle is loaded: most source maps are never looked at.
 */
/** The bundle's name in stack traces; frames of other files are the host's and are not shown. */
const BUNDLE_NAME = "berth-bundle.mjs";
const inlineMap = /\/\/[#@] sourceMappingURL=data:application\/json;(?:charset=utf-8;)?base64,([A-Za-z0-9+/=]+)\s*$/;

const bundleFile = join(tmpdir(), BUNDLE_NAME);
let bundle: Uint8Array = Buffer.alloc(0);
let map: SourceMap | undefined;
let mapRead = false;

/**
 * From a file of the scratch folder, which goes once it is loaded: Node takes an address that holds the text itself
 * several times as long to load.
 */
export async function loadBundle(bytes: Uint8Array, again = ""): Promise<Record<string, unknown>> {
  bundle = bytes;
  writeFileSync(bundleFile, Buffer.concat([bytes, Buffer.from(`\n//# sourceURL=${BUNDLE_NAME}`)]));
  try {
    return (await import(pathToFileURL(bundleFile).href + again)) as Record<string, unknown>;
  } finally {
    rmSync(bundleFile, { force: true });
  }
}

/** The frames of the program alone, with positions in its sources. */
export function mapStack(stack: string): string {
  const lines: string[] = [];
  for (const line of stack.split("\n")) {
    const position = /berth-bundle\.mjs:(\d+):(\d+)/.exec(line);
    if (position) lines.push(line.replace(position[0], sourcePosition(Number(position[1]), Number(position[2]))));
  }
  return lines.join("\n");
}

/** The line of the sources at which a stack begins, with a marker; empty where the bundle has no sources beside it. */
export function frameOf(stack: string): string {
  const at = /berth-bundle\.mjs:(\d+):(\d+)/.exec(stack);
  const entry = at && readMap()?.findEntry(Number(at[1]) - 1, Number(at[2]) - 1);
  if (!isMapped(entry)) return "";
  const line = linesOf(entry.originalSource)[entry.originalLine];
  if (line === undefined || line.length > frameUnitsMax) return "";
  const gutter = `> ${entry.originalLine + 1} | `;
  const indent = line.slice(0, entry.originalColumn).replace(/[^\t]/g, " ");
  return `${gutter}${line}\n${" ".repeat(gutter.length - 2)}| ${indent}^`;
}

const lines = new Map<string, readonly string[]>();

function linesOf(source: string): readonly string[] {
  const known = lines.get(source);
  if (known) return known;
  const { sources, sourcesContent } = readMap()!.payload as Partial<SourceMapPayload>;
  const text = sourcesContent?.[sources?.indexOf(source) ?? -1] ?? "";
  const read = text.split(/\r\n|\n|\r/);
  lines.set(source, read);
  return read;
}

/** Longer lines are generated, and say nothing to anybody. */
const frameUnitsMax = 240;

/** Lines and columns count from 1, as stacks do. */
function sourcePosition(line: number, column: number): string {
  const entry = readMap()?.findEntry(line - 1, column - 1);
  if (!isMapped(entry)) return `bundle:${line}:${column}`;
  return `${entry.originalSource}:${entry.originalLine + 1}:${entry.originalColumn + 1}`;
}

/** False for code of packages, whose sources are left out of the map. */
function isMapped(entry: object | null | undefined): entry is SourceMapping {
  return typeof (entry as Partial<SourceMapping> | undefined)?.originalSource === "string";
}

function readMap(): SourceMap | undefined {
  if (mapRead) return map;
  mapRead = true;
  try {
    const code = Buffer.from(bundle.buffer, bundle.byteOffset, bundle.length);
    const base64 = inlineMap.exec(code.subarray(code.lastIndexOf("//# sourceMappingURL=")).toString())?.[1];
    if (base64) map = new SourceMap(JSON.parse(Buffer.from(base64, "base64").toString()) as SourceMapPayload);
  } catch {
    // Positions in the bundle are better than none.
  }
  return map;
}
