import { BerthError } from "../../../lib/errors.ts";
import type { CallResult, InputRequired } from "../../../host/catalog/catalog.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import { LongText, type Text } from "../../../lib/long-text.ts";
import { missingCapabilities } from "../questions.ts";
import { asking, type Task } from "./task.ts";
import type { TaskOrder } from "./work.ts";

/** The new state of a task when its tool has answered, asked, or failed. */

export const LOST = new BerthError(
  "guest_failed",
  "the process that ran it is gone, and what became of it is not known: what it does may have been done, wholly or " +
    "in part. Look before you repeat the call.",
  { data: { retriable: false } },
);

/** For a function that never stops asking: each question stays in the stored task. */
const QUESTIONS_MAX = 1_000;

/** A longer text is stored apart and sent as it is: the serving thread never parses it. */
const RESULT_UNITS = 64 * 1024;

/** The answer of a tool, in its stored form; `isLong` when it is stored apart. */
export async function resultOf(
  outcome: CallResult,
  { catalog, tool, codec }: Pick<TaskOrder, "catalog" | "tool" | "codec">,
): Promise<{ readonly text: string; readonly isLong: boolean }> {
  const text: Text = codec.callResult(catalog, tool.contract, outcome);
  if (text instanceof LongText) await text.decode();
  return { text: String(text), isLong: typeof text !== "string" || text.length > RESULT_UNITS };
}

export function ended(task: Task, outcome: InputRequired | Awaited<ReturnType<typeof resultOf>>): Task {
  if ("inputRequests" in outcome) {
    const missing = missingCapabilities(task.capabilities, outcome.inputRequests);
    if (task.seenKeys.length >= QUESTIONS_MAX) {
      return failed(task, new BerthError("guest_failed", `it asked ${QUESTIONS_MAX} questions in one task`));
    }
    if (!missing) return asking(task, outcome.inputRequests);
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
