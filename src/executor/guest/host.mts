import type { Json } from "../../json.ts";
import type { HostOperation } from "../executor.ts";
import { send } from "./pipe.mts";
import { toHost } from "./wire.mts";

/** What the program gets from outside: it asks, the host decides. */
interface Waiting {
  resolve(value: Json): void;
  reject(error: Error): void;
}

const waiting = new Map<number, Waiting>();
let lastId = 0;

export function settleRequest(id: number, ok: boolean, value: Json): void {
  const request = waiting.get(id);
  waiting.delete(id);
  if (ok) request?.resolve(value);
  else request?.reject(new Error(value as string));
}

/** A variable or a secret; undefined when there is none. */
export async function readName(call: number, kind: "variable" | "secret", name: string): Promise<Json | undefined> {
  return (await askHost(call, kind, { name })) ?? undefined;
}

/** The bytes that a CID names; undefined when there are none. */
export async function readCid(call: number, cid: string): Promise<Uint8Array | undefined> {
  const found = (await askHost(call, "cid", { cid })) as { base64: string } | null;
  return found ? new Uint8Array(Buffer.from(found.base64, "base64")) : undefined;
}

/** What the program asks the host or tells it. */
export function askHost(call: number, operation: HostOperation, params: object): Promise<Json> {
  if (call === 0) return Promise.reject(new Error("the host can only be asked while a call is in flight"));
  return new Promise((resolve, reject) => {
    const id = ++lastId;
    waiting.set(id, { resolve, reject });
    send(`[${toHost.request},${call},${id},"${operation}",${JSON.stringify(params)}]`);
  });
}
