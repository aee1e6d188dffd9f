import { randomUUID } from "node:crypto";
import { isObject, JsonText } from "../lib/json.ts";

/**
 * Arguments that are texts, on their way through the official client, which writes each message itself: it is given what
 * stands for them, and whoever sends what it has written puts the texts there.
 */
export class LongArguments {
  readonly #texts = new Map<string, string>();

  /** Parameters of a request in which something stands for its arguments until `forget`. It has what goes into headers. */
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

  /** What the client has written, as it is sent. */
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
