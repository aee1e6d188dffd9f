import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { toAnswer } from "./real-client.ts";
import type { RealClient } from "./real-client.ts";

/** `@modelcontextprotocol/client` 2.4: a whole session for each request, in the era that it is told to negotiate. */
export function officialClient(era: "legacy" | "modern" | "auto"): RealClient {
  const mode = era === "modern" ? { pin: "2026-07-28" } : era;
  const session = async <T>(url: string, use: (client: Client) => Promise<T>): Promise<T> => {
    const client = new Client({ name: "berth-test", version: "1.0.0" }, { versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    try {
      return await use(client);
    } finally {
      await client.close();
    }
  };
  return {
    name: era === "auto" ? "the official client left to choose its era" : `the official client in the ${era} era`,
    list: (url) => session(url, async (client) => (await client.listTools()).tools.map(({ name }) => name)),
    call: (url, name, args) =>
      session(url, async (client) => toAnswer(await client.callTool({ name, arguments: args }))),
  };
}
