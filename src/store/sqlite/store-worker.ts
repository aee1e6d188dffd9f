/**
 * The thread that owns the SQLite store of a serving process: an unresponsive disk blocks this thread rather than
 * calls. Started by `threaded-store.ts`.
 */
import { MessageChannel, parentPort, receiveMessageOnPort, workerData, type Transferable } from "node:worker_threads";
import type { Log } from "../../lib/log.ts";
import { monotonicMs, storeNow } from "./clock.ts";
import { receiveChange } from "./long-change.ts";
import { openSqliteStore } from "./sqlite-store.ts";
import {
  receivedError,
  sentError,
  type CallbackResult,
  type FromThread,
  type HeldObject,
  type ThreadLogLevel,
  type CallbackCall,
  type ToThread,
} from "./thread-messages.ts";
import type { StoreThreadData } from "./threaded-store.ts";

const CLOCK_MS = 1_000;

const { aheadMs, ...options } = workerData as StoreThreadData;
const port = parentPort!;
const targets = new Map<unknown, object>();
const stopListening = new Map<number, () => void>();
const running = new Set<Promise<void>>();
let held = 0;

type Method = (...args: readonly unknown[]) => unknown;
type Call = Extract<ToThread, { readonly id: number }>;

const send = (message: FromThread, transferred: readonly Transferable[] = []): void =>
  port.postMessage(message, transferred);

const log =
  (level: ThreadLogLevel) =>
  ({ err, ...fields }: { readonly err?: unknown }, message: string): void =>
    send({ level, fields, err: err === undefined ? undefined : sentError(err), message });

const store = await openSqliteStore({
  ...options,
  log: { error: log("error"), warn: log("warn"), info: log("info") } as unknown as Log,
}).catch((error: unknown) => {
  send({ id: 0, error: sentError(error) });
  process.exit();
});
const { tenants, tokens, audit, values, retainedCalls, nodes } = store;
const parts = { "": store, tenants, tokens, audit, values, retainedCalls, nodes };
for (const [name, part] of Object.entries(parts)) targets.set(name, part);
const shareClock = (): void => void Atomics.store(aheadMs, 0, BigInt(storeNow()) - monotonicMs());
shareClock();
setInterval(shareClock, CLOCK_MS);

port.on("message", (message: ToThread) => {
  if ("unlisten" in message) {
    stopListening.get(message.unlisten)?.();
    stopListening.delete(message.unlisten);
  } else if ("listen" in message) {
    const { listen: event, args } = message;
    const stop = findMethod(message)(...args, (...eventArgs: readonly unknown[]) => send({ event, args: eventArgs }));
    stopListening.set(event, stop as () => void);
  } else if (message.target === "" && message.method === "close") void close(message.id);
  else {
    const run = answer(message);
    running.add(run);
    void run.finally(() => running.delete(run));
  }
});
send({ id: 0, value: Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, methodNames(part)])) });

function findMethod({ target, method }: Omit<Call, "id">): Method {
  const object = targets.get(target) as Record<string, Method>;
  return (...args) => object[method]!(...args);
}

async function answer(call: Call): Promise<void> {
  const { id, target, method, holds } = call;
  try {
    const result = await findMethod(call)(...(await readArguments(call)));
    if (method === "close") targets.delete(target);
    const value = holds ? hold(result as object) : result;
    send({ id, value }, transferableBuffers(value));
  } catch (error) {
    send({ id, error: sentError(error) });
  }
}

function hold(result: object): HeldObject {
  const object = Symbol.asyncIterator in result ? closable(result as AsyncIterable<unknown>) : result;
  targets.set((held += 1), object);
  const fields = Object.fromEntries(Object.entries(object).filter(([, value]) => typeof value !== "function"));
  return { held, fields, methods: methodNames(object) };
}

function closable(iterable: AsyncIterable<unknown>): object {
  const iterator = iterable[Symbol.asyncIterator]();
  return { next: () => iterator.next(), close: () => iterator.return?.() };
}

function methodNames(object: object): string[] {
  return Object.entries(object).flatMap(([name, value]) => (typeof value === "function" ? [name] : []));
}

/** Functions stay on the other thread. */
async function readArguments({ id, method, args, parts }: Call): Promise<readonly unknown[]> {
  if (parts) {
    const change = await receiveChange(parts);
    parts.close();
    return [...args, change];
  }
  const ask = (...askArgs: readonly unknown[]): unknown => askServingThread(id, askArgs);
  if (method === "resealSecrets") return [ask, ...args];
  if (method === "putSecret") return [args[0], { ...(args[1] as object), isKeyHeld: ask }];
  return args;
}

/** Calls a function of the other thread from within a transaction, which cannot wait for a promise. */
function askServingThread(of: number, args: readonly unknown[]): unknown {
  const { port1, port2 } = new MessageChannel();
  const answered = new Int32Array(new SharedArrayBuffer(4));
  send({ of, args, answered, port: port2 } satisfies CallbackCall, [port2]);
  Atomics.wait(answered, 0, 0);
  const { message } = receiveMessageOnPort(port1) as { readonly message: CallbackResult };
  port1.close();
  if ("error" in message) throw receivedError(message.error);
  return message.value;
}

/** Transfers long content instead of copying it. */
function transferableBuffers(value: unknown): ArrayBuffer[] {
  if (value instanceof Map) return [...value.values()].flatMap(transferableBuffers);
  const isWhole = value instanceof Uint8Array && value.byteLength === value.buffer.byteLength;
  return isWhole ? [value.buffer as ArrayBuffer] : [];
}

/** Earlier calls are answered first. */
async function close(id: number): Promise<void> {
  const error = await store.close().then(() => undefined, sentError);
  await Promise.all(running);
  send(error ? { id, error } : { id, value: undefined });
  process.exit();
}
