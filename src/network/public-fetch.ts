import { pipeline, type Readable } from "node:stream";
import { constants, createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import { request, fetch as undiciFetch, type Agent, type RequestInit as UndiciInit } from "undici";
import type { HttpSender } from "../lib/http-sender.ts";
import { openAgent, openAgentToAnywhere } from "./agent.ts";
import type { AllowedHost } from "./allow-list.ts";
import { publicRules } from "./network-rules.ts";

const CONNECTIONS = 64;

/** `fetch` that reaches only hosts with public addresses, redirects included, and the addresses in `besides`. */
export function openPublicFetch(besides: readonly AllowedHost[] = []): typeof fetch {
  const dispatcher = openAgent({ rules: publicRules(besides), connections: CONNECTIONS });
  // The same standard, typed twice.
  return async (url, init) => undiciFetch(url as string, { ...(init as UndiciInit), dispatcher });
}

/** Requests to hosts that `openPublicFetch` reaches. */
export function openPublicSender(): HttpSender {
  return senderOver(openAgent({ rules: publicRules([]), connections: CONNECTIONS }));
}

/** Requests to any host that the machine can reach, with the same bounds on what hosts send. */
export function openSender(): HttpSender {
  return senderOver(openAgentToAnywhere());
}

/** Takes half the CPU time of `fetch`, which also implements what browsers need. */
function senderOver(dispatcher: Agent): HttpSender {
  return async (url, { headers, ...init }) => {
    const sent = await request(url, { ...init, headers: { ...OWN_HEADERS, ...headers }, dispatcher });
    const body = decoded(sent.body, String(sent.headers["content-encoding"] ?? "").toLowerCase());
    body.on("error", () => {});
    let isLeft = false;
    async function* pieces(): AsyncGenerator<Uint8Array, void> {
      try {
        yield* body as AsyncIterable<Uint8Array>;
      } catch (error) {
        if (!isLeft) throw error;
      }
    }
    const leave = (): void => {
      isLeft = true;
      body.destroy();
    };
    const get = (name: string): string | null => sent.headers[name]?.toString() ?? null;
    return { status: sent.statusCode, headers: { get }, pieces: pieces(), leave };
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

function decoded(body: Readable, coding: string): Readable {
  const decoder = DECODERS.get(coding)?.();
  return decoder ? pipeline(body, decoder, () => {}) : body;
}
