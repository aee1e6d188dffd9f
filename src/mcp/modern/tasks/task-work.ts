import type { Principal } from "../../../access/principal.ts";
import type { CallOptions, CallResult, Catalog, InputRequired, Tool } from "../../../host/offers/catalog.ts";
import { Cancellation } from "../../../lib/cancellation.ts";
import { isObject, type Json, type JsonObject, type JsonText } from "../../../lib/json.ts";
import type { Trace } from "../../../lib/trace.ts";
import type { CallerContext } from "../../../outcome/context.ts";
import type { TaskOfUpstream } from "../../../upstream/messages/request.ts";
import { checkCapabilities } from "../questions.ts";

export interface TaskOrder {
  readonly tenant: string;
  readonly server: string;
  readonly principal: Principal | undefined;
  readonly catalog: Catalog;
  readonly tool: Tool;
  readonly args: JsonObject | JsonText;
  readonly capabilities: JsonObject;
  readonly answers: JsonObject;
  readonly context: CallerContext | undefined;
  /** The trace of the request that causes this run of the tool. */
  readonly trace: Trace | undefined;
  /** The upstream's task that the call has already become. */
  readonly upstream?: TaskOfUpstream | undefined;
}

/** A tool call in progress that may become a task, or is one. */
export interface TaskWork {
  readonly outcome: Promise<CallResult | InputRequired>;
  readonly cancellation: Cancellation;
  readonly progress: Progress;
}

interface Progress {
  message: string | undefined;
}

/** The events of a call until its function turns it into a task. */
export interface UntilTask extends Pick<CallOptions, "onProgress" | "onLog"> {
  isOver: boolean;
  readonly onTask: (upstream?: TaskOfUpstream) => void;
}

export type TaskCallee = Pick<
  TaskOrder,
  "principal" | "trace" | "tool" | "args" | "answers" | "capabilities" | "context" | "upstream"
>;

/** Longer messages are cut: a message reports progress, and is stored and sent repeatedly. */
const STATUS_UNITS_MAX = 8_192;

/** Calls the tool like a task, for at most `taskMs`. `until` receives progress and logs until it is a task. */
export function beginWork(
  { principal, trace, tool, args, answers, capabilities, context, upstream }: TaskCallee,
  taskMs: number,
  until?: UntilTask,
): TaskWork {
  const progress: Progress = { message: undefined };
  const cancellation = new Cancellation();
  const result = tool.call(args, {
    principal,
    signal: cancellation,
    answers,
    context,
    trace,
    client: { capabilities },
    deadlineMs: taskMs,
    // Until it is a task, it ends like any call.
    get failuresReject() {
      return until?.isOver !== false;
    },
    onProgress: (event) =>
      until?.isOver === false
        ? until.onProgress?.(event)
        : void (progress.message = progressMessage(event).slice(0, STATUS_UNITS_MAX)),
    onLog: (line) => (until?.isOver === false ? until.onLog?.(line) : undefined),
    ...(until && { onTask: (task) => until.onTask(task) }),
    ...(upstream && { task: upstream }),
  });
  // Fails now instead of waiting for a consent that the client cannot give.
  const outcome = result.then((ended) => {
    if ("inputRequests" in ended && ended.hint !== undefined) checkCapabilities(capabilities, ended);
    return ended;
  });
  // Its caller handles the error; until then it must not count as an unhandled rejection.
  outcome.catch(() => {});
  return { outcome, cancellation, progress };
}

function progressMessage(event: Json): string {
  if (typeof event === "string") return event;
  if (!isObject(event) || typeof event["progress"] !== "number") return JSON.stringify(event);
  const { progress, total, message } = event;
  const share = typeof total === "number" ? `${JSON.stringify(progress)} of ${total}` : JSON.stringify(progress);
  return typeof message === "string" ? message : share;
}
