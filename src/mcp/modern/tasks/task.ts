import type { InputRequest, InputRequired } from "../../../host/offers/catalog.ts";
import { nameOfKey } from "../../../host/upstreams/upstream-call.ts";
import { BerthError } from "../../../lib/errors.ts";
import type { Json, JsonDigest, JsonObject } from "../../../lib/json.ts";
import { LongText } from "../../../lib/long-text.ts";
import type { CallerContext } from "../../../outcome/context.ts";
import type { TaskOfUpstream } from "../../../upstream/messages/request.ts";
import { missingCapabilities } from "../questions.ts";

/** A tool call that outlives its request, as it is stored (SEP-2663). Times are milliseconds since the epoch. */
export interface Task {
  readonly id: string;
  /** The name that was called; `release` executes the task. */
  readonly server: string;
  /** The id of the principal that began it, its only owner; absent when no token was required. */
  readonly principal?: string;
  readonly release: string;
  readonly tool: string;
  /** Long arguments are stored separately, so that status reads and writes do not include them. */
  readonly args?: JsonObject;
  readonly longArgs?: JsonDigest;
  readonly capabilities: JsonObject;
  readonly status: TaskStatus;
  readonly statusMessage?: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly ttlMs: number;
  /** The call's context, as the client stated it. */
  readonly context?: CallerContext;
  /** Answers by the guest's own keys. */
  readonly answers: JsonObject;
  /** Questions that wait for their answers, by the keys that the client sees. */
  readonly asked: Readonly<Record<string, TaskQuestion>>;
  /** Every key that the client ever saw: no key is reused within a task. */
  readonly seenKeys: readonly string[];
  /** A long result is stored separately, as text. */
  readonly result?: Json;
  readonly hasLongResult?: true;
  readonly error?: JsonObject;
  /** The node that runs it, and since when. */
  readonly owner?: string;
  readonly claimedAt?: number;
  /** The tool declares that calling it again does no harm. */
  readonly repeatable?: true;
  /** The upstream's task behind it; clients never see that id. */
  readonly upstream?: TaskOfUpstream;
}

export type TaskStatus = "working" | "input_required" | "completed" | "failed" | "cancelled";

export interface TaskQuestion {
  readonly key: string;
  readonly request: InputRequest;
}

/** Poll interval that clients are advised to use. */
const POLL_INTERVAL_MS = 1_000;

export function isOver({ status }: Task): boolean {
  return status === "completed" || status === "failed" || status === "cancelled";
}

/** `Task` on the wire. */
export function taskSummary(task: Task): JsonObject {
  const { id, status, statusMessage, createdAt, updatedAt, ttlMs, upstream } = task;
  return {
    taskId: id,
    status,
    ...(statusMessage !== undefined && { statusMessage }),
    createdAt: new Date(createdAt).toISOString(),
    lastUpdatedAt: new Date(updatedAt).toISOString(),
    ttlMs,
    pollIntervalMs: Math.max(POLL_INTERVAL_MS, upstream?.pollMs ?? 0),
  };
}

/**
 * `DetailedTask` on the wire, with the members of its status; `longResult` is the text of a result that is stored
 * separately.
 */
export function taskDetails(task: Task, longResult?: string): JsonObject | LongText {
  const { status, asked, result, error } = task;
  if (longResult !== undefined) {
    return new LongText(`${JSON.stringify(taskSummary(task)).slice(0, -1)},"result":`, Buffer.from(longResult), "}");
  }
  return {
    ...taskSummary(task),
    ...(status === "input_required" && {
      inputRequests: Object.fromEntries(Object.entries(asked).map(([key, { request }]) => [key, request as never])),
    }),
    ...(status === "completed" && { result: result! }),
    ...(status === "failed" && { error: error! }),
  };
}

/** The task with these questions open, each under a key that was never used before. */
function withQuestions(task: Task, inputRequests: Readonly<Record<string, InputRequest>>): Task {
  const seenKeys = new Set(task.seenKeys);
  const asked = Object.entries(inputRequests).map(([key, request]): [string, TaskQuestion] => {
    const name = nameOfKey(key) ?? key;
    let shown = name;
    for (let again = 2; seenKeys.has(shown); again++) shown = `${name}#${again}`;
    seenKeys.add(shown);
    return [shown, { key, request }];
  });
  return { ...task, status: "input_required", asked: Object.fromEntries(asked), seenKeys: [...seenKeys] };
}

export interface TaskResult {
  readonly text: string;
  readonly isLong: boolean;
}

export function withOutcome(task: Task, outcome: InputRequired | TaskResult): Task {
  if ("inputRequests" in outcome) {
    const missing = missingCapabilities(task.capabilities, outcome.inputRequests);
    if (task.seenKeys.length >= QUESTIONS_MAX) {
      return failed(task, new BerthError("guest_failed", `it asked ${QUESTIONS_MAX} questions in one task`));
    }
    if (!missing) return withQuestions(task, outcome.inputRequests);
    const data = { requiredCapabilities: missing };
    return failed(task, new BerthError("missing_capability", Object.keys(missing).join(", "), { data }));
  }
  if (outcome.isLong) return { ...task, status: "completed", hasLongResult: true };
  return { ...task, status: "completed", result: JSON.parse(outcome.text) as Json };
}

export function failed(task: Task, { rpc: code, message, data }: BerthError): Task {
  const error = { code, message, ...(data && { data: data as JsonObject }) };
  return { ...task, status: "failed", statusMessage: message, asked: {}, error };
}

export function cancelledByUpstream(task: Task, message: string): Task {
  return { ...task, status: "cancelled", statusMessage: message, asked: {} };
}

/** The error of a task whose node is gone: how far it came is unknown, and nothing runs twice automatically. */
export function nodeLost({ repeatable, upstream }: Task): BerthError {
  const what = upstream
    ? "the Berth process that followed it at its upstream is gone"
    : "the process that ran it is gone";
  const gone = `${what}, and its outcome is unknown: its work may have been done, wholly or in part.`;
  const next = repeatable
    ? "Repeat the call: its tool declares that this does no harm."
    : "Check before you repeat the call.";
  return new BerthError("guest_failed", `${gone} ${next}`, { data: { retriable: repeatable === true } });
}

/** Limits a function that never stops asking: each question stays in the stored task. */
const QUESTIONS_MAX = 1_000;
