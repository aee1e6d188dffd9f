import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after } from "node:test";
import { emptyDiscovery, type Compiled, type DefinitionSource } from "../../src/discover/discovery.ts";
import { gatherDefinition } from "../../src/discover/gather.ts";
import type { Compiling } from "../../src/image/compiling.ts";
import { generateImage, type GeneratedImage, type GenerateOptions } from "../../src/image/generate.ts";
import type { Image } from "../../src/image/image.ts";
import { readLock } from "../../src/image/lock.ts";
import { readImage } from "../../src/image/read.ts";
import { writeImage } from "../../src/image/write.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import type { Problem } from "../../src/lib/problem.ts";

/** Folders of sources for the tests of the image, and a compiler that only counts. */
export type Sources = Record<string, string | Uint8Array | object>;

const folders: string[] = [];
after(removeTemporaryFolders);

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "berth-image-"));
  folders.push(folder);
  return folder;
}

export function removeTemporaryFolders(): void {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
}

export const decode = (bytes: Uint8Array | undefined): string => new TextDecoder().decode(bytes);

/** Writes sources; objects become JSON. */
export function writeSources(sources: Sources, folder = temporaryFolder()): string {
  for (const [path, content] of Object.entries(sources)) {
    const file = join(folder, path);
    mkdirSync(dirname(file), { recursive: true });
    const isBytes = typeof content === "string" || content instanceof Uint8Array;
    writeFileSync(file, isBytes ? content : JSON.stringify(content, null, 2));
  }
  return folder;
}

export const mcpsVariable = { name: "mcps", definition: "GENERATED:mcps.json" };
export const bootWithMcps = { servers: [], variables: [mcpsVariable] };

/** Sources with these servers in `mcps`, in both images. */
export function sourcesWith(mcps: object, files: Sources = {}): Sources {
  return {
    "mcps.source.json": mcps,
    "default.boot.source.json": bootWithMcps,
    "readonly.boot.source.json": bootWithMcps,
    ...files,
  };
}

export const helloSource =
  "/** Greets. */\nexport function hello(name: string): string {\n  return `Hello, ${name}`;\n}\n";

export interface CountingCompiling extends Compiling {
  /** The servers that were compiled, in order. */
  readonly compiled: string[];
  readonly gathered: string[];
  opened: number;
  closed: number;
}

/**
 * A stand-in for discovery and bundling: each source's first function is its tool, and its text is its bundle.
 * `// bad tool` makes a problem with one tool and `// syntax error` one that leaves nothing to run.
 */
export function countingCompiling(version = "1"): CountingCompiling {
  const counting: CountingCompiling = {
    compiled: [],
    gathered: [],
    opened: 0,
    closed: 0,
    gather(root, entry) {
      counting.gathered.push(entry);
      return gatherDefinition(root, entry);
    },
    key: (definition, { language, server }) => rawBlock(`${version} ${definition} ${language} ${server}`).cid,
    async open() {
      counting.opened++;
      return {
        async compile(source) {
          counting.compiled.push(source.server);
          return compileInName(source);
        },
        async close() {
          counting.closed++;
        },
      };
    },
  };
  return counting;
}

function compileInName({ entry, files, server }: DefinitionSource): Compiled {
  const text = files[entry]!;
  const name = /function (\w+)/.exec(text)?.[1] ?? server;
  const at = { file: entry, line: 2, column: 1, frame: "2 | here\n  | ^" };
  const problems: Problem[] = [];
  if (text.includes("// bad tool")) {
    problems.push({ code: "unsupported-type", message: "No such type", severity: "error", tool: "bad", ...at });
  }
  if (text.includes("// syntax error")) {
    return { ...emptyDiscovery, problems: [{ code: "syntax", message: "Unexpected end", severity: "error", ...at }] };
  }
  const call = { export: name, style: "positional", params: [] } as const;
  const inputSchema = { type: "object" };
  const tool = { name, inputSchema, outputSchema: null, annotations: {}, call, file: entry, line: 1, column: 1 };
  return {
    ...emptyDiscovery,
    tools: [tool],
    problems,
    bundle: `// bundle of ${Object.keys(files).join(" ")}\n${text}`,
  };
}

/** Generates an image, based on the one in `out` unless `fresh`, and fails the test where problems are errors. */
export async function generated(
  from: string,
  { fresh = false, ...options }: Partial<GenerateOptions> & { readonly fresh?: boolean } = {},
  compiling: Compiling = countingCompiling(),
): Promise<GeneratedImage> {
  const { out = join(from, "no such image") } = options;
  const earlier = fresh ? undefined : readLock(out);
  const { image, problems } = await generateImage({ from, out, earlier, ...options }, compiling);
  if (!image) throw new Error(`bad sources: ${JSON.stringify(problems, null, 2)}`);
  return image;
}

/** Twelve servers, whose texts have the word in them. */
export function sourcesSaying(word: string): string {
  const servers = Array.from({ length: 12 }, (_, index) => `server-${index}`);
  const bootSource = { servers: [], variables: [mcpsVariable, { name: "word", definition: word }] };
  return writeSources(
    sourcesWith(Object.fromEntries(servers.map((server) => [server, { definition: `${server}.ts` }])), {
      ...Object.fromEntries(servers.map((server) => [`${server}.ts`, `// ${word} ${server}\n${helloSource}`])),
      "default.boot.source.json": bootSource,
      "readonly.boot.source.json": bootSource,
    }),
  );
}

/** The folder of an image of these. */
export async function writtenImage(word = "one"): Promise<string> {
  const out = join(temporaryFolder(), "boot");
  writeImage(out, await generated(sourcesSaying(word)));
  return out;
}

export interface WantedImage {
  /** Server → the text of its definition. */
  readonly servers?: Record<string, string>;
  readonly disabled?: readonly string[];
  readonly variables?: Record<string, string>;
  readonly mcps?: Record<string, object>;
}

export const definitionOf = (word: string): string => `// ${word}\n${helloSource}`;

/** An image of these, as it is read. */
export async function imageOf({ servers = {}, disabled = [], variables = {}, mcps }: WantedImage): Promise<Image> {
  const boot = {
    servers: Object.keys(servers).map((name) => ({
      name,
      definition_cid: `${name}.ts`,
      enabled: !disabled.includes(name),
    })),
    variables: [
      ...Object.entries(variables).map(([name, definition]) => ({ name, definition })),
      ...(mcps ? [mcpsVariable] : []),
    ],
  };
  const files = Object.fromEntries(Object.entries(servers).map(([name, word]) => [`${name}.ts`, definitionOf(word)]));
  const shared = { "shared.ts": definitionOf("shared"), ...files };
  const from = writeSources(sourcesWith(mcps ?? {}, { ...shared, "default.boot.source.json": boot }));
  const out = temporaryFolder();
  writeImage(out, await generated(from, { out }));
  return readImage(out, "default");
}
