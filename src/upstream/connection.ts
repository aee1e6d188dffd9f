import type { SkillContract } from "../contract/contract.ts";
import { EXTENSION_SKILLS, relayedExtensions } from "../contract/extensions.ts";
import { isObject, type JsonObject, type JsonText } from "../lib/json.ts";
import type { Limits } from "../limits/limits.ts";
import type { Channel, Closed, Peer } from "./channel.ts";
import {
  readPages,
  problemsOf,
  mendPrompt,
  mendResource,
  mendSkill,
  mendTemplate,
  mendTool,
  readEntries,
  type ListLimits,
  type UpstreamListed,
  type ListedPrompt,
  type ListedResource,
  type ListedTemplate,
  type ListedTool,
} from "./lists.ts";
import type { LongReader } from "./long-answers.ts";
import type { Questions } from "./questions.ts";
import type { UpstreamCallOptions, RequestOptions, RequestParams } from "./request.ts";
import {
  LongAnswer,
  asks,
  broken,
  isText,
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
} from "./results.ts";

type ConnectionLimits = ListLimits & Pick<Limits, "upstreamRounds">;

/**
 * One open connection to an upstream over any transport. Any number of requests may be under way at once. Every method
 * rejects with an `UpstreamError` or with `cancelled`.
 */
export class UpstreamConnection implements Peer {
  readonly era: Peer["era"];
  readonly #channel: Channel;
  readonly #peer: Peer;
  readonly #limits: ConnectionLimits;
  readonly #questions: Questions;
  readonly #long: LongReader | undefined;

  constructor(channel: Channel, peer: Peer, limits: ConnectionLimits, questions: Questions, long?: LongReader) {
    this.era = peer.era;
    this.#channel = channel;
    this.#peer = peer;
    this.#limits = limits;
    this.#questions = questions;
    this.#long = long;
  }

  get transport(): "stdio" | "http" {
    return this.#channel.transport;
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
    return this.#channel.closed;
  }

  async listTools(options?: RequestOptions): Promise<UpstreamListed<ListedTool>> {
    const listed = await this.#list("tools", "tools/list", "tools", "The tool", "name", mendTool, options);
    this.#channel.noteTools?.(listed.items);
    return listed;
  }

  listResources(options?: RequestOptions): Promise<UpstreamListed<ListedResource>> {
    return this.#list("resources", "resources/list", "resources", "The resource", "uri", mendResource, options);
  }

  listResourceTemplates(options?: RequestOptions): Promise<UpstreamListed<ListedTemplate>> {
    const method = "resources/templates/list";
    return this.#list("resources", method, "resourceTemplates", "The template", "uriTemplate", mendTemplate, options);
  }

  listPrompts(options?: RequestOptions): Promise<UpstreamListed<ListedPrompt>> {
    return this.#list("prompts", "prompts/list", "prompts", "The prompt", "name", mendPrompt, options);
  }

  /** Empty for a server without the extension of skills. */
  async listSkills(options?: RequestOptions): Promise<UpstreamListed<SkillContract>> {
    if (relayedExtensions(this.capabilities)?.[EXTENSION_SKILLS] === undefined)
      return { items: [], problems: [], bytes: 0 };
    return this.#list("resources", "skills/list", "skills", "The skill", "uri", mendSkill, options);
  }

  async callTool(name: string, args: JsonObject | JsonText, options: UpstreamCallOptions = {}): Promise<ToolResult> {
    const what = `calling ${name}`;
    const params = { name, arguments: args };
    let result: AnyResult;
    try {
      result = await this.#rounds("tools/call", params, what, options);
    } catch (error) {
      if (!this.#channel.needsTools?.(error, name)) throw error;
      await this.listTools(options);
      result = await this.#rounds("tools/call", params, what, options);
    }
    if (result instanceof LongAnswer) return this.#long!.toolResult(what, result);
    return readToolResult(what, shortResult(what, result));
  }

  async readResource(uri: string, options: UpstreamCallOptions = {}): Promise<ResourceResult> {
    const what = `reading ${uri}`;
    const result = await this.#rounds("resources/read", { uri }, what, options);
    if (result instanceof LongAnswer) return this.#long!.resourceResult(what, result);
    return readResourceResult(what, shortResult(what, result));
  }

  async getPrompt(
    name: string,
    args: Record<string, string>,
    options: UpstreamCallOptions = {},
  ): Promise<UpstreamPromptResult> {
    const what = `getting the prompt ${name}`;
    const result = await this.#rounds("prompts/get", { name, arguments: args }, what, options);
    if (result instanceof LongAnswer) return this.#long!.promptResult(what, result);
    return readPromptResult(what, shortResult(what, result));
  }

  /** `params` as in the specification: `{ ref, argument, context? }`. */
  async complete(params: JsonObject, options?: RequestOptions): Promise<UpstreamCompletion> {
    const what = "completing an argument";
    const result = await this.#channel.send("completion/complete", params, what, options ?? {});
    if (result instanceof LongAnswer) return this.#long!.completion(what, result);
    return readCompletion(what, shortResult(what, result));
  }

  /** Any other request of the connection's era, such as `logging/setLevel` or `resources/subscribe`. */
  async request(method: string, params: JsonObject, options: RequestOptions = {}): Promise<UpstreamResult> {
    return shortResult(method, await this.#channel.send(method, params, method, options));
  }

  listen(filter: JsonObject, timeoutMs: number): Promise<void> {
    return this.#channel.listen(filter, timeoutMs);
  }

  /** Counts the messages from the server so far. */
  get heard(): number {
    return this.#channel.heard;
  }

  /** Pings the server; true if it sends anything within `ms`, even that it knows no ping. */
  async isThere(ms: number): Promise<boolean> {
    const before = this.heard;
    // The newest revision has no ping.
    const method = this.era === "modern" ? "server/discover" : "ping";
    const pinged = this.#channel.send(method, {}, method, { timeoutMs: ms });
    await pinged.catch(() => undefined);
    return this.heard > before;
  }

  /**
   * Ends the connection, and a server that was started for it with everything that it started; `fault` as in `Channel`.
   */
  async close(fault?: string): Promise<void> {
    await this.#channel.close(fault);
  }

  async #list<T>(
    capability: string,
    method: string,
    key: string,
    what: string,
    nameKey: string,
    mend: Parameters<typeof readEntries<T>>[3],
    options?: RequestOptions,
  ): Promise<UpstreamListed<T>> {
    if (this.capabilities[capability] === undefined) return { items: [], problems: [], bytes: 0 };
    const channel = this.#channel;
    const page = (params: { cursor?: string }): Promise<AnyResult> =>
      channel.send(method, params, method, options ?? {});
    const { entries, leftOut, bytes } = await readPages(method, { key, nameKey }, this.#limits, page);
    const { items, problems } = await readEntries(what, entries, nameKey, mend);
    return { items, problems: [...problems, ...problemsOf(what, leftOut)], bytes };
  }

  /** Repeats the request for as long as the server asks for more input. */
  async #rounds(method: string, params: RequestParams, what: string, options: UpstreamCallOptions): Promise<AnyResult> {
    const { ask, round } = options;
    const channel = this.#channel;
    if (round) return channel.send(method, { ...params, ...round }, what, options);
    const leave = ask && this.#questions.enter(ask);
    try {
      let result = await channel.send(method, params, what, options);
      for (let rounds = 0; asks(result); rounds++) {
        if (rounds >= this.#limits.upstreamRounds) throw broken(what, `it asked in more than ${rounds} rounds`);
        const { inputRequests, requestState } = shortResult(what, result);
        const asked = isObject(inputRequests) ? inputRequests : {};
        const inputResponses = await this.#questions.answerAll(asked, ask, what, options.signal);
        const more = { inputResponses, ...(isText(requestState) && { requestState }) };
        result = await channel.send(method, { ...params, ...more }, what, options);
      }
      return result;
    } finally {
      leave?.();
    }
  }
}
