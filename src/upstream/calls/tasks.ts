import type { CancelSignal } from "../../lib/cancellation.ts";
import { cutText } from "../../lib/cut-text.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type JsonObject } from "../../lib/json.ts";
import { fixed } from "../../limits/fixed.ts";
import type { LongReader } from "../messages/long-answers.ts";
import type { RequestOptions, RequestParams, TaskOfUpstream, UpstreamCallOptions } from "../messages/request.ts";
import {
  LongAnswer,
  asks,
  broken,
  isText,
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
 * 2025-11-25 `basic/utilities/tasks`, where the client asks for one). Whoever follows a task looks at it again and
 * again, answers its questions, and has its result in the end, as if the call had taken so long.
 */

/** The answer to a call that has become a task. */
export class CreatedTask {
  readonly task: TaskOfUpstream;

  constructor(task: TaskOfUpstream) {
    this.task = task;
  }
}

/** The shortest interval between two polls of a task, whatever its upstream advises. */
const bounds = fixed({ upstreamTaskPollMs: 500 });

/** The longest one. */
const TASK_POLL_MAX_MS = 60_000;
/** The id that an upstream gives to a task. */
const TASK_ID_BYTES = 1_024;

/** True for the result of a call that has become a task, in either era. */
export function isTask(result: AnyResult, era: Peer["era"]): result is UpstreamResult {
  if (result instanceof LongAnswer) return false;
  return era === "modern" ? fieldOf(result, "resultType") === "task" : isObject(fieldOf(result, "task"));
}

function fieldOf(result: object, name: string): unknown {
  return (result as UpstreamResult)[name];
}

/** Reads the result of a call that has become a task; `program` identifies the program that has it. */
export function readCreatedTask(
  what: string,
  result: UpstreamResult,
  { era, program }: { readonly era: Peer["era"]; readonly program: string | undefined },
): TaskOfUpstream {
  const said = (era === "modern" ? result : result["task"]) as UpstreamResult;
  const { taskId, createdAt } = said;
  if (!isText(taskId) || taskId === "") throw broken(what, "its task has no taskId");
  if (Buffer.byteLength(taskId) > TASK_ID_BYTES) {
    throw broken(what, `the taskId of its task has more than ${TASK_ID_BYTES} bytes`);
  }
  return {
    id: taskId,
    ...(isText(createdAt) && createdAt.length <= TIME_UNITS_MAX && { createdAt }),
    pollMs: pollMsOf(said, DEFAULT_POLL_MS),
    ...(program !== undefined && { program }),
  };
}

/** A time of ISO 8601; anything longer is none. */
const TIME_UNITS_MAX = 64;
const DEFAULT_POLL_MS = 1_000;

function pollMsOf({ pollIntervalMs, pollInterval }: UpstreamResult, otherwise: number): number {
  const advised = pollIntervalMs ?? pollInterval;
  const ms = typeof advised === "number" && Number.isFinite(advised) ? Math.ceil(advised) : otherwise;
  return Math.min(Math.max(ms, bounds.upstreamTaskPollMs), TASK_POLL_MAX_MS);
}

const CANCELLED = "The upstream cancelled it";

/** The connection over which a task is followed. */
export interface TaskPeer extends Pick<Peer, "era"> {
  readonly questions: Pick<Questions, "answerAll">;
  readonly long: LongReader | undefined;
  /** Sends a request about tasks, which says that its sender knows them. */
  send(method: string, params: RequestParams, what: string, options: RequestOptions): Promise<AnyResult>;
}

/** The end of a task: the result of its call, or the error that it ended with. */
export type TaskEnd = { readonly result: ToolResult } | { readonly error: BerthError };

/**
 * One task as it is followed, over as many connections as that takes. Whatever the upstream says of it is hostile until
 * checked.
 */
export class FollowedTask {
  readonly task: TaskOfUpstream;
  readonly what: string;
  /** When the upstream last answered about it, on the clock of `performance.now()`. */
  heardAt = performance.now();
  #pollMs: number;
  #isNew: boolean;
  #lookedAt = -Infinity;
  #said: string | undefined;
  #rounds = 0;
  /** The names of the questions that were answered: an upstream may go on to show them for a while. */
  readonly #answered = new Set<string>();
  #wake: (() => void) | undefined;

  /** `what` names the action in errors: "calling echo". `isNew`: it was created a moment ago. */
  constructor(task: TaskOfUpstream, what: string, isNew: boolean) {
    this.task = task;
    this.what = what;
    this.#pollMs = task.pollMs;
    this.#isNew = isNew;
  }

  /** Looks at it soon: something may have changed. */
  wake(): void {
    this.#wake?.();
  }

  /**
   * Follows it over this connection to its end. Rejects when the upstream gives no answer about it, or says something that
   * no task may say; and with `cancelled` when `signal` is aborted, of which the upstream is told.
   */
  async over(peer: TaskPeer, options: UpstreamCallOptions): Promise<TaskEnd> {
    try {
      for (;;) {
        if (this.#isNew) await this.#pause(options.signal);
        this.#isNew = true;
        if (options.signal?.aborted) throw new BerthError("cancelled", this.what);
        const end = await this.#look(peer, options);
        if (end) return end;
      }
    } catch (error) {
      if (options.signal?.aborted && options.tasks?.isLeft?.() !== true) await this.cancel(peer);
      throw error;
    }
  }

  /** Tells the upstream that nobody waits for it any more. */
  async cancel(peer: TaskPeer): Promise<void> {
    await peer.send("tasks/cancel", { taskId: this.task.id }, `cancelling its task`, {}).catch(() => {});
  }

  async #look(peer: TaskPeer, options: UpstreamCallOptions): Promise<TaskEnd | undefined> {
    const { what, task } = this;
    this.#lookedAt = performance.now();
    const { signal, tasks } = options;
    const request = { ...(signal && { signal }) };
    const answer = await this.#asked(() => peer.send("tasks/get", { taskId: task.id }, what, request));
    const { detail, result } = await detailIn(peer, what, answer);
    this.#check(detail);
    this.heardAt = performance.now();
    this.#pollMs = pollMsOf(detail, task.pollMs);
    const { status, statusMessage, error } = detail;
    const message = isText(statusMessage) ? statusMessage : undefined;
    switch (status) {
      case "working":
        this.#tell(message, tasks?.onStatus);
        return undefined;
      case "input_required":
        this.#tell(message, tasks?.onStatus);
        if (peer.era === "legacy") return this.#legacyResult(peer, options);
        await this.#answer(peer, detail["inputRequests"], options);
        return undefined;
      case "completed":
        if (peer.era === "legacy") return this.#legacyResult(peer, options);
        if (!result) throw broken(what, "its task is completed and has no result");
        return { result };
      case "failed":
        if (peer.era === "legacy") return this.#legacyResult(peer, options);
        return { error: endedWith(what, isObject(error) ? error : { message }) };
      case "cancelled":
        // The detail is the upstream's own reason.
        return { error: new UpstreamError("cancelled", cutText(message ?? CANCELLED, errorBounds.upstreamErrorBytes)) };
      default:
        throw broken(what, `its task has the unknown status ${shown(status)}`);
    }
  }

  /** Refuses what is said of another task: an id may have been given to another one since. */
  #check({ taskId, createdAt }: UpstreamResult): void {
    const { task, what } = this;
    if (taskId !== task.id) throw broken(what, "it was asked about its task, and answered about another one");
    if (task.createdAt === undefined || isSameTime(task.createdAt, createdAt)) return;
    throw lostThere(what, "its task has another time of creation than before, and is not the same one");
  }

  #tell(message: string | undefined, onStatus: ((message: string) => void) | undefined): void {
    if (message === undefined || message === this.#said) return;
    this.#said = message;
    onStatus?.(message);
  }

  /** Answers the questions that are new (SEP-2663 `tasks/update`). */
  async #answer(peer: TaskPeer, asked: unknown, { ask, signal }: UpstreamCallOptions): Promise<void> {
    const { what, task } = this;
    const open = Object.entries(isObject(asked) ? asked : {}).filter(([name]) => !this.#answered.has(name));
    if (open.length === 0) return;
    if (this.#rounds >= questionBounds.upstreamRounds) {
      throw broken(what, `its task asked in more than ${this.#rounds} rounds`);
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
    this.heardAt = performance.now();
  }

  /** The result itself, which a legacy server holds back until its task is over; its questions come meanwhile. */
  async #legacyResult(peer: TaskPeer, { signal }: UpstreamCallOptions): Promise<TaskEnd> {
    const { what, task } = this;
    const options = { timeoutMs: Infinity, ...(signal && { signal }) };
    try {
      const result = await peer.send("tasks/result", { taskId: task.id }, what, options);
      this.heardAt = performance.now();
      if (result instanceof LongAnswer) return { result: await peer.long!.toolResult(what, result) };
      return { result: readEnd(what, shortResult(what, result)) };
    } catch (error) {
      const { rpc, message, data } = (error instanceof UpstreamError && error.data) || {};
      if (typeof rpc !== "number") throw error;
      return { error: endedWith(what, { code: rpc, message, data }) };
    }
  }

  /** Says clearly that the upstream knows no such task any more. */
  async #asked<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof UpstreamError) || error.data?.["rpc"] !== INVALID_PARAMS) throw error;
      throw lostThere(this.what, `it no longer knows its task: ${String(error.data["message"])}`, error);
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
      // However often it is woken, it looks no more often than it may.
      this.#wake = () => {
        this.#wake = undefined;
        clearTimeout(timer);
        endIn(Math.max(0, this.#lookedAt + bounds.upstreamTaskPollMs - performance.now()));
      };
      endIn(this.#pollMs);
      if (signal?.aborted) end();
      else signal?.addEventListener("abort", end);
    });
  }
}

/** However the two are written. */
function isSameTime(one: string, other: unknown): boolean {
  return one === other || (isText(other) && Math.abs(Date.parse(one) - Date.parse(other)) < SECOND_MS);
}

const SECOND_MS = 1_000;

/** Rejects with `cancelled` as soon as nobody waits any more: a question may stay open for ever. */
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

/** True for an error after which the task may still go on: the upstream gave no answer about it, or none that counts. */
export function mayGoOn(error: unknown): boolean {
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
      return status !== undefined || (rpc !== undefined && !KNOWS_NO_TASKS.has(rpc));
    }
    default:
      return false;
  }
}

/** Unknown method; missing capability. */
const KNOWS_NO_TASKS: ReadonlySet<unknown> = new Set([-32601, -32021]);

/** True for an error that says that the task is gone. */
export function isLost(error: unknown): boolean {
  return error instanceof BerthError && error.data?.["isLost"] === true;
}

/** The upstream is there, and the task is not. */
function lostThere(what: string, detail: string, cause?: unknown): UpstreamError {
  return new UpstreamError("upstream_ended", `${what}: ${detail}. Its work may have been done, wholly or in part`, {
    data: { retriable: false, isLost: true },
    cause,
  });
}

const INVALID_PARAMS = -32602;
const INTERNAL_ERROR = -32603;

/** The error that a task ended with, in the upstream's words. */
function endedWith(what: string, { code, message, data }: Record<string, unknown>): UpstreamError {
  const error = refusedByServer(what, {
    code: typeof code === "number" ? code : INTERNAL_ERROR,
    message: isText(message) ? message : "it does not say why",
    data,
  });
  return new UpstreamError("upstream_refused", error.detail, { data: { ...error.data, isOfTask: true } });
}

/** The detail of a task, without the result that may be in it. */
async function detailIn(
  { long, era }: TaskPeer,
  what: string,
  answer: AnyResult,
): Promise<{ readonly detail: UpstreamResult; readonly result: ToolResult | undefined }> {
  if (answer instanceof LongAnswer) return long!.taskResult(what, answer);
  const { result, ...detail } = shortResult(what, answer);
  if (era === "legacy" || detail["status"] !== "completed" || !isObject(result)) return { detail, result: undefined };
  return { detail, result: readEnd(what, result) };
}

/** The result in which a task ended; it can neither ask nor be another task. */
export function readEnd(what: string, result: UpstreamResult): ToolResult {
  const { resultType = "complete" } = result;
  if (asks(result) || resultType !== "complete") {
    throw broken(what, `its task ended with a result of the type ${shown(resultType)}`);
  }
  return readToolResult(what, result);
}

const SHOWN_UNITS_MAX = 64;

function shown(value: unknown): string {
  return cutText(JSON.stringify(value) ?? "undefined", SHOWN_UNITS_MAX);
}

/** The metadata by which a legacy server names the task that a question belongs to; undefined without it. */
export function relatedTask({ _meta }: JsonObject): string | undefined {
  const related = isObject(_meta) ? _meta[RELATED_TASK] : undefined;
  const id = isObject(related) ? related["taskId"] : undefined;
  return isText(id) ? id : undefined;
}

/** The parameters of a question without the metadata above. */
export function withoutRelatedTask(params: JsonObject): JsonObject {
  const { _meta, ...rest } = params;
  if (!isObject(_meta)) return params;
  const { [RELATED_TASK]: _related, ...meta } = _meta;
  return { ...rest, ...(Object.keys(meta).length > 0 && { _meta: meta }) };
}

const RELATED_TASK = "io.modelcontextprotocol/related-task";
