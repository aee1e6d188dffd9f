/** A thread of its own for one long text; it ends with it. Started by `json-source.ts`. */
import { parentPort, workerData } from "node:worker_threads";
import { parseJsonSource, placedIn, type LongText } from "./json-source.ts";

const { file, text, problems } = workerData as LongText;
const parsed = parseJsonSource(file, text);
const port = parentPort!;
port.postMessage(problems ? parsed.root && placedIn(parsed.root, problems) : parsed.problems);
