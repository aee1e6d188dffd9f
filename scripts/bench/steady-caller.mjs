import { setTimeout as sleep } from "node:timers/promises";
import { schedulingOf } from "./proc.mjs";
import { modernCall } from "./requests.mjs";
import { rawCaller } from "./upstream-callers.mjs";

/**
 * The measured caller, as a process of its own: calls a tool at a given rate, for as many milliseconds as the bench
 * says or until it says `stop`, and replies with the times of the calls. The calls come like those of many independent
 * callers (exponential distances), sometimes two together: at a steady beat no call would ever meet another one of its
 * own, and each foreign one would show.
 *
 * A call counts from the time it was written. Without a free connection it counts from its due time, so that one long
 * pause counts for every call that it held up. That this process was woken late for a call is no doing of the server:
 * it is not counted, and the call comes that much later.
 */

const CONNECTIONS = 16;

const [port, path] = process.argv.slice(2);
const load = modernCall(path);
const { message } = JSON.parse(load.body).params.arguments;
const free = Array.from({ length: CONNECTIONS }, () => rawCaller(Number(port), load, message));
/** The due times of calls that no connection is free for. */
const due = [];
let taken = [];
let isStopped = false;

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

process.on("message", (wanted) => {
  if (wanted === "stop") isStopped = true;
  else void measure(wanted);
});
process.on("disconnect", () => process.exit());
process.send({ ready: true });

async function measure({ ms, perSecond }) {
  taken = [];
  isStopped = false;
  const before = schedulingOf(process.pid);
  const start = performance.now();
  const distance = () => (-Math.log(1 - random()) * 1000) / perSecond;
  for (let next = distance(); ;) {
    const now = performance.now() - start;
    if (isStopped || now >= ms) break;
    for (; next <= now; next += distance()) send(performance.now());
    await sleep(Math.max(0, next - (performance.now() - start)));
  }
  while (free.length < CONNECTIONS) await sleep(5);
  process.send({ taken, waitedMs: schedulingOf(process.pid).waitedMs - before.waitedMs });
}

/** From 0 to 1; the same ones in each run. */
let seed = 1;
function random() {
  seed = (seed * 48_271) % 2_147_483_647;
  return seed / 2_147_483_647;
}
