import type { CancelSignal } from "../../lib/cancellation.ts";
import { cutText } from "../../lib/cut-text.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import { fixed } from "../../limits/fixed.ts";
import type { LongReader } from "../messages/long-answers.ts";
import type { RequestOptions, RequestParams, TaskOfUpstream, UpstreamCallOptions } from "../messages/request.ts";
import {
  LongAnswer,
  isInputRequired,
  protocolError,
  isString,
  readToolResult,
  shortResult,
  type AnyResult,
  type ToolResult,
  type UpstreamResult,
} from "../messages/results.ts";
import { errorBounds, refusedByServer, UpstreamError } from "../messages/upstream-error.ts";
import type { Peer } from "../transport/channel.ts";
import { questionBounds, type Questions } from "../transport/questions.ts";

/**
 * Tasks of upstreams: `tools/call` answered with a task (the extension `io.modelcontextprotocol/tasks`, SEP-2663; and
 * 2025-11-25 `basic/utilities/tasks`, where the client asks for one). A follower polls a task, answers its questions,
 * and gets its result in the end, as if the call had taken that long.
 */

export class CreatedTask {
  readonly task: TaskOfUpstream;

  constructor(task: TaskOfUpstream) {
    this.task = task;
  }
}

/** Minimum interval between two polls of a task, whatever its upstream advises. */
const bounds = fixed({ upstreamTaskPollMs: 500 });

const TASK_POLL_MAX_MS = 60_000;
/** Maximum length of a task id from an upstream. */
const TASK_ID_BYTES = 1_024;

export function isTask(result: AnyResult, era: Peer["era"]): result is UpstreamResult {
  if (result instanceof LongAnswer) return false;
  return era === "modern" ? field(result, "resultType") === "task" : isObject(field(result, "task"));
}

function field(result: object, name: string): unknown {
  return (result as UpstreamResult)[name];
}

/** Reads the result of a call that has become a task; `program` identifies the program that runs it. */
export function readCreatedTask(
  what: string,
  result: UpstreamResult,
  { era, program }: { readonly era: Peer["era"]; readonly program: string | undefined },
): TaskOfUpstream {
  const created = (era === "modern" ? result : result["task"]) as UpstreamResult;
  const { taskId, createdAt } = created;
  if (!isString(taskId) || taskId === "") throw protocolError(what, "its task has no taskId");
  if (Buffer.byteLength(taskId) > TASK_ID_BYTES) {
    throw protocolError(what, `the taskId of its task has more than ${TASK_ID_BYTES} bytes`);
  }
  return {
    id: taskId,
    ...(isString(createdAt) && createdAt.length <= TIME_UNITS_MAX && { createdAt }),
    pollMs: clampPollMs(created, DEFAULT_POLL_MS),
    ...(program !== undefined && { program }),
  };
}

/** A timestamp (ISO 8601); longer ones are ignored. */
const TIME_UNITS_MAX = 64;
const DEFAULT_POLL_MS = 1_000;

function clampPollMs({ pollIntervalMs, pollInterval }: UpstreamResult, fallback: number): number {
  const advised = pollIntervalMs ?? pollInterval;
  const ms = typeof advised === "number" && Number.isFinite(advised) ? Math.ceil(advised) : fallback;
  return Math.min(Math.max(ms, bounds.upstreamTaskPollMs), TASK_POLL_MAX_MS);
}

const CANCELLED = "The upstream cancelled it";

export interface TaskPeer extends Pick<Peer, "era"> {
  readonly questions: Pick<Questions, "answerAll">;
  readonly long: LongReader | undefined;
  /** Sends a request about tasks, which declares support for them. */
  send(method: string, params: RequestParams, what: string, options: RequestOptions): Promise<AnyResult>;
}

/** The end of a task: the result of its call, or the error that it ended with. */
export type TaskEnd = { readonly result: ToolResult } | { readonly error: BerthError };

/**
 * One task that is being followed, over as many connections as that takes. Everything that the upstream reports about
 * it is untrusted until checked.
 */
export class FollowedTask {
  readonly task: TaskOfUpstream;
  readonly what: string;
  /** When the upstream last answered about it, on the clock of `performance.now()`. */
  answeredAt = performance.now();
  #pollMs: number;
  #isNew: boolean;
  #polledAt = -Infinity;
  #lastStatus: string | undefined;
  #rounds = 0;
  /** Names of answered questions: an upstream may keep showing them for a while. */
  readonly #answered = new Set<string>();
  #wake: (() => void) | undefined;

  /** `what` names the action in errors, such as "calling echo". `isNew`: it was just created. */
  constructor(task: TaskOfUpstream, what: string, isNew: boolean) {
    this.task = task;
    this.what = what;
    this.#pollMs = task.pollMs;
    this.#isNew = isNew;
  }

  /** Polls it soon: something may have changed. */
  wake(): void {
    this.#wake?.();
  }

  /**
   * Follows it over this connection to its end. Rejects when the upstream does not answer about it, or reports
   * something invalid; and with `cancelled` when `signal` is aborted, which the upstream is told.
   */
  async follow(peer: TaskPeer, options: UpstreamCallOptions): Promise<TaskEnd> {
    try {
      for (;;) {
        if (this.#isNew) await this.#pause(options.signal);
        this.#isNew = true;
        if (options.signal?.aborted) throw new BerthError("cancelled", this.what);
        const end = await this.#poll(peer, options);
        if (end) return end;
      }
    } catch (error) {
      if (options.signal?.aborted && options.tasks?.isLeft?.() !== true) await this.cancel(peer);
      throw error;
    }
  }

  async cancel(peer: TaskPeer): Promise<void> {
    await peer.send("tasks/cancel", { taskId: this.task.id }, `cancelling its task`, {}).catch(() => {});
  }

  async #poll(peer: TaskPeer, options: UpstreamCallOptions): Promise<TaskEnd | undefined> {
    const { what, task } = this;
    this.#polledAt = performance.now();
    const { signal, tasks } = options;
    const request = { ...(signal && { signal }) };
    const answer = await this.#orLost(() => peer.send("tasks/get", { taskId: task.id }, what, request));
    const { detail, result } = await readDetail(peer, what, answer);
    this.#check(detail);
    this.answeredAt = performance.now();
    this.#pollMs = clampPollMs(detail, task.pollMs);
    const { status, statusMessage, error } = detail;
    const message = isString(statusMessage) ? statusMessage : undefined;
    switch (status) {
      case "working":
        this.#reportStatus(message, tasks?.onStatus);
        return undefined;
      case "input_required":
        this.#reportStatus(message, tasks?.onStatus);
        if (peer.era === "legacy") return this.#legacyResult(peer, options);
        await this.#answer(peer, detail["inputRequests"], options);
        return undefined;
      case "completed":
        if (peer.era === "legacy") return this.#legacyResult(peer, options);
        if (!result) throw protocolError(what, "its task is completed and has no result");
        return { result };
      case "failed":
        if (peer.era === "legacy") return this.#legacyResult(peer, options);
        return { error: taskError(what, isObject(error) ? error : { message }) };
      case "cancelled":
        // The detail is the upstream's own reason.
        return { error: new UpstreamError("cancelled", cutText(message ?? CANCELLED, errorBounds.upstreamErrorBytes)) };
      default:
        throw protocolError(what, `its task has the unknown status ${excerpt(status)}`);
    }
  }

  /** Rejects a report about another task: the id may have been reused. */
  #check({ taskId, createdAt }: UpstreamResult): void {
    const { task, what } = this;
    if (taskId !== task.id) throw protocolError(what, "it was asked about its task, and answered about another one");
    if (task.createdAt === undefined || isSameTime(task.createdAt, createdAt)) return;
    throw taskLost(what, "its task has another creation time than before, so it is not the same one");
  }

  #reportStatus(message: string | undefined, onStatus: ((message: string) => void) | undefined): void {
    if (message === undefined || message === this.#lastStatus) return;
    this.#lastStatus = message;
    onStatus?.(message);
  }

  /** SEP-2663 `tasks/update`. */
  async #answer(peer: TaskPeer, asked: unknown, { ask, signal }: UpstreamCallOptions): Promise<void> {
    const { what, task } = this;
    const open = Object.entries(isObject(asked) ? asked : {}).filter(([name]) => !this.#answered.has(name));
    if (open.length === 0) return;
    if (this.#rounds >= questionBounds.upstreamRounds) {
      throw protocolError(what, `its task asked in more than ${this.#rounds} rounds`);
    }
    this.#rounds += 1;
    const answering = peer.questions.answerAll(Object.fromEntries(open), ask, what, signal);
    const inputResponses = await orAborted(answering, what, signal);
    for (const [name] of open) this.#answered.add(name);
    try {
      await peer.send("tasks/update", { taskId: task.id, inputResponses }, what, { ...(signal && { signal }) });
    } catch (error) {
      // It is asked again when the upstream can be reached again.
      for (const [name] of open) this.#answered.delete(name);
      throw error;
    }
    this.answeredAt = performance.now();
  }

  /**
   * The result itself, which a legacy server withholds until its task is over; its questions arrive in the meantime.
   */
  async #legacyResult(peer: TaskPeer, { signal }: UpstreamCallOptions): Promise<TaskEnd> {
    const { what, task } = this;
    const options = { timeoutMs: Infinity, ...(signal && { signal }) };
    try {
      const result = await peer.send("tasks/result", { taskId: task.id }, what, options);
      this.answeredAt = performance.now();
      if (result instanceof LongAnswer) return { result: await peer.long!.toolResult(what, result) };
      return { result: readTaskResult(what, shortResult(what, result)) };
    } catch (error) {
      const { rpc, message, data } = (error instanceof UpstreamError && error.data) || {};
      if (typeof rpc !== "number") throw error;
      return { error: taskError(what, { code: rpc, message, data }) };
    }
  }

  /** Reports clearly that the upstream no longer knows the task. */
  async #orLost<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof UpstreamError) || error.data?.["rpc"] !== INVALID_PARAMS) throw error;
      throw taskLost(this.what, `it no longer knows its task: ${String(error.data["message"])}`, error);
    }
  }

  async #pause(signal: CancelSignal | undefined): Promise<void> {
    await new Promise<void>((resolve) => {
      let timer: NodeJS.Timeout;
      const end = (): void => {
        clearTimeout(timer);
        this.#wake = undefined;
        signal?.removeEventListener("abort", end);
        resolve();
      };
      const endIn = (ms: number): void => void (timer = setTimeout(end, ms));
      // However often it is woken, it respects the minimum interval.
      this.#wake = () => {
        this.#wake = undefined;
        clearTimeout(timer);
        endIn(Math.max(0, this.#polledAt + bounds.upstreamTaskPollMs - performance.now()));
      };
      endIn(this.#pollMs);
      if (signal?.aborted) end();
      else signal?.addEventListener("abort", end);
    });
  }
}

function isSameTime(one: string, other: unknown): boolean {
  return one === other || (isString(other) && Math.abs(Date.parse(one) - Date.parse(other)) < SECOND_MS);
}

const SECOND_MS = 1_000;

/** Rejects with `cancelled` as soon as the result is no longer needed: a question may stay open forever. */
async function orAborted<T>(work: Promise<T>, what: string, signal: CancelSignal | undefined): Promise<T> {
  if (!signal) return work;
  let stop!: () => void;
  const aborted = new Promise<never>((_, reject) => (stop = () => reject(new BerthError("cancelled", what))));
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop);
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** True for an error after which the task may still continue: the upstream did not answer about it, or not validly. */
export function mayContinue(error: unknown): boolean {
  if (!(error instanceof BerthError)) return false;
  const { code, data = {} } = error;
  switch (code) {
    case "upstream_ended":
    case "upstream_not_started":
    case "upstream_timeout":
    case "upstream_busy":
      return !isLost(error);
    case "upstream_refused": {
      const { rpc, status, isOfTask } = data;
      if (isOfTask === true) return false;
      return status !== undefined || (rpc !== undefined && !TASKS_UNSUPPORTED.has(rpc));
    }
    default:
      return false;
  }
}

/** Unknown method; missing capability. */
const TASKS_UNSUPPORTED: ReadonlySet<unknown> = new Set([-32601, -32021]);

export function isLost(error: unknown): boolean {
  return error instanceof BerthError && error.data?.["isLost"] === true;
}

function taskLost(what: string, detail: string, cause?: unknown): UpstreamError {
  return new UpstreamError("upstream_ended", `${what}: ${detail}. Its work may have been done, wholly or in part`, {
    data: { retriable: false, isLost: true },
    cause,
  });
}

const INVALID_PARAMS = -32602;
const INTERNAL_ERROR = -32603;

/** The error with which a task ended, as the upstream reported it. */
function taskError(what: string, { code, message, data }: Record<string, unknown>): UpstreamError {
  const error = refusedByServer(what, {
    code: typeof code === "number" ? code : INTERNAL_ERROR,
    message: isString(message) ? message : "it does not say why",
    data,
  });
  return new UpstreamError("upstream_refused", error.detail, { data: { ...error.data, isOfTask: true } });
}

/** The detail of a task, separate from the result that may be in it. */
async function readDetail(
  { long, era }: TaskPeer,
  what: string,
  answer: AnyResult,
): Promise<{ readonly detail: UpstreamResult; readonly result: ToolResult | undefined }> {
  if (answer instanceof LongAnswer) return long!.taskResult(what, answer);
  const { result, ...detail } = shortResult(what, answer);
  if (era === "legacy" || detail["status"] !== "completed" || !isObject(result)) return { detail, result: undefined };
  return { detail, result: readTaskResult(what, result) };
}

/** The result in which a task ended; it can neither ask nor be another task. */
export function readTaskResult(what: string, result: UpstreamResult): ToolResult {
  const { resultType = "complete" } = result;
  if (isInputRequired(result) || resultType !== "complete") {
    throw protocolError(what, `its task ended with a result of the type ${excerpt(resultType)}`);
  }
  return readToolResult(what, result);
}

const SHOWN_UNITS_MAX = 64;

function excerpt(value: unknown): string {
  return cutText(JSON.stringify(value) ?? "undefined", SHOWN_UNITS_MAX);
}

/** The task that a legacy server's question names in its metadata; undefined if none. */
export function relatedTask({ _meta }: JsonObject): string | undefined {
  const related = isObject(_meta) ? _meta[RELATED_TASK] : undefined;
  const id = isObject(related) ? related["taskId"] : undefined;
  return isString(id) ? id : undefined;
}

/** The parameters of a question without the metadata above. */
export function withoutRelatedTask(params: JsonObject): JsonObject {
  const { _meta, ...rest } = params;
  if (!isObject(_meta)) return params;
  const { [RELATED_TASK]: _related, ...meta } = _meta;
  return { ...rest, ...(Object.keys(meta).length > 0 && { _meta: meta }) };
}

const RELATED_TASK = "io.modelcontextprotocol/related-task";
