import type { Run } from "./run.ts";
import type { DiscoveredTool } from "../../discover/discovery.ts";
import type { GuestFailure, GuestOutcome, UnreadResult } from "../../executor/executor.ts";
import type { CallOptions, CallResult, Tool, ToolContract } from "../catalog/catalog.ts";
import { failure, toConfiguredResult, toResult, type ReturnedValue } from "./content.ts";
import { sayBroken, guestFailed, messageOf } from "./call-failures.ts";
import type { ReadGuestResult, ResultTask } from "../checks/tasks.ts";
import { resultNotRead, type ValidatorOf } from "../checks/checks.ts";
import { argumentsSchema, resultSchema } from "../catalog/defaults.ts";
import { LongResult } from "./long-result.ts";
import { withoutEnvelope } from "./outcomes.ts";
import type { RetryLimits } from "../../outcome/retry.ts";
import { invoke, rejectWith, type CallEnd, type Invocable } from "./invoke.ts";
import type { CallNotes } from "./observe.ts";
import { placeThrownAt } from "./recent-lines.ts";
import type { Redirects } from "./uris/redirect.ts";

/** The parts of its server that a tool uses. */
export interface ToolParts {
  readonly redirects: Redirects;
  readonly notes: CallNotes;
  readonly validatorOf: ValidatorOf;
  /** Reads a result that is too long for the serving thread. */
  readonly readResult: (task: ResultTask) => Promise<ReadGuestResult>;
  /** Tells callers where the function threw. */
  readonly errorPlaces: boolean;
  readonly limits: RetryLimits & { readonly callMs: number };
}

/** A tool that a function or a script carries out: it checks arguments before `run`, and turns failures into results. */
export function createTool(
  contract: ToolContract,
  run: Run,
  parts: ToolParts,
  own: Pick<DiscoveredTool, "task" | "inputSchema" | "outputSchema" | "call" | "file" | "line">,
): Tool {
  const { task, outputSchema } = own;
  const { name } = contract;
  const { redirects, notes, validatorOf, limits } = parts;
  const isOwnOutput = contract.outputSchema !== undefined && contract.outputSchema === outputSchema;
  const promised = isOwnOutput ? resultSchema(contract.outputSchema) : contract.outputSchema;
  const checkOutput = promised && validatorOf(promised);
  const promisesNothing = outputSchema === null;
  const read = checkOutput && promisesNothing ? toConfiguredResult : toResult;

  const invocable: Invocable<ToolOutcome> = {
    contract,
    notes,
    limits,
    callMs: limits.callMs,
    checkArguments: validatorOf(argumentsSchema(contract.inputSchema, own)),
    async run(args, options, onLine) {
      const outcome = await run(args, options, onLine);
      if (outcome.ok && outcome.value.kind === "unread") return readElsewhere(outcome.value);
      return withoutEnvelope(outcome, promisesNothing);
    },
    optionsToRetry: (options) => notes.heard(options),
    transientOf,
    questionsOf: (outcome) => (outcome.ok && outcome.value.kind === "asks" ? outcome.value.inputRequests : undefined),
    read(outcome, options) {
      if (!outcome.ok) return failed(outcome.error, options);
      const { value } = outcome;
      switch (value.kind) {
        case "asks":
          return { outcome: "asked", answer: () => ({ inputRequests: value.inputRequests }) };
        case "redirect":
          return { outcome: "ok", answer: () => redirects.asResult(value.location, options) };
        case "made":
          return ended(value.result);
        default:
          return returned(value);
      }
    },
    readThrown: (error) => rejectWith(error),
  };
  return { contract, ...(task && { task }), call: (args, options) => invoke(invocable, args, options) };

  async function readElsewhere({ frame }: UnreadResult): Promise<ToolOutcome> {
    const read = await parts.readResult({ frame, outputSchema: promised, promisesNothing });
    if ("outcome" in read) return read.outcome;
    const result = "broken" in read ? brokenBy(read.broken) : new LongResult(read.result);
    return { ok: true, value: { kind: "made", result } };
  }

  function failed(error: GuestFailure, options: CallOptions): CallEnd {
    const what = `The tool "${name}"`;
    const { reason, protocol } = error;
    const isOwn = reason === "thrown" || reason === "unwritable";
    if (protocol || reason === "descriptors" || (options.failuresReject && !isOwn)) {
      return rejectWith(guestFailed(what, error), error);
    }
    const setting = options.deadlineMs === undefined ? "BERTH_CALL_MS" : "BERTH_TASK_MS";
    const thrownAt = parts.errorPlaces && reason === "thrown" ? placeThrownAt(error.stack) : undefined;
    const place = thrownAt === undefined ? "" : ` (at ${thrownAt})`;
    const message = messageOf(what, error) + (reason === "timeout" ? ` (${setting})` : "") + place;
    return { outcome: "error", result: failure(message), failure: error };
  }

  function returned(value: ReturnedValue): CallEnd | Promise<CallEnd> {
    const result = read(value, checkOutput !== undefined);
    if (!checkOutput || result.isError) return ended(result);
    const checked = checkOutput(result.structuredContent ?? null);
    if (checked === undefined) return ended(result);
    const made = (broken: string | undefined): CallEnd =>
      ended(broken === undefined ? result : brokenBy(sayBroken(broken, value, own)));
    // A request error would say that nothing was done.
    const notRead = (error: unknown): CallEnd => ended(failure(messageOf(`The tool "${name}"`, resultNotRead(error))));
    return checked.then(made, notRead);
  }

  function brokenBy(broken: string): CallResult {
    return failure(`The tool "${name}" returned what its own type does not allow: ${broken}`);
  }
}

/** How its function ended, or a result that is already complete. */
type ToolOutcome =
  | GuestOutcome
  | { readonly ok: true; readonly value: { readonly kind: "made"; readonly result: CallResult } };

function ended(result: CallResult): CallEnd {
  return { outcome: result.isError ? "error" : "ok", result };
}

/** Transient only if the function itself says so: only it knows if its work may be done twice. */
function transientOf(outcome: ToolOutcome): string | undefined {
  return !outcome.ok && outcome.error.retriable && outcome.error.reason === "thrown"
    ? outcome.error.message
    : undefined;
}
