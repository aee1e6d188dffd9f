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
import { callerContextOf } from "../../../outcome/context.ts";
import type { TaskOfUpstream } from "../../../upstream/messages/request.ts";
import { logReporter, progressReporter } from "../../methods/calls.ts";
import type { Client, MethodCall } from "../../protocol.ts";
import { ANSWER_BYTES, heldBytes, TOO_MANY_ANSWERS } from "../../question-length.ts";
import type { Listeners } from "../notify-listeners.ts";
import { ask, catalogOfRelease, readInputResponses, type QuestionParts } from "../questions.ts";
import type { ResultWriter } from "../results.ts";
import { TaskRunner, type TaskLimits } from "./task-runner.ts";
import { TaskStore, type TaskRecords } from "./task-store.ts";
import type { TaskOrder, UntilTask } from "./task-work.ts";
import { briefly, inDetail, type Task } from "./task.ts";

/**
 * The tasks extension, `io.modelcontextprotocol/tasks` (SEP-2663): calls that go on after they were answered. By its
 * id, any process can read a task, pass answers to it and cancel it.
 */
export class Tasks {
  readonly #parts: TasksParts;
  readonly #runner: TaskRunner;
  #telling: Promise<void> = Promise.resolve();

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
        listeners.tellOfTask(tenant, task.id, inDetail(task, longResult));
        cluster.tell(CHANGED, { tenant, id: task.id });
      },
      takeUp: (tenant, task) => this.#takeUp(tenant, task),
    });
    cluster.on(CHANGED, (body) => {
      const { tenant, id } = body as { tenant: string; id: string };
      // One after the other, so that none hears of an earlier state later.
      if (listeners.hearOfTask(tenant, id)) this.#telling = this.#telling.then(() => this.#tellAnew(tenant, id));
    });
    cluster.onGone((node) => void this.#findLost(node));
    // Letters may have been lost meanwhile.
    cluster.onLapse(() => {
      for (const [tenant, id] of listeners.tasks()) {
        this.#telling = this.#telling.then(() => this.#tellAnew(tenant, id));
      }
    });
  }

  /** The number of tasks that this process runs. */
  get running(): number {
    return this.#runner.running;
  }

  /** Resolves when the outcomes of all ended tasks are stored. */
  settled(): Promise<void> {
    return this.#runner.settled();
  }

  /** The task as a notification has it; undefined when this principal has no such task of this server. */
  async find(whose: TaskOwner, id: string): Promise<object | undefined> {
    const task = await this.#runner.read(whose.tenant, id);
    return task && isOf(task, whose) ? this.#detailOf(whose.tenant, task) : undefined;
  }

  async has(whose: TaskOwner, id: string): Promise<boolean> {
    const task = await this.#runner.read(whose.tenant, id);
    return task !== undefined && isOf(task, whose);
  }

  /** Tells listeners how a task is that another node has changed. */
  async #tellAnew(tenant: string, id: string): Promise<void> {
    const { listeners, log } = this.#parts;
    try {
      const task = await this.#runner.read(tenant, id);
      if (task) listeners.tellOfTask(tenant, id, await this.#detailOf(tenant, task));
    } catch (error) {
      log.warn({ err: error, task: id }, "the listeners to a task of another node could not be told of it");
    }
  }

  /** Tells listeners to tasks of a node that it is gone: whoever reads such a task finds it failed. */
  async #findLost(node: string): Promise<void> {
    const { cluster, limits, listeners, log } = this.#parts;
    try {
      // After an outage of the store, a node has its time again.
      if (!cluster.isGone(node)) await sleep(limits.nodeLeaseMs, undefined, { ref: false });
      for (const [tenant, id] of listeners.tasks()) {
        await nextTurn();
        await this.#runner.read(tenant, id);
      }
    } catch (error) {
      log.warn({ err: error, node }, "the tasks of a node that has gone could not be read");
    }
  }

  /** Answers the call of a tool that is a task: with the task, or like any call if the tool ends before it is one. */
  call(call: MethodCall, tool: Tool): Promise<Text> {
    return tool.task?.deferred ? this.#callDeferred(call, tool) : this.#callAsTask(call, tool);
  }

  async #callAsTask(call: MethodCall, tool: Tool): Promise<Text> {
    const order = this.#orderOf(call, tool);
    await this.#runner.admit(call.tenant);
    return this.#answerWith(call.catalog, await this.#runner.adopt(order, this.#runner.begin(copied(order))));
  }

  /** Answers like any call, unless the function declares itself a task before it ends. */
  async #callDeferred(call: MethodCall, tool: Tool): Promise<Text> {
    const { catalog, events, signal } = call;
    const { writer } = this.#parts;
    const order = this.#orderOf(call, tool);
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
    const work = this.#runner.begin(copied(order), until);
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
    return this.#parts.writer.write(catalog, "task", briefly(task));
  }

  #orderOf(call: MethodCall, tool: Tool): TaskOrder {
    const { tenant, server, catalog, client, principal, trace, answers = {} } = call;
    const { arguments: args = {} } = call.params;
    if (!isObject(args)) throw new BerthError("invalid_params", '"arguments" must be an object');
    const { capabilities } = client;
    const context = callerContextOf(call.params["_meta"]);
    // Stored with the task, and read and written with it.
    if (heldBytes({ capabilities, ...context }) > ANSWER_BYTES) {
      const limit = `${ANSWER_BYTES} bytes, with 32 for each value`;
      throw new BerthError("invalid_params", `the "_meta" of a task has at most ${limit}`);
    }
    const whose = { tenant, server, catalog, capabilities, principal, trace };
    return { ...whose, tool, args: args as JsonObject | JsonText, answers, context };
  }

  /** `tasks/get`. */
  async get(call: MethodCall): Promise<Text> {
    return this.#complete(call, await this.#detailOf(call.tenant, await this.#taskOf(call)));
  }

  async #detailOf(tenant: string, task: Task): Promise<object> {
    return inDetail(task, await this.#runner.longResult(tenant, task));
  }

  /** `tasks/update`. */
  async update(call: MethodCall): Promise<Text> {
    const { tenant, params } = call;
    const { id } = await this.#taskOf(call);
    const { inputResponses } = params;
    const runner = this.#runner;
    const answered = await runner.change(tenant, id, (task) => {
      const methods = Object.entries(task.asked).map(([key, { request }]) => [key, request.method] as const);
      const given = readInputResponses(inputResponses, Object.fromEntries(methods));
      if (Object.keys(given).length === 0) return undefined;
      const open = Object.entries(task.asked).filter(([key]) => !Object.hasOwn(given, key));
      const came = Object.entries(given).map(([key, answer]) => [task.asked[key]!.key, answer] as const);
      const answers = joinAnswers(task.answers, Object.fromEntries(came));
      const bytes = heldBytes(answers);
      if (bytes > ANSWER_BYTES) {
        throw new BerthError("invalid_params", `a task cannot take ${TOO_MANY_ANSWERS}`);
      }
      runner.checkRoom(tenant, bytes + (task.longArgs?.bytes ?? runner.bytesOf(task.args ?? {})));
      const next = { ...task, asked: Object.fromEntries(open), answers };
      return open.length === 0 ? runner.claim(next) : next;
    });
    if (answered?.status === "working") await this.#goOn(call, answered);
    return this.#complete(call, {});
  }

  async #goOn({ tenant, catalog, principal, trace }: MethodCall, task: Task): Promise<void> {
    try {
      const args = await this.#runner.args(tenant, task);
      const ran = await catalogOfRelease(this.#parts.host, { tenant, catalog, principal }, task.release);
      this.#resume(task, ran.tool(task.tool), { tenant, catalog: ran, principal, trace, args });
    } catch (error) {
      await this.#runner.fail(tenant, task.id, error);
    }
  }

  /**
   * Follows the task of an upstream whose process is gone. Its principal was permitted the call when it began, and nothing
   * new is begun.
   */
  async #takeUp(tenant: string, task: Task): Promise<void> {
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

  /** Goes on with a task that this process has claimed. */
  #resume(
    task: Task,
    tool: Tool | undefined,
    caller: Pick<TaskOrder, "tenant" | "catalog" | "principal" | "trace" | "args">,
  ): void {
    if (!tool) throw new BerthError("invalid_params", `Unknown tool: ${task.tool}`);
    const { server, capabilities, answers, context, upstream } = task;
    const order: TaskOrder = { ...caller, server, capabilities, tool, answers, context, upstream };
    this.#runner.follow(task, order, this.#runner.begin(copied(order)));
  }

  /** `tasks/cancel`. */
  async cancel(call: MethodCall): Promise<Text> {
    const task = await this.#taskOf(call);
    const isLeft = await this.#runner.cancel(call.tenant, task.id);
    // Nobody follows a task that asks; nor one whose node was killed, which may not have been noticed yet.
    if (isLeft && task.upstream) this.#cancelThere(call, task, task.upstream);
    return this.#complete(call, {});
  }

  /** Tells the upstream in the client's place; the client need not wait for it (SEP-2663 `tasks/cancel`). */
  #cancelThere({ catalog, principal, client }: MethodCall, { id, tool }: Task, upstream: TaskOfUpstream): void {
    const cancelling = catalog.tool(tool)?.cancelTask?.(upstream, { principal, client });
    cancelling?.catch((error: unknown) => {
      this.#parts.log.warn({ err: error, task: id }, "an upstream could not be told that its task is cancelled");
    });
  }

  #complete({ catalog }: MethodCall, result: object): Text {
    return this.#parts.writer.write(catalog, "complete", result);
  }

  async #taskOf(call: MethodCall): Promise<Task> {
    const { tenant, client, params } = call;
    if (!declaresTasks(client)) throw lacksTasks();
    const { taskId } = params;
    if (typeof taskId !== "string") throw new BerthError("invalid_params", '"taskId" must be a string');
    const task = await this.#runner.read(tenant, taskId);
    if (task && isOf(task, call)) return task;
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

/** Tells other nodes of a change to a task. */
const CHANGED = "task";

type TaskOwner = Pick<MethodCall, "tenant" | "server" | "principal">;

/**
 * The tool of `tools/call` if the call may become a task, which its client has to support. Throws `missing_capability`
 * when the tool has to be one, and the client does not.
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
function isOf(task: Task, { server, principal }: Pick<MethodCall, "server" | "principal">): boolean {
  return task.server === server && task.principal === principal?.id;
}

/** A run fills in defaults; each round begins with what the client sent. */
function copied(order: TaskOrder): TaskOrder {
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
