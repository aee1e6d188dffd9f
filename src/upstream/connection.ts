import type { Client, StandardSchemaV1, Tool } from "@modelcontextprotocol/client";
import type { Limits } from "../config.ts";
import { isObject, type JsonObject } from "../json.ts";
import { failureOf } from "./failures.ts";
import {
  mendPrompt,
  mendResource,
  mendTemplate,
  mendTool,
  readEntries,
  type Listed,
  type ListedPrompt,
  type ListedResource,
  type ListedTemplate,
  type ListedTool,
} from "./lists.ts";
import type { Questions } from "./questions.ts";
import { takeResult } from "./results-aside.ts";
import { UpstreamError } from "./upstream-error.ts";

export type ConnectionLimits = Pick<
  Limits,
  "upstreamCallMs" | "upstreamListPages" | "upstreamListItems" | "upstreamRounds"
>;

export interface Progress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

/** A server's question to the client: `elicitation/create`, `sampling/createMessage` or `roots/list`. */
export interface Question {
  readonly method: string;
  readonly params: JsonObject;
}

/** Gives the result for a question; throws to refuse it. */
export type Ask = (question: Question, signal?: AbortSignal) => Promise<JsonObject>;

export interface RequestOptions {
  /** Default: the limit `upstreamCallMs`. */
  readonly timeoutMs?: number;
  /** Aborting tells the server that the request is cancelled, and rejects with `cancelled`. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
  /** Goes into `_meta`; in the modern era it may set the capabilities of this one request. */
  readonly meta?: JsonObject;
}

export interface CallOptions extends RequestOptions {
  /**
   * Answers the questions of this call. A modern server's belong to their call; a legacy server's are given to the
   * only call under way that can be asked, else to the connection's own `ask`.
   */
  readonly ask?: Ask;
  /** Instead of `ask`: gives `input_required` results back as they are, with the answers of an earlier round. */
  readonly round?: { readonly inputResponses?: JsonObject; readonly requestState?: string };
}

/** As the server gave it, sound in form. With `round`, `resultType` may be `input_required`. */
export interface ToolResult {
  readonly content: readonly ContentBlock[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
  readonly _meta?: JsonObject;
  readonly resultType?: string;
  readonly inputRequests?: JsonObject;
  readonly requestState?: string;
}

export interface ContentBlock {
  readonly type: string;
  readonly [field: string]: unknown;
}

export interface ResourceResult {
  readonly contents: readonly { readonly uri: string; readonly [field: string]: unknown }[];
  readonly [field: string]: unknown;
}

export interface PromptResult {
  readonly description?: string;
  readonly messages: readonly { readonly role: string; readonly content: ContentBlock }[];
  readonly [field: string]: unknown;
}

export interface Closed {
  /** Completes "the server …": "ended with exit code 1". */
  readonly reason: string;
  /** The end of its stderr; for the log and for who started it, not for clients. Empty for remote servers. */
  readonly stderr: string;
  /** It was closed from here. */
  readonly expected: boolean;
}

/** What only the way of reaching the server knows. */
export interface Channel {
  readonly transport: "stdio" | "http";
  readonly closed: Promise<Closed>;
  close(): Promise<void>;
}

/** Takes what a server of others says as it is; what must hold of it is checked where it is used. */
const anyResult: StandardSchemaV1<unknown, Record<string, unknown>> = {
  "~standard": {
    version: 1,
    vendor: "berth",
    validate: (value) => (isObject(value) ? { value } : { issues: [{ message: "the result is not an object" }] }),
  },
};

/**
 * One open connection to a server of others, whatever it speaks. Any number of requests may be under way at once.
 * Every method rejects with an `UpstreamError` or with `cancelled`.
 */
export class UpstreamConnection {
  readonly #client: Client;
  readonly #channel: Channel;
  readonly #limits: ConnectionLimits;
  readonly #questions: Questions;
  /** Tools whose arguments go into headers, too (modern servers over HTTP). */
  readonly #headerTools = new Map<string, ListedTool>();
  #end = "the connection was closed";

  constructor(client: Client, channel: Channel, limits: ConnectionLimits, questions: Questions) {
    this.#client = client;
    this.#channel = channel;
    this.#limits = limits;
    this.#questions = questions;
    void channel.closed.then(({ reason }) => (this.#end = `it ${reason}`));
  }

  get transport(): "stdio" | "http" {
    return this.#channel.transport;
  }

  get era(): "modern" | "legacy" {
    return this.#client.getProtocolEra() ?? "legacy";
  }

  /** Such as `2025-11-25`. */
  get protocolVersion(): string {
    return this.#client.getNegotiatedProtocolVersion() ?? "";
  }

  /** As the server says; it may lie, and a modern one may say nothing. */
  get serverInfo(): { readonly name: string; readonly version: string } | undefined {
    return this.#client.getServerVersion();
  }

  get capabilities(): JsonObject {
    return (this.#client.getServerCapabilities() ?? {}) as JsonObject;
  }

  get instructions(): string | undefined {
    return this.#client.getInstructions();
  }

  /** Resolves once, when the connection is gone for whatever reason. Never rejects. */
  get closed(): Promise<Closed> {
    return this.#channel.closed;
  }

  async listTools(options?: RequestOptions): Promise<Listed<ListedTool>> {
    const listed = await this.#list("tools", "tools/list", "tools", "The tool", "name", mendTool, options);
    this.#headerTools.clear();
    if (this.transport === "stdio" || this.era === "legacy") return listed;
    for (const tool of listed.items) {
      if (JSON.stringify(tool.inputSchema).includes('"x-mcp-header"')) this.#headerTools.set(tool.name, tool);
    }
    return listed;
  }

  listResources(options?: RequestOptions): Promise<Listed<ListedResource>> {
    return this.#list("resources", "resources/list", "resources", "The resource", "uri", mendResource, options);
  }

  listResourceTemplates(options?: RequestOptions): Promise<Listed<ListedTemplate>> {
    const method = "resources/templates/list";
    return this.#list("resources", method, "resourceTemplates", "The template", "uriTemplate", mendTemplate, options);
  }

  listPrompts(options?: RequestOptions): Promise<Listed<ListedPrompt>> {
    return this.#list("prompts", "prompts/list", "prompts", "The prompt", "name", mendPrompt, options);
  }

  async callTool(name: string, args: JsonObject, options: CallOptions = {}): Promise<ToolResult> {
    const what = `calling ${name}`;
    const params = { name, arguments: args };
    const call = (): Promise<Record<string, unknown>> =>
      this.#rounds("tools/call", params, what, options, this.#definition(name));
    const result = await call().catch(async (error: unknown) => {
      if (!wantsHeaders(error) || this.#headerTools.has(name)) throw error;
      await this.listTools(options);
      return call();
    });
    if (result["resultType"] === "input_required") return result as unknown as ToolResult;
    const { content = [], isError } = result;
    if (!isBlocks(content)) throw broken(what, "its content is not a list of content blocks");
    if (isError !== undefined && typeof isError !== "boolean") throw broken(what, "isError is neither true nor false");
    return { ...result, content };
  }

  async readResource(uri: string, options: CallOptions = {}): Promise<ResourceResult> {
    const what = `reading ${uri}`;
    const result = await this.#rounds("resources/read", { uri }, what, options);
    const { contents } = result;
    if (result["resultType"] === "input_required") return { ...result, contents: [] };
    if (!Array.isArray(contents) || !contents.every((content) => isObject(content) && isText(content["uri"]))) {
      throw broken(what, "its contents are not a list of contents with URIs");
    }
    return result as unknown as ResourceResult;
  }

  async getPrompt(name: string, args: Record<string, string>, options: CallOptions = {}): Promise<PromptResult> {
    const what = `getting the prompt ${name}`;
    const result = await this.#rounds("prompts/get", { name, arguments: args }, what, options);
    const { messages } = result;
    if (result["resultType"] === "input_required") return { ...result, messages: [] };
    if (!Array.isArray(messages) || !messages.every(isPromptMessage)) {
      throw broken(what, "its messages are not a list of messages with a role and content");
    }
    return result as unknown as PromptResult;
  }

  /** `params` as in the specification: `{ ref, argument, context? }`. */
  async complete(params: JsonObject, options?: RequestOptions): Promise<{ readonly values: readonly string[] }> {
    const what = "completing an argument";
    const { completion } = await this.request("completion/complete", params, options);
    const values = isObject(completion) ? completion["values"] : undefined;
    if (!Array.isArray(values) || !values.every(isText)) throw broken(what, "it gave no list of values");
    return completion as { values: string[] };
  }

  /** Any other request of the connection's era, such as `logging/setLevel` or `resources/subscribe`. */
  request(method: string, params: JsonObject, options: RequestOptions = {}): Promise<Record<string, unknown>> {
    return this.#send(method, params, method, options);
  }

  /** A modern server's change notifications come only while it is listened to; they go to `onNotification`. */
  async listen(filter: JsonObject, options: RequestOptions = {}): Promise<{ close(): Promise<void> }> {
    try {
      return await this.#client.listen(filter, this.#requestOptions(options));
    } catch (error) {
      throw failureOf(error, "listening for changes", options.signal, this.#end);
    }
  }

  /** Ends the connection, and a server that was started for it with all that it started. */
  async close(): Promise<void> {
    await this.#channel.close();
  }

  #definition(name: string): Tool | undefined {
    const tool = this.#headerTools.get(name);
    return tool && ({ name, inputSchema: tool.inputSchema } as Tool);
  }

  async #list<T>(
    capability: string,
    method: string,
    key: string,
    what: string,
    nameKey: string,
    mend: Parameters<typeof readEntries<T>>[3],
    options: RequestOptions = {},
  ): Promise<Listed<T>> {
    if (this.capabilities[capability] === undefined) return { items: [], problems: [] };
    const entries: unknown[] = [];
    const cursors = new Set<string>();
    let cursor: string | undefined;
    const { upstreamListPages, upstreamListItems } = this.#limits;
    do {
      const page = await this.#send(method, cursor === undefined ? {} : { cursor }, method, options);
      const list = page[key];
      if (!Array.isArray(list)) throw broken(method, `its ${key} are not a list`);
      for (const entry of list) entries.push(entry);
      const { nextCursor } = page;
      cursor = isText(nextCursor) && nextCursor !== "" ? nextCursor : undefined;
      if (cursor !== undefined && cursors.has(cursor)) throw broken(method, "its pages go round in a circle");
      cursors.add(cursor ?? "");
      if (cursors.size > upstreamListPages) throw broken(method, `it has more than ${upstreamListPages} pages`);
      if (entries.length > upstreamListItems) throw broken(method, `it has more than ${upstreamListItems} entries`);
    } while (cursor !== undefined);
    return readEntries(what, entries, nameKey, mend);
  }

  /** Asks as often as the server wants to know something more. */
  async #rounds(
    method: string,
    params: JsonObject,
    what: string,
    options: CallOptions,
    definition?: Tool,
  ): Promise<Record<string, unknown>> {
    const { ask, round } = options;
    const leave = this.#questions.enter(ask);
    try {
      let more: JsonObject = { ...round };
      for (let rounds = 0; rounds <= this.#limits.upstreamRounds; rounds++) {
        const result = await this.#send(method, { ...params, ...more }, what, options, definition);
        if (result["resultType"] !== "input_required" || round) return result;
        const requests = isObject(result["inputRequests"]) ? result["inputRequests"] : {};
        const { requestState } = result;
        more = {
          inputResponses: await this.#questions.answerAll(requests, ask, what, options.signal),
          ...(isText(requestState) && { requestState }),
        };
      }
    } finally {
      leave();
    }
    throw broken(what, `it asked in more than ${this.#limits.upstreamRounds} rounds`);
  }

  async #send(
    method: string,
    params: JsonObject,
    what: string,
    options: RequestOptions,
    definition?: Tool,
  ): Promise<Record<string, unknown>> {
    const { meta, signal } = options;
    const sent = meta ? { ...params, _meta: meta } : params;
    try {
      if (definition) {
        const requestOptions = { ...this.#requestOptions(options), toolDefinition: definition };
        return takeResult({ ...(await this.#client.callTool(sent as never, requestOptions)) });
      }
      const request = { method, params: sent };
      return takeResult(await this.#client.request(request, anyResult, this.#requestOptions(options)));
    } catch (error) {
      throw failureOf(error, what, signal, this.#end);
    }
  }

  #requestOptions({ timeoutMs, signal, onProgress }: RequestOptions) {
    return {
      timeout: timeoutMs ?? this.#limits.upstreamCallMs,
      allowInputRequired: true,
      ...(signal && { signal }),
      ...(onProgress && { onprogress: onProgress }),
    };
  }
}

/** The server misses a header that repeats an argument: its tools were not asked for yet. */
function wantsHeaders(error: unknown): boolean {
  return error instanceof UpstreamError && error.data?.["rpc"] === HEADER_MISMATCH;
}

const HEADER_MISMATCH = -32020;

function broken(what: string, detail: string): UpstreamError {
  return new UpstreamError("upstream_protocol", `${what}: ${detail}`);
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isBlocks(value: unknown): value is ContentBlock[] {
  return Array.isArray(value) && value.every(isBlock);
}

function isBlock(value: unknown): value is ContentBlock {
  return isObject(value) && isText(value["type"]);
}

function isPromptMessage(value: unknown): boolean {
  return isObject(value) && isText(value["role"]) && isBlock(value["content"]);
}
