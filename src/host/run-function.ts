import type { CallShape } from "../discover/discovery.ts";
import type { Executor, GuestProgram } from "../executor/executor.ts";
import type { ClientFacts } from "./catalog.ts";
import type { Run } from "./tool.ts";

const unknownClient: ClientFacts = { capabilities: {} };

/** Calls one function of a TypeScript definition in its guest process. */
export function functionRun(
  executor: Executor,
  program: GuestProgram,
  shape: CallShape,
  options: { server: string; tool: string; callMs: number },
): Run {
  const { server, tool } = options;
  return (args, { signal, onProgress, onLog, onTask, answers, client, deadlineMs }) =>
    executor.call(program, {
      shape,
      args,
      deadlineMs: deadlineMs ?? options.callMs,
      ...(shape.context && {
        context: { server, tool, answers: answers ?? {}, options: {}, client: { ...(client ?? unknownClient) } },
      }),
      ...(signal && { signal }),
      ...(onProgress && { onProgress }),
      ...(onLog && { onLog }),
      ...(onTask && { onTask }),
    });
}
