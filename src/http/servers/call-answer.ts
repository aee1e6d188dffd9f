import { BerthError } from "../../lib/errors.ts";
import type { CallResult } from "../../host/catalog/catalog.ts";
import { BARE_JSON, bareOf, textsOf, type Bare } from "../../host/calls/content.ts";
import { jsonOf, LongResult } from "../../host/calls/long-result.ts";
import type { Remake } from "../../host/calls/remake.ts";
import { LongText } from "../../lib/long-text.ts";
import { endResponse, type EventStream } from "../event-stream.ts";
import type { RequestContext } from "../request-context.ts";
import { sayWhenToRetry } from "../write-answer.ts";

/** The outcome of a call: its result, or the address of the result. */
export type PlainCallOutcome = { readonly result: CallResult } | { readonly redirect: string };

const QUOTE = 0x22;

/** Answers with the bare value if there is one, otherwise with the MCP result. Rejects with `function_failed`. */
export async function writeOutcome(
  context: RequestContext,
  outcome: PlainCallOutcome,
  stalledMs: number,
  remake: Pick<Remake, "bare">,
): Promise<void> {
  if ("redirect" in outcome) {
    context.response.setHeader("Location", outcome.redirect);
    return write(context, 303, undefined, stalledMs);
  }
  const { result } = outcome;
  if (result.isError) throw new BerthError("function_failed", textsOf(result));
  const bare = result instanceof LongResult ? await longBare(result, remake) : bareOf(result);
  write(context, bare ? 200 : 204, bare, stalledMs);
}

async function longBare(result: LongResult, remake: Pick<Remake, "bare">): Promise<Body> {
  const { structured, blocks } = result.parts;
  // A string has to be decoded; everything else is written as it is.
  if (structured !== undefined && structured[0] !== QUOTE) return { type: BARE_JSON, body: new LongText(structured) };
  return structured === undefined && blocks > 1 ? { type: BARE_JSON, body: result.text } : remake.bare(result);
}

/** Ends an event stream: `result` with the MCP result, or `redirect` with an address. */
export function sendEvents(events: EventStream, outcome: PlainCallOutcome): void {
  if ("redirect" in outcome) void events.sendOther("redirect", JSON.stringify({ location: outcome.redirect }));
  else void events.sendOther("result", jsonOf(outcome.result));
  events.close();
}

/** Writes an error as JSON with its own status, or as the event `error` of an open stream. */
export function writeCallFailure(
  context: RequestContext,
  events: EventStream | undefined,
  failure: BerthError,
  stalledMs: number,
): void {
  const { response } = context;
  const { code, message, data, status } = failure;
  const problem = { error: { code, message, ...(data && { data }) } };
  if (events?.isOpen) {
    void events.sendOther("error", JSON.stringify(problem));
    return events.close();
  }
  if (response.headersSent) return void response.destroy();
  if (code === "method_not_allowed") response.setHeader("Allow", "POST");
  sayWhenToRetry(response, failure);
  writeJson(context, status, problem, stalledMs);
}

function writeJson(context: RequestContext, status: number, value: unknown, stalledMs: number): void {
  write(context, status, { type: BARE_JSON, body: JSON.stringify(value) }, stalledMs);
}

interface Body {
  readonly type: string;
  readonly body: Bare["body"] | LongText;
}

function asBuffer(body: Bare["body"]): Buffer {
  return typeof body === "string" ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.length);
}

function write(context: RequestContext, status: number, answer: Body | undefined, stalledMs: number): void {
  const { response } = context;
  if (response.destroyed) return;
  if (!answer) return void response.writeHead(status).end();
  const { type, body } = answer;
  const bytes = body instanceof LongText ? body : asBuffer(body);
  const length = bytes instanceof LongText ? bytes.bytes : bytes.length;
  response.writeHead(status, { "Content-Type": type, "Content-Length": length });
  endResponse(context, bytes, stalledMs);
}
