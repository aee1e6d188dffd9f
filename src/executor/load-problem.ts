import type { Problem } from "../lib/problem.ts";
import type { GuestFailure, LoadOutcome } from "./executor.ts";

/** The problem of a definition that does not load, with its position in the sources; undefined if there is none. */
export function loadProblem(outcome: LoadOutcome, main: string): Problem | undefined {
  switch (outcome.kind) {
    case "failed": {
      const cause = outcome.error.message.replace(/^its program does not load: /, "");
      const message = `Its functions cannot be called because its top level fails: ${cause}${hintFor(cause)}`;
      return { severity: "error", code: "load-failed", message, ...locate(outcome.error, main) };
    }
    case "rejected": {
      const { message: cause } = outcome.error;
      const message = `Its top level leaves a rejected promise that nothing handles: ${cause}${hintFor(cause)}`;
      return { severity: "warning", code: "load-rejected", message, ...locate(outcome.error, main) };
    }
    case "endless": {
      const message =
        `Its functions cannot be called because its top level took more than ${outcome.loadMs} ms of CPU time` +
        ": is there an endless loop? Move long work into the function that needs it";
      return { severity: "error", code: "load-endless", message, ...locate(outcome, main) };
    }
    case "unfinished": {
      const message =
        `It is unknown whether it loads: its top level had not finished after ${outcome.loadElapsedMs} ms` +
        '. It waits for something ("await" outside any function), or the machine is busy';
      return { severity: "warning", code: "load-unfinished", message, file: main };
    }
    case "loaded":
    case "unknown":
      return undefined;
  }
}

function hintFor(cause: string): string {
  if (!cause.includes("the host can only be asked while a call is in flight")) return "";
  return '. Nothing can be fetched or read before a call: move "fetch" and the like into the function that needs it';
}

function locate(
  { stack = "" }: Pick<GuestFailure, "stack">,
  main: string,
): Pick<Problem, "file" | "line" | "column" | "frame"> {
  const position = /definition:([^\s()]+?):(\d+):(\d+)/.exec(stack);
  if (!position) return { file: main };
  const at = stack.search(/^> \d+ \| /m);
  const frame = at < 0 ? {} : { frame: stack.slice(at) };
  return { file: position[1]!, line: Number(position[2]), column: Number(position[3]), ...frame };
}
