/** A thread for one long text; it exits afterwards. Started by `json-source.ts`. */
import { parentPort, workerData } from "node:worker_threads";
import { longJsonProblems, parseJsonSource, withPositions, type LongSource } from "./json-source.ts";

const { file, text, problems } = workerData as LongSource;

function run(): ReturnType<typeof withPositions> | undefined {
  if (!problems) return longJsonProblems(file, text);
  const { root } = parseJsonSource(file, text);
  return root && withPositions(root, problems);
}

const port = parentPort!;
port.postMessage(run());
