import { randomBytes, randomUUID } from "node:crypto";
import type { Principal } from "../../../access/principal.ts";
import { Cancellation } from "../../../cancellation.ts";
import { BerthError } from "../../../errors.ts";
import type { CallOptions, CallResult, Catalog, InputRequired, Tool } from "../../../host/catalog.ts";
import type { Trace } from "../../../trace.ts";
import { isObject, type Json, type JsonObject } from "../../../json.ts";
import type { Log } from "../../../log.ts";
import type { CallerContext } from "../../../outcome/context.ts";
import type { Codec } from "../../protocol.ts";
import { missingCapabilities } from "../required-capabilities.ts";
import { asking, isOver, type Task } from "./task.ts";
import type { TaskStore } from "./task-store.ts";

export interface TaskLimits {
  readonly taskMs: number;
  readonly taskTtlMs: number;
  readonly taskLeaseMs: number;
  readonly runningTasks: number;
  readonly runningTasksPerTenant: number;
}

export interface TaskRunnerOptions {
  readonly store: TaskStore;
  readonly limits: TaskLimits;
  readonly log: Log;
  /** Hears of every change that is made here. */
  readonly onChange: (tenant: string, task: Task) => void;
}

/** A call of a tool that is under way and may become a task, or is one. */
export interface Work {
  readonly outcome: Promise<CallResult | InputRequired>;
  readonly cancellation: Cancellation;
  readonly progress: Progress;
}

/** What the guest said last of how far it is. */
interface Progress {
  message: string | undefined;
}

/** A call that its function makes a task of when it likes. */
export interface UntilTask extends Pick<CallOptions, "onProgress" | "onLog"> {
  isOver: boolean;
  readonly onTask: () => void;
}

type Callee = Pick<
  TaskOrder,
  "tenant" | "principal" | "trace" | "tool" | "args" | "answers" | "capabilities" | "context"
>;

/** What a task is made of. */
export interface TaskOrder {
  readonly tenant: string;
  readonly server: string;
  readonly principal: Principal | undefined;
  readonly catalog: Catalog;
  readonly tool: Tool;
  readonly codec: Codec;
  readonly args: JsonObject;
  readonly capabilities: JsonObject;
  readonly answers: JsonObject;
  readonly context: CallerContext | undefined;
  /** Of the request that has the tool called now. */
  readonly trace: Trace | undefined;
}

/**
 * Runs tasks, and keeps what becomes of them. A task belongs to the process that runs it for as long as that process
 * renews its lease; whoever finds a lease that ran out knows that the process is gone.
 */
export class TaskRunner {
  readonly #options: TaskRunnerOptions;
  readonly #process = randomUUID();
  readonly #running = new Map<string, RunningWork>();
  readonly #settling = new Set<Promise<void>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: TaskRunnerOptions) {
    this.#options = options;
  }

  get running(): number {
    return this.#running.size;
  }

  /** Calls the tool as a task does. `until` hears of progress and logs for as long as it is none yet. */
  begin({ tenant, principal, trace, tool, args, answers, capabilities, context }: Callee, until?: UntilTask): Work {
    const { limits } = this.#options;
    if (this.#running.size >= limits.runningTasks) {
      throw new BerthError("too_many_tasks", `the limit is ${limits.runningTasks}`);
    }
    if (this.#runningOf(tenant) >= limits.runningTasksPerTenant) {
      throw new BerthError("too_many_tasks", `the limit of a tenant is ${limits.runningTasksPerTenant}`);
    }
    const progress: Progress = { message: undefined };
    const cancellation = new Cancellation();
    const outcome = tool.call(args, {
      principal,
      signal: cancellation,
      answers,
      context,
      trace,
      client: { capabilities },
      deadlineMs: limits.taskMs,
      failuresReject: true,
      onProgress: (event) =>
        until?.isOver === false ? until.onProgress?.(event) : void (progress.message = messageOf(event)),
      onLog: (line) => (until?.isOver === false ? until.onLog?.(line) : undefined),
      ...(until && { onTask: () => until.onTask() }),
    });
    // Whoever waits for it hears of it; until then it is nobody's unhandled rejection.
    outcome.catch(() => {});
    return { outcome, cancellation, progress };
  }

  #runningOf(tenant: string): number {
    let count = 0;
    for (const work of this.#running.values()) if (work.tenant === tenant) count += 1;
    return count;
  }

  /** Makes a task of work that has begun; resolves when it is kept. */
  async adopt(order: TaskOrder, work: Work): Promise<Task> {
    const now = Date.now();
    const task: Task = {
      id: randomBytes(24).toString("base64url"),
      server: order.server,
      ...(order.principal && { principal: order.principal.id }),
      release: order.catalog.release,
      tool: order.tool.contract.name,
      args: order.args,
      capabilities: order.capabilities,
      status: "working",
      createdAt: now,
      updatedAt: now,
      ttlMs: this.#options.limits.taskTtlMs,
      answers: order.answers,
      ...(order.context && { context: order.context }),
      asked: {},
      seenKeys: [],
      ...this.#lease(),
    };
    try {
      await this.#options.store.create(order.tenant, task);
    } catch (error) {
      work.cancellation.abort();
      throw error;
    }
    this.#follow(task.id, order, work);
    return task;
  }

  /** Goes on with a task whose `claim` was kept. */
  resume(id: string, order: TaskOrder, work: Work): void {
    this.#follow(id, order, work);
  }

  /** The task as one that this process runs. */
  claim(task: Task): Task {
    return { ...task, status: "working", asked: {}, ...this.#lease() };
  }

  /** Ends a task of this process that could not be carried out. */
  async fail(tenant: string, id: string, error: unknown): Promise<void> {
    if (!(error instanceof BerthError)) {
      this.#options.log.error({ err: error, task: id }, "a task failed in a way that nobody foresaw");
    }
    const shown = error instanceof BerthError ? error : new BerthError("internal");
    await this.#end(tenant, id, (task) => failed(task, shown));
  }

  /** The task as it is now, its process's word or silence considered. */
  async read(tenant: string, id: string): Promise<Task | undefined> {
    const task = await this.#options.store.read(tenant, id);
    if (!task || task.status !== "working") return task;
    const message = this.#running.get(id)?.progress.message;
    if (message !== undefined) return { ...task, statusMessage: message };
    if (!this.#isLost(task)) return task;
    const lost = await this.change(tenant, id, (found) => (this.#isLost(found) ? failed(found, LOST) : undefined));
    return lost ?? this.#options.store.read(tenant, id);
  }

  async change(tenant: string, id: string, edit: (task: Task) => Task | undefined): Promise<Task | undefined> {
    const changed = await this.#options.store.change(tenant, id, edit);
    if (changed) this.#options.onChange(tenant, changed);
    return changed;
  }

  async cancel(tenant: string, id: string): Promise<void> {
    await this.change(tenant, id, (task) =>
      isOver(task)
        ? undefined
        : { ...task, status: "cancelled", statusMessage: "It was cancelled by the client", asked: {} },
    );
    this.#running.get(id)?.cancellation.abort();
  }

  /** Resolves when all that ended is kept; nothing is renewed from then on. */
  async settled(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#settling);
  }

  #lease(): Pick<Task, "owner" | "leaseUntil"> {
    return { owner: this.#process, leaseUntil: Date.now() + this.#options.limits.taskLeaseMs };
  }

  #isLost({ id, status, leaseUntil = 0 }: Task): boolean {
    return status === "working" && !this.#running.has(id) && leaseUntil < Date.now();
  }

  #follow(id: string, order: TaskOrder, work: Work): void {
    this.#running.set(id, { ...work, tenant: order.tenant });
    this.#timer ??= setInterval(() => this.#renew(), this.#options.limits.taskLeaseMs / 3).unref();
    const settling = this.#settle(id, order, work).finally(() => this.#settling.delete(settling));
    this.#settling.add(settling);
  }

  async #settle(id: string, { tenant, catalog, tool, codec }: TaskOrder, work: Work): Promise<void> {
    const { log } = this.#options;
    try {
      const outcome = await work.outcome.catch((error: unknown) => error);
      // Off the list first: who is told of the change may ask for the next run at once.
      this.#running.delete(id);
      if (outcome instanceof Error) await this.fail(tenant, id, outcome);
      else await this.#end(tenant, id, (task) => after(task, outcome as CallResult | InputRequired));
    } catch (error) {
      log.error({ err: error, task: id }, "what became of a task could not be kept");
    } finally {
      this.#running.delete(id);
    }

    function after(task: Task, outcome: CallResult | InputRequired): Task {
      if ("inputRequests" in outcome) {
        const missing = missingCapabilities(task.capabilities, outcome.inputRequests);
        if (!missing) return asking(task, outcome.inputRequests);
        const data = { requiredCapabilities: missing };
        return failed(task, new BerthError("missing_capability", Object.keys(missing).join(", "), { data }));
      }
      const result = JSON.parse(codec.callResult(catalog, tool.contract, outcome)) as Json;
      return { ...task, status: "completed", result };
    }
  }

  /** Whoever took a task over in the meantime, or cancelled it, has the last word. */
  async #end(tenant: string, id: string, edit: (task: Task) => Task): Promise<void> {
    await this.change(tenant, id, (task) => {
      const { statusMessage: _message, ...rest } = task;
      return this.#isMine(task) ? edit(rest) : undefined;
    });
  }

  #isMine({ status, owner }: Task): boolean {
    return status === "working" && owner === this.#process;
  }

  /** Says that this process lives, and what its guests said. */
  #renew(): void {
    for (const [id, work] of this.#running) void this.#renewOne(id, work);
    if (this.#running.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** A task that is not this process's any more, or is not there any more, is stopped. */
  async #renewOne(id: string, { tenant, cancellation, progress: { message } }: RunningWork): Promise<void> {
    try {
      const said = message !== undefined && { statusMessage: message };
      const task = await this.#options.store.change(tenant, id, (found) =>
        this.#isMine(found) ? { ...found, ...this.#lease(), ...said } : undefined,
      );
      if (!task) cancellation.abort();
      else if (said) this.#options.onChange(tenant, task);
    } catch (error) {
      this.#options.log.warn({ err: error, task: id }, "a task's lease could not be renewed");
    }
  }
}

type RunningWork = Work & { readonly tenant: string };

const LOST = new BerthError(
  "guest_failed",
  "the process that ran it is gone. The same call may succeed when repeated.",
  { data: { retriable: true } },
);

function failed(task: Task, { rpc: code, message, data }: BerthError): Task {
  const error = { code, message, ...(data && { data: data as JsonObject }) };
  return { ...task, status: "failed", statusMessage: message, asked: {}, error };
}

function messageOf(event: Json): string {
  if (typeof event === "string") return event;
  if (!isObject(event) || typeof event["progress"] !== "number") return JSON.stringify(event);
  const { progress, total, message } = event;
  const share = typeof total === "number" ? `${JSON.stringify(progress)} of ${total}` : JSON.stringify(progress);
  return typeof message === "string" ? message : share;
}
