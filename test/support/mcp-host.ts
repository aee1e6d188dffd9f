import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import type { TestContext } from "node:test";
import type { Access } from "../../src/access/access.ts";
import type { Principal } from "../../src/access/principal.ts";
import { Admission } from "../../src/admission/admission.ts";
import { tenantLimits } from "../../src/admission/tenant-limits.ts";
import type { Cluster } from "../../src/cluster/cluster.ts";
import type { NodeRequests } from "../../src/cluster/node-requests.ts";
import { createSseRoute } from "../../src/features/legacy-sse/sse-route.ts";
import { callNatively } from "../../src/features/native/call-natively.ts";
import type { Host } from "../../src/host/host.ts";
import type {
  CallOptions,
  CallResult,
  Catalog,
  Contract,
  InputRequired,
  Prompt,
  ServerChange,
  Tool,
} from "../../src/host/offers/catalog.ts";
import { SignIns } from "../../src/http/access/sign-in.ts";
import { createHttpServer } from "../../src/http/server.ts";
import { BerthError } from "../../src/lib/errors.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { createLog } from "../../src/lib/log.ts";
import type { NodeStore } from "../../src/lib/node-store.ts";
import type { Records } from "../../src/lib/records.ts";
import { createSealer } from "../../src/lib/seal.ts";
import { type Limits, defaultLimits } from "../../src/limits/limits.ts";
import { Endpoint, type EndpointOptions } from "../../src/mcp/endpoint.ts";
import { StdioConnection } from "../../src/mcp/stdio/stdio.ts";
import { MODERN_META } from "./berth.ts";
import { read } from "./legacy-client.ts";
import { listening } from "./listening.ts";
import { memoryNode } from "./memory-nodes.ts";

/** A host whose servers the test makes: everything above it is real, down to the socket. */
export interface Offer {
  readonly release?: string;
  readonly tools?: Readonly<Record<string, ToolCode | ToolParts>>;
  readonly prompts?: Readonly<Record<string, ToolCode>>;
  /** URI → text, or the code that returns it. */
  readonly resources?: Readonly<Record<string, string | ToolCode>>;
  readonly description?: string;
  readonly pinned?: boolean;
  readonly completes?: Readonly<Record<string, readonly string[]>>;
}

type ToolParts = Partial<Contract["tools"][number]> & { readonly task?: Tool["task"]; readonly run: ToolCode };
type ToolCode = (
  args: JsonObject,
  options: CallOptions,
) => string | CallResult | InputRequired | Promise<string | CallResult | InputRequired>;

/** Methods that no protocol handler calls are missing. */
const PartialHost = Object as unknown as new () => Host;

export class MemoryHost extends PartialHost {
  readonly catalogs = new Map<string, Catalog>();
  readonly kept = new Map<string, Catalog>();
  readonly watchers = new Map<string, Set<(change: ServerChange) => void>>();

  /** Deploys: the release becomes the server's, and its watchers are told. */
  offer(server: string, offer: Offer): Catalog {
    const before = this.catalogs.get(server)?.contract;
    const catalog = catalogOf(server, offer);
    const { tools, prompts, resources, resourceTemplates } = catalog.contract;
    this.catalogs.set(server, catalog);
    this.kept.set(`${server}@${catalog.release}`, catalog);
    if (differ(before?.tools, tools)) this.#tell(server, { kind: "tools" });
    if (differ(before?.prompts, prompts)) this.#tell(server, { kind: "prompts" });
    if (differ([before?.resources, before?.resourceTemplates], [resources, resourceTemplates]))
      this.#tell(server, { kind: "resources" });
    return catalog;
  }

  update(server: string, uri: string): void {
    this.#tell(server, { kind: "resource", uri });
  }

  override server(_tenant: string, name: string): Catalog {
    const catalog = this.catalogs.get(name);
    if (!catalog) throw new BerthError("server_not_found", name);
    return catalog;
  }

  override async release(_tenant: string, name: string, release: string): Promise<Catalog | undefined> {
    return this.kept.get(`${name}@${release}`);
  }

  override watch(_tenant: string, name: string, onChange: (change: ServerChange) => void): () => void {
    const watchers = this.watchers.get(name) ?? new Set();
    this.watchers.set(name, watchers.add(onChange));
    return () => watchers.delete(onChange);
  }

  override subscribeToNodes(): undefined {}

  override watchAll(): () => void {
    return () => {};
  }

  override has(_tenant: string, name: string): boolean {
    return this.catalogs.has(name);
  }

  override names(): string[] {
    return [...this.catalogs.keys()];
  }

  #tell(server: string, change: ServerChange): void {
    for (const watcher of this.watchers.get(server) ?? []) watcher(change);
  }
}

export interface Rig {
  readonly host: MemoryHost;
  readonly cluster: Cluster;
  readonly errands: NodeRequests;
  readonly url: (server: string) => string;
  close(): Promise<void>;
}

const unread = () => Promise.reject(new Error("nothing long is read here"));

/** A rig that is closed at the end of the test. */
export async function rigFor(t: TestContext, ...options: Parameters<typeof startRig>): Promise<Rig> {
  const rig = await startRig(...options);
  t.after(() => rig.close());
  return rig;
}

/** With `nodes`, it is one of those that have them in common. */
export async function startRig(
  options: Partial<EndpointOptions & { readonly nodes: NodeStore; readonly limits: Limits }> = {},
  some: Partial<Limits> = {},
  people: ReadonlyMap<string, Principal> = new Map(),
): Promise<Rig> {
  const host = (options.host as MemoryHost | undefined) ?? new MemoryHost();
  const log = createLog("silent");
  const { records = memoryRecords(), nodes } = options;
  const { cluster, errands } = memoryNode(records, nodes, options.limits);
  const endpoint = new Endpoint({ berthVersion: "0", log, records, cluster, errands, callNatively, ...options, host });
  const limits = { ...defaultLimits, ...some };
  const http = createHttpServer({ limits, publicPath: "" }, { reasons: () => Promise.resolve([]) }, log);
  http.serve({
    host,
    features: [{ mcpRoute: createSseRoute }],
    checks: { readArguments: unread, readDraft: unread, remake: unread },
    access: accessOf(people),
    signIns: new SignIns(createSealer([randomBytes(32)]), memoryRecords(), limits),
    audit: {
      observer: undefined,
      consent: async () => {},
      signedIn: async () => {},
      refused() {},
      search: async () => ({ records: [], next: undefined }),
      stats: () => ({ queued: 0, dropped: 0 }),
      async close() {},
    },
    storedUse: unread,
    writable: true,
    endpoint,
    tenancy: {
      admit: () => undefined,
      opening: () => undefined,
      unmapped: true,
      findByHost: () => undefined,
      onChange() {},
      onEnd() {},
      async close() {},
    },
    cluster,
    errands,
    admission: new Admission(() => tenantLimits(limits)),
    allServers: "",
    isolation: "trusted",
    sandboxNote: "",
    allowedHosts: [],
    allowedOrigins: [],
    publicUrl: undefined,
    publicPath: "",
    metrics: { show() {} },
    limits,
    log,
    // Nothing here is edited.
    ...({} as Pick<Parameters<typeof http.serve>[0], "edits" | "packages">),
  });
  const port = await listening(http.server);
  await cluster.join();
  return {
    host,
    cluster,
    errands,
    url: (name) => `http://127.0.0.1:${port}/mcp/${name}`,
    async close() {
      endpoint.close();
      await http.drain();
      await endpoint.settled();
      await errands.close();
      await cluster.close();
    },
  };
}

/** No token is required, and a token is the name of its owner. */
function accessOf(people: ReadonlyMap<string, Principal>): Access {
  return {
    required: false,
    openPrograms: false,
    tokens: {} as Access["tokens"],
    oauth: () => undefined,
    oauthChanged: () => {},
    principalOf(token) {
      const principal = people.get(token);
      if (principal) return principal;
      throw new BerthError("unauthorized");
    },
    onRevoked: () => () => {},
    async close() {},
  };
}

/** Records as a store keeps them, for the duration of the test. */
export function memoryRecords(): Records {
  const kept = new Map<string, { value: string; revision: number; expiresAt: number }>();
  const find = (key: string) => {
    const found = kept.get(key);
    return found && found.expiresAt > Date.now() ? found : undefined;
  };
  const records: Records = {
    now: Date.now,
    async record(tenant, kind, key) {
      return find(`${tenant}/${kind}/${key}`);
    },
    async putRecord(tenant, kind, key, { value, expected, expiresAt }) {
      const id = `${tenant}/${kind}/${key}`;
      const revision = find(id)?.revision ?? 0;
      if (revision !== expected) return undefined;
      kept.set(id, { value, revision: revision + 1, expiresAt });
      return revision + 1;
    },
    putRecords: (tenant, kind, puts) => Promise.all(puts.map((put) => records.putRecord(tenant, kind, put.key, put))),
  };
  return records;
}

/** The parts of an endpoint that is alone on its records. */
export function loneNode() {
  const records = memoryRecords();
  return { records, ...memoryNode(records) };
}

/** `_meta` of a client that declares these capabilities. */
export function declaring(capabilities: JsonObject): JsonObject {
  return { ...MODERN_META, "io.modelcontextprotocol/clientCapabilities": capabilities };
}

/** A client of a host's server over stdio: says messages, and reads the next one. */
export function stdioClient(host: MemoryHost, options: Partial<EndpointOptions> = {}) {
  const log = createLog("silent");
  const endpoint = new Endpoint({ host, berthVersion: "0", log, callNatively, ...loneNode(), ...options });
  const [input, output] = [new PassThrough(), new PassThrough()];
  const place = { tenant: "default", server: "server", limits: { bodyBytes: 1_000_000 } };
  const connection = new StdioConnection({ endpoint, ...place, input, output, log });
  const lines = createInterface({ input: output })[Symbol.asyncIterator]();
  return {
    endpoint,
    connection,
    input,
    say: (message: unknown): unknown => input.write(`${JSON.stringify(message)}\n`),
    next: async () => JSON.parse((await lines.next()).value as string),
  };
}

export type OpenStream = Awaited<ReturnType<typeof openStream>>;

/** Sends a modern request and reads its answer as a stream of events; `next` resolves with undefined at its end. */
export async function openStream(
  url: string,
  method: string,
  params: JsonObject,
  id: unknown = 1,
  headers: Record<string, string> = {},
) {
  const name = params["name"] ?? params["uri"] ?? params["taskId"];
  const reader = await read(url, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": method,
      ...(typeof name === "string" && { "Mcp-Name": name }),
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id, method, params: { _meta: MODERN_META, ...params } }),
  });
  return {
    status: reader.status,
    text: () => reader.text(),
    next: () => reader.nextMessage(),
    close: () => reader.close(),
  };
}

function differ(before: unknown, after: unknown): boolean {
  return JSON.stringify(before) !== JSON.stringify(after);
}

function catalogOf(server: string, offer: Offer): Catalog {
  const { release = "release-1", tools = {}, prompts = {}, resources = {}, completes = {} } = offer;
  const codeOf = (tool: ToolCode | ToolParts): ToolCode => (typeof tool === "function" ? tool : tool.run);
  const contract: Contract = {
    ...(offer.description !== undefined && { description: offer.description }),
    tools: Object.entries(tools).map(([name, tool]) => {
      const { run: _run, task: _task, ...parts } = typeof tool === "function" ? { run: tool } : tool;
      return Object.assign({ name, inputSchema: { type: "object" } }, parts);
    }),
    resources: Object.keys(resources)
      .filter((uri) => !uri.includes("{"))
      .map((uri) => ({ uri, name: uri })),
    resourceTemplates: Object.keys(resources)
      .filter((uri) => uri.includes("{"))
      .map((uriTemplate) => ({ uriTemplate, name: uriTemplate })),
    prompts: Object.keys(prompts).map((name) => ({ name, arguments: [{ name: "topic", required: false }] })),
  };
  return {
    server,
    release,
    contractCid: JSON.stringify(contract),
    contract,
    ...(offer.pinned && { pinned: true }),
    problems: [],
    hidden: [],
    identity: () => undefined,
    servesUri: (uri) => uri in resources,
    memo: new Map(),
    tool(name) {
      const toolContract = contract.tools.find((each) => each.name === name);
      if (!toolContract) return undefined;
      const offered = tools[name]!;
      const code = codeOf(offered);
      return {
        contract: toolContract,
        ...(typeof offered === "object" && offered.task && { task: offered.task }),
        async call(args, options) {
          const outcome = await code(args as JsonObject, options);
          return typeof outcome === "string" ? { content: [{ type: "text", text: outcome }] } : outcome;
        },
      };
    },
    async resource(uri) {
      const code = resources[uri];
      if (code === undefined) return undefined;
      return {
        async read(options) {
          const outcome = typeof code === "string" ? code : await code({}, options);
          if (typeof outcome === "string") return { contents: [{ uri, text: outcome }] };
          return outcome as InputRequired;
        },
      };
    },
    prompt(name): Prompt | undefined {
      const promptContract = contract.prompts.find((each) => each.name === name);
      if (!promptContract) return undefined;
      return {
        contract: promptContract,
        async get(args, options) {
          const outcome = await prompts[name]!(args, options);
          if (typeof outcome !== "string") return outcome as InputRequired;
          return { messages: [{ role: "user", content: { type: "text", text: outcome } }] };
        },
      };
    },
    completer(of, argument) {
      const values = completes[`${of}.${argument}`];
      return values && { complete: async () => ({ values, total: values.length, hasMore: false }) };
    },
  };
}
