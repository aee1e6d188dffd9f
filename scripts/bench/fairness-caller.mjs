import { setTimeout as sleep } from "node:timers/promises";
import { modernCall } from "./requests.mjs";
import { schedulingOf } from "./proc.mjs";
import { rawCaller } from "./upstream-callers.mjs";

/**
 * The tenant that is measured, as a process of its own: calls its tool at a steady rate for as many milliseconds as the
 * bench says, and answers with what the calls took.
 *
 * A call counts from when it was written. What no connection was free for counts from when it was due, so that one long
 * pause counts for every call that it held up. That this process was woken late for a call is no doing of the server: it
 * is not counted, and the call comes that much later.
 */

const EVERY_MS = 4;
const CONNECTIONS = 8;

const [port, path] = process.argv.slice(2);
const load = modernCall(path);
const { message } = JSON.parse(load.body).params.arguments;
const free = Array.from({ length: CONNECTIONS }, () => rawCaller(Number(port), load, message));
/** When those were due that no connection is free for. */
const due = [];
let taken = [];

function send(dueAt) {
  const caller = free.shift();
  if (!caller) return void due.push(dueAt);
  const onAnswer = () => {
    taken.push(performance.now() - dueAt);
    free.push(caller);
    if (due.length > 0) send(due.shift());
  };
  void caller.call().then(onAnswer, (error) => process.send({ failed: error.message }));
}

process.on("message", (ms) => void measure(ms));
process.on("disconnect", () => process.exit());
process.send({ ready: true });

async function measure(ms) {
  taken = [];
  const before = schedulingOf(process.pid);
  const start = performance.now();
  for (let sent = 0; ;) {
    const now = performance.now() - start;
    if (now >= ms) break;
    for (; sent * EVERY_MS <= now; sent++) send(performance.now());
    await sleep(Math.max(0, sent * EVERY_MS - (performance.now() - start)));
  }
  while (free.length < CONNECTIONS) await sleep(5);
  process.send({ taken, waitedMs: schedulingOf(process.pid).waitedMs - before.waitedMs });
}
