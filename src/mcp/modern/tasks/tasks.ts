import { BerthError } from "../../../lib/errors.ts";
import type { Tool } from "../../../host/catalog/catalog.ts";
import type { Host } from "../../../host/host.ts";
import { joinAnswers } from "../../../outcome/answers.ts";
import { JsonText, isObject, type JsonObject } from "../../../lib/json.ts";
import { limitVariable } from "../../../limits/limits.ts";
import type { Text } from "../../../lib/long-text.ts";
import type { Log } from "../../../lib/log.ts";
import { callerContextOf } from "../../../outcome/context.ts";
import { logReporter } from "../../methods/log.ts";
import { progressReporter } from "../../methods/progress.ts";
import type { Client, Method, MethodCall } from "../../protocol.ts";
import { heldBytes, tooManyAnswers } from "../../question-length.ts";
import { EXTENSION_TASKS } from "../../revisions.ts";
import { readInputResponses, catalogOfRelease } from "../questions.ts";
import type { ResultWriter } from "../results.ts";
import { briefly, inDetail, type Task } from "./task.ts";
import { TaskRunner, type TaskLimits } from "./task-runner.ts";
import type { TaskOrder, UntilTask } from "./work.ts";
import { TaskStore, type TaskRecords } from "./task-store.ts";

/**
 * The tasks extension, `io.modelcontextprotocol/tasks` (SEP-2663): calls that go on after they were answered. By its
 * id, any process can read a task, pass answers to it and cancel it.
 */
export interface Tasks {
  readonly methods: readonly (readonly [string, Method])[];
  /** `tools/call`: a tool that is a task becomes one for clients that support tasks. */
  taskable(run: Method): Method;
  /** The task as a notification has it; undefined when this principal has no such task of this server. */
  find(whose: TaskOwner, id: string): Promise<object | undefined>;
  has(whose: TaskOwner, id: string): Promise<boolean>;
  /** The number of tasks that this process runs. */
  running(): number;
  /** Resolves when the outcomes of all ended tasks are stored. */
  settled(): Promise<void>;
}

type TaskOwner = Pick<MethodCall, "tenant" | "server" | "principal">;

export interface TasksOptions {
  readonly host: Host;
  readonly records: TaskRecords;
  readonly writer: ResultWriter;
  readonly limits: TaskLimits;
  readonly log: Log;
  readonly onChange: (tenant: string, id: string, task: object) => void;
}

export function createTasks({ host, records, writer, limits, log, onChange }: TasksOptions): Tasks {
  const runner = new TaskRunner({
    store: new TaskStore(records),
    limits,
    log,
    onChange: (tenant, task, longResult) => onChange(tenant, task.id, inDetail(task, longResult)),
  });

  return {
    methods: [
      ["tasks/get", async (call) => call.codec.result(call.catalog, await detailOf(call.tenant, await taskOf(call)))],
      ["tasks/update", update],
      ["tasks/cancel", cancel],
    ],

    taskable: (run) => (call) => {
      const { name } = call.params;
      const tool = typeof name === "string" ? call.catalog.tool(name) : undefined;
      if (!tool?.task) return run(call);
      if (declaresTasks(call.client)) return tool.task.deferred ? startDeferred(call, tool) : start(call, tool);
      if (tool.task.required) throw lacksTasks();
      return run(call);
    },

    async find(whose, id) {
      const task = await runner.read(whose.tenant, id);
      return task && isOf(task, whose) ? detailOf(whose.tenant, task) : undefined;
    },

    async has(whose, id) {
      const task = await runner.read(whose.tenant, id);
      return task !== undefined && isOf(task, whose);
    },

    running: () => runner.running,
    settled: () => runner.settled(),
  };

  async function detailOf(tenant: string, task: Task): Promise<object> {
    return inDetail(task, await runner.longResult(tenant, task));
  }

  async function start(call: MethodCall, tool: Tool): Promise<Text> {
    const order = orderOf(call, tool);
    await runner.admit(call.tenant);
    return writer.write(call.catalog, "task", briefly(await runner.adopt(order, runner.begin(copied(order)))));
  }

  /** Answers like any call, unless the function declares itself a task before it ends. */
  async function startDeferred(call: MethodCall, tool: Tool): Promise<Text> {
    const { catalog, codec, events, signal, answers = {} } = call;
    const order = orderOf(call, tool);
    await runner.admit(call.tenant);
    let becameTask!: () => void;
    const asTask = new Promise<undefined>((resolve) => (becameTask = () => resolve(undefined)));
    const onProgress = events && progressReporter(call.params, events);
    const onLog = logReporter(call);
    const until: UntilTask = {
      isOver: false,
      ...(onProgress && { onProgress }),
      ...(onLog && { onLog }),
      onTask() {
        until.isOver = true;
        becameTask();
      },
    };
    const work = runner.begin(copied(order), until);
    const stop = (): void => work.cancellation.abort();
    signal?.addEventListener("abort", stop);
    try {
      const outcome = await Promise.race([work.outcome, asTask]);
      // A function that ends right after it became a task is still a task.
      if (!outcome || until.isOver) return writer.write(catalog, "task", briefly(await runner.adopt(order, work)));
      if (!("inputRequests" in outcome)) return codec.callResult(catalog, tool.contract, outcome);
      const asked = await codec.ask(call, outcome.inputRequests, answers);
      if ("result" in asked) return asked.result;
      throw new BerthError("internal", "a question of this era ends its request");
    } finally {
      signal?.removeEventListener("abort", stop);
    }
  }

  function orderOf(call: MethodCall, tool: Tool): TaskOrder {
    const { tenant, server, catalog, codec, client, principal, trace, answers = {} } = call;
    const { arguments: args = {} } = call.params;
    if (!isObject(args)) throw new BerthError("invalid_params", '"arguments" must be an object');
    const { capabilities } = client;
    const context = callerContextOf(call.params["_meta"]);
    const { answerBytes } = limits;
    // Stored with the task, and read and written with it.
    if (heldBytes({ capabilities, ...context }, answerBytes) > answerBytes) {
      const limit = `${answerBytes} bytes, with 32 for each value (${limitVariable("answerBytes")})`;
      throw new BerthError("invalid_params", `what "_meta" says of a task has at most ${limit}`);
    }
    const whose = { tenant, server, catalog, capabilities, principal, trace };
    return {
      ...whose,
      tool,
      codec,
      args: args as JsonObject | JsonText,
      answers,
      context,
    };
  }

  async function update(call: MethodCall): Promise<Text> {
    const { tenant, catalog, codec, params } = call;
    const { id } = await taskOf(call);
    const { inputResponses } = params;
    const { answerBytes } = limits;
    const answered = await runner.change(tenant, id, (task) => {
      const methods = Object.entries(task.asked).map(([key, { request }]) => [key, request.method] as const);
      const given = readInputResponses(inputResponses, Object.fromEntries(methods));
      if (Object.keys(given).length === 0) return undefined;
      const open = Object.entries(task.asked).filter(([key]) => !Object.hasOwn(given, key));
      const came = Object.entries(given).map(([key, answer]) => [task.asked[key]!.key, answer] as const);
      const answers = joinAnswers(task.answers, Object.fromEntries(came));
      const bytes = heldBytes(answers, answerBytes);
      if (bytes > answerBytes) {
        throw new BerthError("invalid_params", `a task takes no ${tooManyAnswers(answerBytes)}`);
      }
      runner.checkRoom(tenant, bytes + (task.longArgs?.bytes ?? runner.bytesOf(task.args ?? {})));
      const next = { ...task, asked: Object.fromEntries(open), answers };
      return open.length === 0 ? runner.claim(next) : next;
    });
    if (answered?.status === "working") await goOn(call, answered);
    return codec.result(catalog, {});
  }

  async function goOn({ tenant, catalog, codec, principal, trace }: MethodCall, task: Task): Promise<void> {
    const { id, server, capabilities, answers, context } = task;
    try {
      const args = await runner.args(tenant, task);
      const ran = await catalogOfRelease(host, { tenant, catalog, principal }, task.release);
      const tool = ran.tool(task.tool);
      if (!tool) throw new BerthError("invalid_params", `Unknown tool: ${task.tool}`);
      const whose = { tenant, server, catalog: ran, capabilities, principal, trace };
      const order: TaskOrder = { ...whose, tool, codec, args, answers, context };
      runner.resume(task, order, runner.begin(copied(order)));
    } catch (error) {
      await runner.fail(tenant, id, error);
    }
  }

  async function cancel(call: MethodCall): Promise<Text> {
    await runner.cancel(call.tenant, (await taskOf(call)).id);
    return call.codec.result(call.catalog, {});
  }

  async function taskOf(call: MethodCall): Promise<Task> {
    const { tenant, client, params } = call;
    if (!declaresTasks(client)) throw lacksTasks();
    const { taskId } = params;
    if (typeof taskId !== "string") throw new BerthError("invalid_params", '"taskId" must be a text');
    const task = await runner.read(tenant, taskId);
    if (task && isOf(task, call)) return task;
    throw new BerthError("invalid_params", "this server has no such task, or not any more");
  }
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
