import type { DiscoveredTool } from "../../discover/discovery.ts";
import { BerthError } from "../../lib/errors.ts";
import type { GuestLog, GuestOutcome, UnreadResult } from "../../executor/executor.ts";
import type { JsonObject, JsonText } from "../../lib/json.ts";
import type { CallOptions, CallResult, Tool, ToolContract } from "../catalog/catalog.ts";
import { failure, toConfiguredResult, toResult, type ReturnedValue } from "./content.ts";
import { sayBroken } from "./broken.ts";
import { resultNotRead, type ReadGuestResult, type ResultTask, type ValidatorOf } from "../checks/checks.ts";
import { argumentsSchema, resultSchema } from "../catalog/defaults.ts";
import { guestFailed, messageOf } from "./failures.ts";
import { LongResult } from "./long-result.ts";
import { withoutEnvelope } from "./outcomes.ts";
import { refusal } from "../../outcome/answers.ts";
import { persist, type Persisted, type RetryLimits } from "../../outcome/retry.ts";
import type { CallNotes } from "./observe.ts";
import { placeThrownAt } from "./thrown-place.ts";
import type { Redirects } from "./uris/redirect.ts";

/** Carries out a call whose arguments are valid; `onLine` hears its lines before the caller does. Never rejects. */
export type Run = (
  args: JsonObject | JsonText,
  options: CallOptions,
  onLine?: (line: GuestLog) => void,
) => Promise<GuestOutcome>;

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

/** A tool ready to be called: it checks arguments before `run`, turns failures into results and notes each call. */
export function createTool(
  contract: ToolContract,
  run: Run,
  parts: ToolParts,
  own: Pick<DiscoveredTool, "task" | "inputSchema" | "outputSchema" | "call" | "file" | "line">,
): Tool {
  const { task, outputSchema } = own;
  const { name } = contract;
  const { redirects, notes, validatorOf, limits } = parts;
  const checkArguments = validatorOf(argumentsSchema(contract.inputSchema, own));
  const isOwnOutput = contract.outputSchema !== undefined && contract.outputSchema === outputSchema;
  const promised = isOwnOutput ? resultSchema(contract.outputSchema) : contract.outputSchema;
  const checkOutput = promised && validatorOf(promised);
  const promisesNothing = outputSchema === null;
  const read = checkOutput && promisesNothing ? toConfiguredResult : toResult;

  function ended(outcome: GuestOutcome): ToolOutcome | Promise<ToolOutcome> {
    if (outcome.ok && outcome.value.kind === "unread") return readElsewhere(outcome.value);
    return withoutEnvelope(outcome, promisesNothing);
  }

  async function readElsewhere({ frame }: UnreadResult): Promise<ToolOutcome> {
    const read = await parts.readResult({ frame, outputSchema: promised, promisesNothing });
    if ("outcome" in read) return read.outcome;
    return {
      ok: true,
      value: { kind: "made", result: "broken" in read ? brokenBy(read.broken) : new LongResult(read.result) },
    };
  }

  function goOn(
    first: ToolOutcome,
    args: JsonObject | JsonText,
    options: CallOptions,
    beganAt: number,
  ): Promise<Persisted<ToolOutcome>> {
    const tries = {
      run: async (again: CallOptions) => ended(await run(args, again)),
      transientOf: (outcome: ToolOutcome) => (isTransient(outcome) ? outcome.error.message : undefined),
      questionsOf: (outcome: ToolOutcome) =>
        outcome.ok && outcome.value.kind === "asks" ? outcome.value.inputRequests : undefined,
    };
    const deadlineAt = beganAt + (options.deadlineMs ?? limits.callMs);
    return persist(first, tries, { contract, options, deadlineAt, limits });
  }

  return {
    contract,
    ...(task && { task }),
    async call(args, options) {
      const beganAt = performance.now();
      const checked = checkArguments(args);
      // Awaited only when necessary: most arguments are checked at once.
      const invalid = checked === undefined ? undefined : await checked;
      if (invalid) {
        if (!options.invalidRejects) {
          const shown = `Invalid arguments for the tool "${name}": ${invalid}`;
          return notes.ended("invalid", beganAt, args, options, failure(shown));
        }
        notes.ended("invalid", beganAt, args, options, undefined);
        throw new BerthError("invalid_params", `the tool "${name}": ${invalid}`);
      }
      const refused = options.answers && refusal(name, options.answers);
      if (refused !== undefined) return notes.ended("error", beganAt, args, options, failure(refused));

      const busy = notes.enter();
      if (busy !== undefined) return notes.ended("error", beganAt, args, options, failure(busy));
      const first = ended(await run(args, options, notes.onLine));
      let outcome = first instanceof Promise ? await first : first;
      let retries = 0;
      let needs: string | undefined;
      if (!isEnd(outcome))
        ({ result: outcome, retries, needs } = await goOn(outcome, args, notes.heard(options), beganAt));
      notes.left();
      if (needs !== undefined) return notes.ended("error", beganAt, args, options, failure(needs), retries);
      if (!outcome.ok) {
        const { error } = outcome;
        const what = `The tool "${name}"`;
        const { reason, protocol } = error;
        const setting = options.deadlineMs === undefined ? "BERTH_CALL_MS" : "BERTH_TASK_MS";
        const thrownAt = parts.errorPlaces && reason === "thrown" ? placeThrownAt(error.stack) : undefined;
        const place = thrownAt === undefined ? "" : ` (at ${thrownAt})`;
        const message = messageOf(what, error) + (reason === "timeout" ? ` (${setting})` : "") + place;
        const isOwn = reason === "thrown" || reason === "unwritable";
        const rejects = protocol || reason === "descriptors" || (options.failuresReject && !isOwn);
        if (!rejects) return notes.ended("error", beganAt, args, options, failure(message), retries, error);
        notes.ended("error", beganAt, args, options, undefined, retries, error);
        throw guestFailed(what, error);
      }
      if (outcome.value.kind === "asks") {
        notes.ended("asked", beganAt, args, options, undefined, retries);
        return { inputRequests: outcome.value.inputRequests };
      }

      if (outcome.value.kind === "redirect") {
        notes.ended("ok", beganAt, args, options, undefined, retries);
        return redirects.asResult(outcome.value.location, options);
      }

      const made = outcome.value.kind === "made" ? outcome.value.result : resultOf(outcome.value);
      const result = made instanceof Promise ? await made : made;
      return notes.ended(result.isError ? "error" : "ok", beganAt, args, options, result, retries);
    },
  };

  function resultOf(value: ReturnedValue): CallResult | Promise<CallResult> {
    const result = read(value, checkOutput !== undefined);
    if (!checkOutput || result.isError) return result;
    const checked = checkOutput(result.structuredContent ?? null);
    const made = (broken: string | undefined): CallResult =>
      broken === undefined ? result : brokenBy(sayBroken(broken, value, own));
    // A request error would say that nothing was done.
    const notRead = (error: unknown): CallResult => failure(messageOf(`The tool "${name}"`, resultNotRead(error)));
    return checked === undefined ? result : checked.then(made, notRead);
  }

  function brokenBy(broken: string): CallResult {
    return failure(`The tool "${name}" returned what its own type does not allow: ${broken}`);
  }
}

/** How its function ended, or a result that is already complete. */
type ToolOutcome =
  | GuestOutcome
  | { readonly ok: true; readonly value: { readonly kind: "made"; readonly result: CallResult } };

/** Most calls end at once, with content or with an error that is not transient. */
function isEnd(outcome: ToolOutcome): boolean {
  return outcome.ok ? outcome.value.kind !== "asks" : !isTransient(outcome);
}

/** True when the function itself says so: only it knows if its work may be done twice. */
function isTransient(outcome: ToolOutcome): outcome is Extract<ToolOutcome, { ok: false }> {
  return !outcome.ok && outcome.error.retriable && outcome.error.reason === "thrown";
}
