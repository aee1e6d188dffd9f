import { once } from "node:events";
import { join } from "node:path";
import { Worker, type MessagePort, type Transferable } from "node:worker_threads";
import type { Block } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import type { Change, DerivedEntry, SecretStore, Store, TenantSnapshot, TenantStaging } from "../store.ts";
import { monotonicMs } from "./clock.ts";
import { isLongChange, sendChange } from "./long-change.ts";
import { DATABASE_FILE, isOpen, registerOpened, type OpenedDatabase } from "./open-database.ts";
import type { SqliteStoreOptions } from "./sqlite-store.ts";
import {
  receivedError,
  sentError,
  type CallbackResult,
  type FromThread,
  type HeldObject,
  type MethodNames,
  type CallbackCall,
  type Target,
  type ToThread,
} from "./thread-messages.ts";

export interface StoreThreadData extends Omit<SqliteStoreOptions, "log"> {
  /** Shared with the thread: by how many milliseconds the clock of the store is ahead of `monotonicMs`. */
  readonly aheadMs: BigInt64Array;
}

const workerFile = new URL("./store-worker.js", import.meta.url);
/** The thread passes on what it reads quickly. By default, V8 would reserve 30 MB for that. */
const resourceLimits = { maxYoungGenerationSizeMb: 8 };

/**
 * The SQLite store of a serving process, on a thread of its own. Any access to the data folder can block for as long as
 * its disk does, even a read, which writes a mark into shared memory.
 */
export async function openThreadedStore(options: SqliteStoreOptions): Promise<Store & SecretStore> {
  const aheadMs = new BigInt64Array(new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT));
  const thread = new StoreThread(options, aheadMs);
  const methods = await thread.opened;
  const { call, listen, hold } = thread;
  const forward = <Part extends keyof Store>(part: Part): Store[Part] =>
    forwarded(thread, part, methods[part]!) as Store[Part];

  return {
    ...(forwarded(thread, "", methods[""]!) as Store & SecretStore),
    tenants: {
      ...forward("tenants"),
      async snapshot(name) {
        const snapshot = await hold<TenantSnapshot>("tenants", "snapshot", [name]);
        const iterate = (method: string) => (): AsyncIterable<never> => thread.iterate(snapshot.held, method);
        return { ...snapshot, contents: iterate("contents"), changes: iterate("changes"), values: iterate("values") };
      },
      async stage() {
        const staging = await hold<TenantStaging>("tenants", "stage", []);
        return { ...staging, put: (block) => staging.put(compactBlock(block)) };
      },
      onChange: (listener) => listen("tenants", "onChange", [], listener),
    },
    tokens: { ...forward("tokens"), onRevoke: (listener) => listen("tokens", "onRevoke", [], listener) },
    audit: { ...forward("audit"), all: () => thread.iterate("audit", "all") },
    values: forward("values"),
    retainedCalls: forward("retainedCalls"),
    nodes: { ...forward("nodes"), onLetter: (node, listener) => listen("nodes", "onLetter", [node], listener) },
    now: () => Number(monotonicMs() + Atomics.load(aheadMs, 0)),
    unheardMs: () => 0,
    onChange: (listener) => listen("", "onChange", [], listener),
    onReplaced: (listener) => listen("", "onReplaced", [], listener),

    change(tenant, { put = [], derived = [], ...change }) {
      const fullChange = { ...change, put: put.map(compactBlock), derived: derived.map(compactResult) };
      return isLongChange(fullChange)
        ? thread.sendChange(tenant, fullChange)
        : call("", "change", [tenant, fullChange]);
    },

    putDerived: (tenant, entries) => call("", "putDerived", [tenant, entries.map(compactResult)]),
    putSecret: (tenant, { isKeyHeld = () => true, ...put }) => call("", "putSecret", [tenant, put], { ask: isKeyHeld }),
    resealSecrets: (reseal, note) => call("", "resealSecrets", [note], { ask: reseal }),

    close: () => thread.close(),
  };
}

function forwarded(thread: StoreThread, target: Target, methods: readonly string[]): object {
  return Object.fromEntries(
    methods.map((method) => [method, (...args: readonly unknown[]) => thread.call(target, method, args)]),
  );
}

interface CallOptions {
  /** A function that the thread may call until the call has ended. */
  readonly ask?: ((...args: never[]) => unknown) | undefined;
  readonly holds?: boolean;
  readonly parts?: MessagePort;
}

interface Pending extends Pick<CallOptions, "ask"> {
  readonly resolve: (value: never) => void;
  readonly reject: (error: Error) => void;
}

type Listener = (...args: never[]) => void;

interface Held {
  readonly held: number;
}

interface HeldIterator<T> {
  readonly next: () => Promise<IteratorResult<T>>;
  readonly close: () => Promise<void>;
}

class StoreThread implements OpenedDatabase {
  readonly name: string;
  open = true;
  readonly opened: Promise<MethodNames>;
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  readonly #listeners = new Map<number, Listener>();
  readonly #ended: Promise<void>;
  #lastId = 0;
  /** Long changes that are still being sent to the thread. */
  #sent: Promise<unknown> = Promise.resolve();

  constructor({ log, ...options }: SqliteStoreOptions, aheadMs: BigInt64Array) {
    this.name = join(options.dataDir, DATABASE_FILE);
    const workerData: StoreThreadData = { ...options, isOpenHere: isOpen(this.name), aheadMs };
    registerOpened(this);
    // Node.js would pipe its stderr to this process's, whose write errors, as on a full disk, would then end the
    // process.
    this.#worker = new Worker(workerFile, { workerData, resourceLimits, execArgv: [], stderr: true });
    this.opened = new Promise((resolve, reject) => this.#pending.set(0, { resolve, reject }));
    this.#worker.on("message", (message: FromThread) => {
      if ("event" in message) this.#listeners.get(message.event)?.(...(message.args as never[]));
      else if ("level" in message) {
        const { level, fields, err, message: text } = message;
        log?.[level]({ ...(err && { err: receivedError(err) }), ...fields }, text);
      } else if ("of" in message) this.#answer(message);
      else this.#settle(message);
    });
    this.#ended = this.#end();
  }

  async #end(): Promise<void> {
    // Rejects with an uncaught error of the thread, which then ends the process, like one of the serving thread.
    await once(this.#worker, "exit");
    this.open = false;
    for (const { reject } of this.#pending.values()) reject(closed());
    this.#pending.clear();
  }

  readonly call = <T>(
    target: Target,
    method: string,
    args: readonly unknown[],
    options: CallOptions = {},
  ): Promise<T> => {
    if (!this.open) return Promise.reject(closed());
    const { ask, parts, holds } = options;
    const id = (this.#lastId += 1);
    return new Promise<T>((resolve, reject) => {
      // The process must not end while it waits for its store.
      if (this.#pending.size === 0) this.#worker.ref();
      this.#pending.set(id, { resolve, reject, ask });
      this.#send({ id, target, method, args, ...(holds && { holds }), ...(parts && { parts }) }, parts ? [parts] : []);
    });
  };

  readonly listen = (target: Target, method: string, args: readonly unknown[], listener: Listener): (() => void) => {
    const id = (this.#lastId += 1);
    this.#listeners.set(id, listener);
    this.#send({ listen: id, target, method, args });
    return () => {
      if (this.#listeners.delete(id)) this.#send({ unlisten: id });
    };
  };

  /** Calls a method whose result stays on the thread until its `close`. Returns a proxy for it. */
  readonly hold = async <T extends object>(
    target: Target,
    method: string,
    args: readonly unknown[],
  ): Promise<T & Held> => {
    const { held, fields, methods } = await this.call<HeldObject>(target, method, args, { holds: true });
    return { held, ...fields, ...(forwarded(this, held, methods) as T) };
  };

  async *iterate<T>(target: Target, method: string): AsyncGenerator<T> {
    const { next, close } = await this.hold<HeldIterator<T>>(target, method, []);
    try {
      for (let step; !(step = await next()).done;) yield step.value;
    } finally {
      await close();
    }
  }

  /** The same as a call of `change`, for one that takes long to send. */
  async sendChange(tenant: string, change: Change): Promise<readonly number[]> {
    const { port1, port2 } = new MessageChannel();
    const result = this.call<readonly number[]>("", "change", [tenant], { parts: port2 });
    const sent = Promise.all([result, sendChange(port1, change)]);
    this.#sent = Promise.allSettled([this.#sent, sent]).then(() => undefined);
    await sent;
    return result;
  }

  async close(): Promise<void> {
    await this.#sent;
    if (this.open) await this.call("", "close", []);
    this.#worker.ref();
    await this.#ended;
  }

  #send(message: ToThread, transferred: readonly Transferable[] = []): void {
    this.#worker.postMessage(message, transferred);
  }

  #settle(message: Extract<FromThread, { readonly id: number }>): void {
    const { resolve, reject } = this.#pending.get(message.id)!;
    this.#pending.delete(message.id);
    if (this.#pending.size === 0) this.#worker.unref();
    if ("error" in message) reject(receivedError(message.error));
    else resolve(message.value as never);
  }

  #answer({ of, args, answered, port }: CallbackCall): void {
    let answer: CallbackResult;
    try {
      answer = { value: this.#pending.get(of)!.ask!(...(args as never[])) };
    } catch (error) {
      answer = { error: sentError(error) };
    }
    port.postMessage(answer);
    port.close();
    Atomics.store(answered, 0, 1);
    Atomics.notify(answered, 0);
  }
}

function closed(): BerthError {
  return new BerthError("store_failed", "the store is closed");
}

/** Sending a view would copy the whole buffer behind it. */
function compactBlock({ cid, bytes }: Block): Block {
  return { cid, bytes: bytes.byteLength === bytes.buffer.byteLength ? bytes : new Uint8Array(bytes) };
}

function compactResult(entry: DerivedEntry): DerivedEntry {
  return { ...entry, block: compactBlock(entry.block) };
}
