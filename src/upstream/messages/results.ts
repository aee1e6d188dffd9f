import { isObject, type JsonObject } from "../../lib/json.ts";
import { quoted } from "./messages.ts";
import { UpstreamError } from "./upstream-error.ts";

export type UpstreamResult = Record<string, unknown>;

/** A short result, or the object created from a long one. */
export type AnyResult = UpstreamResult | LongAnswer | LongPage;

/** As the server sent it, and valid in form. With `round`, `resultType` may be `input_required`. */
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

/**
 * Each of these returns a valid result unchanged, corrects one whose meaning is clear, and otherwise throws
 * `upstream_protocol`. `what` names the action.
 */
export function readToolResult(what: string, result: UpstreamResult): ToolResult {
  if (isInputRequired(result)) return result as unknown as ToolResult;
  const { content, isError } = result;
  const hasFlag = isError === undefined || typeof isError === "boolean";
  if (isBlocks(content) && hasFlag) return result as unknown as ToolResult;
  const { isError: _isError, toolResult, ...rest } = result;
  // `toolResult` is the only content in 2024-10-07.
  const value = content ?? toolResult;
  const isFailure = isError === true || isError === "true" || isError === 1;
  return { ...rest, content: readBlocks(what, value), ...(isFailure && { isError: true }) };
}

/** `uri` is for contents that do not name one. */
export function readResourceResult(what: string, result: UpstreamResult, uri?: string): ResourceResult {
  if (isInputRequired(result)) return { ...result, contents: [] };
  const { contents } = result;
  const isNamed = (each: unknown): boolean => isObject(each) && isString(each["uri"]);
  if (Array.isArray(contents) && contents.every(isNamed)) return result as unknown as ResourceResult;
  const items: unknown[] = Array.isArray(contents) ? contents : contents === null ? [] : [contents];
  const named: (UpstreamResult & { uri: string })[] = [];
  for (const each of items) {
    const parts = withoutNulls(isString(each) ? { text: each } : isObject(each) ? each : {});
    const contentUri = isString(parts["uri"]) ? parts["uri"] : uri;
    if (contentUri === undefined || Object.keys(parts).length === 0)
      throw protocolError(what, `its contents are ${quoted(contents)}`);
    named.push({ ...parts, uri: contentUri });
  }
  return { ...result, contents: named };
}

export function readPromptResult(what: string, result: UpstreamResult): UpstreamPromptResult {
  if (isInputRequired(result)) return { ...result, messages: [] };
  const { messages, ...rest } = withoutNulls(result);
  if (Array.isArray(messages) && messages.every(isPromptMessage)) return result as unknown as UpstreamPromptResult;
  const items: unknown[] = Array.isArray(messages) ? messages : messages === undefined ? [] : [messages];
  const read = items.flatMap((each) => {
    const { role, content } = isObject(each) ? each : { role: undefined, content: each };
    return readBlocks(what, content).map((block) => ({ role: isString(role) ? role : "user", content: block }));
  });
  return { ...rest, messages: read };
}

export function readCompletion(what: string, { completion }: UpstreamResult): UpstreamCompletion {
  const listed = isObject(completion) ? completion["values"] : completion;
  if (Array.isArray(listed) && listed.every(isString)) return { ...(completion as object), values: listed };
  if ((listed ?? null) !== null && !Array.isArray(listed))
    throw protocolError(what, `its values are ${quoted(listed)}`);
  const values = ((listed ?? []) as unknown[]).filter((each) => isString(each) || typeof each === "number").map(String);
  return { ...(isObject(completion) && completion), values };
}

/** Content as a list of blocks, whether it was sent as text, one block, or blocks without a type. */
function readBlocks(what: string, content: unknown): UpstreamContentBlock[] {
  const items: unknown[] = Array.isArray(content) ? content.flat() : [content];
  return items.flatMap((item) => {
    if (item === null || item === undefined) return [];
    if (isBlock(item)) return [item];
    if (Array.isArray(item)) throw protocolError(what, `its content is ${quoted(content)}`);
    const text = isObject(item) ? item["text"] : item;
    return [{ type: "text", text: isString(text) ? text : JSON.stringify(item) }];
  });
}

function withoutNulls(value: UpstreamResult): UpstreamResult {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== null));
}

/** Rejects long results, for methods that have only short ones. */
export function shortResult(what: string, result: AnyResult): UpstreamResult {
  if (result instanceof LongAnswer || result instanceof LongPage)
    throw protocolError(what, "its answer is of the wrong kind");
  return result;
}

/** True when the server needs input before it continues (2026-07-28 `basic/patterns/mrtr`). */
export function isInputRequired(result: AnyResult): boolean {
  return (result as UpstreamResult)["resultType"] === "input_required";
}

export function protocolError(what: string, detail: string): UpstreamError {
  return new UpstreamError("upstream_protocol", `${what}: ${detail}`);
}

export function isString(value: unknown): value is string {
  return typeof value === "string";
}

function isBlocks(value: unknown): value is UpstreamContentBlock[] {
  return Array.isArray(value) && value.every(isBlock);
}

function isBlock(value: unknown): value is UpstreamContentBlock {
  return isObject(value) && isString(value["type"]);
}

function isPromptMessage(value: unknown): boolean {
  return isObject(value) && isString(value["role"]) && isBlock(value["content"]);
}

export class LongAnswer {
  readonly json: Uint8Array<ArrayBuffer>;

  constructor(json: Uint8Array<ArrayBuffer>) {
    this.json = json;
  }
}

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

export interface LeftOutEntry {
  readonly name: string;
  /** Ends a sentence. */
  readonly why: string;
}
