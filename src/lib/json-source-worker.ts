/** A thread for one long text; it ends with it. Started by `json-source.ts`. */
import { parentPort, workerData } from "node:worker_threads";
import { longJsonProblems, parseJsonSource, placedIn, type LongSource } from "./json-source.ts";

const { file, text, problems } = workerData as LongSource;

function found(): ReturnType<typeof placedIn> | undefined {
  if (!problems) return longJsonProblems(file, text);
  const { root } = parseJsonSource(file, text);
  return root && placedIn(root, problems);
}

const port = parentPort!;
port.postMessage(found());
