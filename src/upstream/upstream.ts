import type { PromptContract, SkillContract, ToolContract } from "../contract/contract.ts";
import { relayedExtensions } from "../contract/extensions.ts";
import type { CancelSignal } from "../lib/cancellation.ts";
import { clock, type Timer } from "../lib/clock.ts";
import { errorChain, isDescriptorShortage, noDescriptors, withoutPaths } from "../lib/error-mapping.ts";
import { BerthError } from "../lib/errors.ts";
import { isObject, JsonText, countValues, type Json, type JsonObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import type { TraceContext } from "../lib/trace.ts";
import { settlesWithin, within } from "../lib/within.ts";
import { fixed } from "../limits/fixed.ts";
import type { Limits } from "../limits/limits.ts";
import { AttributedCalls, CallsInProgress } from "./calls/attribution.ts";
import { connectUpstream } from "./calls/connect.ts";
import { CLIENT_CAPABILITIES, type UpstreamConnection } from "./calls/connection.ts";
import { FollowedTasks } from "./calls/followed-tasks.ts";
import { hideInOffers, observe, subscribe, type HideWhole, type Observed } from "./calls/observe.ts";
import { Supervisor, type AcquiredConnection, type UpstreamHealth } from "./calls/supervisor.ts";
import { CreatedTask } from "./calls/tasks.ts";
import type { Launch, VariableLookup } from "./launch/launch.ts";
import type {
  Ask,
  Progress,
  TaskOfUpstream,
  TaskUse,
  UpstreamCallOptions,
  UpstreamQuestion,
} from "./messages/request.ts";
import type { ResourceResult, ToolResult, UpstreamCompletion, UpstreamPromptResult } from "./messages/results.ts";
import { isUnknownMethod, UpstreamError } from "./messages/upstream-error.ts";
import type { Closed, ConnectOptions, Peer } from "./transport/channel.ts";
import { hostedCapabilities } from "./transport/questions.ts";

const bounds = fixed({
  /** How long a question waits until its call can be determined. */
  upstreamQuestionMs: 2_000,
  /** The time in which a modern server has to show that it also supports the legacy era. */
  upstreamLegacyMs: 10_000,
});

export interface UpstreamOptions extends Omit<
  ConnectOptions,
  "limits" | "onNotification" | "signal" | "ask" | "variable"
> {
  /** Resolves `${NAME}` in the launcher URI; called at each start. By default the environment. */
  readonly variables?: () => Promise<VariableLookup>;
  /** Acquires a slot before each start; resolves with a function that releases it. */
  readonly takePlace?: (() => Promise<() => void>) | undefined;
  /** Removes hidden values from errors and log lines. */
  readonly hide?: (value: Json) => Json;
  /** Removes the same values from the server's contract. */
  readonly hideWhole?: HideWhole;
  readonly limits: ConnectOptions["limits"] & Pick<Limits, "upstreamIdleMs">;
  /** Called with the server's contract, at each start and after each reported change of a list. */
  readonly onContract: (observed: Observed) => Promise<void>;
  readonly onResourceUpdated: (uri: string) => void;
  /** Called before each request. Throws for one that must not be sent: the server no longer offers what was served. */
  readonly check?: (request: UpstreamRequest) => void;
  readonly onLost: (closed: Closed) => void;
  /** Reports a failure that no request would report. */
  readonly onError: (error: unknown) => void;
}

type ServerInfo = NonNullable<UpstreamHealth["server"]>;

/** A request for an upstream. */
export type UpstreamRequest = {
  /** Goes into `_meta`. */
  readonly meta?: JsonObject | undefined;
  /** Set for a client of the legacy era: the result means the same in both eras. */
  readonly isLegacy?: boolean | undefined;
  /** The CID of the stable form of `served`, if that is a CID. */
  readonly servedForm?: string;
} & (
  | {
      readonly method: "tools/call";
      readonly name: string;
      readonly args: JsonObject | JsonText;
      /** The contract with which it was offered, or its CID, for `UpstreamOptions.check`. */
      readonly served?: ToolContract | string;
      /** The task that the call has already become, which is only followed. */
      readonly task?: TaskOfUpstream | undefined;
    }
  | { readonly method: "tasks/cancel"; readonly task: TaskOfUpstream }
  | {
      readonly method: "prompts/get";
      readonly name: string;
      readonly args: Record<string, string>;
      readonly served?: PromptContract | string;
    }
  | {
      readonly method: "resources/read";
      readonly uri: string;
      /** The URI of the skill that the file belongs to. */
      readonly name?: string;
      /** That skill as it was approved. */
      readonly served?: SkillContract | string;
    }
  /** `params` as in the specification: `{ ref, argument, context? }`. */
  | { readonly method: "completion/complete"; readonly params: JsonObject }
);

export interface UpstreamResults {
  readonly "tools/call": ToolResult;
  readonly "tasks/cancel": object;
  readonly "prompts/get": UpstreamPromptResult;
  readonly "resources/read": ResourceResult;
  readonly "completion/complete": UpstreamCompletion;
}

/** The caller behind a request, as far as an upstream may know it. */
export interface UpstreamCaller {
  readonly signal?: CancelSignal | undefined;
  /** Default: the limit `upstreamCallMs`. */
  readonly timeoutMs?: number;
  /** The capabilities of its client; by default a modern server gets those of the connection. */
  readonly capabilities?: JsonObject;
  readonly trace?: TraceContext | undefined;
  /** Answers questions; undefined if the caller cannot be asked. */
  readonly ask?: Ask | undefined;
  readonly onLog?: ((params: JsonObject) => void) | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** How to handle a task in place of the result; by default its end is awaited. */
  readonly tasks?: TaskUse | undefined;
}

/**
 * An upstream that many callers share, over one connection per era. It attributes questions and log lines to callers as
 * far as possible, and knows the server's current contract.
 *
 * This folder is the only place that speaks MCP as a client. It knows launcher URIs and child processes, but nothing of
 * what Berth itself serves, and imports only leaves, so that it can be bundled as one file. A call acquires the
 * connection here (supervisor.ts keeps it running) and goes through connection.ts and rpc-channel.ts to a transport; its
 * answer, or the reason why the connection ended, returns as the call's promise.
 */
export class Upstream {
  readonly launch: Launch;
  readonly #options: UpstreamOptions;
  readonly #supervisor: Supervisor;
  readonly #attributed: AttributedCalls;
  readonly #calls = new CallsInProgress<UpstreamCaller>();
  readonly #tasks: FollowedTasks;
  /** Failed subscriptions: their log lines or changes do not arrive. */
  #failedSubscriptions: readonly Problem[] = [];
  /** Requests failed lists again while the server runs. Calls do not wait for it. */
  #retry: Timer | undefined;
  #retryMs = 0;
  #stderr = "";
  #tools: readonly ToolContract[] = [];
  readonly #deviations = new Map<string, number>();
  /**
   * The same server in the legacy era, for legacy clients that can be asked: only there can a server ask in the middle
   * of a call, as many servers of both eras do.
   */
  #legacy: Upstream | undefined;
  /** False if the server may also support the legacy era. */
  #hasOneEra = false;
  #redacted: { readonly original: ServerInfo; readonly redacted: ServerInfo } | undefined;
  readonly #relisting = new Relisting(() => this.#relist());

  constructor(launch: Launch, options: UpstreamOptions) {
    this.launch = launch;
    this.#options = options;
    this.#attributed = new AttributedCalls(bounds.upstreamQuestionMs);
    this.#supervisor = new Supervisor({
      name: launch.name,
      limits: options.limits,
      open: (signal) => this.#connect(signal),
      acquireSlot: options.takePlace,
      onOpen: (connection) => this.#opened(connection),
      onLost: (closed) => this.#lost(closed),
      onFailed: (error) => this.#failed(error),
    });
    this.#tasks = new FollowedTasks(this.#supervisor, (error) => this.#toCallerError(error));
  }

  get health(): UpstreamHealth {
    const [own, legacy] = [this.#supervisor.health, this.#legacy?.health];
    const { server, ...health } = own.state === "idle" && legacy?.state === "running" ? legacy : own;
    const requests = own.requests + (legacy?.requests ?? 0);
    const deviations = Array.from(this.#deviations, ([habit, count]) => ({ what: habit, count }));
    return {
      ...health,
      requests,
      ...(server && { server: this.#redactServer(server) }),
      ...(deviations.length > 0 && { deviations }),
    };
  }

  /** The end of its stderr before it last ended or failed to start, for principals that may change its entry. */
  get stderr(): string {
    return this.#stderr;
  }

  /** The time of the last use, on the clock of `performance.now()`. */
  get usedAt(): number {
    return Math.max(this.#supervisor.usedAt, this.#legacy?.usedAt ?? 0);
  }

  /** Ends it if it is idle; it is started again on demand. Undefined if there is nothing to end. */
  rest(): Promise<unknown> | undefined {
    const [own, legacy] = [this.#supervisor.stopIfIdle(), this.#legacy?.rest()];
    return own && legacy ? Promise.all([own, legacy]) : (own ?? legacy);
  }

  /** Restarts it for the next caller, with the current values of variables. */
  renew(): void {
    this.#supervisor.renew();
    this.#legacy?.renew();
  }

  async start(): Promise<void> {
    (await this.#supervisor.acquire()).succeeded();
  }

  /** Sends a request over the connection, which is opened if there is none. */
  async request<Request extends UpstreamRequest>(
    request: Request,
    caller: UpstreamCaller,
  ): Promise<UpstreamResults[Request["method"]]> {
    if (request.method === "tasks/cancel") {
      await this.#tasks.cancel(request.task, (connection) => followingOptions(caller, connection));
      return {} as UpstreamResults[Request["method"]];
    }
    if (request.method === "tools/call" && request.task) {
      const { name, task } = request;
      return (await this.#follow(name, task, caller, undefined)) as UpstreamResults[Request["method"]];
    }
    if (request.isLegacy && caller.ask && !this.#hasOneEra && !this.launch.era) {
      const legacy = await this.#legacyUpstream();
      if (legacy) return legacy.request(request, caller);
    }
    let following: Promise<ToolResult>;
    for (let tries = 1; ; tries++) {
      try {
        const { result, acquired } = await this.#requestOnce(request, caller);
        if (!(result instanceof CreatedTask)) return result as UpstreamResults[Request["method"]];
        caller.tasks?.onTask?.(result.task);
        following = this.#follow(toolOf(request), result.task, caller, acquired);
        break;
      } catch (error) {
        if (!(error instanceof UpstreamError) || error.code !== "upstream_ended" || error.data?.["isLost"]) throw error;
        const isSafe = error.isUndone || request.method !== "tools/call";
        if (isSafe && tries < TRIES_MAX && !caller.signal?.aborted) continue;
        throw isSafe ? error : this.#answerLost(error, toolOf(request));
      }
    }
    return (await following) as UpstreamResults[Request["method"]];
  }

  /** The effects of the call are unknown, so the caller decides whether to repeat it. */
  #answerLost(error: UpstreamError, tool: string): UpstreamError {
    const { readOnlyHint, idempotentHint } = this.#tools.find(({ name }) => name === tool)?.annotations ?? {};
    const retriable = readOnlyHint === true || idempotentHint === true;
    const detail = `${error.detail}; the call ${retriable ? "may be repeated" : "may have taken effect"}`;
    const { stderr } = error;
    return new UpstreamError("answer_lost", detail, { data: { retriable }, cause: error, stderr });
  }

  /** Releases the connection with the result, unless that is a task. */
  async #requestOnce(
    request: Exclude<UpstreamRequest, { method: "tasks/cancel" }>,
    caller: UpstreamCaller,
  ): Promise<{ readonly result: Awaited<ReturnType<typeof send>>; readonly acquired: AcquiredConnection }> {
    // The contract is being refreshed: calls wait.
    if (this.#relisting.pending) await this.#relisting.pending;
    const acquired = await this.#supervisor.acquire();
    const { connection } = acquired;
    this.#calls.add(caller);
    let open = 0;
    let hasEnded = false;
    // While its questions are open, a modern server does no work for a call, so no log line belongs to it.
    const ask: Ask | undefined =
      caller.ask &&
      (async (question, signal) => {
        if (open++ === 0) this.#calls.remove(caller);
        const answer = await caller.ask!(question, signal);
        if (--open === 0 && !hasEnded) this.#calls.add(caller);
        return answer;
      });
    let leave: ((hasSucceeded: boolean) => void) | undefined;
    try {
      if (connection.era === "legacy") leave = await this.#attributed.enter(toolOf(request), caller.ask);
      this.#options.check?.(request);
      const options = toCallOptions(request, caller, connection.era, leave ? undefined : ask);
      const result = await send(connection, request, options);
      // Questions of a task name the task, so other calls need not wait.
      const isTask = result instanceof CreatedTask;
      leave?.(!isTask);
      if (!isTask) acquired.succeeded();
      return { result, acquired };
    } catch (error) {
      leave?.(false);
      throw acquired.failed(this.#toCallerError(error));
    } finally {
      hasEnded = true;
      this.#calls.remove(caller);
    }
  }

  #follow(
    name: string,
    task: TaskOfUpstream,
    caller: UpstreamCaller,
    first: AcquiredConnection | undefined,
  ): Promise<ToolResult> {
    const { ask, signal } = caller;
    const optionsFor = (connection: UpstreamConnection): UpstreamCallOptions => followingOptions(caller, connection);
    return this.#tasks.follow(task, { what: `calling ${name}`, ask, signal, first, optionsFor });
  }

  /**
   * Ends it immediately, with everything in progress; the next request starts it again. `reason` completes "the server
   * …".
   */
  async cut(reason: string): Promise<void> {
    await Promise.all([this.#supervisor.cut(reason), this.#legacy?.cut(reason)]);
  }

  async close(): Promise<void> {
    this.#retry?.clear();
    await Promise.all([this.#supervisor.close(), this.#legacy?.close()]);
  }

  /** The server in the legacy era, started if necessary; undefined if it supports only the modern one. */
  async #legacyUpstream(): Promise<Upstream | undefined> {
    if (this.#legacy?.health.state === "running") return this.#legacy;
    // While it is in use, it is not ended to free a slot for the other.
    const acquired = await this.#supervisor.acquire();
    try {
      if (this.#hasOneEra) return undefined;
      const ignore = (): void => {};
      const only = { onContract: () => Promise.resolve(), onResourceUpdated: ignore, onError: ignore };
      const legacy = (this.#legacy ??= new Upstream({ ...this.launch, era: "legacy" }, { ...this.#options, ...only }));
      if (await settlesWithin(bounds.upstreamLegacyMs, legacy.start()).catch(() => false)) return legacy;
      // Without a free slot, it was not tried.
      this.#hasOneEra = legacy.health.state !== "idle";
      return undefined;
    } finally {
      acquired.succeeded();
    }
  }

  async #connect(signal: AbortSignal): Promise<UpstreamConnection> {
    const { variables, hide: _hide, hideWhole: _hideWhole, takePlace: _takePlace, ...options } = this.#options;
    try {
      return await connectUpstream(this.launch, {
        ...options,
        ...(variables && { variable: await variables() }),
        capabilities: options.capabilities ?? hostedCapabilities,
        ask: (question, signal) => this.#answerTo(question, signal),
        onNotification: (method, params) => this.#onNotification(method, params),
        onDeviation: (deviation) => this.#deviated(deviation),
        signal,
      });
    } catch (error) {
      throw this.#toCallerError(error instanceof Error ? withoutPaths(error) : error);
    }
  }

  /**
   * A legacy server learns its clients' capabilities once, and may ask when no caller has them. If a caller has no
   * roots, an empty list lets servers that ask in each call continue; an error would make them fail. Outside of a call,
   * an error makes them ask again within one, where the caller may have roots.
   */
  async #answerTo(question: UpstreamQuestion, signal?: CancelSignal): Promise<JsonObject> {
    try {
      return await (this.#tasks.ask(question, signal) ?? this.#attributed.ask(question, signal));
    } catch (error) {
      const { code, isOfNoCall } = error as { readonly code?: unknown; readonly isOfNoCall?: boolean };
      if (question.method !== "roots/list" || code !== METHOD_NOT_FOUND || isOfNoCall) throw error;
      return { roots: [] };
    }
  }

  /** Lists its offers again soon: something that it sent shows that they have changed. */
  hasChanged(): void {
    this.#relisting.hasChanged();
  }

  async #opened(connection: UpstreamConnection): Promise<void> {
    this.#hasOneEra = connection.era === "legacy";
    try {
      const subscribing = subscribe(connection, this.#options.limits.upstreamCallMs);
      const failed = await within(SUBSCRIBE_WAIT_MS, subscribing);
      this.#failedSubscriptions = failed ?? [];
      if (!failed) this.#relistAfter(subscribing).catch(() => {});
      await this.#report(await this.#observe(connection));
    } catch (error) {
      throw this.#toCallerError(error);
    }
  }

  /** Lists again once a late subscription has begun or failed: earlier changes were not reported. */
  async #relistAfter(subscribing: Promise<readonly Problem[]>): Promise<void> {
    this.#failedSubscriptions = await subscribing;
    this.#relisting.hasChanged();
  }

  /** A lack of descriptors on this machine is not the fault of the server or its entry. */
  #toCallerError(error: unknown): unknown {
    const hidden = hideInError(error, this.#options.hide);
    return isDescriptorShortage(hidden) ? noDescriptors(hidden) : hidden;
  }

  #redactServer(server: ServerInfo): ServerInfo {
    const { hide } = this.#options;
    if (!hide) return server;
    if (this.#redacted?.original.name !== server.name || this.#redacted.original.version !== server.version) {
      this.#redacted = {
        original: server,
        redacted: { name: hide(server.name) as string, version: hide(server.version) as string },
      };
    }
    return this.#redacted.redacted;
  }

  async #observe(connection: UpstreamConnection): Promise<Observed> {
    const { hideWhole } = this.#options;
    const observed = await observe(connection, this.#failedSubscriptions);
    return hideWhole ? hideInOffers(observed, hideWhole) : observed;
  }

  async #report(observed: Observed): Promise<void> {
    this.#tools = observed.contract.tools;
    await this.#options.onContract(observed);
    this.#stderr = "";
    this.#retry?.clear();
    const mayRecover = observed.failed.some(({ error }) => !isUnknownMethod(error));
    this.#retryMs = mayRecover ? Math.min(Math.max(this.#retryMs * 2, RETRY_MS), RETRY_MS_MAX) : 0;
    if (mayRecover) this.#retry = clock.after(this.#retryMs, () => void this.#relist()).unref();
  }

  #deviated(deviation: string): void {
    const text = (this.#options.hide?.(deviation) ?? deviation) as string;
    const count = this.#deviations.get(text);
    if (count !== undefined || this.#deviations.size < DEVIATIONS_MAX) this.#deviations.set(text, (count ?? 0) + 1);
  }

  #lost(closed: Closed): void {
    const { hide } = this.#options;
    const redacted = hide
      ? { ...closed, reason: hide(closed.reason) as string, stderr: hide(closed.stderr) as string }
      : closed;
    this.#stderr = redacted.stderr;
    this.#options.onLost(redacted);
  }

  #failed(error: unknown): void {
    if (error instanceof UpstreamError && error.stderr !== "") this.#stderr = error.stderr;
    this.#options.onError(error);
  }

  #onNotification(method: string, params: JsonObject): void {
    switch (method) {
      case "notifications/tools/list_changed":
      case "notifications/resources/list_changed":
      case "notifications/prompts/list_changed":
        this.#relisting.hasChanged();
        return;
      case "notifications/tasks/status":
        return this.#tasks.onStatus(params);
      case "notifications/resources/updated":
        if (typeof params["uri"] === "string") this.#options.onResourceUpdated(params["uri"]);
        return;
      case "notifications/message": {
        // A line does not name its call, so it is dropped if several are in progress.
        if (countValues(params, LOG_VALUES_MAX) > LOG_VALUES_MAX) return;
        this.#calls.only?.onLog?.((this.#options.hide?.(params) ?? params) as JsonObject);
      }
    }
  }

  async #relist(): Promise<{ bytes: number }> {
    let bytes = 0;
    const listed = this.#supervisor.peek(async (connection) => {
      try {
        const observed = await this.#observe(connection);
        ({ bytes } = observed);
        await this.#report(observed);
      } catch (error) {
        // Its new contract is unknown, so nothing of it may be called; the next start lists again.
        await connection.close();
        throw error;
      }
    });
    await listed.catch((error: unknown) => this.#failed(error));
    return { bytes };
  }
}

/** A request whose answer was lost is repeated once. */
const TRIES_MAX = 2;
/** Deviations that are counted for one upstream. */
const DEVIATIONS_MAX = 20;

/** The called tool, to learn which tools ask. */
function toolOf(request: UpstreamRequest): string {
  return request.method === "tools/call" ? request.name : "";
}

function send(
  connection: UpstreamConnection,
  request: Exclude<UpstreamRequest, { method: "tasks/cancel" }>,
  options: UpstreamCallOptions,
): Promise<UpstreamResults[UpstreamRequest["method"]] | CreatedTask> {
  switch (request.method) {
    case "tools/call":
      return connection.beginTool(request.name, request.args, options);
    case "prompts/get":
      return connection.getPrompt(request.name, request.args, options);
    case "resources/read":
      return connection.readResource(request.uri, options);
    case "completion/complete":
      return connection.complete(request.params, options);
  }
}

function toCallOptions(
  { meta }: Pick<UpstreamRequest, "meta">,
  { signal, timeoutMs, capabilities, trace, onLog, onProgress, tasks }: UpstreamCaller,
  era: Peer["era"],
  ask: Ask | undefined,
): UpstreamCallOptions {
  // Declares the caller's capabilities to a modern upstream. A legacy one got those of the connection.
  const declared = era === "modern" ? capabilities : undefined;
  const options = { signal, timeoutMs, onProgress, ask, tasks };
  if (!meta && !trace && !onLog && !declared) return options;
  const logLevel = onLog && { [LOG_LEVEL]: "debug" };
  const clientCapabilities = declared && { [CLIENT_CAPABILITIES]: relayedCapabilities(declared) };
  return { ...options, meta: { ...meta, ...trace, ...logLevel, ...clientCapabilities } };
}

/** Options for requests about a task, which only describe its caller. */
function followingOptions(
  { signal, capabilities, trace, ask, tasks }: UpstreamCaller,
  { era }: UpstreamConnection,
): UpstreamCallOptions {
  return toCallOptions({}, { signal, trace, tasks, ...(capabilities && { capabilities }) }, era, ask);
}

/** A client's capabilities that concern questions, or that are passed through. */
function relayedCapabilities(client: JsonObject): JsonObject {
  const { elicitation, sampling, roots } = client;
  const extensions = relayedExtensions(client);
  const modes = ["form", "url"].filter((mode) => isObject(elicitation) && isObject(elicitation[mode]));
  return {
    ...(isObject(elicitation) && { elicitation: Object.fromEntries(modes.map((mode) => [mode, {}])) }),
    ...(isObject(sampling) && { sampling: {} }),
    ...(isObject(roots) && { roots: {} }),
    ...(extensions && { extensions }),
  };
}

/** 2026-07-28 `server/utilities/logging`: the lowest level that a request wants to receive. */
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";

/** JSON-RPC code: the caller cannot be asked, or lacks the capability. */
const METHOD_NOT_FOUND = -32601;

/** Members and items of a log line; larger lines are dropped. */
const LOG_VALUES_MAX = 10_000;

/** Removes hidden values from an error and its causes: from messages, stacks, data and stderr. */
function hideInError(error: unknown, hide: ((value: Json) => Json) | undefined): unknown {
  if (!hide) return error;
  const hidden = (text: string): string => hide(text) as string;
  for (const each of errorChain(error)) {
    each.message = hidden(each.message);
    if (each.stack !== undefined) each.stack = hidden(each.stack);
    if ("stderr" in each && typeof each.stderr === "string") Object.assign(each, { stderr: hidden(each.stderr) });
    if (each instanceof BerthError && each.data) Object.assign(each, { data: hide(plain(each.data)) });
  }
  return error;
}

function plain(data: Readonly<Record<string, unknown>>): Json {
  return JSON.parse(JSON.stringify(data)) as Json;
}

/** How long a start waits for a subscription: a server that acknowledges none is used anyway. */
const SUBSCRIBE_WAIT_MS = 500;

/** With exponential backoff. */
const RETRY_MS = 5_000;
const RETRY_MS_MAX = 300_000;

/** Changes within this time are handled together. */
const DEBOUNCE_MS = 50;
/** The cost of one listing and of each MiB listed, as time until the next: no server may use more than a fair share. */
const LISTING_MS = 2_000;
const MS_PER_MIB = 8_000;
/** The credit after an idle period. */
const CREDIT_MS = 20_000;
const MIB = 1024 * 1024;

/** Lists again after changes, one listing at a time. */
export class Relisting {
  /** Pending from a change until it was listed; undefined if nothing is pending. */
  pending: Promise<void> | undefined;
  readonly #list: () => Promise<{ readonly bytes: number }>;
  #isDue = false;
  /** The time until which all listings so far are paid for, on the clock of `performance.now()`. */
  #owedUntil = 0;

  /** `list` must not reject, and resolves with the size of what it listed. */
  constructor(list: () => Promise<{ readonly bytes: number }>) {
    this.#list = list;
  }

  hasChanged(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    const listing = (this.pending ?? Promise.resolve()).then(() => this.#listSoon());
    this.pending = listing;
    void listing.finally(() => {
      if (this.pending === listing) this.pending = undefined;
    });
  }

  async #listSoon(): Promise<void> {
    const wait = Math.max(DEBOUNCE_MS, this.#owedUntil - CREDIT_MS - performance.now());
    await new Promise<void>((resolve) => setTimeout(resolve, wait).unref());
    this.#isDue = false;
    const { bytes } = await this.#list();
    this.#owedUntil = Math.max(this.#owedUntil, performance.now()) + LISTING_MS + (bytes * MS_PER_MIB) / MIB;
  }
}
