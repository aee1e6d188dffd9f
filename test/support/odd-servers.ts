import assert from "node:assert/strict";
import type { RequestListener } from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { BerthError } from "../../src/lib/errors.ts";
import { serverInSuite } from "./suite.ts";
import { fixtures } from "./upstreams.ts";

const file = join(fixtures, "odd.mjs");
const { handle } = (await import(pathToFileURL(file).href)) as { handle: RequestListener };

/** In the extended suite: the same habits in the modern era, and as bodies of JSON. */
export const IN_OTHER_WAYS = process.env["BERTH_TEST_ODD"] === "other";

/** The bound of every call; a server is started in less than the other one. */
export const BOUND = { timeoutMs: 2_000 };
export const STARTED = { limits: { upstreamStartMs: 10_000, upstreamCallMs: 2_000 } };

export type Transport = "stdio" | "json" | "events" | "sse";
export type Era = "legacy" | "modern";
/** See test/fixtures/upstreams/odd.mjs. */
export type Answer = Readonly<Record<string, unknown>>;
export type Habits = Readonly<Record<string, readonly Answer[] | boolean>>;

/** Odd servers for the suite or file that calls this, over HTTP as one; returns the launcher URI of each. */
export function oddServers(): (transport: Transport, era: Era, habits?: Habits) => string {
  const served = serverInSuite(handle);
  return (transport, era, habits = {}) => uri(served.url, transport, era, habits);
}

function uri(url: string, transport: Transport, era: Era, habits: Habits): string {
  const json = JSON.stringify(habits);
  if (transport === "stdio") return `mcp+node://${file}?arg=${era}&arg=${encodeURIComponent(json)}`;
  return `mcp+${url}/${transport}/${era}/${Buffer.from(json).toString("base64url")}`;
}

/** The end of a call as text: its result, which begins with a brace, or its error. */
export async function outcomeOf(call: Promise<unknown>): Promise<string> {
  const outcome = await call.then(JSON.stringify, (error: BerthError) => `${error.code}: ${error.message}`);
  assert.ok(outcome.startsWith("{") || outcome.length < 20_000, "an error quotes only a part of what came");
  // oxlint-disable-next-line no-control-regex -- an error must not hold any
  assert.doesNotMatch(outcome, /^upstream_.*[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/s);
  return outcome;
}

export const BLOCK = '{"type":"text","text":"hi"}';
export const HI = `{"content":[${BLOCK}]}`;
export const message = (members: string): string => `{"jsonrpc":"2.0","id":$id,${members}}`;
export const ANSWER = message(`"result":${HI}`);
export const NOTE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}';
/** A result with that text. */
export const hi = /^\{.*"text":"hi/;
/** Used, or else quoted. */
export const hiOrQuoted = /^(?:\{|upstream_protocol: ).*hi/;
export const quoted = (words: string): RegExp => new RegExp(`^upstream_protocol: .*${words}`, "s");

export const says = (text: string | readonly string[]): Answer => ({ says: [text].flat() });
