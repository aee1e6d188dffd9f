import type { CallShape } from "../discover/discovery.ts";
import type { Executor, GuestProgram } from "../executor/executor.ts";
import type { Run } from "./tool.ts";

/** Calls one function of a TypeScript definition in its guest process. */
export function functionRun(
  executor: Executor,
  program: GuestProgram,
  shape: CallShape,
  options: { server: string; tool: string; callMs: number },
): Run {
  const { server, tool } = options;
  const context = shape.context ? { server, tool, answers: {}, options: {} } : undefined;
  return (args, { signal, onProgress }) =>
    executor.call(program, {
      shape,
      args,
      deadlineMs: options.callMs,
      ...(context && { context }),
      ...(signal && { signal }),
      ...(onProgress && { onProgress }),
    });
}
