import assert from "node:assert/strict";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { Config } from "../../src/config.ts";
import type { ContractChange } from "../../src/contract/change.ts";
import { clock } from "../../src/lib/clock.ts";
import type { Json, JsonObject } from "../../src/lib/json.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { apiOf } from "./api.ts";
import { callText, post, request, startTestBerth, type Reply, type TestBerth } from "./berth.ts";
import { observedFetch } from "./clients/client-session.ts";
import { temporaryFolder, type Ending } from "./temporary-folder.ts";
import { until } from "./until.ts";
import { fixtures } from "./upstreams.ts";

/** How a client negotiates: only the handshake of older revisions, or the newest common revision. */
export type Mode = "legacy" | "auto";

export const ALL = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };

/** A Berth with these entries of `mcps`, closed when the test is done, unless it was closed before. */
export async function host(
  t: TestContext,
  mcps: Record<string, unknown>,
  env: Record<string, string> = {},
  config: Partial<Config> = {},
): Promise<TestBerth> {
  const berth = await startTestBerth({ mcps, env: { BERTH_UPSTREAM_PROGRAMS: "on", ...env }, config });
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => (closing ??= berth.close());
  t.after(close);
  return { ...berth, close };
}

/** Lets so much time pass that a hosted server is not in use any more, and waits until its process has ended. */
export async function idle(berth: Pick<TestBerth, "url">, server = "server"): Promise<void> {
  clock.leap(defaultLimits.upstreamIdleMs);
  const api = apiOf(berth);
  await until(async () => (await api.send("GET", `/servers/${server}/upstream`)).body.state === "idle");
}

interface Changes {
  readonly contract: string;
  readonly changes: readonly ContractChange[];
}

interface UpstreamState {
  readonly state: string;
  readonly requests: number;
  readonly starts: number;
  readonly failure?: string;
  readonly retryAt?: number;
  readonly pending?: Changes;
  readonly autoApproved?: Changes;
}

export const textOf = (result: Reply["body"]): string => result.content?.[0]?.text ?? JSON.stringify(result);

/** A hosted server, as its callers and those who may change it see it. */
export function hostedServer(berth: Pick<TestBerth, "url">, name = "server") {
  const api = apiOf(berth);
  const url = `${berth.url}/mcp/${name}`;
  const state = async (): Promise<UpstreamState> => (await api.send("GET", `/servers/${name}/upstream`)).body;
  return {
    name,
    url,
    state,
    call: (tool: string, args: JsonObject = {}) => callText(url, tool, args),
    /** Listed again each time, as a client of the newest revision would not. */
    async tools(): Promise<string[]> {
      const { body } = await post(url, request("tools/list"), { "MCP-Protocol-Version": "2025-06-18" });
      return (body.result?.tools ?? []).map((tool: { name: string }) => tool.name);
    },
    /** The changes that are withheld, once there are some. */
    pending: () => until(async () => (await state()).pending),
    /** The changes that were accepted without a person, once there are some. */
    autoApproved: () => until(async () => (await state()).autoApproved),
    approve: ({ contract }: { readonly contract: string }) =>
      api.send("POST", `/servers/${name}/approve`, { contract }),
    async problems(): Promise<string> {
      const { servers } = (await api.send("GET", "/servers")).body;
      return JSON.stringify(servers.find((each: { name: string }) => each.name === name));
    },
    async page(): Promise<string> {
      const headers = { Accept: "text/html" };
      return (await fetch(`${berth.url}/mcp/meta/${name}?tab=upstream`, { headers })).text();
    },
    idle: () => idle(berth, name),
  };
}

let added = 0;

/** Saves an upstream as a server of its own, which starts it. */
export async function addUpstream(berth: Pick<TestBerth, "url">, upstream: string, fields: JsonObject = {}) {
  const server = hostedServer(berth, `server${++added}`);
  const { status, body } = await apiOf(berth).put(`/entries/${server.name}`, JSON.stringify({ upstream, ...fields }));
  assert.equal(status, 201, JSON.stringify(body));
  return server;
}

/** The official client on a hosted server; `answer` returns its answer to each kind of question. */
export async function open(
  t: TestContext,
  { url }: Pick<TestBerth, "url">,
  server: string,
  mode: Mode,
  answer: (method: string) => JsonObject = answerTo,
): Promise<Client> {
  const client = new Client({ name: "test", version: "1" }, { capabilities: ALL, versionNegotiation: { mode } });
  for (const method of ["elicitation/create", "sampling/createMessage", "roots/list"] as const) {
    client.setRequestHandler(method, () => answer(method) as never);
  }
  const observed = observedFetch();
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp/${server}`), { fetch: observed.fetch }));
  t.after(() => client.close());
  // Whoever does not listen yet is told of no change.
  if (mode === "legacy") await observed.listening;
  return client;
}

export function answerTo(method: string): JsonObject {
  if (method === "roots/list") return { roots: [{ uri: "file:///work", name: "work" }] };
  if (method === "sampling/createMessage") {
    return { role: "assistant", content: { type: "text", text: "sampled" }, model: "none" };
  }
  return { action: "accept", content: { name: "Ada", check: true } };
}

/** A server whose tools the test changes. */
export interface Changing {
  readonly uri: string;
  offer(tools: readonly JsonObject[], also?: { instructions?: string; prompts?: readonly JsonObject[] }): void;
  /** Sets the tools after a call of its tool `swap`. */
  offerNext(tools: readonly JsonObject[]): void;
  /** Acknowledges the subscription of a server that is late. */
  acknowledge(): void;
  /** Each called tool, as the server had it at that time. */
  called(): Json[];
}

export function changing(
  t: Ending,
  tools: readonly JsonObject[],
  { era = "legacy", manner = "tells" }: { era?: "legacy" | "modern"; manner?: "tells" | "silent" | "late" } = {},
): Changing {
  const file = join(temporaryFolder(t), "tools.json");
  const offer: Changing["offer"] = (offered, also) => replace(file, { tools: offered, ...also });
  offer(tools);
  return {
    uri: `mcp+node://${join(fixtures, "changing.mjs")}?command=${era}&arg=${manner}&arg=${encodeURIComponent(file)}`,
    offer,
    offerNext: (next) => writeFileSync(`${file}.next`, JSON.stringify(next)),
    acknowledge: () => writeFileSync(`${file}.ack`, ""),
    called: () => linesOf(`${file}.calls`).map((line) => JSON.parse(line) as Json),
  };
}

/** At once: a server that reads half of the file ends, and nobody starts it again. */
function replace(file: string, value: object): void {
  writeFileSync(`${file}.new`, JSON.stringify(value));
  renameSync(`${file}.new`, file);
}

function linesOf(file: string): string[] {
  try {
    return readFileSync(file, "utf8").split("\n").filter(Boolean);
  } catch {
    return [];
  }
}

/** The answers of a server by method; see test/fixtures/upstreams/scripted.mjs. */
export interface Script {
  readonly capabilities: JsonObject;
  readonly answers: Readonly<Record<string, JsonObject>>;
}

/** A server whose answers the test has written, and may rewrite. */
export function scripted(
  t: Ending,
  script: Script,
  kind: "legacy" | "modern" | "both" | "silent" = "legacy",
): { readonly uri: string; readonly write: (script: Script) => void; readonly hellos: () => string[] } {
  const file = join(temporaryFolder(t), "script.json");
  const write = (said: Script): void => replace(file, said);
  write(script);
  const uri = `mcp+node://${join(fixtures, "scripted.mjs")}?command=${kind}&arg=${encodeURIComponent(file)}`;
  return { uri, write, hellos: () => linesOf(`${file}.hellos`) };
}

/** A folder for data that outlives a Berth, removed when the test is done. */
export const dataFolder = (t: TestContext): string => temporaryFolder(t);

/** A tool with one text parameter for each name. */
export function tool(name: string, description: string, ...parameters: string[]): JsonObject {
  const properties = Object.fromEntries(parameters.map((each) => [each, { type: "string" }]));
  return { name, description, inputSchema: { type: "object", properties, required: parameters } };
}
