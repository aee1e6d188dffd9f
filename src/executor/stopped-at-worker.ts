/** A thread that reads the source map of one stopped program. Started by `stopped-at.ts`. */
import { parentPort, workerData } from "node:worker_threads";
import { mapStopped, type StoppedProgram } from "./stopped-at.ts";

const port = parentPort!;
port.postMessage(mapStopped(workerData as StoppedProgram));
