import type { CallOptions, CallResult, InputRequests, InputRequired } from "../../src/host/offers/catalog.ts";
import { LongResult } from "../../src/host/offers/long-result.ts";
import { BerthError } from "../../src/lib/errors.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import { modern, type Reply } from "./berth.ts";
import { declaring, type Offer } from "./mcp-host.ts";
import { until } from "./until.ts";

/** A server whose tools become tasks, for the tests of tasks. */
export const EXTENSION = "io.modelcontextprotocol/tasks";

export const WITH_TASKS = declaring({ elicitation: {}, extensions: { [EXTENSION]: {} } });

export const WITHOUT = declaring({ elicitation: {} });

export const QUESTION: InputRequests[string] = {
  method: "elicitation/create",
  params: { message: "Sure?", requestedSchema: { type: "object", properties: {} } },
};

export const YES = { action: "accept", content: { sure: true } };

export const says = (text: string): CallResult => ({ content: [{ type: "text", text }] });

/** Resolve the runs of `held`, in order. */
export const release: ((text: string) => void)[] = [];

export function held(_args: JsonObject, { signal, onProgress }: CallOptions): Promise<CallResult> {
  return new Promise((resolve, reject) => {
    release.push((text) => (text.startsWith("progress ") ? void onProgress?.(text.slice(9)) : resolve(says(text))));
    signal!.addEventListener("abort", () => reject(new BerthError("guest_failed", "cancelled")));
  });
}

export const asks =
  (...keys: string[]) =>
  (args: JsonObject, { answers = {} }: CallOptions): CallResult | InputRequired => {
    const missing = keys.filter((key) => !answers[key]);
    if (missing.length > 0) return { inputRequests: Object.fromEntries(missing.map((key) => [key, QUESTION])) };
    return says(JSON.stringify({ args, answers }));
  };

/** Says that it is a task, and goes on. */
const becoming =
  (run: typeof held) =>
  (args: JsonObject, options: CallOptions): Promise<CallResult> => {
    options.onTask?.();
    return run(args, options);
  };

/** Asks, and becomes a task that ends at once. */
const afterAnswer =
  (key: string) =>
  (args: JsonObject, options: CallOptions): CallResult | InputRequired => {
    if (options.answers?.[key]) options.onTask?.();
    return asks(key)(args, options);
  };

export const OPTIONAL = { required: false, deferred: false };

export const REQUIRED = { required: true, deferred: false };

const DEFERRED = { required: true, deferred: true };

export const LONG_TEXT = "long ä ".repeat(100_000);

/** Made where long results are read. */
const LONG = new LongResult({
  content: new TextEncoder().encode(JSON.stringify([{ type: "text", text: LONG_TEXT }])),
  blocks: 1,
  isError: false,
  size: LONG_TEXT.length,
  digest: { bytes: 0, sha256: "" },
});

export const OFFER: Offer = {
  tools: {
    plain: () => "plain",
    held: { task: OPTIONAL, run: held },
    required: { task: REQUIRED, run: () => "done" },
    fails: {
      task: OPTIONAL,
      run: () => ({ content: [{ type: "text", text: "no" }], isError: true }),
    },
    crashes: {
      task: OPTIONAL,
      run: () => Promise.reject(new BerthError("guest_failed", "it crashed", { data: { retriable: false } })),
    },
    long: {
      task: OPTIONAL,
      run: (args, options) => (args["held"] === true ? held(args, options).then(() => LONG) : LONG),
    },
    breaks: { task: OPTIONAL, run: () => Promise.reject(new Error("a secret of the host")) },
    confirms: { task: OPTIONAL, run: asks("sure") },
    both: { task: OPTIONAL, run: asks("one", "two") },
    samples: {
      task: OPTIONAL,
      run: () => ({ inputRequests: { it: { method: "sampling/createMessage", params: {} } } }),
    },
    asksAgain: {
      task: OPTIONAL,
      run: (_args, { answers = {} }) =>
        (answers["it"] as JsonObject | undefined)?.["action"] === "accept"
          ? says("accepted")
          : { inputRequests: { it: QUESTION } },
    },
    asksFirst: { task: DEFERRED, run: afterAnswer("name") },
    neverBecomes: { task: DEFERRED, run: () => "no task" },
    asksFirstThenWorks: {
      task: DEFERRED,
      run: (args, options) => (options.answers?.["name"] ? becoming(held)(args, options) : asks("name")(args, options)),
    },
    fillsIn(args) {
      args["filledIn"] = true;
      return "filled in";
    },
  },
};

/** The header that a request about a tool or a task has to carry. */
export function nameOf({ taskId, name }: JsonObject): Record<string, string> {
  const said = taskId ?? name;
  return typeof said === "string" ? { "Mcp-Name": said } : {};
}

const OVER = new Set(["completed", "failed", "cancelled", "input_required"]);

/** A client that takes tasks, at one server. */
export function taskClient(url: string, meta: JsonObject = WITH_TASKS) {
  const send = async (method: string, params: JsonObject, _meta: JsonObject = meta): Promise<Reply["body"]> =>
    (await modern(url, method, { _meta, ...params }, nameOf(params))).body;
  const begin = async (name: string, args: JsonObject = {}): Promise<Reply["body"]> =>
    (await send("tools/call", { name, arguments: args })).result;
  const get = async (taskId: string): Promise<Reply["body"]> => (await send("tasks/get", { taskId })).result;
  const over = (taskId: string): Promise<Reply["body"]> =>
    until(async () => {
      const task = await get(taskId);
      return OVER.has(task.status) ? task : undefined;
    });
  const ended = async (name: string, args: JsonObject = {}): Promise<Reply["body"]> =>
    over((await begin(name, args)).taskId);
  const seen = async (): Promise<{ method: string; params: JsonObject }[]> =>
    JSON.parse((await begin("seen")).content[0].text);
  return { send, begin, get, over, ended, seen };
}
