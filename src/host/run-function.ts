import type { CallShape } from "../discover/discovery.ts";
import type { Executor, GuestProgram } from "../executor/executor.ts";
import type { JsonObject } from "../json.ts";
import type { Run } from "./tool.ts";

/** Calls one function of a TypeScript definition in its guest process. */
export function functionRun(
  executor: Executor,
  program: GuestProgram,
  shape: CallShape,
  options: { server: string; tool: string; callMs: number },
): Run {
  const { server, tool } = options;
  const contextOf = (answers: JsonObject): JsonObject => ({ server, tool, answers, options: {} });
  const unanswered = contextOf({});
  return (args, { signal, onProgress, onLog, answers }) =>
    executor.call(program, {
      shape,
      args,
      deadlineMs: options.callMs,
      ...(shape.context && { context: answers ? contextOf(answers) : unanswered }),
      ...(signal && { signal }),
      ...(onProgress && { onProgress }),
      ...(onLog && { onLog }),
    });
}
