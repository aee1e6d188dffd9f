import type { Principal } from "../../../access/principal.ts";
import type { CallOptions, CallResult, Catalog, InputRequired, Tool } from "../../../host/offers/catalog.ts";
import { Cancellation } from "../../../lib/cancellation.ts";
import { isObject, type Json, type JsonObject, type JsonText } from "../../../lib/json.ts";
import type { Trace } from "../../../lib/trace.ts";
import type { CallerContext } from "../../../outcome/context.ts";
import type { TaskOfUpstream } from "../../../upstream/messages/request.ts";
import { checkCapabilities } from "../questions.ts";

/** The parts that make a task. */
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
  /** The task of an upstream that the call has become before. */
  readonly upstream?: TaskOfUpstream | undefined;
}

/** A tool call in progress that may become a task, or is one. */
export interface TaskWork {
  readonly outcome: Promise<CallResult | InputRequired>;
  readonly cancellation: Cancellation;
  readonly progress: Progress;
}

/** The guest's last progress message. */
interface Progress {
  message: string | undefined;
}

/** The events of a call that its function may turn into a task. */
export interface UntilTask extends Pick<CallOptions, "onProgress" | "onLog"> {
  isOver: boolean;
  readonly onTask: (upstream?: TaskOfUpstream) => void;
}

export type TaskCallee = Pick<
  TaskOrder,
  "principal" | "trace" | "tool" | "args" | "answers" | "capabilities" | "context" | "upstream"
>;

/** A longer message is cut: it tells the progress of the task, and is written and sent again and again. */
const STATUS_UNITS_MAX = 8_192;

/**
 * Calls the tool as a task does, for at most `taskMs`. `until` gets progress and logs as long as it is not a task yet.
 */
export function beginWork(
  { principal, trace, tool, args, answers, capabilities, context, upstream }: TaskCallee,
  taskMs: number,
  until?: UntilTask,
): TaskWork {
  const progress: Progress = { message: undefined };
  const cancellation = new Cancellation();
  const called = tool.call(args, {
    principal,
    signal: cancellation,
    answers,
    context,
    trace,
    client: { capabilities },
    deadlineMs: taskMs,
    // What is no task yet ends like any call.
    get failuresReject() {
      return until?.isOver !== false;
    },
    onProgress: (event) =>
      until?.isOver === false
        ? until.onProgress?.(event)
        : void (progress.message = messageOf(event).slice(0, STATUS_UNITS_MAX)),
    onLog: (line) => (until?.isOver === false ? until.onLog?.(line) : undefined),
    ...(until && { onTask: (task) => until.onTask(task) }),
    ...(upstream && { task: upstream }),
  });
  // A consent that nobody can give would be waited for in vain.
  const outcome = called.then((ended) => {
    if ("inputRequests" in ended && ended.hint !== undefined) checkCapabilities(capabilities, ended);
    return ended;
  });
  // Its caller handles the error; until then it must not count as an unhandled rejection.
  outcome.catch(() => {});
  return { outcome, cancellation, progress };
}

function messageOf(event: Json): string {
  if (typeof event === "string") return event;
  if (!isObject(event) || typeof event["progress"] !== "number") return JSON.stringify(event);
  const { progress, total, message } = event;
  const share = typeof total === "number" ? `${JSON.stringify(progress)} of ${total}` : JSON.stringify(progress);
  return typeof message === "string" ? message : share;
}
