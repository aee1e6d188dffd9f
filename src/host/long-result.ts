import { JsonText, type JsonDigest, type JsonObject, type Json } from "../json.ts";
import type { CallResult, ContentBlock } from "./catalog.ts";

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

/** The JSON text of a result, or of what stands for one. */
export function jsonOf(result: object): string {
  return result instanceof LongResult ? result.text : JSON.stringify(result);
}
