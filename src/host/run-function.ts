import type { CallShape } from "../discover/discovery.ts";
import type { Executor, GuestProgram } from "../executor/executor.ts";
import type { JsonObject } from "../json.ts";
import type { ClientFacts } from "./catalog.ts";
import { Collected } from "./collected.ts";
import type { Run } from "./tool.ts";

const unknownClient: ClientFacts = { capabilities: {} };

/** Calls one function of a TypeScript definition in its guest process. */
export function functionRun(
  executor: Executor,
  program: GuestProgram,
  shape: CallShape,
  options: { server: string; tool: string; toolOptions: JsonObject; callMs: number; outputBytes: number },
): Run {
  const { server, tool, toolOptions } = options;
  const run: Run = (args, { signal, onProgress, onLog, onTask, onCloseStream, answers, client, deadlineMs }) =>
    executor.call(program, {
      shape,
      args,
      deadlineMs: deadlineMs ?? options.callMs,
      context: shape.context
        ? { server, tool, answers: answers ?? {}, options: toolOptions, client: { ...(client ?? unknownClient) } }
        : undefined,
      signal,
      onProgress,
      onLog,
      onTask,
      onCloseStream,
    });
  if (!shape.streaming) return run;
  return async (args, callOptions) => {
    if (callOptions.onProgress) return run(args, callOptions);
    const collected = new Collected(options.outputBytes);
    return collected.outcomeOf(await run(args, { ...callOptions, onProgress: collected.add }));
  };
}
