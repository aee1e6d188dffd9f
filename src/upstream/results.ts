import { isObject, type JsonObject } from "../lib/json.ts";
import { UpstreamError } from "./upstream-error.ts";

export type UpstreamResult = Record<string, unknown>;

/** A short result, or the object made from a long one. */
export type AnyResult = UpstreamResult | LongAnswer | LongPage;

/** As the server sent it, valid in form. With `round`, `resultType` may be `input_required`. */
export interface ToolResult {
  readonly content: readonly UpstreamContentBlock[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
  readonly _meta?: JsonObject;
  readonly resultType?: string;
  readonly inputRequests?: JsonObject;
  readonly requestState?: string;
}

export interface UpstreamContentBlock {
  readonly type: string;
  readonly [field: string]: unknown;
}

export interface ResourceResult {
  readonly _meta?: JsonObject;
  readonly contents: readonly { readonly uri: string; readonly [field: string]: unknown }[];
}

export interface UpstreamPromptResult {
  readonly _meta?: JsonObject;
  readonly description?: string;
  readonly messages: readonly { readonly role: string; readonly content: UpstreamContentBlock }[];
}

export interface UpstreamCompletion {
  readonly values: readonly string[];
  readonly [field: string]: unknown;
}

/** Each of these throws `upstream_protocol` for a result that does not match its method; `what` names the action. */
export function readToolResult(what: string, result: UpstreamResult): ToolResult {
  if (asks(result)) return result as unknown as ToolResult;
  const { content, isError } = result;
  if (content !== undefined && !isBlocks(content)) throw broken(what, "its content is not a list of content blocks");
  if (isError !== undefined && typeof isError !== "boolean") throw broken(what, "isError is neither true nor false");
  return (content === undefined ? { ...result, content: [] } : result) as unknown as ToolResult;
}

export function readResourceResult(what: string, result: UpstreamResult): ResourceResult {
  if (asks(result)) return { ...result, contents: [] };
  const { contents } = result;
  if (!Array.isArray(contents) || !contents.every((content) => isObject(content) && isText(content["uri"]))) {
    throw broken(what, "its contents are not a list of contents with URIs");
  }
  return result as unknown as ResourceResult;
}

export function readPromptResult(what: string, result: UpstreamResult): UpstreamPromptResult {
  if (asks(result)) return { ...result, messages: [] };
  const { messages } = result;
  if (!Array.isArray(messages) || !messages.every(isPromptMessage)) {
    throw broken(what, "its messages are not a list of messages with a role and content");
  }
  return result as unknown as UpstreamPromptResult;
}

export function readCompletion(what: string, { completion }: UpstreamResult): UpstreamCompletion {
  const values = isObject(completion) ? completion["values"] : undefined;
  if (!Array.isArray(values) || !values.every(isText)) throw broken(what, "it did not return a list of values");
  return completion as UpstreamCompletion;
}

/** Rejects long results, for methods that have only short ones. */
export function shortResult(what: string, result: AnyResult): UpstreamResult {
  if (result instanceof LongAnswer || result instanceof LongPage) throw broken(what, "its answer is of another kind");
  return result;
}

/** True when the server needs input before it continues (2026-07-28 `basic/patterns/mrtr`). */
export function asks(result: AnyResult): boolean {
  return (result as UpstreamResult)["resultType"] === "input_required";
}

export function broken(what: string, detail: string): UpstreamError {
  return new UpstreamError("upstream_protocol", `${what}: ${detail}`);
}

export function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isBlocks(value: unknown): value is UpstreamContentBlock[] {
  return Array.isArray(value) && value.every(isBlock);
}

function isBlock(value: unknown): value is UpstreamContentBlock {
  return isObject(value) && isText(value["type"]);
}

function isPromptMessage(value: unknown): boolean {
  return isObject(value) && isText(value["role"]) && isBlock(value["content"]);
}

/** The result of a request, as JSON in UTF-8. */
export class LongAnswer {
  readonly json: Uint8Array<ArrayBuffer>;

  constructor(json: Uint8Array<ArrayBuffer>) {
    this.json = json;
  }
}

/** A page of a list, each of its entries as JSON text. */
export class LongPage implements PageParts {
  readonly entries: readonly string[];
  readonly leftOut: readonly LeftOutEntry[];
  readonly nextCursor: unknown;

  constructor({ entries, leftOut, nextCursor }: PageParts) {
    this.entries = entries;
    this.leftOut = leftOut;
    this.nextCursor = nextCursor;
  }
}

export interface PageParts {
  readonly entries: readonly string[];
  readonly leftOut: readonly LeftOutEntry[];
  readonly nextCursor: unknown;
}

/** An entry of a list that is left out. */
export interface LeftOutEntry {
  /** Its name or key. */
  readonly name: string;
  /** The end of a sentence. */
  readonly why: string;
}
