import { isContentBlock, text } from "../../contract/content-block.ts";
import type { CallShape, DefinitionSource } from "../../discover/discovery.ts";
import type { OfferedTool } from "../../entry/offer.ts";
import type { Executor, GuestCall, GuestLog, GuestOutcome, GuestProgram } from "../../executor/executor.ts";
import { FolderFault, type HostFolder } from "../../folders/folders.ts";
import type { Cid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { JsonText, isObject, type JsonObject, type Json } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import type { Trace } from "../../lib/trace.ts";
import { limitVariable } from "../../limits/limits.ts";
import { answersForFunction, optionsFor, createCallContext } from "../../outcome/answers.ts";
import { CONTEXT_KEY, contextMeta, TOOL_KEY, type CallerContext, type CallContext } from "../../outcome/context.ts";
import { unwrapResult } from "../../outcome/unwrap.ts";
import type { Grant } from "../../secrets/grants.ts";
import { argumentTexts } from "../checks/argument-texts.ts";
import type { Checks, ValidatorOf } from "../checks/checks.ts";
import { argumentsSchema } from "../checks/defaults.ts";
import { bothOf } from "../journal/journal.ts";
import type { CallOptions, ClientFacts } from "../offers/catalog.ts";
import { endOf } from "../offers/outcomes.ts";
import type { Granted } from "./granted.ts";

/** Runs a call with valid arguments; `onLine` gets log lines before the caller does. Never rejects. */
export type Run = (
  args: JsonObject | JsonText,
  options: CallOptions,
  onLine?: (line: GuestLog) => void,
) => Promise<GuestOutcome>;

/** A tool, prompt, resource or completion that runs guest code. */
interface Callee {
  readonly name: string;
  readonly call: CallShape;
  /** Options from the configuration. */
  readonly toolOptions?: JsonObject;
  /** Returns long results unparsed. */
  readonly acceptsUnread?: boolean;
}

interface Runnable {
  readonly tenant: string;
  readonly server: string;
  readonly language: DefinitionSource["language"];
  readonly bundle: Cid | null;
  /** Source of the bundle. */
  readonly code: () => Promise<Uint8Array>;
  readonly granted: Granted;
}

interface RunDependencies {
  readonly executor: Executor;
  readonly checks: Pick<Checks, "textsIn">;
  readonly log: Log;
  readonly limits: { readonly callMs: number; readonly outputBytes: number };
}

/** Returns a factory of `Run` for the functions of a definition. */
export function createRunFactory(
  { tenant, server, language, bundle, code, granted }: Runnable,
  { executor, checks, limits, log }: RunDependencies,
): (callee: Callee) => Run {
  const { callMs, outputBytes } = limits;
  const { grant, port, realm, environment, resolveFolders, network } = granted;
  // Without a bundle there is nothing to run.
  const program = bundle ?? "";
  if (language === "shell") {
    return ({ name, call, toolOptions = {} }) => {
      const warn = (message: string): void => log.warn({ tenant, server, tool: name }, message);
      const text = async (): Promise<string> => new TextDecoder().decode(await code());
      const readTexts: Script["readTexts"] = (args, names) => checks.textsIn(tenant, args, names);
      const script = { tenant, server, text, readTexts, grant, environment, resolveFolders, network };
      return createScriptRun(executor, script, call, { name, callMs, toolOptions, warn });
    };
  }
  const hide = grant && ((value: Json) => grant.redactor.hideIn(value));
  const guest: GuestProgram = {
    tenant,
    server,
    bundle: program,
    code,
    port,
    realm,
    network,
    ...(environment && { env: () => environment.values() }),
    ...(hide && { hide }),
  };
  const current = currentProgram(guest, granted);
  return ({ name, call, toolOptions = {}, acceptsUnread = false }) => {
    const own = new GuestFunction({ executor, guest, current }, call, {
      server,
      tool: name,
      toolOptions,
      callMs,
      outputBytes,
      acceptsUnread,
    });
    return call.streaming ? own.runCollected : own.run;
  };
}

/** A process keeps its environment and folders, so when a variable or folder changes, calls get a new process. */
function currentProgram(
  guest: GuestProgram,
  { environment, resolveFolders }: Granted,
): (() => Promise<GuestProgram>) | undefined {
  const variables = environment?.version;
  if (!variables && !resolveFolders) return undefined;
  return async () => {
    const [version, now] = await Promise.all([variables?.(), resolveFolders?.()]);
    const realm = JSON.stringify([guest.realm, version, now?.version]);
    return { ...guest, realm, ...(now && { folders: now.folders }) };
  };
}

/**
 * Runs a tool with a configured schema: adds fixed arguments, then validates against the function's own schema, because
 * the configured one may be more permissive.
 */
export function withConfiguredSchema(
  { contract, function: own, fixed }: OfferedTool,
  run: Run,
  validatorOf: ValidatorOf,
): Run {
  if (!fixed && contract.inputSchema === own.inputSchema) return run;
  const check = validatorOf(argumentsSchema(own.inputSchema, own));
  return async (args, options, onLine) => {
    const all = args instanceof JsonText ? args.with(fixed ?? {}) : { ...args, ...structuredClone(fixed) };
    const invalid = await check(all);
    if (invalid === undefined) return run(all, options, onLine);
    const message = `The function "${own.name}" cannot take these arguments: ${invalid}`;
    return { ok: false, error: { reason: "thrown", message, retriable: false } };
  };
}

const unknownClient: ClientFacts = { capabilities: {} };

interface FunctionProgram {
  readonly executor: Executor;
  readonly guest: GuestProgram;
  /** Resolves the program of a call, if it can change. */
  readonly current: (() => Promise<GuestProgram>) | undefined;
}

interface FunctionOptions {
  readonly server: string;
  readonly tool: string;
  readonly toolOptions: JsonObject;
  readonly callMs: number;
  readonly outputBytes: number;
  readonly acceptsUnread: boolean;
}

/** Calls one function of a TypeScript definition in its guest process. */
class GuestFunction {
  readonly #program: FunctionProgram;
  readonly #shape: CallShape;
  readonly #options: FunctionOptions;

  constructor(program: FunctionProgram, shape: CallShape, options: FunctionOptions) {
    this.#program = program;
    this.#shape = shape;
    this.#options = options;
  }

  readonly run: Run = (args, options, onLine) => {
    const { executor, guest, current } = this.#program;
    if (current) return this.#runCurrent(current, args, options, onLine);
    return executor.call(guest, this.#createCall(args, options, onLine));
  };

  /** Collects the yields, unless the caller takes a stream. */
  readonly runCollected: Run = async (args, options, onLine) => {
    if (options.onProgress) return this.run(args, options, onLine);
    const collector = new YieldCollector(this.#options.outputBytes);
    return collector.applyTo(await this.run(args, { ...options, onProgress: collector.add }, onLine));
  };

  async #runCurrent(
    current: () => Promise<GuestProgram>,
    args: JsonObject | JsonText,
    given: CallOptions,
    onLine: Parameters<Run>[2],
  ): Promise<GuestOutcome> {
    let program: GuestProgram;
    try {
      program = await current();
    } catch (error) {
      if (error instanceof FolderFault) return failForFolder(error);
      return failWith("the variables of its environment cannot be read now");
    }
    return this.#program.executor.call(program, this.#createCall(args, given, onLine));
  }

  #createCall(args: JsonObject | JsonText, given: CallOptions, onLine: Parameters<Run>[2]): GuestCall {
    const { principal, signal, onProgress, onTask, onCloseStream, deadlineMs } = given;
    const { tool, callMs, acceptsUnread } = this.#options;
    return {
      shape: this.#shape,
      args,
      deadlineMs: deadlineMs ?? callMs,
      context: this.#shape.context ? this.#createContext(given) : undefined,
      takesUnread: acceptsUnread,
      item: tool,
      caller: principal,
      signal,
      onProgress,
      onLog: bothOf(onLine, given.onLog),
      onTask,
      onCloseStream,
    };
  }

  #createContext(given: CallOptions): JsonObject {
    const { server, tool, toolOptions } = this.#options;
    return {
      server,
      tool,
      answers: answersForFunction(given),
      options: optionsFor(given, toolOptions),
      client: { ...(given.client ?? unknownClient) },
      ...(given.context && callerContext(given.context)),
      ...(given.trace && traceContext(given.trace)),
    };
  }
}

function callerContext({ action, root }: CallerContext): JsonObject {
  return { ...(action !== undefined && { action }), ...(root !== undefined && { root }) };
}

function traceContext({ requestId, context }: Trace): JsonObject {
  return { requestId, ...(context && { trace: { ...context } }) };
}

/** Overhead of a block, in addition to its text. */
const BLOCK_UNITS = 32;

/** Collects the yields of a generator for a caller that takes no stream: they are the result if it returns nothing. */
export class YieldCollector {
  readonly #outputBytes: number;
  readonly #blocks: Json[] = [];
  #units = 0;

  constructor(outputBytes: number) {
    this.#outputBytes = outputBytes;
  }

  /** Throws when the yields exceed the limit of a result, which ends the call. */
  readonly add = (event: Json): void => {
    // Progress is not part of the result.
    if (isObject(event) && typeof event["progress"] === "number") return;
    const block = isContentBlock(event) ? event : text(typeof event === "string" ? event : JSON.stringify(event));
    this.#units += JSON.stringify(block).length + BLOCK_UNITS;
    if (this.#units > this.#outputBytes)
      throw new BerthError(
        "guest_failed",
        `its stream has more than ${this.#outputBytes} bytes (${limitVariable("outputBytes")})`,
      );
    this.#blocks.push(block);
  };

  /** The outcome of the call, with the collected yields if it returned nothing. */
  applyTo(outcome: GuestOutcome): GuestOutcome {
    if (this.#units > this.#outputBytes) {
      const message = `it yields more than ${this.#outputBytes} bytes (${limitVariable("outputBytes")}); a client that accepts a stream gets all of it`;
      return { ok: false, error: { reason: "output", message, retriable: false } };
    }
    if (!outcome.ok || outcome.value.kind !== "none" || this.#blocks.length === 0) return outcome;
    return { ok: true, value: { kind: "json", value: this.#blocks } };
  }
}

type ScriptTexts = readonly (string | undefined)[];

interface Script {
  readonly tenant: string;
  readonly server: string;
  readonly text: () => Promise<string>;
  /** `argumentTexts` for long arguments, off-thread. */
  readonly readTexts: (args: JsonText, names: readonly string[]) => Promise<ScriptTexts>;
  /** Secrets, set as environment variables. */
  readonly grant?: Grant | undefined;
  readonly environment?: Granted["environment"];
  readonly resolveFolders?: Granted["resolveFolders"];
  readonly network?: Granted["network"];
}

/**
 * Runs a shell definition. Arguments are environment variables of the same name, and `$1`, `$2`, … in the order of the
 * parameters. Answers, options and context are JSON in `BERTH_ANSWERS`, `BERTH_OPTIONS` and `BERTH_CONTEXT`. The request
 * id is in `BERTH_REQUEST_ID`, the trace in OpenTelemetry's variables (`TRACEPARENT`, `TRACESTATE`, `BAGGAGE`), paths of
 * folders in `BERTH_FOLDER_<name>`. The output is the result, plain or in an envelope (`outcome/envelope.ts`). A non-zero
 * exit code is an error with the end of stderr. `warn` is called for a contradictory envelope.
 */
export function createScriptRun(
  executor: Executor,
  script: Script,
  shape: CallShape,
  options: { name: string; callMs: number; toolOptions: JsonObject; warn: (message: string) => void },
): Run {
  const { name, callMs, toolOptions, warn } = options;
  const hide = (text: string): string => script.grant?.redactor.hide(text) ?? text;
  return async (args, options) => {
    const { signal, deadlineMs } = options;
    const { params } = shape;
    let texts: ScriptTexts;
    try {
      texts = args instanceof JsonText ? await script.readTexts(args, params) : argumentTexts(args, params);
    } catch (error) {
      return failWith((error as Error).message);
    }
    let granted: Readonly<Record<string, string>> | undefined;
    let folders: readonly HostFolder[] | undefined;
    try {
      granted = { ...(await script.grant?.all()), ...(await script.environment?.values()) };
      folders = (await script.resolveFolders?.())?.folders;
    } catch (error) {
      if (error instanceof FolderFault) return failForFolder(error);
      return failWith((error as Error).message);
    }
    const outcome = await executor.runScript({
      tenant: script.tenant,
      script: await script.text(),
      argv: argumentVector(texts),
      env: {
        ...traceVariables(options.trace),
        ...contextVariables(createCallContext(name, {}, options, toolOptions)),
        ...environment(shape, texts),
        ...granted,
      },
      ...(folders && { folders, server: script.server }),
      ...(script.network && { network: script.network }),
      deadlineMs: deadlineMs ?? callMs,
      ...(signal && { signal }),
    });
    if (!outcome.ok) return outcome;
    const { exitCode, stdout, stderr } = outcome;
    const value = readOutput(stdout);
    const isError = exitCode !== 0;
    const envelope =
      value.kind === "text"
        ? unwrapResult({ content: [text(value.text)], isError }, (message) => warn(hide(message)))
        : undefined;
    if (envelope) return redactErrors(endOf(envelope), hide);
    if (!isError) return { ok: true, value };
    const detail = hide(stderr.trim() || new TextDecoder().decode(stdout).trim());
    const message = `exit code ${exitCode}${detail ? `: ${detail}` : ""}`;
    return failWith(message);
  };
}

function failWith(message: string): GuestOutcome {
  return { ok: false, error: { reason: "thrown", message, retriable: false } };
}

function failForFolder({ message, mayPass }: FolderFault): GuestOutcome {
  return { ok: false, error: { reason: "load", message, retriable: mayPass } };
}

function redactErrors(outcome: GuestOutcome, hide: (text: string) => string): GuestOutcome {
  return outcome.ok ? outcome : { ok: false, error: { ...outcome.error, message: hide(outcome.error.message) } };
}

/** Environment variables for what upstreams get in `_meta`. */
function contextVariables(context: CallContext): Record<string, string> {
  const { [TOOL_KEY]: tool, [CONTEXT_KEY]: surroundings } = contextMeta(context);
  const { answers, options } = (tool ?? {}) as JsonObject;
  return {
    ...(answers !== undefined && { BERTH_ANSWERS: JSON.stringify(answers) }),
    ...(options !== undefined && { BERTH_OPTIONS: JSON.stringify(options) }),
    ...(surroundings !== undefined && { BERTH_CONTEXT: JSON.stringify(surroundings) }),
  };
}

function traceVariables(trace: Trace | undefined): Record<string, string> {
  if (!trace) return {};
  const { traceparent, tracestate, baggage } = trace.context ?? {};
  return {
    BERTH_REQUEST_ID: trace.requestId,
    ...(traceparent !== undefined && { TRACEPARENT: traceparent }),
    ...(tracestate !== undefined && { TRACESTATE: tracestate }),
    ...(baggage !== undefined && { BAGGAGE: baggage }),
  };
}

function argumentVector(texts: ScriptTexts): string[] {
  const last = texts.findLastIndex((text) => text !== undefined);
  return texts.slice(0, last + 1).map((text) => text ?? "");
}

function environment({ params }: CallShape, texts: ScriptTexts): Record<string, string> {
  return Object.fromEntries(params.flatMap((name, at) => (texts[at] === undefined ? [] : [[name, texts[at]]])));
}

function readOutput(stdout: Uint8Array): Extract<GuestOutcome, { ok: true }>["value"] {
  try {
    return { kind: "text", text: new TextDecoder("utf-8", { fatal: true }).decode(stdout) };
  } catch {
    return { kind: "bytes", base64: Buffer.from(stdout).toString("base64") };
  }
}
