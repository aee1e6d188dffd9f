import { randomUUID } from "node:crypto";
import { isObject, JsonText } from "../lib/json.ts";

/**
 * Takes arguments that are JSON text past the official client, which writes each message itself: the client gets a
 * stand-in, and the transport puts the text back in place of it.
 */
export class LongArguments {
  readonly #texts = new Map<string, string>();

  /**
   * The parameters of a request with a stand-in for its arguments until `forget`. The stand-in has the members that go
   * into headers.
   */
  keep(params: object, headed: object): Kept {
    const key = randomUUID();
    const standIn = Object.defineProperty({ ...headed }, "toJSON", { value: () => MARK + key });
    const replaced = (value: unknown): unknown => {
      if (value instanceof JsonText) {
        this.#texts.set(key, value.text);
        return standIn;
      }
      if (!isObject(value)) return value;
      return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, replaced(inner)]));
    };
    return { params: replaced(params) as Kept["params"], forget: () => this.#texts.delete(key) };
  }

  /** The client's message with the arguments put back, ready to be sent. */
  filledIn(written: string): string {
    if (this.#texts.size === 0) return written;
    return written.replace(MARKED, (whole, key: string) => this.#texts.get(key) ?? whole);
  }
}

interface Kept {
  readonly params: Record<string, unknown>;
  readonly forget: () => void;
}

const MARK = "berth/arguments/";
const MARKED = new RegExp(`"${MARK}([-0-9a-f]{36})"`, "g");
