import { pause, type CancelSignal } from "../../lib/cancellation.ts";
import type { BerthError } from "../../lib/errors.ts";
import type { JsonObject } from "../../lib/json.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Ask, TaskOfUpstream, UpstreamCallOptions, UpstreamQuestion } from "../messages/request.ts";
import { broken, type ToolResult } from "../messages/results.ts";
import { UpstreamError } from "../messages/upstream-error.ts";
import type { UpstreamConnection } from "./connection.ts";
import type { AcquiredConnection, Supervisor } from "./supervisor.ts";
import { FollowedTask, isLost, mayGoOn, relatedTask, withoutRelatedTask } from "./tasks.ts";

/** The options of whoever follows a task, for a connection. */
type OptionsFor = (connection: UpstreamConnection) => UpstreamCallOptions;

/** How long an upstream may give no answer about a task of its own before the task counts as lost. */
const bounds = fixed({ upstreamTaskAwayMs: 600_000 });

/**
 * The tasks of one upstream that are followed here. One of an upstream at an address goes on while there is no connection;
 * one of a program ends with it.
 */
export class FollowedTasks {
  readonly #supervisor: Pick<Supervisor, "acquire" | "peek">;
  readonly #tellable: (error: unknown) => unknown;
  readonly #followed = new Map<string, { readonly task: FollowedTask; readonly ask: Ask | undefined }>();

  /** `tellable` makes an error fit for callers. */
  constructor(supervisor: Pick<Supervisor, "acquire" | "peek">, tellable: (error: unknown) => unknown) {
    this.#supervisor = supervisor;
    this.#tellable = tellable;
  }

  /** Follows a task that was created over `first`, which is given back in the end; without it, one from before. */
  async follow(of: TaskOfUpstream, { what, ask, signal, first, optionsFor }: Following): Promise<ToolResult> {
    if (first && this.#followed.has(of.id)) {
      throw first.failed(this.#tellable(broken(what, "it gave its task the id of another one that goes on")));
    }
    const followed = { task: new FollowedTask(of, what, first !== undefined), ask };
    this.#followed.set(of.id, followed);
    try {
      let acquired = first;
      for (;;) {
        try {
          acquired ??= await this.#acquire(of, what);
          return await this.#over(acquired, followed.task, optionsFor);
        } catch (error) {
          if (signal?.aborted || !mayGoOn(error)) throw error;
          // Such a task ends with its program.
          if (of.program !== undefined && (error as BerthError).code === "upstream_ended") throw error;
          const awayMs = performance.now() - followed.task.heardAt;
          if (awayMs >= bounds.upstreamTaskAwayMs) throw lostSince(error as Error, bounds.upstreamTaskAwayMs);
        }
        acquired = undefined;
        await pause(of.pollMs, signal);
      }
    } finally {
      if (this.#followed.get(of.id) === followed) this.#followed.delete(of.id);
    }
  }

  /** Tells the upstream that nobody waits for the task any more, if it can be reached. */
  async cancel(of: TaskOfUpstream, optionsFor: OptionsFor): Promise<void> {
    const task = new FollowedTask(of, "cancelling its task", false);
    if (of.program !== undefined) {
      await this.#supervisor.peek(async (connection) => {
        if (connection.id === of.program) await connection.cancelTask(task, optionsFor(connection));
      });
      return;
    }
    const acquired = await this.#supervisor.acquire();
    await acquired.connection.cancelTask(task, optionsFor(acquired.connection));
    acquired.succeeded();
  }

  /** Passes a legacy server's question to the task that it names; undefined if it names none that is followed here. */
  ask({ method, params }: UpstreamQuestion, signal: CancelSignal | undefined): Promise<JsonObject> | undefined {
    const id = relatedTask(params);
    const followed = id === undefined ? undefined : this.#followed.get(id);
    if (!followed) return undefined;
    if (followed.ask) return followed.ask({ method, params: withoutRelatedTask(params) }, signal);
    const error = new Error("The question cannot be answered: the caller cannot be asked");
    return Promise.reject(Object.assign(error, { code: METHOD_NOT_FOUND }));
  }

  /** The server has said something of a task by itself. */
  heard({ taskId }: JsonObject): void {
    if (typeof taskId === "string") this.#followed.get(taskId)?.task.wake();
  }

  async #acquire(of: TaskOfUpstream, what: string): Promise<AcquiredConnection> {
    const acquired = await this.#supervisor.acquire();
    if (of.program === undefined || acquired.connection.id === of.program) return acquired;
    acquired.succeeded();
    throw new UpstreamError("upstream_ended", `${what}: the program that had its task has ended`, {
      data: { retriable: false, isLost: true },
    });
  }

  async #over(acquired: AcquiredConnection, task: FollowedTask, optionsFor: OptionsFor): Promise<ToolResult> {
    const { connection } = acquired;
    const options = optionsFor(connection);
    let end;
    try {
      end = await connection.follow(task, options);
    } catch (error) {
      // What it says of the task is of no use, so nobody will know how it ends.
      if (!options.signal?.aborted && !mayGoOn(error) && !isLost(error)) void connection.cancelTask(task, options);
      throw acquired.failed(this.#tellable(error));
    }
    acquired.succeeded();
    if ("error" in end) throw this.#tellable(end.error);
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

/** Says that nobody is there to answer a question. */
const METHOD_NOT_FOUND = -32601;

function lostSince(error: Error, awayMs: number): UpstreamError {
  const limit = `${awayMs / 1000} s`;
  const detail = `it has said nothing about its task for ${limit}, and nobody knows how that ended`;
  return new UpstreamError("upstream_ended", detail, { data: { retriable: false, isLost: true }, cause: error });
}
