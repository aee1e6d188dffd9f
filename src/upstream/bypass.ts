import { randomUUID } from "node:crypto";
import type { JSONRPCMessage, RequestId, Transport } from "@modelcontextprotocol/client";
import { BoundedMap } from "../lib/bounded-map.ts";
import { isObject, JsonText } from "../lib/json.ts";
import type { HeldMessage, MessageRoom } from "../lib/message-room.ts";
import type { Exchanges } from "./exchanges.ts";
import type { OpenQuestions } from "./questions.ts";
import { LongAnswer, LongPage, type AnyResult, type UpstreamResult } from "./results.ts";

/** The member that holds a result set aside. */
const ASIDE = "berth/aside";
/** The stand-in for a long result, with its number. */
const LONG = "berth/long";
/** Each as long as a message may be. */
const LONG_KEPT_MAX = 16;

/** For each method, the smallest result that the client accepts. */
const soundResults: Readonly<Record<string, object>> = {
  "tools/list": { tools: [] },
  "prompts/list": { prompts: [] },
  "resources/list": { resources: [] },
  "resources/templates/list": { resourceTemplates: [] },
  "tools/call": { content: [] },
  "prompts/get": { messages: [] },
  "resources/read": { contents: [] },
  "completion/complete": { completion: { values: [] } },
};
/** More are never under way; only requests that were never answered grow this old. */
const KEPT_MAX = 10_000;

/**
 * Takes results past the client unchanged. In the modern era it checks every result against schemas of its own and
 * rejects a whole list for one tool's fault, or for a missing caching hint. So it gets a valid result that contains the
 * real one, which `LongResults` returns; the connection checks the real one, entry by entry. The client sees incoming
 * requests as far as `questions` permits; outgoing ones end as `exchanges` decides.
 */
export function setResultsAside<T extends Transport>(transport: T, questions: OpenQuestions, exchanges: Exchanges): T {
  const methods = new BoundedMap<RequestId, string>(KEPT_MAX);
  const send = transport.send.bind(transport);
  transport.send = (given, options) => {
    const message = undisguised(given);
    if ("method" in message && "id" in message && soundResults[message.method]) {
      methods.set(message.id, message.method);
    }
    const sent = exchanges.send(send, message, options);
    if (!("method" in message)) questions.answering(message.id, sent);
    return sent;
  };

  let handler: Transport["onmessage"];
  const rewriting: Transport["onmessage"] = (message, extra) => {
    if ("method" in message) {
      if (questions.mayBeHeard(message)) handler?.(message, extra);
      return;
    }
    exchanges.answered(message.id);
    // The client handles a notification a moment after it arrives; by then it must not have forgotten its request.
    queueMicrotask(() => handler?.(rewrite(message), extra));
  };
  const rewrite = <M extends JSONRPCMessage>(message: M): M => {
    if (!("id" in message) || !("result" in message)) return message;
    const method = methods.get(message.id);
    if (method === undefined) return message;
    methods.delete(message.id);
    const { result } = message;
    if (!isObject(result) || result["resultType"] === "input_required") return message;
    const sound = { resultType: "complete", ttlMs: 0, cacheScope: "private", ...soundResults[method], [ASIDE]: result };
    return { ...message, result: sound };
  };
  Object.defineProperty(transport, "onmessage", {
    configurable: true,
    get: () => handler && rewriting,
    set: (value: Transport["onmessage"]) => {
      handler = value;
    },
  });
  return transport;
}

/**
 * The client sends no method that the revision of its server lacks, though an extension brings it back (SEP-2663: of
 * `tasks/get` and `tasks/cancel`). So it gets another name, and the transport the real one, from which it makes the headers.
 */
export function disguised(method: string): string {
  return method.startsWith("tasks/") ? DISGUISE + method : method;
}

function undisguised(message: JSONRPCMessage): JSONRPCMessage {
  if (!("method" in message) || !message.method.startsWith(DISGUISE)) return message;
  return { ...message, method: message.method.slice(DISGUISE.length) };
}

const DISGUISE = "berth/";

/**
 * Takes results of long messages, which were read elsewhere, past the client: it gets a stand-in for each. Only the
 * newest are kept; a client takes each at once, and those of no request are never taken.
 */
export class LongResults {
  readonly #kept = new Map<string, KeptResult>();
  readonly #room: MessageRoom | undefined;
  #next = 0;

  constructor(room?: MessageRoom) {
    this.#room = room;
  }

  /** Returns the stand-in. */
  keep(result: LongAnswer | LongPage): UpstreamResult {
    const key = String(this.#next++);
    const held = this.#room?.begin(() => this.#kept.delete(key));
    this.#kept.set(key, { result, held });
    held?.add(bytesOf(result));
    if (this.#kept.size > LONG_KEPT_MAX) this.#take(this.#kept.keys().next().value!);
    return { [LONG]: key };
  }

  /** The result as the server sent it. */
  take(result: UpstreamResult): AnyResult {
    const aside = result[ASIDE];
    const given = isObject(aside) ? aside : result;
    const key = given[LONG];
    return (typeof key === "string" ? this.#take(key) : undefined) ?? given;
  }

  /** Nothing takes any of them now. */
  clear(): void {
    for (const key of this.#kept.keys()) this.#take(key);
  }

  #take(key: string): LongAnswer | LongPage | undefined {
    const kept = this.#kept.get(key);
    kept?.held?.end();
    this.#kept.delete(key);
    return kept?.result;
  }
}

interface KeptResult {
  readonly result: LongAnswer | LongPage;
  readonly held: HeldMessage | undefined;
}

function bytesOf(result: LongAnswer | LongPage): number {
  return result instanceof LongAnswer
    ? result.json.length
    : result.entries.reduce((sum, { length }) => sum + length, 0);
}

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
