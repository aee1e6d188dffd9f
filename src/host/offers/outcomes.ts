import type { GuestOutcome } from "../../executor/executor.ts";
import { readOutcome } from "../../outcome/envelope.ts";
import { formatError, type Outcome } from "../../outcome/outcome.ts";
import { toInputRequests } from "../../outcome/question.ts";
import { unwrapResult, type Unwrappable } from "../../outcome/unwrap.ts";
import { messageOf } from "./call-failures.ts";
import type { CallResult, InputRequired } from "./catalog.ts";
import { failure, toResult, type ReturnedValue } from "./content.ts";

/**
 * How a call ends, whatever carries it out: with content, with an error that may be transient, or with questions. Turns
 * the outcome (`outcome/`) that a function, script or upstream reports into that.
 */
export function endOf(outcome: Outcome): GuestOutcome {
  switch (outcome.type) {
    case "success":
      return { ok: true, value: { kind: "text", text: outcome.content } };
    case "error":
      return { ok: false, error: { reason: "thrown", message: formatError(outcome), retriable: outcome.transient } };
    case "needs_input":
      return { ok: true, value: { kind: "asks", inputRequests: toInputRequests(outcome.question) } };
  }
}

/** A function that promises no value may return an outcome instead. */
export function withoutEnvelope(outcome: GuestOutcome, promisesNothing: boolean): GuestOutcome {
  if (!promisesNothing || !outcome.ok || outcome.value.kind !== "json") return outcome;
  const returned = readOutcome(outcome.value.value);
  return returned ? endOf(returned) : outcome;
}

/** How one attempt at a call to an upstream ended. */
export interface Ended {
  readonly result: CallResult | InputRequired;
  /** The error's message, if it is transient. */
  readonly transient?: string;
}

/** How a result says that its call ended; undefined when it is to be taken as it is. */
export function endOfResult(result: Unwrappable, warn: (message: string) => void): Ended | undefined {
  const outcome = unwrapResult(result, warn);
  if (!outcome) return undefined;
  const end = endOf(outcome);
  if (!end.ok) {
    const { message, retriable } = end.error;
    return { result: failure(messageOf("The tool", end.error)), ...(retriable && { transient: message }) };
  }
  if (end.value.kind === "asks") return { result: { inputRequests: end.value.inputRequests } };
  return { result: toResult(end.value as ReturnedValue, false) };
}
