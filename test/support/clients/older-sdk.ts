import { pathToFileURL } from "node:url";
import { resolveClient, toAnswer } from "./real-client.ts";
import type { RealClient } from "./real-client.ts";

/** The used part of SDK 1.32, whose types the product should not install. */
interface OlderClient {
  connect(transport: unknown): Promise<void>;
  listTools(): Promise<{ tools: { name: string }[] }>;
  callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<unknown>;
  close(): Promise<void>;
}

interface OlderTransport {
  terminateSession(): Promise<void>;
}

/** `@modelcontextprotocol/sdk` 1.32, which most clients in the field are built on: 2025-11-25 with sessions and DELETE. */
export function olderSdk(): RealClient {
  const session = async <T>(url: string, use: (client: OlderClient) => Promise<T>): Promise<T> => {
    const { Client } = await loadOlder<{ Client: new (info: object) => OlderClient }>("client/index.js");
    const { StreamableHTTPClientTransport } = await loadOlder<{
      StreamableHTTPClientTransport: new (url: URL) => OlderTransport;
    }>("client/streamableHttp.js");
    const client = new Client({ name: "berth-test", version: "1.0.0" });
    const transport = new StreamableHTTPClientTransport(new URL(url));
    await client.connect(transport);
    try {
      return await use(client);
    } finally {
      await transport.terminateSession();
      await client.close();
    }
  };
  return {
    name: "SDK 1.32",
    list: (url) => session(url, async (client) => (await client.listTools()).tools.map(({ name }) => name)),
    call: (url, name, args) =>
      session(url, async (client) => toAnswer(await client.callTool({ name, arguments: args }))),
  };
}

/** A file of the package's `dist`. */
export async function loadOlder<T>(path: string): Promise<T> {
  const file = resolveClient(`@modelcontextprotocol/sdk/${path}`);
  return (await import(pathToFileURL(file).href)) as T;
}
