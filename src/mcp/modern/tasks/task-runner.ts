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
import { heldBytes } from "../../question-length.ts";
import type { ResultWriter } from "../results.ts";
import type { TaskStore } from "./task-store.ts";
import { beginWork, type TaskCallee, type TaskOrder, type UntilTask, type TaskWork } from "./task-work.ts";
import { cancelledByUpstream, ended, failed, isOver, lost, type Task, type TaskResult } from "./task.ts";

/** The pause between two attempts to write the outcome of a task. */
const KEEP_AGAIN_MS = 1_000;
/** A longer text is stored apart and sent as it is: the serving thread never parses it. */
const RESULT_UNITS = 64 * 1024;
const UNKEPT = "It has ended, but its outcome cannot be stored now: the store fails";

export type TaskLimits = Pick<
  Limits,
  "taskMs" | "taskTtlMs" | "nodeLeaseMs" | "runningTasks" | "runningTasksPerTenant" | "runningTaskBytesPerTenant"
>;

const bounds = fixed({
  /**
   * Tasks of one tenant that are kept, including running ones, and the bytes of their arguments, answers and results.
   */
  keptTasksPerTenant: 100_000,
  keptTaskBytesPerTenant: 1024 * 1024 * 1024,
});

export interface TaskRunnerOptions {
  readonly cluster: Pick<Cluster, "id" | "on" | "send" | "isGone">;
  readonly store: TaskStore;
  readonly limits: TaskLimits;
  readonly log: Log;
  readonly writer: ResultWriter;
  /** Called for every change made here; with the text of a result that is stored apart. */
  readonly onChange: (tenant: string, task: Task, longResult?: string) => void;
  /** Goes on with a task that this process has claimed, and that its upstream has gone on with meanwhile. */
  readonly takeUp: (tenant: string, task: Task) => Promise<void>;
}

/**
 * Runs tasks and stores their outcomes. A task belongs to the node that runs it for as long as that node lives; when it
 * is gone, whoever reads the task finds it failed, or takes it up where an upstream at an address carries it out.
 */
export class TaskRunner {
  readonly #options: TaskRunnerOptions;
  readonly #running = new Map<string, RunningWork>();
  readonly #settling = new Set<Promise<void>>();
  /** The tenants of ended tasks whose outcome could not be stored yet. */
  readonly #unkept = new Map<string, string>();
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

  /** Runs before a call that may become a task does anything: rejects when its tenant may keep no more tasks. */
  async admit(tenant: string): Promise<void> {
    const { keptTasksPerTenant, keptTaskBytesPerTenant } = bounds;
    const { taskTtlMs } = this.#options.limits;
    const { tasks, bytes } = await this.#options.store.kept(tenant);
    const what =
      tasks >= keptTasksPerTenant
        ? `${tasks} tasks, and may keep ${keptTasksPerTenant}`
        : bytes >= keptTaskBytesPerTenant
          ? `tasks of ${bytes} bytes, and may keep ${keptTaskBytesPerTenant}`
          : undefined;
    if (what === undefined) return;
    throw new BerthError(
      "storage_full",
      `the tenant keeps ${what}; each goes ${taskTtlMs} ms (${limitVariable("taskTtlMs")}) after its creation, so try again later`,
    );
  }

  /** Calls the tool as a task does, if one more may run. `until` gets its events as long as it is not a task yet. */
  begin(order: TaskCallee & Pick<TaskOrder, "tenant">, until?: UntilTask): BegunWork {
    const { runningTasks, runningTasksPerTenant, taskMs } = this.#options.limits;
    const bytes = this.bytesOf(order.args) + this.bytesOf(order.answers);
    this.checkRoom(order.tenant, bytes);
    // Ended tasks that wait to be written take memory, too.
    if (this.#running.size + this.#unkept.size >= runningTasks)
      throw new BerthError("too_many_tasks", `the limit is ${runningTasks} (${limitVariable("runningTasks")})`);
    if (this.#runningOf(order.tenant) >= runningTasksPerTenant) {
      throw new BerthError("too_many_tasks", `the limit of a tenant is ${runningTasksPerTenant}`);
    }
    return { ...beginWork(order, taskMs, until), bytes };
  }

  /** The memory that arguments or answers take. */
  bytesOf(given: JsonObject | JsonText): number {
    if (given instanceof JsonText) return given.text.length;
    return heldBytes(given, this.#options.limits.runningTaskBytesPerTenant);
  }

  /**
   * Counts the input of running tasks, which stays in memory. Throws `too_many_tasks` when `bytes` more would be too
   * much.
   */
  checkRoom(tenant: string, bytes: number): void {
    const { runningTaskBytesPerTenant } = this.#options.limits;
    let all = bytes;
    for (const work of this.#running.values()) if (work.tenant === tenant) all += work.bytes;
    if (all <= runningTaskBytesPerTenant) return;
    throw new BerthError(
      "too_many_tasks",
      `the arguments and answers of a tenant's running tasks have at most ${runningTaskBytesPerTenant} bytes; try again when one of them has ended`,
    );
  }

  #runningOf(tenant: string): number {
    let count = 0;
    for (const work of this.#running.values()) if (work.tenant === tenant) count += 1;
    for (const whose of this.#unkept.values()) if (whose === tenant) count += 1;
    return count;
  }

  /** Makes a task of work that has begun; resolves when it is stored. */
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

  /** The task, claimed by this process. */
  claim(task: Task): Task {
    return { ...task, status: "working", asked: {}, ...this.#claim() };
  }

  /** Ends a task of this process that could not be carried out. */
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

  /** The task as it is now, with the last message of its process, or failed if that is gone. */
  async read(tenant: string, id: string): Promise<Task | undefined> {
    const task = await this.#options.store.read(tenant, id);
    if (!task || task.status !== "working") return task;
    const message = this.#running.get(id)?.progress.message;
    if (message !== undefined) return { ...task, statusMessage: message };
    if (this.#unkept.has(id)) return { ...task, statusMessage: UNKEPT };
    if (this.#running.has(id)) return task;
    const { store, cluster } = this.#options;
    const { owner, claimedAt } = task;
    if (owner !== undefined && !cluster.isGone(owner)) {
      const said = await store.said(tenant, id);
      const isOfNow = said !== undefined && said.claimedAt === claimedAt;
      return isOfNow ? { ...task, statusMessage: said.message, updatedAt: said.at } : task;
    }
    const isSame = (found: Task): boolean =>
      found.status === "working" && found.owner === owner && found.claimedAt === claimedAt;
    if (task.upstream && task.upstream.program === undefined) return this.#takeUp(tenant, task, isSame);
    const failedNow = await this.change(tenant, id, (found) =>
      isSame(found) ? failed(found, lost(found)) : undefined,
    );
    if (!failedNow) return store.read(tenant, id);
    await this.#stop(tenant, failedNow);
    return failedNow;
  }

  /** Follows the task of an upstream on this node from now on; a later read does, where there is no room now. */
  async #takeUp(tenant: string, task: Task, isSame: (found: Task) => boolean): Promise<Task | undefined> {
    const { id, owner } = task;
    if (this.#running.size + this.#unkept.size >= this.#options.limits.runningTasks) return task;
    const taken = await this.change(tenant, id, (found) =>
      isSame(found) ? { ...found, ...this.#claim() } : undefined,
    );
    if (!taken) return this.#options.store.read(tenant, id);
    try {
      await this.#options.takeUp(tenant, taken);
    } catch (error) {
      if (!(error instanceof BerthError) || !MAY_PASS.has(error.code)) await this.fail(tenant, id, error);
      else
        await this.change(tenant, id, (found) =>
          this.#isMine(found) && owner !== undefined ? { ...found, owner } : undefined,
        );
    }
    return taken;
  }

  /** The arguments of the tool call. */
  args(tenant: string, task: Task): Promise<JsonObject | JsonText> {
    return this.#options.store.args(tenant, task);
  }

  /** The text of a result that is stored apart. */
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

  /** Resolves with true if it went on, and not in this process, where its own call would tell its upstream. */
  async cancel(tenant: string, id: string): Promise<boolean> {
    const cancelled = await this.change(tenant, id, (task) =>
      isOver(task) ? undefined : { ...task, status: "cancelled", statusMessage: "The client cancelled it", asked: {} },
    );
    const work = this.#running.get(id);
    if (work) work.cancellation.abort();
    else if (cancelled) await this.#stop(tenant, cancelled);
    return cancelled !== undefined && !work;
  }

  /** Tells the node that runs the task that it is over. One that counts as gone may be back later, and finds it noted. */
  async #stop(tenant: string, { id, owner }: Task): Promise<void> {
    const { store, cluster, limits, log } = this.#options;
    try {
      const isTold = owner !== undefined && (await cluster.send(owner, STOP, { tenant, id }));
      if (!isTold) await store.stop(tenant, id, store.now() + limits.taskMs);
    } catch (error) {
      log.warn({ err: error, task: id }, "a task cannot be stopped where it runs");
    }
  }

  /**
   * Resolves when every outcome is stored, or was tried a last time; nothing is renewed from then on. What an upstream at an
   * address carries out goes on there: another process takes it up.
   */
  async settled(): Promise<void> {
    this.#closing.abort();
    clearInterval(this.#timer);
    await Promise.all(this.#settling);
  }

  #claim(): Pick<Task, "owner" | "claimedAt"> {
    return { owner: this.#options.cluster.id, claimedAt: this.#options.store.now() };
  }

  /** Follows work for a task that is stored, and claimed by this process. */
  follow(task: Task, order: TaskOrder, work: BegunWork): void {
    const { id } = task;
    const { tenant, catalog } = order;
    // While it runs, no long part of the task is held, except the input of its tool.
    const brief = { ...task, args: {}, answers: {} };
    this.#running.set(id, { ...work, tenant, brief, said: undefined });
    this.#timer ??= setInterval(() => void this.#tend(), this.#options.limits.nodeLeaseMs / 3).unref();
    const settling = this.#settle(id, { tenant, catalog }, work).finally(() => this.#settling.delete(settling));
    this.#settling.add(settling);
  }

  async #settle(id: string, order: Ended, work: TaskWork): Promise<void> {
    const { tenant } = order;
    const outcome = await work.outcome.catch((error: unknown) => error as Error);
    const { upstream } = this.#running.get(id)?.brief ?? {};
    if (this.#leaves(outcome, upstream, work)) return void this.#running.delete(id);
    const said = this.#running.get(id)?.said;
    // Off the list first: a listener that is told of the change may ask for the next run at once.
    this.#running.delete(id);
    if (said !== undefined) await this.#options.store.say(tenant, id, undefined, 0).catch(() => {});
    await this.#keep(id, tenant, async () => {
      if (outcome instanceof Error) await this.fail(tenant, id, outcome);
      else {
        const made = "inputRequests" in outcome ? outcome : await this.#resultOf(outcome, order);
        const longResult = "text" in made && made.isLong ? made.text : undefined;
        await this.#end(tenant, id, (task) => ended(task, made), longResult);
      }
    });
  }

  /** True where the task goes on at its upstream, and the call ended only because this process does. */
  #leaves(outcome: unknown, upstream: Task["upstream"], { cancellation }: TaskWork): boolean {
    if (!upstream || upstream.program !== undefined || cancellation.aborted) return false;
    if (!(outcome instanceof BerthError) || outcome instanceof UpstreamError) return false;
    return outcome.code === "cancelled";
  }

  async #resultOf(outcome: CallResult, { catalog }: Ended): Promise<TaskResult> {
    const text = this.#options.writer.write(catalog, "complete", outcome);
    if (text instanceof LongText) await text.decode();
    return { text: String(text), isLong: typeof text !== "string" || text.length > RESULT_UNITS };
  }

  /** Retries while the store fails, since the task has already done its work. */
  async #keep(id: string, tenant: string, write: () => Promise<void>): Promise<void> {
    const { log } = this.#options;
    for (;;) {
      const isLast = this.#closing.signal.aborted;
      try {
        await write();
        break;
      } catch (error) {
        const mayPass =
          error instanceof BerthError && (error.code === "store_failed" || error.code === "store_uncertain");
        if (isLast || !mayPass) {
          log.error({ err: error, task: id }, "a task's outcome could not be stored");
          break;
        }
        if (!this.#unkept.has(id)) log.warn({ err: error, task: id }, "a task's outcome is stored again");
        this.#unkept.set(id, tenant);
      }
      await sleep(KEEP_AGAIN_MS, undefined, { ref: false, signal: this.#closing.signal }).catch(() => {});
    }
    this.#unkept.delete(id);
  }

  /** A process that took the task over meanwhile, or a client that cancelled it, has the last word. */
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

  /** Writes the messages of its guests. */
  async #tend(): Promise<void> {
    const { log } = this.#options;
    for (const [id, work] of this.#running) {
      await nextTurn();
      await this.#look(id, work).catch((error: unknown) => {
        log.warn({ err: error, task: id }, "a task's status message could not be stored");
      });
    }
    if (this.#running.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Stops a task that is no longer this process's, or no longer there. */
  async #look(id: string, work: RunningWork): Promise<void> {
    const { store, limits, onChange } = this.#options;
    const { tenant, brief, cancellation } = work;
    const isOver = brief.createdAt + brief.ttlMs <= this.#options.store.now();
    if (isOver || (await store.isStopped(tenant, id))) return cancellation.abort();
    const { message } = work.progress;
    if (message === undefined || message === work.said || !this.#running.has(id)) return;
    work.said = message;
    const at = this.#options.store.now();
    await store.say(tenant, id, { message, claimedAt: brief.claimedAt, at }, at + limits.taskMs);
    if (this.#running.has(id)) onChange(tenant, { ...brief, statusMessage: message, updatedAt: at });
  }
}

/** Another process, or this one a little later, can take a task up. */
const MAY_PASS: ReadonlySet<ErrorCode> = new Set([
  "too_many_tasks",
  "store_failed",
  "store_uncertain",
  "starting",
  "server_refused",
  "upstream_not_started",
]);

/** Tells the node that runs a task that it is over. */
const STOP = "task-stop";

/** True for a tool that says that calling it again does no harm. */
function isRepeatable({ contract: { annotations } }: TaskOrder["tool"]): boolean {
  return annotations?.["readOnlyHint"] === true || annotations?.["idempotentHint"] === true;
}

type Ended = Pick<TaskOrder, "tenant" | "catalog">;

interface BegunWork extends TaskWork {
  /** The size of its arguments and answers. */
  readonly bytes: number;
}

interface RunningWork extends BegunWork {
  readonly tenant: string;
  /** The task without its long parts. */
  readonly brief: Task;
  /** The last stored message. */
  said: string | undefined;
}
