import { randomBytes } from "node:crypto";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import type { Cluster } from "../../../cluster/cluster.ts";
import type { CallResult } from "../../../host/offers/catalog.ts";
import { BerthError, type ErrorCode } from "../../../lib/errors.ts";
import { JsonText, type JsonObject } from "../../../lib/json.ts";
import type { Log } from "../../../lib/log.ts";
import { LongText } from "../../../lib/long-text.ts";
import { fixed } from "../../../limits/fixed.ts";
import { limitVariable, type Limits } from "../../../limits/limits.ts";
import { UpstreamError } from "../../../upstream/messages/upstream-error.ts";
import { memoryBytes } from "../../question-limits.ts";
import type { ResultWriter } from "../results.ts";
import type { TaskStore } from "./task-store.ts";
import { beginWork, type TaskCallee, type TaskOrder, type UntilTask, type TaskWork } from "./task-work.ts";
import { cancelledByUpstream, withOutcome, failed, isOver, nodeLost, type Task, type TaskResult } from "./task.ts";

/** Pause between two attempts to store the outcome of a task. */
const STORE_RETRY_MS = 1_000;
/** Longer results are stored separately and sent verbatim: the serving thread never parses them. */
const INLINE_RESULT_UNITS = 64 * 1024;
const UNSTORED = "It has ended, but its outcome is not stored yet: the store is failing";

export type TaskLimits = Pick<
  Limits,
  "taskMs" | "taskTtlMs" | "nodeLeaseMs" | "runningTasks" | "runningTasksPerTenant" | "runningTaskBytesPerTenant"
>;

const bounds = fixed({
  /** Stored tasks of one tenant, including running ones, and the bytes of their arguments, answers and results. */
  keptTasksPerTenant: 100_000,
  keptTaskBytesPerTenant: 1024 * 1024 * 1024,
});

export interface TaskRunnerOptions {
  readonly cluster: Pick<Cluster, "id" | "on" | "send" | "isGone">;
  readonly store: TaskStore;
  readonly limits: TaskLimits;
  readonly log: Log;
  readonly writer: ResultWriter;
  /** Called for every change made here; `longResult` is the text of a result that is stored separately. */
  readonly onChange: (tenant: string, task: Task, longResult?: string) => void;
  /** Continues a task that this process has claimed, and that has gone on at its upstream. */
  readonly takeOver: (tenant: string, task: Task) => Promise<void>;
}

/**
 * Runs tasks and stores their outcomes. A task belongs to the node that runs it while that node lives. Once the node is
 * gone, a reader of the task finds it failed, or takes it over if a remote upstream executes it.
 */
export class TaskRunner {
  readonly #options: TaskRunnerOptions;
  readonly #running = new Map<string, RunningWork>();
  readonly #settling = new Set<Promise<void>>();
  /** The tenants of ended tasks whose outcome is not stored yet. */
  readonly #unstored = new Map<string, string>();
  readonly #closing = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: TaskRunnerOptions) {
    this.#options = options;
    options.cluster.on(STOP, (body) => {
      const { tenant, id } = body as { tenant: string; id: string };
      const work = this.#running.get(id);
      if (work?.tenant === tenant) work.cancellation.abort();
    });
  }

  get running(): number {
    return this.#running.size;
  }

  /** Runs before a call that may become a task starts: rejects when its tenant has too many stored tasks. */
  async admit(tenant: string): Promise<void> {
    const { keptTasksPerTenant, keptTaskBytesPerTenant } = bounds;
    const { taskTtlMs } = this.#options.limits;
    const { tasks, bytes } = await this.#options.store.usage(tenant);
    const what =
      tasks >= keptTasksPerTenant
        ? `${tasks} tasks, and the limit is ${keptTasksPerTenant}`
        : bytes >= keptTaskBytesPerTenant
          ? `tasks of ${bytes} bytes, and the limit is ${keptTaskBytesPerTenant}`
          : undefined;
    if (what === undefined) return;
    throw new BerthError(
      "storage_full",
      `the tenant stores ${what}; each is removed ${taskTtlMs} ms (${limitVariable("taskTtlMs")}) after its creation, so try again later`,
    );
  }

  /** Calls the tool like a task, if capacity permits. `until` receives its events until it is a task. */
  begin(order: TaskCallee & Pick<TaskOrder, "tenant">, until?: UntilTask): BegunWork {
    const { runningTasks, runningTasksPerTenant, taskMs } = this.#options.limits;
    const bytes = this.bytesOf(order.args) + this.bytesOf(order.answers);
    this.checkCapacity(order.tenant, bytes);
    // Ended tasks that wait to be stored use memory, too.
    if (this.#running.size + this.#unstored.size >= runningTasks)
      throw new BerthError("too_many_tasks", `the limit is ${runningTasks} (${limitVariable("runningTasks")})`);
    if (this.#countRunning(order.tenant) >= runningTasksPerTenant) {
      throw new BerthError("too_many_tasks", `the limit of a tenant is ${runningTasksPerTenant}`);
    }
    return { ...beginWork(order, taskMs, until), bytes };
  }

  bytesOf(value: JsonObject | JsonText): number {
    if (value instanceof JsonText) return value.text.length;
    return memoryBytes(value, this.#options.limits.runningTaskBytesPerTenant);
  }

  /**
   * Counts the input of running tasks, which stays in memory. Throws `too_many_tasks` when `bytes` more exceed the
   * limit.
   */
  checkCapacity(tenant: string, bytes: number): void {
    const { runningTaskBytesPerTenant } = this.#options.limits;
    let total = bytes;
    for (const work of this.#running.values()) if (work.tenant === tenant) total += work.bytes;
    if (total <= runningTaskBytesPerTenant) return;
    throw new BerthError(
      "too_many_tasks",
      `the arguments and answers of a tenant's running tasks have at most ${runningTaskBytesPerTenant} bytes; try again when one of them has ended`,
    );
  }

  #countRunning(tenant: string): number {
    let count = 0;
    for (const work of this.#running.values()) if (work.tenant === tenant) count += 1;
    for (const owner of this.#unstored.values()) if (owner === tenant) count += 1;
    return count;
  }

  /** Turns running work into a task; resolves when it is stored. */
  async adopt(order: TaskOrder, work: BegunWork): Promise<Task> {
    const now = this.#options.store.now();
    const { args } = order;
    const task: Task = {
      id: randomBytes(24).toString("base64url"),
      server: order.server,
      ...(order.principal && { principal: order.principal.id }),
      release: order.catalog.release,
      tool: order.tool.contract.name,
      ...(args instanceof JsonText ? { longArgs: args.digest } : { args }),
      capabilities: order.capabilities,
      status: "working",
      createdAt: now,
      updatedAt: now,
      ttlMs: this.#options.limits.taskTtlMs,
      answers: order.answers,
      ...(order.context && { context: order.context }),
      asked: {},
      seenKeys: [],
      ...(isRepeatable(order.tool) && { repeatable: true }),
      ...(order.upstream && { upstream: order.upstream }),
      ...this.#claim(),
    };
    try {
      await this.#options.store.create(order.tenant, task, args instanceof JsonText ? args.text : undefined);
    } catch (error) {
      work.cancellation.abort();
      throw error;
    }
    this.follow(task, order, work);
    return task;
  }

  claim(task: Task): Task {
    return { ...task, status: "working", asked: {}, ...this.#claim() };
  }

  /** Ends a task of this process that could not be executed. */
  async fail(tenant: string, id: string, error: unknown): Promise<void> {
    if (!(error instanceof BerthError)) {
      this.#options.log.error({ err: error, task: id }, "a task failed unexpectedly");
    }
    const shown = error instanceof BerthError ? error : new BerthError("internal");
    await this.#end(tenant, id, (task) =>
      shown instanceof UpstreamError && shown.code === "cancelled"
        ? cancelledByUpstream(task, shown.detail)
        : failed(task, shown),
    );
  }

  /** The current task, with the last message of its process, or failed if that process is gone. */
  async read(tenant: string, id: string): Promise<Task | undefined> {
    const task = await this.#options.store.read(tenant, id);
    if (!task || task.status !== "working") return task;
    const message = this.#running.get(id)?.progress.message;
    if (message !== undefined) return { ...task, statusMessage: message };
    if (this.#unstored.has(id)) return { ...task, statusMessage: UNSTORED };
    if (this.#running.has(id)) return task;
    const { store, cluster } = this.#options;
    const { owner, claimedAt } = task;
    if (owner !== undefined && !cluster.isGone(owner)) {
      const stored = await store.readMessage(tenant, id);
      const isCurrent = stored !== undefined && stored.claimedAt === claimedAt;
      return isCurrent ? { ...task, statusMessage: stored.message, updatedAt: stored.at } : task;
    }
    const isSame = (found: Task): boolean =>
      found.status === "working" && found.owner === owner && found.claimedAt === claimedAt;
    if (task.upstream && task.upstream.program === undefined) return this.#takeOver(tenant, task, isSame);
    const failedTask = await this.change(tenant, id, (found) =>
      isSame(found) ? failed(found, nodeLost(found)) : undefined,
    );
    if (!failedTask) return store.read(tenant, id);
    await this.#stop(tenant, failedTask);
    return failedTask;
  }

  /** Follows the task of an upstream from this node; without capacity, a later read tries again. */
  async #takeOver(tenant: string, task: Task, isSame: (found: Task) => boolean): Promise<Task | undefined> {
    const { id, owner } = task;
    if (this.#running.size + this.#unstored.size >= this.#options.limits.runningTasks) return task;
    const taken = await this.change(tenant, id, (found) =>
      isSame(found) ? { ...found, ...this.#claim() } : undefined,
    );
    if (!taken) return this.#options.store.read(tenant, id);
    try {
      await this.#options.takeOver(tenant, taken);
    } catch (error) {
      if (!(error instanceof BerthError) || !TRANSIENT_CODES.has(error.code)) await this.fail(tenant, id, error);
      else
        await this.change(tenant, id, (found) =>
          this.#isMine(found) && owner !== undefined ? { ...found, owner } : undefined,
        );
    }
    return taken;
  }

  args(tenant: string, task: Task): Promise<JsonObject | JsonText> {
    return this.#options.store.args(tenant, task);
  }

  async longResult(tenant: string, { id, hasLongResult }: Task): Promise<string | undefined> {
    return hasLongResult && this.#options.store.longResult(tenant, id);
  }

  async change(
    tenant: string,
    id: string,
    edit: (task: Task) => Task | undefined,
    longResult?: string,
  ): Promise<Task | undefined> {
    const changed = await this.#options.store.change(tenant, id, edit, longResult);
    if (changed) this.#options.onChange(tenant, changed, longResult);
    return changed;
  }

  /** Resolves with true if the task was open and not in this process, whose own call would notify its upstream. */
  async cancel(tenant: string, id: string): Promise<boolean> {
    const cancelled = await this.change(tenant, id, (task) =>
      isOver(task) ? undefined : { ...task, status: "cancelled", statusMessage: "The client cancelled it", asked: {} },
    );
    const work = this.#running.get(id);
    if (work) work.cancellation.abort();
    else if (cancelled) await this.#stop(tenant, cancelled);
    return cancelled !== undefined && !work;
  }

  /** Notifies the node that runs the task that it is over. A node that counts as gone may return, and finds a note. */
  async #stop(tenant: string, { id, owner }: Task): Promise<void> {
    const { store, cluster, limits, log } = this.#options;
    try {
      const isNotified = owner !== undefined && (await cluster.send(owner, STOP, { tenant, id }));
      if (!isNotified) await store.stop(tenant, id, store.now() + limits.taskMs);
    } catch (error) {
      log.warn({ err: error, task: id }, "a task could not be stopped on its node");
    }
  }

  /**
   * Resolves when every outcome is stored, or was tried a last time; nothing is renewed after that. Tasks of remote
   * upstreams go on there, and another process takes them over.
   */
  async settled(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#timer);
    await Promise.all(this.#settling);
  }

  #claim(): Pick<Task, "owner" | "claimedAt"> {
    return { owner: this.#options.cluster.id, claimedAt: this.#options.store.now() };
  }

  /** Follows the work of a task that is stored, and claimed by this process. */
  follow(task: Task, order: TaskOrder, work: BegunWork): void {
    const { id } = task;
    const { tenant, catalog } = order;
    // While it runs, its only long parts in memory are the inputs of its tool.
    const brief = { ...task, args: {}, answers: {} };
    this.#running.set(id, { ...work, tenant, brief, storedMessage: undefined });
    this.#timer ??= setInterval(() => void this.#maintain(), this.#options.limits.nodeLeaseMs / 3).unref();
    const settling = this.#settle(id, { tenant, catalog }, work).finally(() => this.#settling.delete(settling));
    this.#settling.add(settling);
  }

  async #settle(id: string, order: Ended, work: TaskWork): Promise<void> {
    const { tenant } = order;
    const outcome = await work.outcome.catch((error: unknown) => error as Error);
    const { upstream } = this.#running.get(id)?.brief ?? {};
    if (this.#continuesUpstream(outcome, upstream, work)) return void this.#running.delete(id);
    const message = this.#running.get(id)?.storedMessage;
    // Removed first: a listener that is notified of the change may request the next run immediately.
    this.#running.delete(id);
    if (message !== undefined) await this.#options.store.writeMessage(tenant, id, undefined, 0).catch(() => {});
    await this.#storeOutcome(id, tenant, async () => {
      if (outcome instanceof Error) await this.fail(tenant, id, outcome);
      else {
        const result = "inputRequests" in outcome ? outcome : await this.#writeResult(outcome, order);
        const longResult = "text" in result && result.isLong ? result.text : undefined;
        await this.#end(tenant, id, (task) => withOutcome(task, result), longResult);
      }
    });
  }

  /** True when the task continues at its upstream, and the call ended only because this process is shutting down. */
  #continuesUpstream(outcome: unknown, upstream: Task["upstream"], { cancellation }: TaskWork): boolean {
    if (!upstream || upstream.program !== undefined || cancellation.aborted) return false;
    if (!(outcome instanceof BerthError) || outcome instanceof UpstreamError) return false;
    return outcome.code === "cancelled";
  }

  async #writeResult(outcome: CallResult, { catalog }: Ended): Promise<TaskResult> {
    const text = this.#options.writer.write(catalog, "complete", outcome);
    if (text instanceof LongText) await text.decode();
    return { text: String(text), isLong: typeof text !== "string" || text.length > INLINE_RESULT_UNITS };
  }

  async #storeOutcome(id: string, tenant: string, write: () => Promise<void>): Promise<void> {
    const { log } = this.#options;
    for (;;) {
      const isLast = this.#closing.signal.aborted;
      try {
        await write();
        break;
      } catch (error) {
        const isTransient =
          error instanceof BerthError && (error.code === "store_failed" || error.code === "store_uncertain");
        if (isLast || !isTransient) {
          log.error({ err: error, task: id }, "a task's outcome could not be stored");
          break;
        }
        if (!this.#unstored.has(id)) log.warn({ err: error, task: id }, "a task's outcome is not stored yet");
        this.#unstored.set(id, tenant);
      }
      await sleep(STORE_RETRY_MS, undefined, { ref: false, signal: this.#closing.signal }).catch(() => {});
    }
    this.#unstored.delete(id);
  }

  /** A process that took the task over, or a client that cancelled it, takes precedence. */
  async #end(tenant: string, id: string, edit: (task: Task) => Task, longResult?: string): Promise<void> {
    const editMine = (task: Task): Task | undefined => {
      const { statusMessage: _message, ...rest } = task;
      return this.#isMine(task) ? edit(rest) : undefined;
    };
    await this.change(tenant, id, editMine, longResult);
  }

  #isMine({ status, owner }: Task): boolean {
    return status === "working" && owner === this.#options.cluster.id;
  }

  /** Stores the messages of running tasks. */
  async #maintain(): Promise<void> {
    const { log } = this.#options;
    for (const [id, work] of this.#running) {
      await nextTurn();
      await this.#check(id, work).catch((error: unknown) => {
        log.warn({ err: error, task: id }, "a task's status message could not be stored");
      });
    }
    if (this.#running.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Stops a task that no longer belongs to this process, or no longer exists. */
  async #check(id: string, work: RunningWork): Promise<void> {
    const { store, limits, onChange } = this.#options;
    const { tenant, brief, cancellation } = work;
    const isOver = brief.createdAt + brief.ttlMs <= this.#options.store.now();
    if (isOver || (await store.isStopped(tenant, id))) return cancellation.abort();
    const { message } = work.progress;
    if (message === undefined || message === work.storedMessage || !this.#running.has(id)) return;
    work.storedMessage = message;
    const at = this.#options.store.now();
    await store.writeMessage(tenant, id, { message, claimedAt: brief.claimedAt, at }, at + limits.taskMs);
    if (this.#running.has(id)) onChange(tenant, { ...brief, statusMessage: message, updatedAt: at });
  }
}

/** Another process, or this one later, can take the task over. */
const TRANSIENT_CODES: ReadonlySet<ErrorCode> = new Set([
  "too_many_tasks",
  "store_failed",
  "store_uncertain",
  "starting",
  "server_refused",
  "upstream_not_started",
]);

/** Topic of messages to the node that runs a task: the task is over. */
const STOP = "task-stop";

/** True for a tool that declares that calling it again does no harm. */
function isRepeatable({ contract: { annotations } }: TaskOrder["tool"]): boolean {
  return annotations?.["readOnlyHint"] === true || annotations?.["idempotentHint"] === true;
}

type Ended = Pick<TaskOrder, "tenant" | "catalog">;

interface BegunWork extends TaskWork {
  readonly bytes: number;
}

interface RunningWork extends BegunWork {
  readonly tenant: string;
  /** The task without its long parts. */
  readonly brief: Task;
  storedMessage: string | undefined;
}
