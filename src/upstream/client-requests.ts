import type { Client, StandardSchemaV1, Tool } from "@modelcontextprotocol/client";
import { toAbortSignal } from "../lib/cancellation.ts";
import { headerMarks } from "../contract/parameter-headers.ts";
import { isObject, JsonText, type JsonSchema } from "../lib/json.ts";
import { failureOf } from "./failures.ts";
import type { ListedTool } from "./lists.ts";
import type { LongReader } from "./long-answers.ts";
import type { LongArguments } from "./long-arguments.ts";
import type { AnyResult, RequestOptions, RequestParams, Requests, UpstreamResult } from "./request.ts";
import type { LongResults } from "./bypass.ts";
import { UpstreamError } from "./upstream-error.ts";

/** Accepts any result from an upstream; it is checked where it is used. */
const anyResult: StandardSchemaV1<unknown, UpstreamResult> = {
  "~standard": {
    version: 1,
    vendor: "berth",
    validate: (value) => (isObject(value) ? { value } : { issues: [{ message: "the result is not an object" }] }),
  },
};

/** The parts of messages that bypass the client. */
export interface Aside {
  readonly results: LongResults;
  readonly arguments: LongArguments;
  /** Without a reader no message counts as long. */
  readonly reader: LongReader | undefined;
}

/** Requests by the official client, which knows the rules of HTTP in each era: streams, sessions, headers. */
export class ClientRequests implements Requests {
  readonly #client: Client;
  readonly #timeoutMs: number;
  readonly #long: LongResults;
  readonly #arguments: LongArguments;
  readonly #reader: LongReader | undefined;
  /** Tools with arguments that also go into headers (modern servers). */
  readonly #headerTools = new Map<string, Tool>();
  heard = 0;
  /** Why no more requests can be sent. */
  ended = "the connection was closed";

  constructor(client: Client, timeoutMs: number, aside: Aside) {
    this.#long = aside.results;
    this.#arguments = aside.arguments;
    this.#reader = aside.reader;
    this.#client = client;
    this.#timeoutMs = timeoutMs;
  }

  async send(method: string, given: RequestParams, what: string, options: RequestOptions): Promise<AnyResult> {
    const { arguments: args } = given;
    const { meta } = options;
    const all = meta ? { ...given, _meta: meta } : given;
    if (!(args instanceof JsonText)) return this.#send(method, all, what, options);
    const { params, forget } = this.#arguments.keep(all, await this.#headed(given["name"], args));
    try {
      return await this.#send(method, params, what, options);
    } finally {
      forget();
    }
  }

  async #send(
    method: string,
    params: Record<string, unknown>,
    what: string,
    { signal, onProgress, timeoutMs = this.#timeoutMs }: RequestOptions,
  ): Promise<AnyResult> {
    const definition = method === "tools/call" ? this.#headerTools.get(params["name"] as string) : undefined;
    const options = {
      timeout: Math.min(timeoutMs, LONGEST_MS),
      allowInputRequired: true,
      ...(signal && { signal: toAbortSignal(signal) }),
      ...(onProgress && { onprogress: onProgress }),
    };
    try {
      if (definition) {
        const called = {
          ...(await this.#client.callTool(params as never, { ...options, toolDefinition: definition })),
        };
        this.heard++;
        return this.#long.take(called);
      }
      const answer = await this.#client.request({ method, params }, anyResult, options);
      this.heard++;
      return this.#long.take(answer);
    } catch (error) {
      const failure = failureOf(error, what, signal, this.ended);
      if (failure.code === "upstream_refused") this.heard++;
      throw failure;
    }
  }

  /** The members of long arguments that go into headers. */
  async #headed(tool: unknown, args: JsonText): Promise<object> {
    const definition = this.#headerTools.get(tool as string);
    if (!definition) return {};
    const paths = headerMarks(definition.inputSchema as JsonSchema).map(({ path }) => path);
    const headed = plain();
    for (const [at, value] of (await this.#reader!.scalars(args, paths)).entries()) {
      if (value === undefined) continue;
      const path = paths[at]!;
      let place = headed;
      for (const name of path.slice(0, -1)) place = (place[name] ??= plain()) as typeof headed;
      place[path.at(-1)!] = value;
    }
    return headed;
  }

  noteTools(tools: readonly ListedTool[]): void {
    this.#headerTools.clear();
    if (this.#client.getProtocolEra() !== "modern") return;
    for (const { name, inputSchema } of tools) {
      if (!JSON.stringify(inputSchema).includes('"x-mcp-header"')) continue;
      this.#headerTools.set(name, { name, inputSchema } as Tool);
    }
  }

  /** True when the server misses a header that repeats an argument. */
  needsTools(error: unknown, tool: string): boolean {
    return error instanceof UpstreamError && error.data?.["rpc"] === HEADER_MISMATCH && !this.#headerTools.has(tool);
  }
}

/** An object on which any name is an own property. */
const plain = (): Record<string, unknown> => Object.create(null) as Record<string, unknown>;

const HEADER_MISMATCH = -32020;
/** The longest time of a timer. */
const LONGEST_MS = 2 ** 31 - 1;
