import { isObject, type JsonObject, type JsonSchema } from "../../lib/json.ts";
import { NATIVE_META, type NativeEvent, type NativeResult } from "./events.ts";

export type { NativeEvent, NativeResult } from "./events.ts";

interface NativeRequest {
  /** The address of a Berth, with or without a path: `http://127.0.0.1:7420`, or `…/mcp/echo` for one server alone. */
  readonly url: string;
  /** `server.tool`. */
  readonly method: string;
  readonly args?: JsonObject;
  /** All answers so far to the tool's questions, by the keys of `inputRequests`. */
  readonly inputResponses?: JsonObject;
  /** Further headers, such as `Authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Ends the call, on the other side as well. */
  readonly signal?: AbortSignal;
}

/** The other side refused the call. */
export class NativeCallError extends Error {
  /** From JSON-RPC: -32601 for an unknown method. */
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.name = "NativeCallError";
    this.code = code;
    this.data = data;
  }
}

/** Nothing answered at the address, or the answer broke off. */
export class NativeConnectionError extends Error {
  override readonly name = "NativeConnectionError";
}

/**
 * Calls one tool. Yields its events as they happen and returns its result; reading the events slowly slows the tool
 * down, and ceasing to read them ends it. Throws `NativeCallError`, `NativeConnectionError`, or the abort reason of the
 * signal.
 */
export async function* callNative(request: NativeRequest): AsyncGenerator<NativeEvent, NativeResult> {
  const { method, args = {}, inputResponses } = request;
  const params = { ...args, ...(inputResponses && { [NATIVE_META]: { inputResponses } }) };
  for await (const message of exchange(request, method, params)) {
    if ("result" in message) return message["result"] as NativeResult;
    const event = isObject(message["params"]) ? message["params"]["result"] : undefined;
    if (isObject(event)) yield event as NativeEvent;
  }
  throw new NativeConnectionError("the connection ended before the result came");
}

/** A tool as MCP lists it at the address, under the name of its method, `server.tool`. */
interface ListedMethod {
  readonly method: string;
  readonly inputSchema: JsonSchema;
}

/** The tools at the address, with the name of each one's method. Throws as `callNative`. */
export async function* listTools(
  request: Omit<NativeRequest, "args" | "inputResponses">,
): AsyncGenerator<ListedMethod> {
  const [, server] = SERVER_PATH.exec(new URL(addressOf(request.url)).pathname) ?? [];
  let cursor: string | undefined;
  for (let page = 1; page <= PAGES_MAX; page++) {
    const params: JsonObject = cursor === undefined ? {} : { cursor };
    cursor = undefined;
    for await (const { result } of exchange(request, "tools/list", params)) {
      if (!isObject(result) || !Array.isArray(result["tools"])) continue;
      for (const { name, inputSchema } of result["tools"].filter(isObject)) {
        const method = server === undefined ? String(name) : `${decodeURIComponent(server)}.${String(name)}`;
        yield { method, inputSchema: inputSchema as JsonSchema };
      }
      if (typeof result["nextCursor"] === "string") cursor = result["nextCursor"];
    }
    if (cursor === undefined) return;
  }
}

const PAGES_MAX = 100;

/** The server in the path of an address of one server alone, whose lists have just `tool`. */
const SERVER_PATH = /\/mcp\/([^/@]+)(?:@[^/]+)?(?:\/mcp)?\/?$/;
const ALL_SERVERS_PATH = "/mcp";

/** A method's name as it is compared: a dot and an underscore mean the same. */
export function nativeName(method: string): string {
  return method.replaceAll(".", "_");
}

/** The messages that answer one request. */
async function* exchange(
  { url, headers, signal }: NativeRequest,
  method: string,
  params: JsonObject,
): AsyncGenerator<Record<string, unknown>> {
  const address = addressOf(url);
  try {
    const response = await fetch(address, {
      method: "POST",
      headers: { ...headers, "Content-Type": "application/json", Accept: "application/json, text/event-stream" },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      ...(signal && { signal }),
    }).catch((error: unknown) => {
      throw new NativeConnectionError(`nothing answers at ${address}`, { cause: error });
    });
    for await (const message of messagesOf(response)) {
      if (!isObject(message)) continue;
      if (isObject(message["error"])) throw callError(message["error"]);
      yield message;
    }
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof NativeCallError || error instanceof NativeConnectionError) throw error;
    throw new NativeConnectionError(`the answer of ${address} cannot be read`, { cause: error });
  }
}

function addressOf(url: string): string {
  if (!URL.canParse(url)) throw new NativeConnectionError(`"${url}" is not an address`);
  const address = new URL(url);
  if (address.pathname === "/") address.pathname = ALL_SERVERS_PATH;
  return address.href;
}

function callError({ code, message, data }: Record<string, unknown>): NativeCallError {
  return new NativeCallError(Number(code), String(message), data);
}

/**
 * The JSON messages of a response, whether one or a stream of them (`text/event-stream`). Throws if one is not JSON.
 */
async function* messagesOf(response: Response): AsyncGenerator {
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
    yield await response.json();
    return;
  }
  for await (const data of eventData(response)) yield JSON.parse(data);
}

/** The data of each event (SSE standard); comments, ids and other fields are ignored. */
async function* eventData({ body }: Response): AsyncGenerator<string> {
  if (!body) return;
  let unread = "";
  let data: string[] = [];
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const lines = (unread + text).split(/\r\n|\n|\r(?!$)/);
    unread = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
      if (line !== "") continue;
      if (data.length > 0) yield data.join("\n");
      data = [];
    }
  }
}
