import type { DiscoveredTool } from "../../discover/discovery.ts";
import type { GuestFailure, GuestOutcome, UnreadResult } from "../../executor/executor.ts";
import type { RetryLimits } from "../../outcome/retry.ts";
import { resultNotRead, type ValidatorOf } from "../checks/checks.ts";
import { argumentsSchema, resultSchema } from "../checks/defaults.ts";
import type { ReadGuestResult, ResultTask } from "../checks/tasks.ts";
import { placeThrownAt } from "../journal/activity.ts";
import type { ToolJournal } from "../journal/journal.ts";
import { sayBroken, guestFailed, messageOf } from "../offers/call-failures.ts";
import type { CallOptions, CallResult, Tool, ToolContract } from "../offers/catalog.ts";
import { failure, toConfiguredResult, toResult, type ReturnedValue } from "../offers/content.ts";
import { LongResult } from "../offers/long-result.ts";
import { withoutEnvelope } from "../offers/outcomes.ts";
import type { Consent } from "./consent.ts";
import { invocableTool, rejectWith, type CallEnd, type Invocable } from "./invoke.ts";
import type { Run } from "./run.ts";
import type { Redirects } from "./uris/redirect.ts";

/** The parts of its server that a tool uses. */
export interface ToolParts {
  readonly redirects: Redirects;
  readonly journal: ToolJournal;
  readonly consent?: Consent | undefined;
  readonly validatorOf: ValidatorOf;
  /** Reads a result that is too long for the serving thread. */
  readonly readResult: (task: ResultTask) => Promise<ReadGuestResult>;
  /** Adds to error messages where the function threw. */
  readonly errorLocations: boolean;
  readonly limits: RetryLimits & { readonly callMs: number };
}

/** A tool that runs a function or a script. Reads the outcome, and turns failures into results. */
export function createTool(
  contract: ToolContract,
  run: Run,
  parts: ToolParts,
  own: Pick<DiscoveredTool, "task" | "inputSchema" | "outputSchema" | "call" | "file" | "line">,
): Tool {
  const { task, outputSchema } = own;
  const { name } = contract;
  const { redirects, journal, consent, validatorOf, limits } = parts;
  const isOwnOutput = contract.outputSchema !== undefined && contract.outputSchema === outputSchema;
  const outputContract = isOwnOutput ? resultSchema(contract.outputSchema) : contract.outputSchema;
  const checkOutput = outputContract && validatorOf(outputContract);
  const returnsAny = outputSchema === null;
  const resultOf = checkOutput && returnsAny ? toConfiguredResult : toResult;

  const invocable: Invocable<GuestOutcome> = {
    contract,
    journal,
    consent,
    limits,
    callMs: limits.callMs,
    checkArguments: validatorOf(argumentsSchema(contract.inputSchema, own)),
    run,
    retryOptions: (options) => journal.heard(options),
    read: (outcome, options) =>
      outcome.ok && outcome.value.kind === "unread"
        ? readOffThread(outcome.value, options)
        : readOutcome(withoutEnvelope(outcome, returnsAny), options),
    readThrown: (error) => rejectWith(error),
  };
  return invocableTool(invocable, task);

  async function readOffThread({ frame }: UnreadResult, options: CallOptions): Promise<CallEnd> {
    const read = await parts.readResult({ frame, outputSchema: outputContract, promisesNothing: returnsAny });
    if ("outcome" in read) return readOutcome(read.outcome, options);
    return endWith("broken" in read ? contractViolation(read.broken) : new LongResult(read.result));
  }

  function readOutcome(outcome: GuestOutcome, options: CallOptions): CallEnd | Promise<CallEnd> {
    if (!outcome.ok) return readFailure(outcome.error, options);
    const { value } = outcome;
    switch (value.kind) {
      case "asks":
        return { outcome: "asked", asked: { inputRequests: value.inputRequests } };
      case "redirect":
        return { outcome: "ok", answer: () => redirects.asResult(value.location, options) };
      default:
        return readReturned(value);
    }
  }

  function readFailure(error: GuestFailure, options: CallOptions): CallEnd {
    const what = `The tool "${name}"`;
    const { reason, protocol } = error;
    // Only the function knows whether it can safely run twice.
    const transient = error.retriable && reason === "thrown" ? error.message : undefined;
    const isOwn = reason === "thrown" || reason === "unwritable";
    const deadline = options.deadlineMs === undefined ? "callMs" : "taskMs";
    if (protocol || reason === "descriptors" || (options.failuresReject && !isOwn)) {
      return { ...rejectWith(guestFailed(what, error, deadline), error), transient };
    }
    const thrownAt =
      parts.errorLocations && (reason === "thrown" || reason === "timeout") ? placeThrownAt(error.stack) : undefined;
    const place = thrownAt === undefined ? "" : ` (at ${thrownAt})`;
    const message = messageOf(what, error, deadline) + place;
    return { outcome: "error", result: failure(message), failure: error, transient };
  }

  function readReturned(value: ReturnedValue): CallEnd | Promise<CallEnd> {
    const result = resultOf(value, checkOutput !== undefined);
    if (!checkOutput || result.isError) return endWith(result);
    const checked = checkOutput(result.structuredContent ?? null);
    if (checked === undefined) return endWith(result);
    const complete = (broken: string | undefined): CallEnd =>
      endWith(broken === undefined ? result : contractViolation(sayBroken(broken, value, own)));
    // Not a request error, which would imply that the tool did not run.
    const failUnread = (error: unknown): CallEnd =>
      endWith(failure(messageOf(`The tool "${name}"`, resultNotRead(error))));
    return checked.then(complete, failUnread);
  }

  function contractViolation(broken: string): CallResult {
    return failure(`The tool "${name}" returned what its own type does not allow: ${broken}`);
  }
}

function endWith(result: CallResult): CallEnd {
  return { outcome: result.isError ? "error" : "ok", result };
}
