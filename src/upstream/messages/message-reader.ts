import { tryParseJson } from "../../lib/json.ts";
import { brokenAnswers, JsonScanner } from "./json-scanner.ts";
import { needsReader, longResult, type LongMessage, type LongReader } from "./long-answers.ts";
import { messageBounds, findMessages, type Deviate, type UpstreamMessage } from "./messages.ts";

/** The messages in some bytes, or why their server can no longer be used: `fault` completes "the server …". */
export interface ReadMessages {
  readonly messages: readonly UpstreamMessage[];
  readonly fault?: string;
}

/** Parses lines, bodies and events; long ones off the serving thread. */
export class MessageReader {
  readonly #long: LongReader | undefined;
  readonly #deviate: Deviate;
  readonly #scanner = new JsonScanner();

  constructor(long: LongReader | undefined, deviate: Deviate) {
    this.#long = long;
    this.#deviate = deviate;
  }

  /** True if `readLong` must read them. */
  isLong(bytes: Buffer): boolean {
    return this.#long !== undefined && needsReader(bytes);
  }

  read(text: string): ReadMessages {
    // A flood of plain text must not cost an exception for each line.
    const value = STRUCTURE.test(text) ? tryParseJson(text) : undefined;
    if (value !== undefined) {
      const messages = findMessages(value, this.#deviate);
      if (messages.length > 0) this.#scanner.reset();
      // A part of a value that is printed over several lines may also be JSON.
      if (messages.length > 0 || !this.#scanner.isOpen) return limitBatch(messages);
    }
    const found = this.#scanner.push(text).flatMap((each) => findMessages(each, this.#deviate));
    if (found.length > 0) this.#deviate("sends messages that are not one line of JSON each");
    return limitBatch(found);
  }

  /** Rejects if the reader has no capacity for them now. */
  async readLong(bytes: Buffer): Promise<ReadMessages> {
    const read = await this.#long!.message(new Uint8Array(bytes));
    const { messages, fault } = this.decode(read);
    if (messages.length > 0 || fault !== undefined) return { messages, ...(fault !== undefined && { fault }) };
    return { messages: brokenAnswers(bytes.toString("latin1", 0, BEGINNING_BYTES)) };
  }

  /** Decodes a message that was parsed elsewhere. */
  decode({ text, results, fault, habits = [] }: LongMessage): ReadMessages {
    for (const habit of habits) this.#deviate(habit);
    if (fault !== undefined) return { messages: [], fault };
    if (text === undefined) return { messages: [] };
    const messages = JSON.parse(text) as UpstreamMessage[];
    for (const each of results) Object.assign(messages[each.at]!, { result: longResult(each) });
    return limitBatch(messages);
  }
}

/** Limits a batch, whose messages are handled in one turn of the event loop. */
function limitBatch(messages: readonly UpstreamMessage[]): ReadMessages {
  const { upstreamBatchMessages } = messageBounds;
  if (messages.length <= upstreamBatchMessages) return { messages };
  return { messages: [], fault: `sent a batch of more than ${upstreamBatchMessages} messages` };
}

const STRUCTURE = /^\s*[[{]/;
const BEGINNING_BYTES = 1_000;
