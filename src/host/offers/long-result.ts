import { JsonText, type JsonDigest, type JsonObject, type Json } from "../../lib/json.ts";
import { LongJson, LongText, type Text } from "../../lib/long-text.ts";
import type { CallResult, ContentBlock, PromptResult, ReadResult } from "./catalog.ts";

/** JSON texts in UTF-8, by the last revision that each is for. */
export type OlderTexts = Readonly<Record<"2025-03-26" | "2024-11-05", Uint8Array>>;

/** A result as JSON texts in UTF-8, with what is needed to write it for a client. */
export interface LongResultParts {
  readonly content: Uint8Array;
  readonly blocks: number;
  /** The content for revisions that cannot carry all of it. */
  readonly older?: OlderTexts | undefined;
  readonly structured?: Uint8Array;
  /** Further members, without braces. */
  readonly more?: Uint8Array;
  /** JSON text. */
  readonly meta?: string;
  readonly isError: boolean;
  /** The beginning of an error's message. */
  readonly said?: string;
  /** As `sizeOf` counts it. */
  readonly size: number;
  readonly digest: JsonDigest;
}

/**
 * A result made where long ones are read, already JSON text: the serving thread puts it into the response as it is.
 * Access to its members parses it, which takes a while.
 */
export class LongResult extends LongJson implements CallResult {
  readonly parts: LongResultParts;
  #value: CallResult | undefined;

  constructor(parts: LongResultParts) {
    super(written(parts, parts.structured && [parts.structured]), parts.digest, parts.meta);
    this.parts = parts;
  }

  get isError(): boolean {
    return this.parts.isError;
  }

  get content(): readonly ContentBlock[] {
    return this.#whole().content;
  }

  get structuredContent(): Json {
    return this.#whole().structuredContent as Json;
  }

  /** The result with another text for its value, or with none. */
  written(structured: LongText["pieces"] | undefined): LongText {
    return withMeta(written(this.parts, structured), this.parts.meta);
  }

  /** For a revision without structured values and some kinds of content. */
  writtenFor(revision: keyof OlderTexts): LongText {
    const { parts } = this;
    return withMeta(written({ ...parts, content: parts.older?.[revision] ?? parts.content }, undefined), parts.meta);
  }

  #whole(): CallResult {
    return (this.#value ??= this.read() as unknown as CallResult);
  }
}

function written({ content, isError, more }: LongResultParts, structured: LongText["pieces"] | undefined): LongText {
  const value = structured === undefined ? [] : [',"structuredContent":', ...structured];
  const others = more ? [",", more] : [];
  return new LongText('{"content":', content, ...value, ...others, isError ? ',"isError":true}' : "}");
}

export interface LongObjectParts {
  /** In UTF-8, without `_meta`. */
  readonly text: Uint8Array;
  /** JSON text. */
  readonly meta?: string | undefined;
  readonly digest: JsonDigest;
  /** The same for revisions that cannot carry all of its content. */
  readonly older?: OlderTexts | undefined;
  /** Only of what an upstream reads: see `digestOfFile`. */
  readonly file?: string | undefined;
}

/** The result of a resource or prompt, made where long results are read, like `LongResult`. */
export class LongObject extends LongJson implements ReadResult, PromptResult {
  readonly older: OlderTexts | undefined;
  readonly file: string | undefined;
  #value: JsonObject | undefined;

  constructor(parts: Omit<LongObjectParts, "text"> & { readonly text: Uint8Array | LongText }) {
    const { text, meta, digest, older, file } = parts;
    super(text instanceof LongText ? text : new LongText(text), digest, meta);
    this.older = older;
    this.file = file;
  }

  get contents(): ReadResult["contents"] {
    return this.#whole()["contents"] as unknown as ReadResult["contents"];
  }

  get messages(): PromptResult["messages"] {
    return this.#whole()["messages"] as unknown as PromptResult["messages"];
  }

  get description(): string {
    return this.#whole()["description"] as string;
  }

  override toJSON(): JsonObject {
    return this.#whole();
  }

  /** A copy with members added that it does not have. */
  with(members: JsonObject): LongObject {
    const { digest, meta } = this;
    return new LongObject({ text: this.text.closedBy(JSON.stringify(members).slice(1)), meta, digest });
  }

  #whole(): JsonObject {
    return (this.#value ??= this.read());
  }
}

/** The JSON text of a result, or of what stands for one. */
export function jsonOf(result: object): Text {
  if (result instanceof LongText) return result;
  if (result instanceof LongJson) return withMeta(result.text, result.meta);
  return result instanceof JsonText ? result.text : JSON.stringify(result);
}

function withMeta(text: LongText, meta: string | undefined): LongText {
  return meta === undefined ? text : text.closedBy(`"_meta":${meta}}`);
}
