import type { Trace } from "../../lib/trace.ts";
import type { CallShape } from "../../discover/discovery.ts";
import type { Executor, GuestOutcome } from "../../executor/executor.ts";
import { JsonText, type JsonObject } from "../../lib/json.ts";
import { CONTEXT_KEY, contextMeta, TOOL_KEY, type CallContext } from "../../outcome/context.ts";
import type { Grant } from "../../secrets/grants.ts";
import { unwrapResult } from "../../outcome/unwrap.ts";
import { text } from "../../contract/content-block.ts";
import { endOf } from "./outcomes.ts";
import { argumentTexts } from "./script-arguments.ts";
import { contextOf } from "../../outcome/answers.ts";
import type { Run } from "./tool.ts";

type ScriptTexts = readonly (string | undefined)[];

export interface Script {
  readonly tenant: string;
  readonly text: () => Promise<string>;
  /** Like `argumentTexts`, for long arguments. */
  readonly textsIn: (args: JsonText, names: readonly string[]) => Promise<ScriptTexts>;
  /** Its secrets, which also become environment variables. */
  readonly grant?: Grant | undefined;
}

/**
 * Runs a shell definition. Each argument is an environment variable under its own name, and stands in `$1`, `$2`, … in
 * the order of the parameters. Answers, options and context, if any, are JSON in `BERTH_ANSWERS`, `BERTH_OPTIONS` and
 * `BERTH_CONTEXT`. The request's id is in `BERTH_REQUEST_ID`, its trace where OpenTelemetry looks for it: in
 * `TRACEPARENT`, `TRACESTATE` and `BAGGAGE`. The output is the result, or says what the result is
 * (`outcome/envelope.ts`); an exit code other than 0 is an error with the end of stderr. `warn` hears of a script that
 * contradicts itself.
 */
export function scriptRun(
  executor: Executor,
  script: Script,
  shape: CallShape,
  options: { name: string; callMs: number; toolOptions: JsonObject; warn: (message: string) => void },
): Run {
  const { name, callMs, toolOptions, warn } = options;
  const hide = (text: string): string => script.grant?.hide(text) ?? text;
  return async (passed, given) => {
    const { signal, deadlineMs } = given;
    const { params } = shape;
    let texts: ScriptTexts;
    try {
      texts = passed instanceof JsonText ? await script.textsIn(passed, params) : argumentTexts(passed, params);
    } catch (error) {
      return refused((error as Error).message);
    }
    let secrets: Readonly<Record<string, string>> | undefined;
    try {
      secrets = await script.grant?.all();
    } catch (error) {
      return refused((error as Error).message);
    }
    const outcome = await executor.runScript({
      tenant: script.tenant,
      script: await script.text(),
      argv: argumentVector(texts),
      env: {
        ...traced(given.trace),
        ...told(contextOf(name, {}, given, toolOptions)),
        ...environment(shape, texts),
        ...secrets,
      },
      deadlineMs: deadlineMs ?? callMs,
      ...(signal && { signal }),
    });
    if (!outcome.ok) return outcome;
    const { exitCode, stdout, stderr } = outcome;
    const value = printed(stdout);
    const isError = exitCode !== 0;
    const said =
      value.kind === "text"
        ? unwrapResult({ content: [text(value.text)], isError }, (message) => warn(hide(message)))
        : undefined;
    if (said) return hidingErrors(endOf(said), hide);
    if (!isError) return { ok: true, value };
    const detail = hide(stderr.trim() || new TextDecoder().decode(stdout).trim());
    const message = `exit code ${exitCode}${detail ? `: ${detail}` : ""}`;
    return refused(message);
  };
}

function refused(message: string): GuestOutcome {
  return { ok: false, error: { reason: "thrown", message, retriable: false } };
}

function hidingErrors(outcome: GuestOutcome, hide: (text: string) => string): GuestOutcome {
  return outcome.ok ? outcome : { ok: false, error: { ...outcome.error, message: hide(outcome.error.message) } };
}

/** The environment variables that tell a script of its call, besides the arguments: what `_meta` tells an upstream. */
function told(context: CallContext): Record<string, string> {
  const { [TOOL_KEY]: tool, [CONTEXT_KEY]: surroundings } = contextMeta(context);
  const { answers, options } = (tool ?? {}) as JsonObject;
  return {
    ...(answers !== undefined && { BERTH_ANSWERS: JSON.stringify(answers) }),
    ...(options !== undefined && { BERTH_OPTIONS: JSON.stringify(options) }),
    ...(surroundings !== undefined && { BERTH_CONTEXT: JSON.stringify(surroundings) }),
  };
}

function traced(trace: Trace | undefined): Record<string, string> {
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

function printed(stdout: Uint8Array): Extract<GuestOutcome, { ok: true }>["value"] {
  try {
    return { kind: "text", text: new TextDecoder("utf-8", { fatal: true }).decode(stdout) };
  } catch {
    return { kind: "bytes", base64: Buffer.from(stdout).toString("base64") };
  }
}
