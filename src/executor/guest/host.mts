import type { Json } from "../../lib/json.ts";
import type { HostOperation } from "../host-operations.ts";
import { isActive } from "./active.mts";
import { send } from "./pipe.mts";
import { replyKinds, toHost } from "./wire.mts";

/** The requests that wait for the host's answer. */
interface PendingRequest {
  resolve(value: Json | Uint8Array): void;
  reject(error: Error): void;
}

const pending = new Map<number, PendingRequest>();
let lastId = 0;

export function settleRequest(id: number, kind: number, value: Json, bytes?: Uint8Array, refusal?: object): void {
  const request = pending.get(id);
  pending.delete(id);
  if (kind === 0) request?.reject(Object.assign(new Error(value as string), refusal));
  else request?.resolve(bytes ? decode(kind, bytes) : value);
}

function decode(kind: number, bytes: Uint8Array): Json | Uint8Array {
  if (kind === replyKinds.bytes) return bytes;
  const text = new TextDecoder().decode(bytes);
  return kind === replyKinds.text ? text : (JSON.parse(text) as Json);
}

/** A variable or a secret; undefined if there is none. */
export async function readName(call: number, kind: "variable" | "secret", name: string): Promise<Json | undefined> {
  return ((await askHost(call, kind, { name })) as Json) ?? undefined;
}

/** The bytes of a CID; undefined if there are none. */
export async function readCid(call: number, cid: string): Promise<Uint8Array | undefined> {
  return ((await askHost(call, "cid", { cid })) as Uint8Array | null) ?? undefined;
}

const OUTSIDE_OF_CALLS = "the host can only be asked while a call is in flight";

/** Thrown at the program's call, so that the stack begins there: a rejection that is not awaited has no position. */
export function assertInCall(call: number): void {
  if (call === 0) throw new TypeError(OUTSIDE_OF_CALLS);
}

/** Sends a request to the host and resolves with its answer. */
export function askHost(call: number, operation: HostOperation, params: object): Promise<Json | Uint8Array> {
  // The host would not answer a finished call.
  if (!isActive(call)) return Promise.reject(new Error(OUTSIDE_OF_CALLS));
  return new Promise((resolve, reject) => {
    const id = ++lastId;
    pending.set(id, { resolve, reject });
    send(`[${toHost.request},${call},${id},"${operation}",${JSON.stringify(params)}]`);
  });
}
