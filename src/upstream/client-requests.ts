import type { Client, StandardSchemaV1, Tool } from "@modelcontextprotocol/client";
import { toAbortSignal } from "../cancellation.ts";
import { isObject, JsonText } from "../json.ts";
import { failureOf } from "./failures.ts";
import type { ListedTool } from "./lists.ts";
import type { AnyResult, RequestOptions, RequestParams, Requests, Result } from "./request.ts";
import type { LongResults } from "./results-aside.ts";
import { UpstreamError } from "./upstream-error.ts";

/** Takes what a server of others says as it is; what must hold of it is checked where it is used. */
const anyResult: StandardSchemaV1<unknown, Result> = {
  "~standard": {
    version: 1,
    vendor: "berth",
    validate: (value) => (isObject(value) ? { value } : { issues: [{ message: "the result is not an object" }] }),
  },
};

/** Requests by the official client, which knows what HTTP takes in each era: streams, sessions, headers. */
export class ClientRequests implements Requests {
  readonly #client: Client;
  readonly #timeoutMs: number;
  readonly #long: LongResults;
  /** Tools whose arguments go into headers, too (modern servers). */
  readonly #headerTools = new Map<string, Tool>();
  heard = 0;
  /** Why nothing can be sent any more. */
  ended = "the connection was closed";

  constructor(client: Client, timeoutMs: number, long: LongResults) {
    this.#long = long;
    this.#client = client;
    this.#timeoutMs = timeoutMs;
  }

  async send(
    method: string,
    given: RequestParams,
    what: string,
    { meta, signal, onProgress, timeoutMs = this.#timeoutMs }: RequestOptions,
  ): Promise<AnyResult> {
    const { arguments: args } = given;
    // The client writes each message itself, and so takes nothing that is written already.
    const params = args instanceof JsonText ? { ...given, arguments: args.read() } : given;
    const sent = meta ? { ...params, _meta: meta } : params;
    const definition = method === "tools/call" ? this.#headerTools.get(params["name"] as string) : undefined;
    const options = {
      timeout: Math.min(timeoutMs, LONGEST_MS),
      allowInputRequired: true,
      ...(signal && { signal: toAbortSignal(signal) }),
      ...(onProgress && { onprogress: onProgress }),
    };
    try {
      if (definition) {
        const called = { ...(await this.#client.callTool(sent as never, { ...options, toolDefinition: definition })) };
        this.heard++;
        return this.#long.take(called);
      }
      const answer = await this.#client.request({ method, params: sent }, anyResult, options);
      this.heard++;
      return this.#long.take(answer);
    } catch (error) {
      const failure = failureOf(error, what, signal, this.ended);
      if (failure.code === "upstream_refused") this.heard++;
      throw failure;
    }
  }

  noteTools(tools: readonly ListedTool[]): void {
    this.#headerTools.clear();
    if (this.#client.getProtocolEra() !== "modern") return;
    for (const { name, inputSchema } of tools) {
      if (!JSON.stringify(inputSchema).includes('"x-mcp-header"')) continue;
      this.#headerTools.set(name, { name, inputSchema } as Tool);
    }
  }

  /** The server misses a header that repeats an argument. */
  needsTools(error: unknown, tool: string): boolean {
    return error instanceof UpstreamError && error.data?.["rpc"] === HEADER_MISMATCH && !this.#headerTools.has(tool);
  }
}

const HEADER_MISMATCH = -32020;
/** Of a timer. */
const LONGEST_MS = 2 ** 31 - 1;
