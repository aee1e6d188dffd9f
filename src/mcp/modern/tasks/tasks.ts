import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { createPrincipal } from "../../../access/principal.ts";
import type { Cluster } from "../../../cluster/cluster.ts";
import { EXTENSION_TASKS } from "../../../contract/extensions.ts";
import type { Catalog, Tool } from "../../../host/offers/catalog.ts";
import { BerthError } from "../../../lib/errors.ts";
import { JsonText, isObject, type JsonObject } from "../../../lib/json.ts";
import type { Log } from "../../../lib/log.ts";
import type { Text } from "../../../lib/long-text.ts";
import { joinAnswers } from "../../../outcome/answers.ts";
import { readCallerContext } from "../../../outcome/context.ts";
import type { TaskOfUpstream } from "../../../upstream/messages/request.ts";
import { logReporter, progressReporter } from "../../methods/calls.ts";
import type { Client, MethodCall } from "../../protocol.ts";
import { ANSWER_BYTES, memoryBytes, TOO_MANY_ANSWERS } from "../../question-limits.ts";
import type { Listeners } from "../notify-listeners.ts";
import { ask, releaseCatalog, readInputResponses, type QuestionParts } from "../questions.ts";
import type { ResultWriter } from "../results.ts";
import { TaskRunner, type TaskLimits } from "./task-runner.ts";
import { TaskStore, type TaskRecords } from "./task-store.ts";
import type { TaskOrder, UntilTask } from "./task-work.ts";
import { taskSummary, taskDetails, type Task } from "./task.ts";

/**
 * The tasks extension, `io.modelcontextprotocol/tasks` (SEP-2663): calls that continue after they were answered. Any
 * process can read a task by its id, pass answers to it and cancel it.
 */
export class Tasks {
  readonly #parts: TasksParts;
  readonly #runner: TaskRunner;
  #notifying: Promise<void> = Promise.resolve();

  constructor(parts: TasksParts) {
    const { records, cluster, limits, log, listeners, writer } = parts;
    this.#parts = parts;
    this.#runner = new TaskRunner({
      cluster,
      store: new TaskStore(records),
      limits,
      log,
      writer,
      onChange(tenant, task, longResult) {
        listeners.notifyTask(tenant, task.id, taskDetails(task, longResult));
        cluster.tell(CHANGED, { tenant, id: task.id });
      },
      takeOver: (tenant, task) => this.#takeOver(tenant, task),
    });
    cluster.on(CHANGED, (body) => {
      const { tenant, id } = body as { tenant: string; id: string };
      // Serialized, so that no listener receives an earlier state later.
      if (listeners.hasListeners(tenant, id))
        this.#notifying = this.#notifying.then(() => this.#notifyAgain(tenant, id));
    });
    cluster.onGone((node) => void this.#findLost(node));
    // Messages may have been lost.
    cluster.onLapse(() => {
      for (const [tenant, id] of listeners.tasks()) {
        this.#notifying = this.#notifying.then(() => this.#notifyAgain(tenant, id));
      }
    });
  }

  get running(): number {
    return this.#runner.running;
  }

  settled(): Promise<void> {
    return this.#runner.settled();
  }

  /** The task as a notification has it; undefined when this principal has no such task of this server. */
  async find(owner: TaskOwner, id: string): Promise<object | undefined> {
    const task = await this.#runner.read(owner.tenant, id);
    return task && isOwnedBy(task, owner) ? this.#readDetails(owner.tenant, task) : undefined;
  }

  async has(owner: TaskOwner, id: string): Promise<boolean> {
    const task = await this.#runner.read(owner.tenant, id);
    return task !== undefined && isOwnedBy(task, owner);
  }

  /** Notifies listeners of a task that another node has changed. */
  async #notifyAgain(tenant: string, id: string): Promise<void> {
    const { listeners, log } = this.#parts;
    try {
      const task = await this.#runner.read(tenant, id);
      if (task) listeners.notifyTask(tenant, id, await this.#readDetails(tenant, task));
    } catch (error) {
      log.warn({ err: error, task: id }, "listeners could not be notified of a task of another node");
    }
  }

  /** Notifies listeners to tasks of a lost node: reading such a task marks it as failed. */
  async #findLost(node: string): Promise<void> {
    const { cluster, limits, listeners, log } = this.#parts;
    try {
      // After an outage of the store, nodes get a full lease again.
      if (!cluster.isGone(node)) await sleep(limits.nodeLeaseMs, undefined, { ref: false });
      for (const [tenant, id] of listeners.tasks()) {
        await nextTurn();
        await this.#runner.read(tenant, id);
      }
    } catch (error) {
      log.warn({ err: error, node }, "the tasks of a lost node could not be read");
    }
  }

  /** Answers a call that may become a task: with the task, or with the result if the tool ends before that. */
  call(call: MethodCall, tool: Tool): Promise<Text> {
    return tool.task?.deferred ? this.#callDeferred(call, tool) : this.#callAsTask(call, tool);
  }

  async #callAsTask(call: MethodCall, tool: Tool): Promise<Text> {
    const order = this.#createOrder(call, tool);
    await this.#runner.admit(call.tenant);
    return this.#answerWith(call.catalog, await this.#runner.adopt(order, this.#runner.begin(copyArguments(order))));
  }

  /** Answers like any call, unless the function declares itself a task before it ends. */
  async #callDeferred(call: MethodCall, tool: Tool): Promise<Text> {
    const { catalog, events, signal } = call;
    const { writer } = this.#parts;
    const order = this.#createOrder(call, tool);
    await this.#runner.admit(call.tenant);
    let becameTask!: () => void;
    let upstream: TaskOfUpstream | undefined;
    const asTask = new Promise<undefined>((resolve) => (becameTask = () => resolve(undefined)));
    const onProgress = events && progressReporter(call.params, events);
    const onLog = logReporter(call);
    const until: UntilTask = {
      isOver: false,
      ...(onProgress && { onProgress }),
      ...(onLog && { onLog }),
      onTask(task) {
        until.isOver = true;
        upstream = task;
        becameTask();
      },
    };
    const work = this.#runner.begin(copyArguments(order), until);
    const stop = (): void => work.cancellation.abort();
    signal?.addEventListener("abort", stop);
    try {
      const outcome = await Promise.race([work.outcome, asTask]);
      // A function that ends right after it became a task is still a task.
      if (!outcome || until.isOver) {
        return this.#answerWith(catalog, await this.#runner.adopt({ ...order, upstream }, work));
      }
      if (!("inputRequests" in outcome)) return writer.write(catalog, "complete", outcome);
      return writer.write(catalog, "input_required", ask(this.#parts, call, outcome));
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  #answerWith(catalog: Catalog, task: Task): Text {
    return this.#parts.writer.write(catalog, "task", taskSummary(task));
  }

  #createOrder(call: MethodCall, tool: Tool): TaskOrder {
    const { tenant, server, catalog, client, principal, trace, answers = {} } = call;
    const { arguments: args = {} } = call.params;
    if (!isObject(args)) throw new BerthError("invalid_params", '"arguments" must be an object');
    const { capabilities } = client;
    const context = readCallerContext(call.params["_meta"]);
    // Stored with the task, and read and written with it.
    if (memoryBytes({ capabilities, ...context }) > ANSWER_BYTES) {
      const limit = `${ANSWER_BYTES} bytes, with 32 for each value`;
      throw new BerthError("invalid_params", `the "_meta" of a task has at most ${limit}`);
    }
    const caller = { tenant, server, catalog, capabilities, principal, trace };
    return { ...caller, tool, args: args as JsonObject | JsonText, answers, context };
  }

  /** `tasks/get`. */
  async get(call: MethodCall): Promise<Text> {
    return this.#complete(call, await this.#readDetails(call.tenant, await this.#requestedTask(call)));
  }

  async #readDetails(tenant: string, task: Task): Promise<object> {
    return taskDetails(task, await this.#runner.longResult(tenant, task));
  }

  /** `tasks/update`. */
  async update(call: MethodCall): Promise<Text> {
    const { tenant, params } = call;
    const { id } = await this.#requestedTask(call);
    const { inputResponses } = params;
    const runner = this.#runner;
    const answered = await runner.change(tenant, id, (task) => {
      const methods = Object.entries(task.asked).map(([key, { request }]) => [key, request.method] as const);
      const given = readInputResponses(inputResponses, Object.fromEntries(methods));
      if (Object.keys(given).length === 0) return undefined;
      const open = Object.entries(task.asked).filter(([key]) => !Object.hasOwn(given, key));
      const received = Object.entries(given).map(([key, answer]) => [task.asked[key]!.key, answer] as const);
      const answers = joinAnswers(task.answers, Object.fromEntries(received));
      const bytes = memoryBytes(answers);
      if (bytes > ANSWER_BYTES) {
        throw new BerthError("invalid_params", `a task cannot take ${TOO_MANY_ANSWERS}`);
      }
      runner.checkCapacity(tenant, bytes + (task.longArgs?.bytes ?? runner.bytesOf(task.args ?? {})));
      const next = { ...task, asked: Object.fromEntries(open), answers };
      return open.length === 0 ? runner.claim(next) : next;
    });
    if (answered?.status === "working") await this.#continue(call, answered);
    return this.#complete(call, {});
  }

  async #continue({ tenant, catalog, principal, trace }: MethodCall, task: Task): Promise<void> {
    try {
      const args = await this.#runner.args(tenant, task);
      const catalogThen = await releaseCatalog(this.#parts.host, { tenant, catalog, principal }, task.release);
      this.#resume(task, catalogThen.tool(task.tool), { tenant, catalog: catalogThen, principal, trace, args });
    } catch (error) {
      await this.#runner.fail(tenant, task.id, error);
    }
  }

  /**
   * Follows an upstream's task whose Berth process is gone. Its principal was authorized when the call began, and
   * nothing new is started.
   */
  async #takeOver(tenant: string, task: Task): Promise<void> {
    const { host } = this.#parts;
    const { server, release } = task;
    const args = await this.#runner.args(tenant, task);
    const current = await host.server(tenant, server);
    if (!current) throw new BerthError("server_not_found", server);
    const catalog =
      current.release === release
        ? current
        : ((await host.release(tenant, server, release).catch(() => undefined)) ?? current);
    const tool = catalog.tool(task.tool) ?? current.tool(task.tool);
    const principal = task.principal === undefined ? undefined : createPrincipal({ id: task.principal, tenant }, []);
    this.#resume(task, tool, { tenant, catalog, principal, trace: undefined, args });
  }

  #resume(
    task: Task,
    tool: Tool | undefined,
    caller: Pick<TaskOrder, "tenant" | "catalog" | "principal" | "trace" | "args">,
  ): void {
    if (!tool) throw new BerthError("invalid_params", `Unknown tool: ${task.tool}`);
    const { server, capabilities, answers, context, upstream } = task;
    const order: TaskOrder = { ...caller, server, capabilities, tool, answers, context, upstream };
    this.#runner.follow(task, order, this.#runner.begin(copyArguments(order)));
  }

  /** `tasks/cancel`. */
  async cancel(call: MethodCall): Promise<Text> {
    const task = await this.#requestedTask(call);
    const mustNotify = await this.#runner.cancel(call.tenant, task.id);
    // No process follows a task that waits for answers, or whose node was killed without being noticed yet.
    if (mustNotify && task.upstream) this.#cancelUpstream(call, task, task.upstream);
    return this.#complete(call, {});
  }

  /** Notifies the upstream for the client, which need not wait for it (SEP-2663 `tasks/cancel`). */
  #cancelUpstream({ catalog, principal, client }: MethodCall, { id, tool }: Task, upstream: TaskOfUpstream): void {
    const cancelling = catalog.tool(tool)?.cancelTask?.(upstream, { principal, client });
    cancelling?.catch((error: unknown) => {
      this.#parts.log.warn({ err: error, task: id }, "an upstream could not be notified that its task was cancelled");
    });
  }

  #complete({ catalog }: MethodCall, result: object): Text {
    return this.#parts.writer.write(catalog, "complete", result);
  }

  async #requestedTask(call: MethodCall): Promise<Task> {
    const { tenant, client, params } = call;
    if (!declaresTasks(client)) throw lacksTasks();
    const { taskId } = params;
    if (typeof taskId !== "string") throw new BerthError("invalid_params", '"taskId" must be a string');
    const task = await this.#runner.read(tenant, taskId);
    if (task && isOwnedBy(task, call)) return task;
    throw new BerthError("invalid_params", "this server does not have such a task, or no longer has it");
  }
}

export interface TasksParts extends QuestionParts {
  readonly cluster: Pick<Cluster, "id" | "on" | "onGone" | "onLapse" | "tell" | "send" | "isGone">;
  readonly records: TaskRecords;
  readonly writer: ResultWriter;
  readonly listeners: Listeners;
  readonly limits: TaskLimits;
  readonly log: Log;
}

/** Topic of messages to other nodes about a changed task. */
const CHANGED = "task";

type TaskOwner = Pick<MethodCall, "tenant" | "server" | "principal">;

/**
 * The tool of `tools/call` if the call may become a task, which its client has to support. Throws `missing_capability`
 * when the tool requires a task and the client does not support them.
 */
export function taskTool({ catalog, client, params }: MethodCall): Tool | undefined {
  const { name } = params;
  const tool = typeof name === "string" ? catalog.tool(name) : undefined;
  if (!tool?.task) return undefined;
  if (declaresTasks(client)) return tool;
  if (tool.task.required) throw lacksTasks();
  return undefined;
}

/** Another principal's task looks like one that does not exist. */
function isOwnedBy(task: Task, { server, principal }: Pick<MethodCall, "server" | "principal">): boolean {
  return task.server === server && task.principal === principal?.id;
}

/** A run fills in defaults, and each round has to begin with what the client sent. */
function copyArguments(order: TaskOrder): TaskOrder {
  const { args } = order;
  return { ...order, args: args instanceof JsonText ? new JsonText(args.text, args.digest) : structuredClone(args) };
}

export function declaresTasks({ capabilities }: Client): boolean {
  return isObject(capabilities["extensions"]) && isObject(capabilities["extensions"][EXTENSION_TASKS]);
}

export function lacksTasks(): BerthError {
  const requiredCapabilities = { extensions: { [EXTENSION_TASKS]: {} } };
  return new BerthError("missing_capability", EXTENSION_TASKS, { data: { requiredCapabilities } });
}
