import type { Json } from "../../lib/json.ts";
import { askHost, assertInCall } from "./host.mts";
import { toBase64 } from "./values.mts";

/**
 * `fetch` for the program: the host decides what it may reach, makes the request, and passes the bodies on in parts as
 * they are read. A body that fits into the first part is sent with the request, so that it has a length and can be sent
 * again after a redirect.
 */
const PART_BYTES = 64 * 1024;
/** A response may not have a body with these (Fetch, "null body status"). */
const WITHOUT_BODY = new Set([101, 103, 204, 205, 304]);

let lastId = 0;

interface Head {
  readonly status: number;
  readonly statusText: string;
  readonly url: string;
  readonly redirected: boolean;
  readonly headers: [string, string][];
  readonly hasBody: boolean;
}

export async function hostFetch(call: number, input: unknown, init?: RequestInit): Promise<Response> {
  assertInCall(call);
  const request = new Request(input as string, init);
  const { url, method, redirect, signal } = request;
  signal.throwIfAborted();
  const id = ++lastId;
  const ask = (step: "fetch" | "fetchWrite" | "fetchRead" | "fetchAbort", params: object = {}): Promise<Json> =>
    askHost(call, step, { id, ...params }) as Promise<Json>;
  const headers = Array.from(request.headers, ([name, value]) => [name, value]);
  const body = request.body ? await readBody(request.body, init?.body) : undefined;
  const whole = body && "whole" in body ? { base64: toBase64(body.whole) } : undefined;
  const parts =
    body && "rest" in body ? { parts: true, ...(body.length !== undefined && { length: body.length }) } : {};

  // The host then rejects whatever of the request is still pending.
  const abort = (): void => void ask("fetchAbort").catch(() => {});
  signal.addEventListener("abort", abort, { once: true });
  try {
    const answer = ask("fetch", { url, method, headers, redirect, ...whole, ...parts });
    if (body && "rest" in body) void sendParts(body, ask);
    const head = (await answer) as unknown as Head;
    return createResponse(head, ask, signal, () => signal.removeEventListener("abort", abort));
  } catch (error) {
    signal.removeEventListener("abort", abort);
    if (signal.aborted) throw signal.reason;
    throw new TypeError((error as Error).message, { cause: error });
  }
}

type Ask = (step: "fetchWrite" | "fetchRead" | "fetchAbort", params?: object) => Promise<Json>;

interface Parts {
  /** The part that was read ahead of the rest. */
  readonly first: Uint8Array | undefined;
  readonly rest: ReadableStreamDefaultReader<Uint8Array>;
  readonly length: number | undefined;
}

/** A stream of the program is sent as it arrives; the beginning of any other body is read first. */
async function readBody(
  body: ReadableStream<Uint8Array>,
  source: unknown,
): Promise<{ readonly whole: Uint8Array } | Parts> {
  const rest = body.getReader();
  if (isStream(source)) return { first: undefined, rest, length: undefined };
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  while (bytes <= PART_BYTES) {
    const { done, value } = await rest.read();
    if (done) return { whole: Buffer.concat(chunks) };
    chunks.push(value);
    bytes += value.length;
  }
  return { first: Buffer.concat(chunks), rest, length: byteLength(source) };
}

async function sendParts({ first, rest }: Parts, ask: Ask): Promise<void> {
  try {
    if (first) await sendPart(first, ask);
    for (;;) {
      const { done, value } = await rest.read();
      if (done) break;
      await sendPart(value, ask);
    }
    await ask("fetchWrite");
  } catch (error) {
    // The fetch itself reports why it failed; the program's own stream is cancelled.
    await rest.cancel(error).catch(() => {});
    await ask("fetchAbort").catch(() => {});
  }
}

async function sendPart(part: Uint8Array, ask: Ask): Promise<void> {
  for (let start = 0; start < part.length; start += PART_BYTES) {
    await ask("fetchWrite", { base64: toBase64(part.subarray(start, start + PART_BYTES)) });
  }
}

function createResponse(
  { hasBody, headers, ...head }: Head,
  ask: Ask,
  signal: AbortSignal,
  onDone: () => void,
): Response {
  const { status, statusText, url, redirected } = head;
  const empty = !hasBody || WITHOUT_BODY.has(status);
  if (empty) onDone();
  const response = new Response(empty ? null : answerBody(ask, signal, onDone), { status, statusText, headers });
  return Object.defineProperties(response, { url: { value: url }, redirected: { value: redirected } });
}

function answerBody(ask: Ask, signal: AbortSignal, onDone: () => void): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const part = (await ask("fetchRead")) as { base64: string } | null;
          if (part) return controller.enqueue(new Uint8Array(Buffer.from(part.base64, "base64")));
          onDone();
          controller.close();
        } catch (error) {
          onDone();
          controller.error(signal.aborted ? signal.reason : new TypeError((error as Error).message, { cause: error }));
        }
      },
      async cancel() {
        onDone();
        await ask("fetchAbort").catch(() => {});
      },
    },
    { highWaterMark: 0 },
  );
}

function isStream(body: unknown): boolean {
  return body instanceof ReadableStream || (typeof body === "object" && body !== null && Symbol.asyncIterator in body);
}

/** Undefined if the length is known only after encoding. */
function byteLength(body: unknown): number | undefined {
  if (typeof body === "string") return Buffer.byteLength(body);
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return body.byteLength;
  return body instanceof Blob ? body.size : undefined;
}
