import { isObject, type JsonObject } from "../json.ts";
import type { AskingCall, HostOperation, HostPort } from "./executor.ts";
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

/** Carries out what a guest asks of the host. Resolves with the frame to write, whatever happens. */
export async function answerRequest(
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
