import type { ServerResponse } from "node:http";
import { BerthError } from "../../errors.ts";
import type { CallResult, ContentBlock } from "../../host/catalog.ts";
import { textsOf } from "../../host/content.ts";
import { jsonOf, LongResult } from "../../host/long-result.ts";
import { isObject } from "../../json.ts";
import { LongText, type Text } from "../../long-text.ts";
import { endResponse, type EventStream } from "../event-stream.ts";
import { sayWhenToRetry } from "../write-answer.ts";

/** What became of a call: its result, or the address at which the result is. */
export type CallOutcome = { readonly result: CallResult } | { readonly redirect: string };

const TEXT = "text/plain; charset=utf-8";
const JSON_TYPE = "application/json";
const QUOTE = 0x22;

/** Answers with the value itself where it is one, else with the result as MCP has it. Throws `function_failed`. */
export function writeOutcome(response: ServerResponse, outcome: CallOutcome, stalledMs: number): void {
  if ("redirect" in outcome) {
    response.setHeader("Location", outcome.redirect);
    return write(response, 303, undefined, stalledMs);
  }
  const { result } = outcome;
  if (result.isError) throw new BerthError("function_failed", textsOf(result));
  if (result instanceof LongResult) {
    const { structured, blocks } = result.parts;
    const isValue = structured !== undefined && structured[0] !== QUOTE;
    if (isValue || blocks > 1)
      return write(response, 200, [JSON_TYPE, isValue ? new LongText(structured) : result.text], stalledMs);
  }
  const { content, structuredContent } = result;
  const [first] = content;
  if (typeof structuredContent === "string") write(response, 200, [TEXT, structuredContent], stalledMs);
  else if (structuredContent !== undefined) writeJson(response, 200, structuredContent, stalledMs);
  else if (!first) write(response, 204, undefined, stalledMs);
  else {
    const body = content.length === 1 ? bodyOf(first) : undefined;
    if (body) write(response, 200, body, stalledMs);
    else writeJson(response, 200, result, stalledMs);
  }
}

/** Ends a stream of events: `result` with the result as MCP has it, or `redirect` with an address. */
export function sendEvents(events: EventStream, outcome: CallOutcome): void {
  if ("redirect" in outcome) void events.sendOther("redirect", JSON.stringify({ location: outcome.redirect }));
  else void events.sendOther("result", jsonOf(outcome.result));
  events.close();
}

/** As JSON with the error's own status, or as the event `error` of a stream that stands already. */
export function writeCallFailure(
  response: ServerResponse,
  events: EventStream | undefined,
  failure: BerthError,
  stalledMs: number,
): void {
  const { code, message, data, status } = failure;
  const problem = { error: { code, message, ...(data && { data }) } };
  if (events?.isOpen) {
    void events.sendOther("error", JSON.stringify(problem));
    return events.close();
  }
  if (response.headersSent) return void response.destroy();
  if (code === "method_not_allowed") response.setHeader("Allow", "POST");
  sayWhenToRetry(response, failure);
  writeJson(response, status, problem, stalledMs);
}

type Body = readonly [type: string, body: Text | Buffer];

function bodyOf(block: ContentBlock): Body | undefined {
  switch (block.type) {
    case "text":
      return [TEXT, block["text"] as string];
    case "image":
    case "audio":
      return [typeOf(block["mimeType"]), Buffer.from(block["data"] as string, "base64")];
    case "resource": {
      const { mimeType, text, blob } = isObject(block["resource"]) ? block["resource"] : {};
      if (typeof blob === "string") return [typeOf(mimeType), Buffer.from(blob, "base64")];
      return typeof text === "string" ? [TEXT, text] : undefined;
    }
    default:
      return undefined;
  }
}

/** A function says what its bytes are; what is no media type is none. */
function typeOf(mimeType: unknown): string {
  const isType = typeof mimeType === "string" && /^[\w.+-]+\/[\w.+-]+(?:; ?[\w.-]+=[\w.-]+)*$/.test(mimeType);
  return isType ? mimeType : "application/octet-stream";
}

function writeJson(response: ServerResponse, status: number, value: unknown, stalledMs: number): void {
  write(response, status, [JSON_TYPE, JSON.stringify(value)], stalledMs);
}

function write(response: ServerResponse, status: number, body: Body | undefined, stalledMs: number): void {
  if (response.destroyed) return;
  if (!body) return void response.writeHead(status).end();
  const [type, content] = body;
  const bytes = typeof content === "string" ? Buffer.from(content) : content;
  const length = bytes instanceof LongText ? bytes.bytes : bytes.length;
  response.writeHead(status, { "Content-Type": type, "Content-Length": length });
  endResponse(response, bytes, stalledMs);
}
