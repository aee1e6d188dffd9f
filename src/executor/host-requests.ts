import { setTimeout as after } from "node:timers/promises";
import { BerthError, type ErrorCode } from "../lib/errors.ts";
import { yieldInOrder } from "../lib/event-loop.ts";
import { isObject, type JsonObject } from "../lib/json.ts";
import { DeferredAnswer, type RequestingCall, type HostAnswer, type HostPort } from "./executor.ts";
import { failure } from "./failures.ts";
import type { GuestProcess } from "./guest-process.ts";
import { messageUnitsMax, replyKinds, toGuest } from "./guest/wire.mts";
import { hostOperations, type HostOperation } from "./host-operations.ts";
import type { PendingCall } from "./pending-call.ts";

const operations = Object.keys(hostOperations) as HostOperation[];
/** The most requests of one process that may be pending. */
const REQUESTS_MAX = 64;
/** Caps the charge for an answer by its length, so that load from other tenants does not inflate it. */
const ANSWER_BYTES_PER_MS = 128 * 1024;

interface RequestingProcess extends Pick<GuestProcess, "drained" | "spend" | "kill"> {
  send(frame: string, bytes?: Uint8Array): unknown;
}

/** The requests of one process to the host, made by its calls. */
export class HostRequests {
  readonly #process: RequestingProcess;
  #waiting = 0;
  #isOver = false;
  /** Long answers are read and written sequentially. */
  #longAnswers: Promise<void> = Promise.resolve();
  #pausedUntil = 0;

  constructor(process: RequestingProcess) {
    this.#process = process;
  }

  /** Executes a request and writes the answer to the guest; `units` is the length of the frame. */
  answer(call: PendingCall, frame: readonly unknown[], units: number): void {
    this.#waiting++;
    this.#execute(call, frame, units)
      // A failure to write to a guest affects only that guest.
      .catch(() => this.#process.kill(failure("protocol", "its process could not be given an answer")))
      .finally(() => this.#waiting--);
  }

  /** Stops all writing. */
  end(): void {
    this.#isOver = true;
  }

  async #execute(call: PendingCall, frame: readonly unknown[], units: number): Promise<void> {
    const [, , id] = frame;
    const pending = execute(call.program.port, frame, { units, waiting: this.#waiting }, call);
    const answer = await pending.catch((error: unknown) => refusal(id, error));
    if (answer instanceof DeferredAnswer) await this.#inOrder(() => this.#writeLong(id, answer));
    else this.#send(answer instanceof Refusal ? answer.frame : JSON.stringify([toGuest.reply, id, 1, answer]));
  }

  #inOrder(write: () => Promise<void>): Promise<void> {
    return (this.#longAnswers = this.#longAnswers.then(write));
  }

  async #writeLong(id: unknown, { kind, read }: DeferredAnswer): Promise<void> {
    const pauseMs = this.#pausedUntil - performance.now();
    if (pauseMs > 0) await after(pauseMs, undefined, { ref: false });
    for (let drained = this.#process.drained(); drained; drained = this.#process.drained()) await drained;
    await yieldInOrder();
    if (this.#isOver) return;
    const start = performance.now();
    const bytes = await read().catch((error: unknown) => refusal(id, error));
    if (bytes instanceof Refusal) return this.#send(bytes.frame);
    if (!bytes) return this.#send(JSON.stringify([toGuest.reply, id, 1, null]));
    this.#send(JSON.stringify([toGuest.reply, id, replyKinds[kind]]), bytes);
    const now = performance.now();
    this.#pausedUntil = now + this.#process.spend(Math.min(now - start, bytes.length / ANSWER_BYTES_PER_MS), now);
  }

  #send(frame: string, bytes?: Uint8Array): void {
    if (!this.#isOver) this.#process.send(frame, bytes);
  }
}

/** Rejects with the error that is reported to the guest. */
async function execute(
  port: HostPort | undefined,
  frame: readonly unknown[],
  { units, waiting }: { readonly units: number; readonly waiting: number },
  call: RequestingCall,
): Promise<HostAnswer> {
  const [, , id, name, params] = frame;
  if (!Number.isSafeInteger(id)) throw new Error("a request needs a number");
  const operation = operations.find((operation) => operation === name);
  if (!operation || !isObject(params)) throw new Error("the host does not know this request");
  if (!port) throw new Error(`this program may not ask the host (${operation})`);
  if (waiting > REQUESTS_MAX) throw new Error(`more than ${REQUESTS_MAX} requests are already waiting for the host`);
  const unitsMax = hostOperations[operation];
  if (units > unitsMax) throw new Error(`a request has at most ${unitsMax} characters`);
  return port.request(operation, params as JsonObject, call);
}

class Refusal {
  readonly frame: string;

  constructor(frame: string) {
    this.frame = frame;
  }
}

function refusal(id: unknown, error: unknown): Refusal {
  const message = error instanceof Error ? error.message : "the host refused";
  const frame = [toGuest.reply, Number.isSafeInteger(id) ? id : 0, 0, message.slice(0, messageUnitsMax)];
  if (!(error instanceof BerthError)) return new Refusal(JSON.stringify(frame));
  const { code } = error;
  return new Refusal(JSON.stringify([...frame, { code, ...(transientCodes.has(code) && { transient: true }) }]));
}

/** Errors that are transient: the call may succeed when it is repeated. */
const transientCodes: ReadonlySet<ErrorCode> = new Set(["store_failed", "no_descriptors"]);
