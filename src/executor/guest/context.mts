import type { Json, JsonObject } from "../../lib/json.ts";
import type { ActiveCall } from "./active.mts";
import { logger } from "./console.mts";
import { protocolError } from "./errors.mts";
import { hostFetch } from "./fetch.mts";
import { folders } from "./folders.mts";
import { askHost, readCid, readName } from "./host.mts";
import { sendSoon } from "./pipe.mts";
import { reportProgress } from "./progress.mts";
import { ask } from "./questions.mts";
import { createState } from "./state.mts";
import { toHost } from "./wire.mts";

/** The context that a function receives after its parameters when it asks for one. It may be destructured freely. */
export function createContext(call: ActiveCall, data: JsonObject | undefined): object {
  const { id } = call;
  call.answers = data?.["answers"] as JsonObject | undefined;
  return {
    action: "run",
    ...data,
    get signal(): AbortSignal {
      if (!call.controller) {
        call.controller = new AbortController();
        if (call.stopped) call.controller.abort(call.stopped);
      }
      return call.controller.signal;
    },
    /** Sends an event to the caller. Awaiting it keeps the function from getting far ahead of its reader. */
    progress: (event: unknown) => reportProgress(call, event),
    get log(): object {
      return logger(call);
    },
    elicit: async ({ message, schema, key }: FormQuestion) =>
      ask(
        call,
        "elicitation/create",
        { mode: "form", message: requireString(message), requestedSchema: requireForm(schema) },
        key,
      ),
    elicitUrl: async ({ message, url, key }: UrlQuestion) =>
      ask(call, "elicitation/create", { mode: "url", message: requireString(message), url: requireString(url) }, key),
    sample: async ({ key, messages, ...params }: Sampling) =>
      ask(call, "sampling/createMessage", { ...params, messages: messages.map(toContentBlock) }, key),
    roots: async ({ key }: { key?: unknown } = {}) =>
      ((await ask(call, "roots/list", {}, key)) as { roots: Json }).roots,
    /** From here on the caller need not wait: it gets the result when it asks for it. */
    startTask: () => {
      if (!call.over) sendSoon(`[${toHost.task},${id}]`);
    },
    /** Ends the caller's connection, if the caller can fetch the result later. */
    closeStream: () => {
      if (!call.over) sendSoon(`[${toHost.closeStream},${id}]`);
    },
    protocolError,
    folders,
    variable: (name: string) => readName(id, "variable", name),
    secret: (name: string) => readName(id, "secret", name),
    cid: (cid: string) => readCid(id, cid),
    fetch: (input: unknown, init?: RequestInit) => hostFetch(id, input, init),
    get state(): object {
      return createState(id);
    },
    resourceUpdated: (uri: unknown) => askHost(id, "resourceUpdated", { uri }),
    listOffers: () => askHost(id, "offers", {}),
    hide: (name: unknown) => askHost(id, "hide", { name }),
    show: (name: unknown) => askHost(id, "show", { name }),
  };
}

interface FormQuestion {
  readonly message: Json;
  readonly schema: Json;
  readonly key?: unknown;
}

interface UrlQuestion {
  readonly message: Json;
  readonly url: Json;
  readonly key?: unknown;
}

interface Sampling extends Readonly<Record<string, Json>> {
  readonly messages: JsonObject[];
}

function requireString(value: unknown): string {
  if (typeof value === "string") return value;
  throw new TypeError("A question needs a message, and a url question also needs its url; both are strings");
}

function requireForm(schema: Json): JsonObject {
  const isForm = typeof schema === "object" && schema !== null && !Array.isArray(schema) && schema["type"] === "object";
  if (isForm && typeof schema["properties"] === "object") return schema;
  throw new TypeError('A question needs a schema: { type: "object", properties: { … } }');
}

/** A string is short for a text block. */
function toContentBlock(message: JsonObject): JsonObject {
  const { content } = message;
  return typeof content === "string" ? { ...message, content: { type: "text", text: content } } : message;
}
