import { pathToFileURL } from "node:url";
import { CLIENT_CAPABILITIES, CLIENT_INFO, completionParams, observedFetch, Peer } from "./client-session.ts";
import type { Called, CallOptions, SessionOpener } from "./client-session.ts";
import { resolveClient } from "./real-client.ts";

/** The used part of SDK 1.32, whose types the product should not install. */
interface OlderClient {
  connect(transport: OlderTransport): Promise<void>;
  getServerVersion(): { name: string } | undefined;
  getServerCapabilities(): Record<string, unknown> | undefined;
  listTools(at: Page): Promise<Listed>;
  listResources(at: Page): Promise<Listed>;
  listResourceTemplates(at: Page): Promise<Listed>;
  listPrompts(at: Page): Promise<Listed>;
  callTool(params: { name: string; arguments: object }, schema: undefined, options: CallOptions): Promise<Called>;
  readResource(params: { uri: string }): Promise<{ contents: unknown[] }>;
  getPrompt(params: { name: string; arguments: object }): Promise<{ messages: unknown[] }>;
  complete(params: object): Promise<{ completion: { values: string[] } }>;
  subscribeResource(params: { uri: string }): Promise<unknown>;
  unsubscribeResource(params: { uri: string }): Promise<unknown>;
  setLoggingLevel(level: string): Promise<unknown>;
  setRequestHandler(schema: unknown, handler: (request: { params: never }) => unknown): void;
  setNotificationHandler(schema: unknown, handler: (notification: { params: Params }) => void): void;
  close(): Promise<void>;
}

interface Page {
  readonly cursor?: string;
}

type Listed = { readonly nextCursor?: string } & Readonly<Record<string, unknown>>;

interface Params {
  readonly uri: string;
  readonly data: unknown;
}

interface OlderTransport {
  readonly sessionId?: string;
  setProtocolVersion?(version: string): void;
  terminateSession?(): Promise<void>;
}

/** `@modelcontextprotocol/sdk` 1.32, which most clients in the field are built on, over either of its transports. */
export function olderSession(transport: "Streamable HTTP" | "HTTP+SSE"): SessionOpener {
  return {
    name: `SDK 1.32 over ${transport}`,
    version: "2025-11-25",
    missingResource: -32002,
    async open(url) {
      const peer = new Peer();
      const { Client } = await loadOlder<{ Client: new (info: object, options: object) => OlderClient }>(
        "client/index.js",
      );
      const types = await loadOlder<Record<string, unknown>>("types.js");
      const client = new Client(CLIENT_INFO, {
        capabilities: CLIENT_CAPABILITIES,
        listChanged: { tools: { onChanged: peer.toolsChanged, debounceMs: 0 } },
      });
      client.setRequestHandler(types["ElicitRequestSchema"], ({ params }) => peer.elicit(params));
      client.setRequestHandler(types["CreateMessageRequestSchema"], ({ params }) => peer.sample(params));
      client.setRequestHandler(types["ListRootsRequestSchema"], peer.roots);
      client.setNotificationHandler(types["ResourceUpdatedNotificationSchema"], ({ params }) => {
        peer.heard.updated.push(params.uri);
      });
      client.setNotificationHandler(types["LoggingMessageNotificationSchema"], ({ params }) => {
        peer.heard.logged.push(params.data);
      });
      const observed = observedFetch();
      const connection = await (transport === "HTTP+SSE" ? openSse(url) : openStreamable(url, observed.fetch));
      let version: string | undefined;
      const setProtocolVersion = connection.setProtocolVersion?.bind(connection);
      connection.setProtocolVersion = (negotiated) => {
        version = negotiated;
        setProtocolVersion?.(negotiated);
      };
      await client.connect(connection);
      if (transport === "Streamable HTTP") await observed.listening;
      return {
        era: "legacy",
        version,
        serverName: client.getServerVersion()?.name,
        capabilities: { ...client.getServerCapabilities() },
        sessionId: connection.sessionId,
        heard: peer.heard,
        answerWith: (answer) => void (peer.answer = answer),
        tools: () => allPages("tools", "name", (at) => client.listTools(at)),
        resources: () => allPages("resources", "uri", (at) => client.listResources(at)),
        templates: () => allPages("resourceTemplates", "uriTemplate", (at) => client.listResourceTemplates(at)),
        prompts: () => allPages("prompts", "name", (at) => client.listPrompts(at)),
        call: (name, args = {}, options = {}) => client.callTool({ name, arguments: args }, undefined, options),
        read: async (uri) => (await client.readResource({ uri })).contents,
        prompt: async (name, args = {}) => (await client.getPrompt({ name, arguments: args })).messages,
        complete: async (of, value, others) =>
          (await client.complete(completionParams(of, value, others))).completion.values,
        async subscribe(uri) {
          await client.subscribeResource({ uri });
          return async () => void (await client.unsubscribeResource({ uri }));
        },
        setLogLevel: async (level) => void (await client.setLoggingLevel(level)),
        async close() {
          await connection.terminateSession?.();
          await client.close();
        },
      };
    },
  };
}

/** A field of all that is listed: this SDK lists one page at a time. */
async function allPages(name: string, field: string, list: (at: Page) => Promise<Listed>): Promise<string[]> {
  const found: string[] = [];
  for (let at: Page = {}; ;) {
    const page = await list(at);
    found.push(...(page[name] as Record<string, string>[]).map((each) => each[field]!));
    if (page.nextCursor === undefined) return found;
    at = { cursor: page.nextCursor };
  }
}

async function openStreamable(url: string, fetch: unknown): Promise<OlderTransport> {
  type Module = { StreamableHTTPClientTransport: new (url: URL, options: object) => OlderTransport };
  const { StreamableHTTPClientTransport } = await loadOlder<Module>("client/streamableHttp.js");
  return new StreamableHTTPClientTransport(new URL(url), { fetch });
}

async function openSse(url: string): Promise<OlderTransport> {
  const { SSEClientTransport } = await loadOlder<{ SSEClientTransport: new (url: URL) => OlderTransport }>(
    "client/sse.js",
  );
  return new SSEClientTransport(new URL(`${url}/sse`));
}

/** A file of the package's `dist`. */
async function loadOlder<T>(path: string): Promise<T> {
  const file = resolveClient(`@modelcontextprotocol/sdk/${path}`);
  return (await import(pathToFileURL(file).href)) as T;
}
