import { isObject, type JsonObject } from "../json.ts";
import type { Call } from "./call.ts";
import type { AskingCall, HostOperation, HostPort } from "./executor.ts";
import type { GuestProcess } from "./guest-process.ts";
import { messageUnitsMax, toGuest } from "./guest/wire.mts";

const operations: readonly HostOperation[] = [
  "variable",
  "secret",
  "cid",
  "fetch",
  "fetchWrite",
  "fetchRead",
  "fetchAbort",
  "resourceUpdated",
  "offers",
  "hide",
  "show",
];
/** Requests of one process that may wait for their answers at a time. */
const REQUESTS_MAX = 64;

/** What one process asks of the host in the midst of its calls. */
export class HostRequests {
  readonly #process: Pick<GuestProcess, "send">;
  #waiting = 0;
  #isOver = false;

  constructor(process: Pick<GuestProcess, "send">) {
    this.#process = process;
  }

  /** Carries it out, and writes the answer to the guest. */
  async answer(call: Call, frame: readonly unknown[]): Promise<void> {
    this.#waiting++;
    const reply = await answerTo(call.program.port, frame, this.#waiting, call);
    this.#waiting--;
    if (!this.#isOver) this.#process.send(reply);
  }

  /** Nothing is written any more. */
  end(): void {
    this.#isOver = true;
  }
}

/** Resolves with the frame to write, whatever happens. */
async function answerTo(
  port: HostPort | undefined,
  frame: readonly unknown[],
  requests: number,
  call: AskingCall,
): Promise<string> {
  const [, , id, name, params] = frame;
  if (!Number.isSafeInteger(id)) return refuse(0, "a request needs a number");
  const operation = operations.find((operation) => operation === name);
  if (!operation || !isObject(params)) return refuse(id, "the host knows no such request");
  if (!port) return refuse(id, `this program may not ask the host (${operation})`);
  if (requests > REQUESTS_MAX) return refuse(id, `more than ${REQUESTS_MAX} requests wait for the host already`);
  try {
    const value = await port.request(operation, params as JsonObject, call);
    return JSON.stringify([toGuest.reply, id, 1, value]);
  } catch (error) {
    return refuse(id, error instanceof Error ? error.message : "the host refused");
  }
}

function refuse(id: unknown, message: string): string {
  return JSON.stringify([toGuest.reply, id, 0, message.slice(0, messageUnitsMax)]);
}
