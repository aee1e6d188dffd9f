import { randomUUID } from "node:crypto";
import type { SkillContract } from "../../contract/contract.ts";
import { EXTENSION_SKILLS, EXTENSION_TASKS, relayedExtensions } from "../../contract/extensions.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type JsonObject, type JsonText } from "../../lib/json.ts";
import {
  readPages,
  unreadProblems,
  fixPrompt,
  fixResource,
  fixSkill,
  fixTemplate,
  fixTool,
  readEntries,
  type UpstreamListed,
  type ListedPrompt,
  type ListedResource,
  type ListedTemplate,
  type ListedTool,
} from "../messages/lists.ts";
import type { UpstreamCallOptions, RequestOptions, RequestParams } from "../messages/request.ts";
import {
  LongAnswer,
  isInputRequired,
  protocolError,
  isString,
  readCompletion,
  readPromptResult,
  readResourceResult,
  readToolResult,
  shortResult,
  type AnyResult,
  type UpstreamResult,
  type UpstreamCompletion,
  type UpstreamPromptResult,
  type ResourceResult,
  type ToolResult,
} from "../messages/results.ts";
import type { Closed, ConnectOptions, Peer } from "../transport/channel.ts";
import { questionBounds, type Questions } from "../transport/questions.ts";
import type { RpcChannel } from "../transport/rpc-channel.ts";
import { CreatedTask, FollowedTask, isTask, readCreatedTask, type TaskEnd, type TaskPeer } from "./tasks.ts";

/**
 * One open connection to an upstream over any transport. Any number of requests may be in progress at once. Every
 * method rejects with an `UpstreamError` or with `cancelled`.
 */
export class UpstreamConnection implements Peer {
  readonly era: Peer["era"];
  /** Unique among all connections. */
  readonly id = randomUUID();
  readonly #channel: RpcChannel;
  readonly #peer: Peer;
  readonly #questions: Questions;
  readonly #options: Pick<ConnectOptions, "limits" | "long" | "capabilities">;
  /** How a legacy server's tools accept calls as tasks, as it last listed them. */
  #taskSupport: ReadonlyMap<string, "optional" | "required"> = new Map();

  constructor(channel: RpcChannel, peer: Peer, questions: Questions, options: ConnectOptions) {
    this.era = peer.era;
    this.#channel = channel;
    this.#peer = peer;
    this.#questions = questions;
    this.#options = options;
  }

  get transport(): "stdio" | "http" {
    return this.#channel.transport.kind;
  }

  get protocolVersion(): string {
    return this.#peer.protocolVersion;
  }

  get serverInfo(): Peer["serverInfo"] {
    return this.#peer.serverInfo;
  }

  get capabilities(): JsonObject {
    return this.#peer.capabilities;
  }

  get instructions(): string | undefined {
    return this.#peer.instructions;
  }

  get closed(): Promise<Closed> {
    return this.#channel.transport.closed;
  }

  get stale(): Promise<string> | undefined {
    return this.#channel.transport.stale;
  }

  async listTools(options?: RequestOptions): Promise<UpstreamListed<ListedTool>> {
    const listed = await this.#list("tools", "tools/list", "tools", "The tool", "name", fixTool, options);
    this.#channel.transport.noteTools?.(listed.items);
    if (this.#supportsLegacyTasks) this.#taskSupport = readTaskSupport(listed.items);
    return listed;
  }

  listResources(options?: RequestOptions): Promise<UpstreamListed<ListedResource>> {
    return this.#list("resources", "resources/list", "resources", "The resource", "uri", fixResource, options);
  }

  listResourceTemplates(options?: RequestOptions): Promise<UpstreamListed<ListedTemplate>> {
    const method = "resources/templates/list";
    return this.#list("resources", method, "resourceTemplates", "The template", "uriTemplate", fixTemplate, options);
  }

  listPrompts(options?: RequestOptions): Promise<UpstreamListed<ListedPrompt>> {
    return this.#list("prompts", "prompts/list", "prompts", "The prompt", "name", fixPrompt, options);
  }

  /** Empty for a server without the skills extension. */
  async listSkills(options?: RequestOptions): Promise<UpstreamListed<SkillContract>> {
    if (relayedExtensions(this.capabilities)?.[EXTENSION_SKILLS] === undefined)
      return { items: [], problems: [], bytes: 0 };
    return this.#list("resources", "skills/list", "skills", "The skill", "uri", fixSkill, options);
  }

  /** Calls a tool; if the call becomes a task of the server, follows it to its end. */
  async callTool(name: string, args: JsonObject | JsonText, options: UpstreamCallOptions = {}): Promise<ToolResult> {
    const result = await this.beginTool(name, args, options);
    if (!(result instanceof CreatedTask)) return result;
    options.tasks?.onTask?.(result.task);
    const end = await this.follow(new FollowedTask(result.task, `calling ${name}`, true), options);
    if ("error" in end) throw end.error;
    return end.result;
  }

  /** Like `callTool`, but returns the task that the call has become. */
  async beginTool(
    name: string,
    args: JsonObject | JsonText,
    options: UpstreamCallOptions = {},
  ): Promise<ToolResult | CreatedTask> {
    const what = `calling ${name}`;
    let sent = options;
    let takesTasks = options.tasks?.onTask !== undefined;
    const task = this.#legacyTask(name, takesTasks);
    const params: RequestParams = task ? { name, arguments: args, task } : { name, arguments: args };
    if (takesTasks) sent = this.#declaringTasks(options);
    let result: AnyResult;
    try {
      result = await this.#rounds("tools/call", params, what, sent);
    } catch (error) {
      if (this.#channel.transport.needsTools?.(error, name)) await this.listTools(options);
      else if (takesTasks || options.tasks?.isRefused === true || !requiresTask(error)) throw error;
      else [takesTasks, sent] = [true, this.#declaringTasks(options)];
      result = await this.#rounds("tools/call", params, what, sent);
    }
    if (result instanceof LongAnswer) return this.#options.long!.toolResult(what, result);
    if (!isTask(result, this.era)) return readToolResult(what, shortResult(what, result));
    if (this.era === "modern" ? !takesTasks : !task) {
      throw protocolError(what, "it answered with a task, although the client declared no support for tasks");
    }
    const program = this.transport === "stdio" ? this.id : undefined;
    return new CreatedTask(readCreatedTask(what, result, { era: this.era, program }));
  }

  follow(task: FollowedTask, options: UpstreamCallOptions): Promise<TaskEnd> {
    return task.follow(this.#taskPeer(options), options);
  }

  /** Tells the server that the task is no longer needed. */
  cancelTask(task: FollowedTask, options: UpstreamCallOptions): Promise<void> {
    return task.cancel(this.#taskPeer(options));
  }

  #taskPeer(options: UpstreamCallOptions): TaskPeer {
    const declaring = this.#declaringTasks(options);
    return {
      era: this.era,
      questions: this.#questions,
      long: this.#options.long,
      send: (method, params, what, more) =>
        this.#channel.send(method, params, what, { ...more, ...(declaring.meta && { meta: declaring.meta }) }),
    };
  }

  /** True for a server of 2025-11-25 that accepts tool calls as tasks. */
  get #supportsLegacyTasks(): boolean {
    if (this.era !== "legacy") return false;
    const { requests } = (this.capabilities["tasks"] ?? {}) as { requests?: { tools?: { call?: unknown } } };
    return isObject(requests?.tools?.call);
  }

  /** The parameter with which a client makes its call a task at a server of 2025-11-25. */
  #legacyTask(name: string, takesTasks: boolean): JsonObject | undefined {
    const support = this.#taskSupport.get(name);
    if (support === undefined || (support === "optional" && !takesTasks)) return undefined;
    return { ttl: this.#options.limits.taskTtlMs };
  }

  /** The options for a request that declares support for tasks. */
  #declaringTasks<Options extends RequestOptions>(options: Options): Options {
    if (this.era !== "modern") return options;
    const declared = options.meta?.[CLIENT_CAPABILITIES];
    const capabilities = isObject(declared) ? declared : (this.#options.capabilities ?? {});
    const { extensions } = capabilities;
    const withTasks = { ...(isObject(extensions) && extensions), [EXTENSION_TASKS]: {} };
    return { ...options, meta: { ...options.meta, [CLIENT_CAPABILITIES]: { ...capabilities, extensions: withTasks } } };
  }

  async readResource(uri: string, options: UpstreamCallOptions = {}): Promise<ResourceResult> {
    const what = `reading ${uri}`;
    const result = await this.#rounds("resources/read", { uri }, what, options);
    if (result instanceof LongAnswer) return this.#options.long!.resourceResult(what, result);
    return readResourceResult(what, shortResult(what, result), uri);
  }

  async getPrompt(
    name: string,
    args: Record<string, string>,
    options: UpstreamCallOptions = {},
  ): Promise<UpstreamPromptResult> {
    const what = `getting the prompt ${name}`;
    const result = await this.#rounds("prompts/get", { name, arguments: args }, what, options);
    if (result instanceof LongAnswer) return this.#options.long!.promptResult(what, result);
    return readPromptResult(what, shortResult(what, result));
  }

  /** `params` as in the specification: `{ ref, argument, context? }`. */
  async complete(params: JsonObject, options?: RequestOptions): Promise<UpstreamCompletion> {
    const what = "completing an argument";
    const result = await this.#channel.send("completion/complete", params, what, options ?? {});
    if (result instanceof LongAnswer) return this.#options.long!.completion(what, result);
    return readCompletion(what, shortResult(what, result));
  }

  /** Any other request of the connection's era, such as `logging/setLevel` or `resources/subscribe`. */
  async request(method: string, params: JsonObject, options: RequestOptions = {}): Promise<UpstreamResult> {
    return shortResult(method, await this.#channel.send(method, params, method, options));
  }

  listen(filter: JsonObject, timeoutMs: number): Promise<void> {
    return this.#channel.listen(filter, timeoutMs);
  }

  get received(): number {
    return this.#channel.received;
  }

  /** Pings the server; true if it sends anything within `ms`, even an error. */
  async isResponsive(ms: number): Promise<boolean> {
    const before = this.received;
    // The newest revision has no ping.
    const method = this.era === "modern" ? "server/discover" : "ping";
    const pinged = this.#channel.send(method, {}, method, { timeoutMs: ms });
    await pinged.catch(() => undefined);
    return this.received > before;
  }

  /**
   * Ends the connection, and a server that was started for it with everything that it started; `fault` as in `Transport`.
   */
  async close(fault?: string): Promise<void> {
    await this.#channel.transport.close(fault);
  }

  async #list<T>(
    capability: string,
    method: string,
    key: string,
    what: string,
    nameKey: string,
    fix: Parameters<typeof readEntries<T>>[3],
    options?: RequestOptions,
  ): Promise<UpstreamListed<T>> {
    if (this.capabilities[capability] === undefined) return { items: [], problems: [], bytes: 0 };
    const channel = this.#channel;
    const page = (params: RequestParams): Promise<AnyResult> => channel.send(method, params, method, options ?? {});
    const read = await readPages(method, { key, nameKey }, page);
    const { items, problems } = await readEntries(what, read.entries, nameKey, fix);
    const { bytes, failure } = read;
    return {
      items,
      problems: [...problems, ...unreadProblems(method, what, read)],
      bytes,
      ...(failure && { failure }),
    };
  }

  /** Repeats the request as long as the server asks for more input. */
  async #rounds(method: string, params: RequestParams, what: string, options: UpstreamCallOptions): Promise<AnyResult> {
    const { ask, round } = options;
    const channel = this.#channel;
    if (round) return channel.send(method, { ...params, ...round }, what, options);
    const leave = ask && this.#questions.enter(ask);
    try {
      let result = await channel.send(method, params, what, options);
      for (let rounds = 0; isInputRequired(result); rounds++) {
        if (rounds >= questionBounds.upstreamRounds)
          throw protocolError(what, `it asked in more than ${rounds} rounds`);
        const { inputRequests, requestState } = shortResult(what, result);
        const asked = isObject(inputRequests) ? inputRequests : {};
        const inputResponses = await this.#questions.answerAll(asked, ask, what, options.signal);
        const more = { inputResponses, ...(isString(requestState) && { requestState }) };
        result = await channel.send(method, { ...params, ...more }, what, options);
      }
      return result;
    } finally {
      leave?.();
    }
  }
}

/** 2026-07-28 `basic`: each request states the client's capabilities. */
export const CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";

/** True when a modern server rejected a call, without side effects, because it must be a task. */
function requiresTask(error: unknown): boolean {
  if (!(error instanceof BerthError) || error.data?.["rpc"] !== MISSING_CAPABILITY) return false;
  const { requiredCapabilities } = (error.data["data"] ?? {}) as { requiredCapabilities?: unknown };
  if (!isObject(requiredCapabilities) || Object.keys(requiredCapabilities).length !== 1) return false;
  const { extensions } = requiredCapabilities;
  return isObject(extensions) && Object.keys(extensions).length === 1 && isObject(extensions[EXTENSION_TASKS]);
}

const MISSING_CAPABILITY = -32021;

function readTaskSupport(tools: readonly ListedTool[]): Map<string, "optional" | "required"> {
  const modes = new Map<string, "optional" | "required">();
  for (const { name, execution } of tools) {
    const support = isObject(execution) ? execution["taskSupport"] : undefined;
    if (support === "optional" || support === "required") modes.set(name, support);
  }
  return modes;
}
