import assert from "node:assert/strict";
import { cp, mkdtemp, mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { boot } from "../../src/commands/boot.ts";
import { startBerth, type Berth } from "../../src/compose/main.ts";
import type { Config } from "../../src/config.ts";
import { createLog, type Log } from "../../src/lib/log.ts";
import { changeFixed } from "../../src/limits/fixed.ts";
import { compile, shareCompiler } from "./compiler.ts";
import { readTestConfig } from "./config.ts";
import { loweredLimits } from "./lowered-limits.ts";
import { keysOfAll, ON_POSTGRES, startPostgres } from "./postgres.ts";
import { FIRST_HOST, startSecondNode } from "./second-node.ts";

shareCompiler();

/** A real Berth for a test: image from sources, store in a temporary folder, port chosen by the system. */
export interface TestBerth extends Berth {
  readonly folder: string;
  /** The address of its database, where it has one. */
  readonly database?: string | undefined;
}

export interface TestSources {
  /** Files of the repository that become definitions, each served under its name without the ending. */
  readonly files?: readonly string[];
  /** Further entries of `mcps`, or overrides of those made for `files`. */
  readonly mcps?: Record<string, unknown>;
  /** Definitions given as text, by file name. */
  readonly texts?: Readonly<Record<string, string>>;
  /** Files beside the definitions, by path. */
  readonly beside?: Readonly<Record<string, string | Uint8Array>>;
  /** Further variables, by name. */
  readonly variables?: Readonly<Record<string, string>>;
  readonly env?: Record<string, string>;
  readonly config?: Partial<Config>;
  /** The log; by default there is none. */
  readonly log?: Log;
}

/** 2 with `npm test -- --nodes 2`: requests go to a test's Berth and to another process on its data folder in turn. */
export const NODES = process.env["BERTH_TEST_NODES"] === "2" ? 2 : 1;

export async function startTestBerth(sources: TestSources): Promise<TestBerth> {
  const folder = await mkdtemp(join(tmpdir(), "berth-test-"));
  const image = await makeImage(folder, sources);
  const postgres = ON_POSTGRES ? await startPostgres() : undefined;
  const database = await postgres?.database();
  const shared = database !== undefined && { BERTH_DATABASE: database, ...keysOfAll() };
  const env = { ...image, ...shared, ...(NODES === 2 && { BERTH_HOST: FIRST_HOST }), ...sources.env };
  const config = readTestConfig(env, sources.config);
  const restore = changeFixed(loweredLimits(env));
  const berth = await startBerth(config, sources.log ?? createLog(config.logLevel)).catch(async (error: unknown) => {
    restore();
    await postgres?.close();
    throw error;
  });
  const second = NODES === 2 ? await startSecondNode(berth.url, { env, config: sources.config ?? {} }) : undefined;
  return {
    ...berth,
    url: second?.url ?? berth.url,
    folder,
    database,
    async close() {
      await second?.close();
      await berth.close();
      restore();
      await postgres?.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Makes an image in a folder, and returns the environment of a Berth that serves it with its data there. */
export async function makeImage(
  folder: string,
  sources: Omit<TestSources, "env" | "config" | "log">,
): Promise<Record<string, string>> {
  const from = join(folder, "sources");
  await mkdir(from);
  const mcps: Record<string, unknown> = {};
  for (const file of sources.files ?? []) {
    await cp(file, join(from, basename(file)));
    mcps[basename(file).replace(/\.\w+$/, "")] = { definition: basename(file) };
  }
  for (const [name, text] of Object.entries(sources.texts ?? {})) {
    await writeFile(join(from, name), text);
    mcps[name.replace(/\.\w+$/, "")] = { definition: name };
  }
  for (const [name, content] of Object.entries(sources.beside ?? {})) {
    await mkdir(dirname(join(from, name)), { recursive: true });
    await writeFile(join(from, name), content);
  }
  await writeFile(join(from, "mcps.source.json"), JSON.stringify({ ...mcps, ...sources.mcps }));
  const variables = { ...sources.variables, mcps: "GENERATED:mcps.json" };
  const bootSource = {
    servers: [],
    variables: Object.entries(variables).map(([name, definition]) => ({ name, definition, enabled: true })),
  };
  for (const image of ["default", "readonly"]) {
    await writeFile(join(from, `${image}.boot.source.json`), JSON.stringify(bootSource));
  }

  const imageDir = join(folder, "boot");
  const exitCode = await boot({ from, out: imageDir, quiet: true }, async () => ({ compile, close: async () => {} }));
  if (exitCode !== 0) throw new Error(`the image could not be made: exit code ${exitCode}`);
  return {
    BERTH_PORT: "0",
    BERTH_DATA: join(folder, "data"),
    BERTH_IMAGE_DIR: imageDir,
    BERTH_LOG: "silent",
  };
}

export interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body, or undefined when there is none. */
  // A reply has any shape; tests look into it freely.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

/** One POST as a legacy client sends it; a `body` other than a text is sent as JSON. */
export async function post(url: string, body: unknown, headers: Record<string, string> = {}): Promise<Reply> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: text === "" ? undefined : JSON.parse(text) };
}

export function request(method: string, params?: unknown, id: string | number = 1): Record<string, unknown> {
  return { jsonrpc: "2.0", id, method, ...(params !== undefined && { params }) };
}

/** A legacy `tools/call`; returns the result, or the whole body when it is an error. */
export async function call(url: string, name: string, args: Record<string, unknown> = {}): Promise<Reply["body"]> {
  const headers = { "MCP-Protocol-Version": "2025-06-18" };
  const { body } = await post(url, request("tools/call", { name, arguments: args }), headers);
  return body.result ?? body;
}

/** The text that a tool answers with, or its whole answer where that has none. */
export async function callText(url: string, name: string, args: Record<string, unknown> = {}): Promise<string> {
  const result = await call(url, name, args);
  return result.content?.[0]?.text ?? JSON.stringify(result);
}

/** A reply, which has to have this status. */
export async function withStatus<T extends { readonly status: number }>(status: number, asked: Promise<T>): Promise<T> {
  const reply = await asked;
  if (reply.status !== status) assert.equal(reply.status, status, JSON.stringify(reply));
  return reply;
}

export const MODERN_META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

/** One modern request with its headers; `headers` override, and an empty one is left out. */
export async function modern(
  url: string,
  method: string,
  params: Record<string, unknown> = {},
  headers: Record<string, string> = {},
): Promise<Reply> {
  const name = params["name"] ?? params["uri"];
  const all = {
    Accept: "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": method,
    ...(typeof name === "string" && { "Mcp-Name": name }),
    ...headers,
  };
  const sent = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ""));
  return post(url, request(method, { _meta: MODERN_META, ...params }), sent);
}
