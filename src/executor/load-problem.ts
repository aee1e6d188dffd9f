import type { Problem } from "../lib/problem.ts";
import type { GuestFailure, LoadOutcome } from "./executor.ts";

/** The problem of a definition that does not load, with its place in the sources; undefined where nothing is known. */
export function loadProblem(outcome: LoadOutcome, entry: string): Problem | undefined {
  switch (outcome.kind) {
    case "failed": {
      const said = outcome.error.message.replace(/^its program does not load: /, "");
      const message = `No function of it can be called, because its top level fails: ${said}${adviceOn(said)}`;
      return { severity: "error", code: "load-failed", message, ...placeOf(outcome.error, entry) };
    }
    case "rejected": {
      const { message: said } = outcome.error;
      const message = `Its top level leaves a promise behind that fails without a handler: ${said}${adviceOn(said)}`;
      return { severity: "warning", code: "load-rejected", message, ...placeOf(outcome.error, entry) };
    }
    case "endless": {
      const message =
        `No function of it can be called, because its top level took more than ${outcome.loadMs} ms of CPU time` +
        ": is there an endless loop? Move long work into the function that needs it";
      return { severity: "error", code: "load-endless", message, ...placeOf(outcome, entry) };
    }
    case "unfinished": {
      const message =
        `Nobody knows whether it loads: its top level had not finished after ${outcome.loadElapsedMs} ms` +
        '. It waits for something ("await" outside of all functions), or the machine is busy';
      return { severity: "warning", code: "load-unfinished", message, file: entry };
    }
    case "loaded":
    case "unknown":
      return undefined;
  }
}

function adviceOn(said: string): string {
  if (!said.includes("the host can only be asked while a call is in flight")) return "";
  return '. Nothing can be fetched or read before a call: move "fetch" and the like into the function that needs it';
}

function placeOf(
  { stack = "" }: Pick<GuestFailure, "stack">,
  entry: string,
): Pick<Problem, "file" | "line" | "column" | "frame"> {
  const place = /definition:([^\s()]+?):(\d+):(\d+)/.exec(stack);
  if (!place) return { file: entry };
  const at = stack.search(/^> \d+ \| /m);
  const frame = at < 0 ? {} : { frame: stack.slice(at) };
  return { file: place[1]!, line: Number(place[2]), column: Number(place[3]), ...frame };
}
