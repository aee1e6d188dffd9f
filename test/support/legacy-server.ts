import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { serve, type Ending } from "./suite.ts";

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly message: { readonly id?: unknown; readonly method?: string; readonly params?: { readonly name?: string } };
  /** Answers with a result or an error. */
  readonly say: (answer: object) => true;
  readonly isClosed: () => boolean;
}

/** A legacy server at an address that has no method of its own. `taken` gets each exchange, and returns true to answer it. */
export async function legacyServer(t: Ending, taken: (exchange: Exchange) => unknown, headers = {}) {
  const exchanges: Exchange[] = [];
  const url = await serve(t, async (request, response) => {
    let isClosed = false;
    response.on("close", () => (isClosed = true));
    const message = JSON.parse((await text(request)) || "{}") as Exchange["message"];
    const { id, method } = message;
    const say = (answer: object): true => {
      response.writeHead(200, { "content-type": "application/json", ...headers });
      response.end(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
      return true;
    };
    const exchange = { request, response, message, say, isClosed: () => isClosed };
    exchanges.push(exchange);
    if ((await taken(exchange)) === true) return;
    if (method === "initialize") say({ result: HELLO });
    else if (method !== undefined && id !== undefined) say({ error: { code: -32601, message: "Method not found" } });
    else response.writeHead(request.method === "POST" ? 202 : 405).end();
  });
  const of = (method: string) => exchanges.filter(({ message }) => message.method === method);
  return { uri: `mcp+${url}/mcp`, exchanges, of };
}

const HELLO = {
  protocolVersion: "2025-06-18",
  capabilities: { tools: {} },
  serverInfo: { name: "legacy", version: "1" },
};
