import type { Scalar } from "../../contract/parameter-headers.ts";
import { sourceBounds } from "../../discover/discovery.ts";
import type { PromptTask } from "../../entry/prompt-fields.ts";
import type { GuestFailure } from "../../executor/executor.ts";
import { failure } from "../../executor/failures.ts";
import { clock } from "../../lib/clock.ts";
import type { Draft } from "../../lib/draft.ts";
import { isDescriptorShortage, noDescriptors } from "../../lib/error-mapping.ts";
import { BerthError } from "../../lib/errors.ts";
import { yieldToCalls } from "../../lib/event-loop.ts";
import { FairSemaphore } from "../../lib/fair-semaphore.ts";
import { JsonText, type Json, type JsonSchema } from "../../lib/json.ts";
import { readingBounds } from "../../lib/reading-bounds.ts";
import { TenantCounts } from "../../lib/tenant-counts.ts";
import { fixed } from "../../limits/fixed.ts";
import type { Limits } from "../../limits/limits.ts";
import { spawnDirectly } from "../../processes/spawn/spawn.ts";
import type { LongEvent } from "../../upstream/messages/long-answers.ts";
import type { LongAnswer } from "../../upstream/messages/results.ts";
import { UpstreamError } from "../../upstream/messages/upstream-error.ts";
import type { LongObjectParts } from "../offers/long-result.ts";
import { ViewRoom, type Kept } from "../offers/view-cache.ts";
import {
  serviceEnding,
  startCheckProcess,
  type CheckProcess,
  type CheckProcessLimits,
  type CheckStart,
} from "./check-process.ts";
import { evaluated, within, type Check } from "./check-work.ts";
import type { SchemaCode, SchemaOptions } from "./schema-code.ts";
import type {
  ReadTask,
  ResultTask,
  OutcomeTask,
  OutcomeReader,
  FillTask,
  ListTask,
  ReadList,
  RemakeTask,
  Remade,
  AnswerKind,
  CheckProcessTask,
  ReadAnswer,
  ReadGuestResult,
  CheckReport,
  Paths,
} from "./tasks.ts";

/** Values that wait to be checked: the first ones of a tool, wrong ones, large and intricate ones. */
const bounds = fixed({ queuedChecksPerTenant: 1_024 });

/**
 * Checks values against schemas. It owns the processes that compile schemas to code, and that judge each value not
 * found right at once: the serving thread only runs such code, and gives up after a few milliseconds. Tenants take
 * turns, and a task that takes too long is ended with its process. It knows nothing of tools.
 */
export class Checks {
  readonly #limits: CheckLimits;
  readonly #start: CheckStart;
  readonly #quick: Lane;
  readonly #slow: Lane;
  /** Until when tenants with a slow value are on the slow lane, by `clock`. */
  readonly #slowUntil = new Map<string, number>();
  /** Code that this thread runs, of all tenants; code that was forgotten is made again. */
  readonly #codes: ViewRoom;
  /** Characters and bytes of all tasks that wait or run. */
  readonly #held = new TenantCounts();
  #isClosed = false;

  constructor(limits: CheckLimits, options: Partial<CheckStart> & { readonly codesBytes?: number } = {}) {
    this.#codes = new ViewRoom(options.codesBytes ?? CODES_BYTES_MAX);
    const { start = spawnDirectly, mode = "auto", onTrusted = () => {} } = options;
    this.#limits = limits;
    let isTold = false;
    const tell = (reason: string): void => {
      if (!isTold) onTrusted(reason);
      isTold = true;
    };
    this.#start = { start, mode, onTrusted: tell };
    const lane = (): Lane => ({
      turns: new FairSemaphore(1, bounds.queuedChecksPerTenant, () => 1),
      process: undefined,
      isBusy: false,
    });
    [this.#quick, this.#slow] = [lane(), lane()];
  }

  /** Starts the process, so that the first value does not wait for it. */
  warm(): void {
    void this.#started(this.#quick).catch(() => {});
  }

  /** Makes the validators of a tenant. */
  of(tenant: string): ValidatorOf {
    return (schema, options) => this.#validator(tenant, schema, options);
  }

  /** The code is made when the first value comes, since most tools are never called. */
  #validator(tenant: string, schema: JsonSchema, { texts }: SchemaOptions = { texts: false }): Validator {
    const made = new Map<typeof QUICK, { readonly check: Check; readonly kept: Kept }>();
    let isIntricate = false;

    const judge = async (value: Json | JsonText): Promise<string | undefined> => {
      const wantsCode = !isIntricate && made.size === 0;
      const text = value instanceof JsonText ? value.text : JSON.stringify(value);
      // This thread parses what comes back for a short value.
      const filledMax = value instanceof JsonText ? this.#limits.bodyBytes : readingBounds.inlineBodyBytes;
      const report = await this.#report(tenant, {
        schema: JSON.stringify(schema),
        texts,
        value: text,
        wantsCode,
        filledMax,
        wantsDigest: value instanceof JsonText,
      });
      if (report.fault !== undefined) return `its schema is not valid: ${report.fault}`;
      if (report.quick && isQuick(report.quick)) {
        const { code } = report.quick;
        const kept = this.#codes.keep(made, QUICK, UNIT_BYTES * code.length);
        made.set(QUICK, { check: evaluated(code), kept });
      } else if (report.quick) isIntricate = true;
      if (report.problems.length > 0) return report.problems.join("; ");
      if (value instanceof JsonText) {
        if (report.filled !== undefined) [value.text, value.digest] = [report.filled, report.digest!];
      } else if (report.filled !== undefined) fillIn(value, JSON.parse(report.filled) as Json);
      return undefined;
    };

    return (value) => {
      const quick = value instanceof JsonText ? undefined : made.get(QUICK);
      if (!quick) return judge(value);
      quick.kept.used = true;
      return isRightAtOnce(quick.check, value as Json) ? undefined : judge(value);
    };
  }

  /**
   * Reads a message, or a batch of them, from a body that is too long for the serving thread; the arguments of calls
   * stay texts. Rejects with `parse_error`, and with `invalid_request` for a body that nests too deeply or has too many
   * values besides.
   */
  async readMessage(tenant: string, body: string): Promise<unknown> {
    const { messageValues } = readingBounds;
    const read = await this.#read(tenant, { body, valuesMax: messageValues, isArguments: false });
    const message = JSON.parse(read.message) as unknown;
    const messages = Array.isArray(message) ? message : [message];
    for (const { at, text, digest } of read.arguments) messages[at].params.arguments = new JsonText(text, digest);
    // Handling the message may take as long as this did.
    await yieldToCalls();
    return message;
  }

  /** Like `readMessage`, for a body that is the arguments of a tool. */
  async readArguments(tenant: string, body: string): Promise<JsonText> {
    const read = await this.#read(tenant, { body, valuesMax: Infinity, isArguments: true });
    const { text, digest } = read.arguments[0]!;
    return new JsonText(text, digest);
  }

  /**
   * Reads a draft from a body that is too long for the serving thread. Rejects as `parseDraft` does, and with
   * `invalid_params` for a draft with more files than a definition may have.
   */
  async readDraft(tenant: string, draft: string): Promise<Draft | null> {
    const {
      draft: read,
      refusal,
      problems,
    } = await this.#report(tenant, { draft, filesMax: sourceBounds.sourceFiles });
    if (read === undefined) throw new BerthError(refusal?.code ?? "invalid_request", refusal?.message ?? problems[0]);
    return read;
  }

  /** Like `scalarsAt`, for arguments that are too long for the serving thread. Rejects with `invalid_params`. */
  async scalarsIn(tenant: string, { text }: JsonText, paths: Paths): Promise<readonly (Scalar | undefined)[]> {
    const { scalars, problems } = await this.#report(tenant, { args: text, paths });
    if (!scalars) throw new BerthError("invalid_params", problems[0]);
    return scalars;
  }

  /** Like `argumentTexts`, for arguments that are too long for the serving thread. Rejects with `invalid_params`. */
  async textsIn(
    tenant: string,
    { text }: JsonText,
    names: readonly string[],
  ): Promise<readonly (string | undefined)[]> {
    const { texts, problems } = await this.#report(tenant, { args: text, names });
    if (!texts) throw new BerthError("invalid_params", problems[0]);
    return texts;
  }

  async #read(tenant: string, task: ReadTask): Promise<NonNullable<CheckReport["read"]>> {
    const { read, refusal, problems } = await this.#report(tenant, task);
    if (!read) throw new BerthError(refusal?.code ?? "invalid_request", refusal?.message ?? problems[0]);
    return read;
  }

  /** Reads the result of a tenant's function from a frame that is too long for the serving thread. */
  async readResult(tenant: string, task: ResultTask): Promise<ReadGuestResult> {
    const { outputBytes, bodyBytes } = this.#limits;
    try {
      const unitsMax = UNITS_WRITTEN * outputBytes + bodyBytes;
      const { ended, problems } = await this.#report(tenant, { ...task, outputBytes, unitsMax });
      return ended ?? { outcome: { ok: false, error: resultNotRead(problems[0]) } };
    } catch (error) {
      return { outcome: { ok: false, error: resultNotRead(error) } };
    }
  }

  /** Like `readResult`, for a function that is no tool; a short result is returned as it is. */
  outcomeReader(tenant: string): OutcomeReader {
    return async (outcome, as) => {
      if (!outcome.ok || outcome.value.kind !== "unread") return outcome;
      const { outputBytes, bodyBytes } = this.#limits;
      const unitsMax = UNITS_WRITTEN * outputBytes + bodyBytes;
      try {
        const task: OutcomeTask = { given: outcome.value.frame, as, outputBytes, unitsMax };
        const { given, problems } = await this.#report(tenant, task);
        return given ?? { ok: false, error: resultNotRead(problems[0]) };
      } catch (error) {
        return { ok: false, error: resultNotRead(error) };
      }
    };
  }

  /** Reads the items of a list that a function returned, or that is kept of it, each as JSON text. */
  async readList(tenant: string, task: Omit<ListTask, "outputBytes">): Promise<ReadList> {
    const { outputBytes } = this.#limits;
    const { listed, problems } = await this.#report(tenant, { ...task, outputBytes });
    return listed ?? { fault: `it could not be read: ${problems[0]}` };
  }

  /** Converts a long result, contents or bytes to another form. */
  async remake(tenant: string, task: Omit<RemakeTask, "unitsMax">): Promise<Remade> {
    const { outputBytes, bodyBytes } = this.#limits;
    const unitsMax = UNITS_WRITTEN * outputBytes + bodyBytes;
    const { remade, problems } = await this.#report(tenant, { ...task, unitsMax });
    return remade ?? { failed: `what it leads to could not be read: ${problems[0]}` };
  }

  /** Fills in a prompt of a tenant's entry that may become long; undefined if it would be longer than `outputBytes`. */
  async fillPrompt(tenant: string, prompt: PromptTask): Promise<LongObjectParts | undefined> {
    const { template, names, values } = prompt;
    const task: FillTask = {
      prompt: JSON.stringify(template),
      argumentNames: names,
      argumentTexts: names.map((name) => values[name]!),
      outputBytes: this.#limits.outputBytes,
    };
    const { prompted, problems } = await this.#report(tenant, task);
    if (prompted === undefined) throw new BerthError("invalid_params", problems[0]);
    return prompted ?? undefined;
  }

  /** Reads a message of an upstream, or an event with one. Takes over the bytes; rejects if they cannot be read. */
  async readUpstream(tenant: string, bytes: Uint8Array<ArrayBuffer>, isEvent: boolean): Promise<LongEvent> {
    const { upstream, problems } = await this.#report(tenant, {
      bytes,
      isEvent,
      valuesMax: readingBounds.messageValues,
    });
    if (!upstream) throw new UpstreamError("upstream_protocol", problems[0]!);
    return upstream;
  }

  /** Reads an upstream's answer. Rejects with `upstream_protocol` for an invalid one. */
  async readAnswer(tenant: string, what: string, as: AnswerKind, answer: LongAnswer): Promise<ReadAnswer> {
    const unitsMax = this.#limits.upstreamMessageBytes;
    const report = await this.#report(tenant, { answer: answer.json, as, what, unitsMax });
    if (!report.answered) throw new UpstreamError("upstream_protocol", `${what}: ${report.problems[0]}`);
    if ("broken" in report.answered) throw new UpstreamError("upstream_protocol", report.answered.broken);
    return report.answered;
  }

  /** Tells why values of a tenant cannot be checked by a schema, as the end of a sentence; undefined when they can. */
  async faultOf(tenant: string, schema: JsonSchema): Promise<string | undefined> {
    const task = {
      schema: JSON.stringify(schema),
      texts: false,
      value: undefined,
      wantsCode: false,
      filledMax: 0,
      wantsDigest: false,
    };
    const { fault, problems } = await this.#report(tenant, task);
    return fault ?? problems[0];
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const processes = [this.#quick, this.#slow].map(({ process }) => process?.catch(() => undefined));
    await Promise.all(processes.map(async (process) => (await process)?.close()));
  }

  async #report(tenant: string, task: CheckProcessTask): Promise<CheckReport> {
    const { queuedCheckBytes, queuedCheckBytesPerTenant } = this.#limits;
    const bytes = lengthOf(task);
    const ofTenant = this.#held.of(tenant);
    // A task alone always has room: its own length has another limit.
    if (ofTenant > 0 && ofTenant + bytes > queuedCheckBytesPerTenant) {
      throw full(`${queuedCheckBytesPerTenant} bytes of the tenant`);
    }
    if (this.#held.all > 0 && this.#held.all + bytes > queuedCheckBytes) {
      throw full(`${queuedCheckBytes} bytes`);
    }
    this.#held.add(tenant, bytes);
    try {
      for (let tries = 0; ;) {
        const lane = this.#laneOf(tenant);
        const turn = lane.turns.enter(tenant, () => {});
        if (!turn) throw full(`${bounds.queuedChecksPerTenant} values`);
        await turn;
        try {
          // Another value of the tenant may have been slow meanwhile.
          if (this.#laneOf(tenant) !== lane) continue;
          const report = await this.#inProcess(lane, tenant, task, ++tries < TRIES_MAX);
          if (report) return report;
        } finally {
          lane.turns.leave(tenant);
        }
      }
    } finally {
      this.#held.add(tenant, -bytes);
    }
  }

  #laneOf(tenant: string): Lane {
    const until = this.#slowUntil.get(tenant);
    if (until === undefined) return this.#quick;
    if (clock.now() < until) return this.#slow;
    this.#slowUntil.delete(tenant);
    return this.#quick;
  }

  /** A process that ended is replaced when the next value comes. */
  #started(lane: Lane): Promise<CheckProcess> {
    if (lane.process) return lane.process;
    const starting = startCheckProcess(this.#start, this.#limits);
    const forget = (): void => {
      for (const each of [this.#quick, this.#slow]) if (each.process === starting) each.process = undefined;
    };
    starting.then(({ ended }) => ended.then(forget), forget);
    lane.process = starting;
    return starting;
  }

  /** Does not wait for a process that is being ended because of an earlier task. */
  async #living(lane: Lane): Promise<CheckProcess> {
    for (;;) {
      if (this.#isClosed) throw serviceEnding();
      const process = await this.#started(lane);
      if (!process.isEnding) return process;
      lane.process = undefined;
    }
  }

  /** Resolves with undefined for a task to begin again, on the slow lane or in a fresh process. */
  async #inProcess(
    lane: Lane,
    tenant: string,
    task: CheckProcessTask,
    mayBeginAgain: boolean,
  ): Promise<CheckReport | undefined> {
    lane.isBusy = true;
    try {
      const process = await this.#living(lane);
      const since = clock.now();
      try {
        const report = await process.check(task, lane === this.#quick ? QUICK_MS : undefined, mayBeginAgain);
        if (!report && lane === this.#quick) this.#replaceQuick();
        return report;
      } finally {
        const now = clock.now();
        if (now - since > SLOW_MS && process.usedMs > SLOW_MS) this.#slowUntil.set(tenant, now + SLOW_FOR_MS);
      }
    } catch (error) {
      if (isDescriptorShortage(error)) throw noDescriptors(error);
      if (error instanceof BerthError) throw error;
      return { problems: [`it could not be checked ${(error as Error).message}`] };
    } finally {
      lane.isBusy = false;
    }
  }

  /** Takes the other lane's process if it is idle, so that the next values need not wait for a start. */
  #replaceQuick(): void {
    this.#quick.process = undefined;
    if (!this.#slow.isBusy) [this.#quick.process, this.#slow.process] = [this.#slow.process, undefined];
    this.warm();
  }
}

/**
 * Values take turns on one of two lanes, each with a process of its own: tenants with a recent slow value wait only for
 * one another.
 */
interface Lane {
  readonly turns: FairSemaphore;
  process: Promise<CheckProcess> | undefined;
  isBusy: boolean;
}

/** Processor time of a task that puts its tenant on the slow lane. */
const SLOW_MS = 100;
/** Processor time that a task may take on the quick lane: reading the longest body takes less. */
const QUICK_MS = 300;
const SLOW_FOR_MS = 10_000;
const QUICK = "quick";
const CODES_BYTES_MAX = 64 * 1024 * 1024;
/** The memory that a character of code takes, including what is made of it. */
const UNIT_BYTES = 2;
/** One on the quick lane, one in a process whose memory others had filled, and one in a fresh process. */
const TRIES_MAX = 3;

export type ValidatorOf = (schema: JsonSchema, options?: SchemaOptions) => Validator;

/**
 * Fills in a value with the defaults of a schema, and tells what is wrong with it, as the end of a sentence; undefined
 * when nothing is. Returns a promise only when that is not found out at once: for the first value of all, a wrong one,
 * and a large or intricate one.
 */
export type Validator = (value: Json | JsonText) => undefined | Promise<string | undefined>;

type CheckLimits = CheckProcessLimits & Pick<Limits, "queuedCheckBytes" | "queuedCheckBytesPerTenant">;

/** A result occurs twice in its answer, once as a text with each quote escaped; defaults come on top of it. */
const UNITS_WRITTEN = 4;
/** The time after which a full queue may have room again. */
const RETRY_AFTER_S = 1;
/** A few milliseconds on an idle machine. */
const STEPS_AT_ONCE = 100_000;
/** UTF-16 units of defaults, so that one that leads to itself nests no deeper than can be written afterwards. */
const FILLED_AT_ONCE = 1_024;
/** Code of this length is parsed and compiled in about the same time when it first runs. */
const CODE_UNITS_AT_ONCE = 256 * 1024;
const INSTRUCTIONS_AT_ONCE = 2_000;

/** The failure of a call whose work is done, but whose result was not read. */
export function resultNotRead(why: unknown): GuestFailure {
  const reason = why instanceof BerthError ? why.detail : why instanceof Error ? why.message : why;
  return failure("output", `its result could not be read: ${reason as string}`);
}

/** The length of all long parts of a task. */
function lengthOf(task: CheckProcessTask): number {
  let length = 0;
  for (const part of (Object.values(task) as unknown[]).flat()) {
    if (typeof part === "string") length += part.length;
    else if (part instanceof Uint8Array) length += part.byteLength;
  }
  return length;
}

function full(what: string): BerthError {
  const message = `${what} are waiting to be checked; try again in ${RETRY_AFTER_S} s`;
  return new BerthError("too_many_requests", message, { data: { retryAfterSeconds: RETRY_AFTER_S } });
}

function isQuick({ code, instructions }: SchemaCode): boolean {
  return code.length <= CODE_UNITS_AT_ONCE && instructions <= INSTRUCTIONS_AT_ONCE;
}

function isRightAtOnce(check: Check, value: Json): boolean {
  try {
    return within({ steps: STEPS_AT_ONCE, errors: Infinity, filled: FILLED_AT_ONCE }, () => check(value));
  } catch {
    // Whatever it was, the check process finds it.
    return false;
  }
}

/** Updates a value in place with what it has become elsewhere, for all its holders. */
function fillIn(value: Json, filled: Json): void {
  if (typeof value === "object" && value !== null) Object.assign(value, filled);
}
