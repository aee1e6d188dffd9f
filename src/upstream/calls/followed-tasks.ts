import { pause, type CancelSignal } from "../../lib/cancellation.ts";
import type { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Ask, TaskOfUpstream, UpstreamCallOptions, UpstreamQuestion } from "../messages/request.ts";
import { protocolError, type ToolResult } from "../messages/results.ts";
import { UpstreamError } from "../messages/upstream-error.ts";
import type { UpstreamConnection } from "./connection.ts";
import type { AcquiredConnection, Supervisor } from "./supervisor.ts";
import { FollowedTask, isLost, mayContinue, relatedTask, withoutRelatedTask } from "./tasks.ts";

type OptionsFor = (connection: UpstreamConnection) => UpstreamCallOptions;

/** How long an upstream may fail to answer about a task of its own before the task counts as lost. */
const bounds = fixed({ upstreamTaskAwayMs: 600_000 });

/**
 * The tasks of one upstream that are followed here. A task of a remote upstream continues without a connection; a task
 * of a program ends with the program.
 */
export class FollowedTasks {
  readonly #supervisor: Pick<Supervisor, "acquire" | "peek">;
  readonly #toCallerError: (error: unknown) => unknown;
  readonly #followed = new Map<string, { readonly task: FollowedTask; readonly ask: Ask | undefined }>();

  /** `toCallerError` prepares an error for callers. */
  constructor(supervisor: Pick<Supervisor, "acquire" | "peek">, toCallerError: (error: unknown) => unknown) {
    this.#supervisor = supervisor;
    this.#toCallerError = toCallerError;
  }

  /** Follows a task that was created over `first`, which is released at the end; without `first`, an earlier task. */
  async follow(upstreamTask: TaskOfUpstream, { what, ask, signal, first, optionsFor }: Following): Promise<ToolResult> {
    if (first && this.#followed.has(upstreamTask.id)) {
      throw first.failed(
        this.#toCallerError(protocolError(what, "it gave its task the id of another task in progress")),
      );
    }
    const followed = { task: new FollowedTask(upstreamTask, what, first !== undefined), ask };
    this.#followed.set(upstreamTask.id, followed);
    try {
      let acquired = first;
      for (;;) {
        try {
          acquired ??= await this.#acquire(upstreamTask, what);
          return await this.#followOver(acquired, followed.task, optionsFor);
        } catch (error) {
          if (signal?.aborted || !mayContinue(error)) throw error;
          // A task of a program ends with it.
          if (upstreamTask.program !== undefined && (error as BerthError).code === "upstream_ended") throw error;
          const silentMs = performance.now() - followed.task.answeredAt;
          if (silentMs >= bounds.upstreamTaskAwayMs) throw lostError(error as Error, bounds.upstreamTaskAwayMs);
        }
        acquired = undefined;
        await pause(upstreamTask.pollMs, signal);
      }
    } finally {
      if (this.#followed.get(upstreamTask.id) === followed) this.#followed.delete(upstreamTask.id);
    }
  }

  /** Tells the upstream, if it can be reached, that the task is no longer needed. */
  async cancel(upstreamTask: TaskOfUpstream, optionsFor: OptionsFor): Promise<void> {
    const task = new FollowedTask(upstreamTask, "cancelling its task", false);
    if (upstreamTask.program !== undefined) {
      await this.#supervisor.peek(async (connection) => {
        if (connection.id === upstreamTask.program) await connection.cancelTask(task, optionsFor(connection));
      });
      return;
    }
    const acquired = await this.#supervisor.acquire();
    await acquired.connection.cancelTask(task, optionsFor(acquired.connection));
    acquired.succeeded();
  }

  /** Passes a legacy server's question to the task that it names; undefined if that task is not followed here. */
  ask({ method, params }: UpstreamQuestion, signal: CancelSignal | undefined): Promise<JsonObject> | undefined {
    const id = relatedTask(params);
    const followed = id === undefined ? undefined : this.#followed.get(id);
    if (!followed) return undefined;
    if (followed.ask) return followed.ask({ method, params: withoutRelatedTask(params) }, signal);
    const error = new Error("The question cannot be answered: the caller cannot be asked");
    return Promise.reject(Object.assign(error, { code: METHOD_NOT_FOUND }));
  }

  /** The server has sent the status of a task unprompted. */
  onStatus({ taskId }: JsonObject): void {
    if (typeof taskId === "string") this.#followed.get(taskId)?.task.wake();
  }

  async #acquire(upstreamTask: TaskOfUpstream, what: string): Promise<AcquiredConnection> {
    const acquired = await this.#supervisor.acquire();
    if (upstreamTask.program === undefined || acquired.connection.id === upstreamTask.program) return acquired;
    acquired.succeeded();
    throw new UpstreamError("upstream_ended", `${what}: the program that had its task has ended`, {
      data: { retriable: false, isLost: true },
    });
  }

  async #followOver(acquired: AcquiredConnection, task: FollowedTask, optionsFor: OptionsFor): Promise<ToolResult> {
    const { connection } = acquired;
    const options = optionsFor(connection);
    let end;
    try {
      end = await connection.follow(task, options);
    } catch (error) {
      // Its report about the task is unusable, so its outcome will stay unknown.
      if (!options.signal?.aborted && !mayContinue(error) && !isLost(error)) void connection.cancelTask(task, options);
      throw acquired.failed(this.#toCallerError(error));
    }
    acquired.succeeded();
    if ("error" in end) throw this.#toCallerError(end.error);
    return end.result;
  }
}

interface Following {
  /** Names the action in errors. */
  readonly what: string;
  readonly ask: Ask | undefined;
  readonly signal: CancelSignal | undefined;
  readonly first: AcquiredConnection | undefined;
  readonly optionsFor: OptionsFor;
}

/** JSON-RPC code: the caller cannot be asked. */
const METHOD_NOT_FOUND = -32601;

function lostError(error: Error, silentMs: number): UpstreamError {
  const limit = `${silentMs / 1000} s`;
  const detail = `it has not reported on its task for ${limit}, and the outcome is unknown`;
  return new UpstreamError("upstream_ended", detail, { data: { retriable: false, isLost: true }, cause: error });
}
