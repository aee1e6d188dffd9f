import { rmSync, writeFileSync } from "node:fs";
import { SourceMap, type SourceMapPayload, type SourceMapping } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** The program's module, and the mapping of its positions to its sources. */

/** The bundle's name in stack traces; frames of other files belong to the host and are not shown. */
export const BUNDLE_NAME = "berth-bundle.mjs";
const bundlePosition = /berth-bundle\.mjs:(\d+):(\d+)/;
/** Prefix of a position that is in no source. */
export const UNMAPPED = "bundle:";
const inlineMap = /\/\/[#@] sourceMappingURL=data:application\/json;(?:charset=utf-8;)?base64,([A-Za-z0-9+/=]+)\s*$/;

const bundleFile = join(tmpdir(), BUNDLE_NAME);

/** Imports from a file, removed after loading: Node takes several times as long to load a `data:` URL. */
export async function loadBundle(bytes: Uint8Array, query = ""): Promise<Record<string, unknown>> {
  positions = new SourcePositions(bytes);
  writeFileSync(bundleFile, Buffer.concat([bytes, Buffer.from(`\n//# sourceURL=${BUNDLE_NAME}`)]));
  try {
    return (await import(pathToFileURL(bundleFile).href + query)) as Record<string, unknown>;
  } finally {
    rmSync(bundleFile, { force: true });
  }
}

/** Longer lines are generated, and no help to the author. */
const frameUnitsMax = 240;

/** Stacks are mapped when an error is shown, not when a bundle is loaded: most source maps are never read. */
export class SourcePositions {
  readonly #code: Uint8Array;
  #map: SourceMap | null | undefined;
  readonly #lines = new Map<string, readonly string[]>();

  constructor(code: Uint8Array) {
    this.#code = code;
  }

  /** Only the frames of the program, with positions in its sources. */
  mapStack(stack: string): string {
    const lines: string[] = [];
    for (const line of stack.split("\n")) {
      const at = bundlePosition.exec(line);
      if (at) lines.push(line.replace(at[0], this.#sourcePosition(Number(at[1]), Number(at[2]))));
    }
    return lines.join("\n");
  }

  /** The source line at which a stack begins, with a marker; empty if the map does not contain the sources. */
  frameOf(stack: string): string {
    const at = bundlePosition.exec(stack);
    const entry = at && this.#readMap()?.findEntry(Number(at[1]) - 1, Number(at[2]) - 1);
    if (!isMapped(entry)) return "";
    const line = this.#sourceLines(entry.originalSource)[entry.originalLine];
    if (line === undefined || line.length > frameUnitsMax) return "";
    const gutter = `> ${entry.originalLine + 1} | `;
    const indent = line.slice(0, entry.originalColumn).replace(/[^\t]/g, " ");
    return `${gutter}${line}\n${" ".repeat(gutter.length - 2)}| ${indent}^`;
  }

  #sourceLines(source: string): readonly string[] {
    const cached = this.#lines.get(source);
    if (cached) return cached;
    const { sources, sourcesContent } = this.#readMap()!.payload as Partial<SourceMapPayload>;
    const text = sourcesContent?.[sources?.indexOf(source) ?? -1] ?? "";
    const lines = text.split(/\r\n|\n|\r/);
    this.#lines.set(source, lines);
    return lines;
  }

  /** Lines and columns count from 1, as in stacks. */
  #sourcePosition(line: number, column: number): string {
    const entry = this.#readMap()?.findEntry(line - 1, column - 1);
    if (!isMapped(entry)) return `${UNMAPPED}${line}:${column}`;
    return `${entry.originalSource}:${entry.originalLine + 1}:${entry.originalColumn + 1}`;
  }

  #readMap(): SourceMap | undefined {
    if (this.#map !== undefined) return this.#map ?? undefined;
    this.#map = null;
    try {
      const code = Buffer.from(this.#code.buffer, this.#code.byteOffset, this.#code.length);
      const comment = code.subarray(code.lastIndexOf("//# sourceMappingURL="));
      const base64 = inlineMap.exec(comment.toString())?.[1];
      if (base64) this.#map = new SourceMap(JSON.parse(Buffer.from(base64, "base64").toString()) as SourceMapPayload);
    } catch {
      // Positions in the bundle are better than none.
    }
    return this.#map ?? undefined;
  }
}

/** False for code of packages, whose sources are not in the map. */
function isMapped(entry: object | null | undefined): entry is SourceMapping {
  return typeof (entry as Partial<SourceMapping> | undefined)?.originalSource === "string";
}

/** The positions of the program, once it is loaded. */
export let positions = new SourcePositions(Buffer.alloc(0));
