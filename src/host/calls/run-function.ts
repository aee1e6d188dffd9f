import { bothOf } from "./observe.ts";
import type { CallShape } from "../../discover/discovery.ts";
import type { Executor, GuestProgram } from "../../executor/executor.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Trace } from "../../lib/trace.ts";
import type { CallerContext } from "../../outcome/context.ts";
import type { CallOptions, ClientFacts } from "../catalog/catalog.ts";
import { Collected } from "./collected.ts";
import { answersForFunction, optionsFor } from "../../outcome/answers.ts";
import type { Run } from "./tool.ts";

const unknownClient: ClientFacts = { capabilities: {} };

/** Calls one function of a TypeScript definition in its guest process. */
export function functionRun(
  executor: Executor,
  program: GuestProgram,
  shape: CallShape,
  options: {
    server: string;
    tool: string;
    toolOptions: JsonObject;
    callMs: number;
    outputBytes: number;
    takesUnread: boolean;
  },
): Run {
  const { server, tool, toolOptions } = options;
  const contextOf = (given: CallOptions): JsonObject => ({
    server,
    tool,
    answers: answersForFunction(given),
    options: optionsFor(given, toolOptions),
    client: { ...(given.client ?? unknownClient) },
    ...(given.context && surroundings(given.context)),
    ...(given.trace && tracing(given.trace)),
  });
  const run: Run = (args, given, onLine) => {
    const { principal, signal, onProgress, onTask, onCloseStream, deadlineMs } = given;
    return executor.call(program, {
      shape,
      args,
      deadlineMs: deadlineMs ?? options.callMs,
      context: shape.context ? contextOf(given) : undefined,
      takesUnread: options.takesUnread,
      caller: principal,
      signal,
      onProgress,
      onLog: bothOf(onLine, given.onLog),
      onTask,
      onCloseStream,
    });
  };
  if (!shape.streaming) return run;
  return async (args, callOptions, onLine) => {
    if (callOptions.onProgress) return run(args, callOptions, onLine);
    const collected = new Collected(options.outputBytes);
    return collected.outcomeOf(await run(args, { ...callOptions, onProgress: collected.add }, onLine));
  };
}

function surroundings({ action, root }: CallerContext): JsonObject {
  return { ...(action !== undefined && { action }), ...(root !== undefined && { root }) };
}

function tracing({ requestId, context }: Trace): JsonObject {
  return { requestId, ...(context && { trace: { ...context } }) };
}
