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

/** What the program tells the host or asks about its own server. */
export function askHost(call: number, operation: HostOperation, params: object): Promise<Json> {
  return request(call, operation, params);
}

/** A variable or a secret; undefined when there is none. */
export async function readName(call: number, kind: "variable" | "secret", name: string): Promise<Json | undefined> {
  return (await request(call, kind, { name })) ?? undefined;
}

/** The bytes that a CID names; undefined when there are none. */
export async function readCid(call: number, cid: string): Promise<Uint8Array | undefined> {
  const found = (await request(call, "cid", { cid })) as { base64: string } | null;
  return found ? new Uint8Array(Buffer.from(found.base64, "base64")) : undefined;
}

/** `fetch` through the host, which decides where a program may reach. */
export async function hostFetch(call: number, input: unknown, init?: RequestInit): Promise<Response> {
  const wanted = new Request(input as string, init);
  const body = Buffer.from(await wanted.arrayBuffer());
  const asked = request(call, "fetch", {
    url: wanted.url,
    method: wanted.method,
    headers: [...wanted.headers].map(([name, value]) => [name, value]),
    redirect: wanted.redirect,
    ...(body.length > 0 && { base64: body.toString("base64") }),
  });
  const answer = (await Promise.race([asked, aborted(wanted.signal)])) as unknown as {
    status: number;
    statusText: string;
    url: string;
    headers: [string, string][];
    base64: string;
  };
  const { status, statusText, url, headers, base64 } = answer;
  const empty = [101, 204, 205, 304].includes(status);
  const response = new Response(empty ? null : Buffer.from(base64, "base64"), { status, statusText, headers });
  return Object.defineProperty(response, "url", { value: url });
}

function request(call: number, operation: HostOperation, params: object): Promise<Json> {
  if (call === 0) return Promise.reject(new Error("the host can only be asked while a call is in flight"));
  return new Promise((resolve, reject) => {
    const id = ++lastId;
    waiting.set(id, { resolve, reject });
    send(`[${toHost.request},${call},${id},"${operation}",${JSON.stringify(params)}]`);
  });
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
}
