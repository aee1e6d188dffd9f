import { pipeline, type Readable } from "node:stream";
import { constants, createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import { request, fetch as undiciFetch, type Agent, type RequestInit as UndiciInit } from "undici";
import type { HttpSender } from "../lib/http-sender.ts";
import { openAgent, openAgentToAnywhere } from "./agent.ts";
import type { AllowedHost } from "./allow-list.ts";
import { publicRules } from "./network-rules.ts";

const CONNECTIONS = 64;

/** A `fetch` that reaches only hosts with public addresses, redirects included, and the addresses in `extra`. */
export function openPublicFetch(extra: readonly AllowedHost[] = []): typeof fetch {
  const dispatcher = openAgent({ rules: publicRules(extra), connections: CONNECTIONS });
  // The same standard with different types.
  return async (url, init) => undiciFetch(url as string, { ...(init as UndiciInit), dispatcher });
}

export function openPublicSender(): HttpSender {
  return createSender(openAgent({ rules: publicRules([]), connections: CONNECTIONS }));
}

/** Sends requests to any host that the machine can reach, with the same bounds on responses. */
export function openSender(): HttpSender {
  return createSender(openAgentToAnywhere());
}

/** Takes half the CPU time of `fetch`, which also implements features of browsers. */
function createSender(dispatcher: Agent): HttpSender {
  return async (url, { headers, ...init }) => {
    const response = await request(url, { ...init, headers: { ...OWN_HEADERS, ...headers }, dispatcher });
    const body = decode(response.body, String(response.headers["content-encoding"] ?? "").toLowerCase());
    body.on("error", () => {});
    let isDiscarded = false;
    async function* pieces(): AsyncGenerator<Uint8Array, void> {
      try {
        yield* body as AsyncIterable<Uint8Array>;
      } catch (error) {
        if (!isDiscarded) throw error;
      }
    }
    const leave = (): void => {
      isDiscarded = true;
      body.destroy();
    };
    const get = (name: string): string | null => response.headers[name]?.toString() ?? null;
    return { status: response.statusCode, headers: { get }, pieces: pieces(), leave };
  };
}

const OWN_HEADERS = { "user-agent": "berth", "accept-encoding": "gzip, br" };

/** As browsers and cURL decode: an empty body is valid, whatever its coding. */
const { Z_SYNC_FLUSH, BROTLI_OPERATION_FLUSH } = constants;
const zlib = { flush: Z_SYNC_FLUSH, finishFlush: Z_SYNC_FLUSH };
const brotli = { flush: BROTLI_OPERATION_FLUSH, finishFlush: BROTLI_OPERATION_FLUSH };
const DECODERS: ReadonlyMap<string, () => ReturnType<typeof createGunzip>> = new Map([
  ["gzip", () => createGunzip(zlib)],
  ["x-gzip", () => createGunzip(zlib)],
  ["deflate", () => createInflate(zlib)],
  ["br", () => createBrotliDecompress(brotli)],
]);

function decode(body: Readable, coding: string): Readable {
  const decoder = DECODERS.get(coding)?.();
  return decoder ? pipeline(body, decoder, () => {}) : body;
}
