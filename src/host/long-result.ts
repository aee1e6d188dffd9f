import { JsonText, type JsonDigest, type JsonObject, type Json } from "../json.ts";
import type { CallResult, ContentBlock, PromptResult, ReadResult } from "./catalog.ts";

/** A result in JSON texts, and what has to be known of it to write it for a client. */
export interface LongResultParts {
  readonly content: string;
  readonly blocks: number;
  /** Every revision can carry all of the content. */
  readonly isPlain: boolean;
  readonly structured?: string;
  readonly isError: boolean;
  /** As `sizeOf` has it. */
  readonly size: number;
  readonly digest: JsonDigest;
}

/**
 * A result that was made where long ones are read, as JSON text already: who serves puts it into the answer as it is.
 * Whoever looks into it has it read, which takes a while.
 */
export class LongResult extends JsonText implements CallResult {
  readonly parts: LongResultParts;
  #value: CallResult | undefined;

  constructor(parts: LongResultParts) {
    super(written(parts, parts.structured), parts.digest);
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

  /** With another text for its value, or with none. */
  written(structured: string | undefined): string {
    return written(this.parts, structured);
  }

  toJSON(): JsonObject {
    return this.read();
  }

  #whole(): CallResult {
    return (this.#value ??= this.read() as unknown as CallResult);
  }
}

function written({ content, isError }: LongResultParts, structured: string | undefined): string {
  const value = structured === undefined ? "" : `,"structuredContent":${structured}`;
  return `{"content":${content}${value}${isError ? ',"isError":true' : ""}}`;
}

export interface LongObjectParts {
  readonly text: string;
  readonly digest: JsonDigest;
  /** Every revision can carry all of its content. */
  readonly isPlain: boolean;
}

/** What a resource or a prompt gave, made where long results are read, as `LongResult` is. */
export class LongObject extends JsonText implements ReadResult, PromptResult {
  readonly isPlain: boolean;
  #value: JsonObject | undefined;

  constructor({ text, digest, isPlain }: LongObjectParts) {
    super(text, digest);
    this.isPlain = isPlain;
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

  toJSON(): JsonObject {
    return this.#whole();
  }

  #whole(): JsonObject {
    return (this.#value ??= this.read());
  }
}

/** The JSON text of a result, or of what stands for one. */
export function jsonOf(result: object): string {
  return result instanceof JsonText ? result.text : JSON.stringify(result);
}
