import type { CallShape } from "../discover/discovery.ts";
import type { Executor, GuestProgram } from "../executor/executor.ts";
import type { Run } from "./tool.ts";

/** Calls one function of a TypeScript definition in its guest process. */
export function functionRun(
  executor: Executor,
  program: GuestProgram,
  shape: CallShape,
  options: { server: string; callMs: number },
): Run {
  const context = shape.context ? { server: options.server } : undefined;
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
