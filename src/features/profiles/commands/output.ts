import type { Json, JsonObject } from "../../../lib/json.ts";
import { printableJson, printableText } from "../../../lib/printable.ts";

export const recordFormats = ["ndjson", "json", "text"] as const;
export type RecordFormat = (typeof recordFormats)[number];

/** Thrown when the reader of standard output, such as `head`, has exited: the command ends without an error. */
export class ReaderGone extends Error {}

/** Writes records to standard output as fast as they are read. Their text cannot control a terminal. */
export class RecordOutput {
  readonly #stream: NodeJS.WritableStream;
  readonly #format: RecordFormat;
  readonly #isTerminal: boolean;
  #written = 0;
  #gone = false;

  constructor(format: RecordFormat, stream: NodeJS.WritableStream = process.stdout) {
    this.#stream = stream;
    this.#format = format;
    this.#isTerminal = "isTTY" in stream && stream.isTTY === true;
    stream.on("error", () => (this.#gone = true));
  }

  /** Resolves when more can be written. Throws `ReaderGone`. */
  async write(record: JsonObject): Promise<void> {
    const first = this.#written++ === 0;
    switch (this.#format) {
      case "ndjson":
        return this.json(record);
      case "json":
        return this.text(`${first ? "[" : ","}\n  ${this.#jsonOf(record)}`);
      case "text":
        return this.text(`${this.#isTerminal ? printableText(asText(record)) : asText(record)}\n`);
    }
  }

  async end(): Promise<void> {
    if (this.#format === "json") await this.text(this.#written === 0 ? "[]\n" : "\n]\n");
  }

  /** On a line of its own. */
  json(value: Json): Promise<void> {
    return this.text(`${this.#jsonOf(value)}\n`);
  }

  /** Writes the text unchanged. */
  async text(text: string): Promise<void> {
    if (!this.#gone) {
      await new Promise<void>((resolve) => {
        const done = (): void => resolve();
        this.#stream.once("error", done);
        this.#stream.write(text, () => {
          this.#stream.removeListener("error", done);
          done();
        });
      });
    }
    if (this.#gone) throw new ReaderGone();
  }

  #jsonOf(value: Json): string {
    const json = JSON.stringify(value);
    return this.#isTerminal ? printableJson(json) : json;
  }
}

/** The readable part of a record: its text if it has any. */
function asText(record: JsonObject): string {
  const { text, data, uri, name, uriTemplate, description } = record;
  if (typeof text === "string") return text;
  if (data !== undefined) return typeof data === "string" ? data : JSON.stringify(data, undefined, 2);
  const title = name ?? uri ?? uriTemplate;
  if (typeof title !== "string") return JSON.stringify(record, undefined, 2);
  return typeof description === "string" ? `${title}\n  ${description.split("\n")[0]}` : title;
}
