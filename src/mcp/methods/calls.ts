import { withoutReserved } from "../../contract/reserved-meta.ts";
import type { CallOptions, Completion, GuestLog, Prompt, Resource, Tool } from "../../host/offers/catalog.ts";
import type { CancelSignal } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type Json, type JsonObject, type JsonText } from "../../lib/json.ts";
import { LOG_LEVELS } from "../../lib/log-level.ts";
import { withMeta } from "../../lib/trace.ts";
import { callerContextOf, CONTEXT_KEY, TOOL_KEY } from "../../outcome/context.ts";
import { ID_UNITS_MAX, notificationText, type Request } from "../json-rpc.ts";
import type { Client, ClientLogs, EventSink, MethodCall, Post, ServerPlace } from "../protocol.ts";
import { isLegacy } from "../revisions.ts";

/**
 * Calls of guest code, as both eras make them: what a request names, the options that a function is called with, and
 * the progress and log lines that its client gets meanwhile. How a result is written, and how a question reaches the
 * client, is up to each era.
 */

/** A request whose client is known. `signal` is the request's own unless a session can cancel it, too. */
export function methodCall<C extends Client>(
  { tenant, server, catalog, principal }: ServerPlace,
  post: Post,
  { id, method, params }: Request,
  client: C,
  logs: ClientLogs,
  signal: CancelSignal | undefined = post.signal,
): MethodCall<C> {
  const { body, events } = post;
  const meta = params["_meta"];
  const trace = isObject(meta) ? withMeta(post.trace, meta) : post.trace;
  // One literal: spreading an object into another costs several microseconds here.
  return { tenant, server, catalog, client, principal, trace, id, method, params, body, events, logs, signal };
}

/** The tool that `tools/call` names, and its arguments. An unknown tool is a protocol error. */
export function requestedTool({ catalog, params }: MethodCall): { tool: Tool; args: JsonObject | JsonText } {
  const { name, arguments: args = {} } = params;
  if (typeof name !== "string") throw new BerthError("invalid_params", '"name" must be a string');
  if (!isObject(args)) throw new BerthError("invalid_params", '"arguments" must be an object');
  const tool = catalog.tool(name);
  if (!tool) throw new BerthError("invalid_params", `Unknown tool: ${name}`);
  return { tool, args: args as JsonObject | JsonText };
}

/** The prompt that `prompts/get` names, and its arguments. */
export function requestedPrompt({ catalog, params }: MethodCall): { prompt: Prompt; args: JsonObject } {
  const { name, arguments: args = {} } = params;
  if (typeof name !== "string") throw new BerthError("invalid_params", '"name" must be a string');
  if (!isObject(args)) throw new BerthError("invalid_params", '"arguments" must be an object');
  const prompt = catalog.prompt(name);
  if (!prompt) throw new BerthError("invalid_params", `Unknown prompt: ${name}`);
  return { prompt, args: args as JsonObject };
}

/** The resource that `resources/read` names. 2026-07-28 requires -32602 for an unknown URI, with the URI in `data`. */
export async function requestedResource(call: MethodCall): Promise<Resource> {
  const uri = uriOf(call);
  const resource = await call.catalog.resource(uri);
  if (!resource) throw new BerthError("resource_not_found", uri, { data: { uri } });
  return resource;
}

export function uriOf({ params: { uri } }: Pick<MethodCall, "params">): string {
  if (typeof uri !== "string") throw new BerthError("invalid_params", '"uri" must be a string');
  return uri;
}

/**
 * The result of `completion/complete`: for a prompt's argument or a template's variable; an argument without a
 * completer has no values.
 */
export async function completion({ catalog, params, principal, signal }: MethodCall): Promise<object> {
  const { ref, argument, context } = params;
  if (!isObject(argument) || typeof argument["name"] !== "string" || typeof argument["value"] !== "string") {
    throw new BerthError("invalid_params", '"argument" needs a name and a value, both strings');
  }
  const completer = catalog.completer(referenceOf(ref, catalog), argument["name"]);
  if (!completer) return { completion: NO_COMPLETION };
  const given = isObject(context) && isObject(context["arguments"]) ? context["arguments"] : {};
  return { completion: await completer.complete(argument["value"], given as JsonObject, { principal, signal }) };
}

const NO_COMPLETION: Completion = { values: [], total: 0, hasMore: false };

function referenceOf(ref: unknown, { contract }: MethodCall["catalog"]): string {
  if (isObject(ref) && ref["type"] === "ref/prompt") {
    const prompt = contract.prompts.find(({ name }) => name === ref["name"]);
    if (prompt) return prompt.name;
  }
  if (isObject(ref) && ref["type"] === "ref/resource") {
    const template = contract.resourceTemplates.find(({ uriTemplate }) => uriTemplate === ref["uri"]);
    if (template) return template.uriTemplate;
  }
  throw new BerthError("invalid_params", '"ref" names no prompt and no resource template of this server');
}

/** The options of a call of guest code that answers the request. Throws `invalid_params` for a bad progress token. */
export function callOptions(call: MethodCall): CallOptions {
  const { params, client, principal, trace, events, signal, answers } = call;
  return {
    principal,
    trace,
    signal,
    onProgress: events && progressReporter(params, events),
    onLog: logReporter(call),
    onCloseStream: events?.release && (() => events.release?.()),
    answers,
    client: { capabilities: client.capabilities },
    isLegacy: isLegacy(client.version),
    context: callerContextOf(params["_meta"]),
    meta: passedMeta(params["_meta"]),
  };
}

/** The members of a request's `_meta` that an upstream gets; Berth writes the others itself. */
function passedMeta(meta: unknown): JsonObject | undefined {
  if (!isObject(meta)) return undefined;
  const passed = withoutReserved(meta as JsonObject, CONTEXT_KEYS);
  for (const _key in passed) return passed;
  return undefined;
}

const CONTEXT_KEYS: ReadonlySet<string> = new Set([TOOL_KEY, CONTEXT_KEY]);

/** Sends progress to clients that asked for it by a token; it always rises (`basic/patterns/progress`). */
export function progressReporter(
  params: MethodCall["params"],
  events: EventSink,
): ((event: Json) => void | Promise<void>) | undefined {
  const token = isObject(params["_meta"]) ? params["_meta"]["progressToken"] : undefined;
  if (typeof token !== "string" && typeof token !== "number") return undefined;
  if (String(token).length > ID_UNITS_MAX) {
    throw new BerthError("invalid_params", `"progressToken" has at most ${ID_UNITS_MAX} characters`);
  }
  let last = Number.NEGATIVE_INFINITY;
  return (event) => {
    const progress = progressOf(event, last);
    if (progress.progress <= last) return;
    last = progress.progress;
    return events.send(notificationText("notifications/progress", { progressToken: token, ...progress }));
  };
}

/** An event has its own number (`{progress, total, message}`), or is one more step with a message. */
function progressOf(event: Json, last: number): JsonObject & { progress: number } {
  const next = Math.max(last, 0) + 1;
  if (typeof event === "string") return { progress: next, message: event };
  if (!isObject(event) || typeof event["progress"] !== "number") {
    return { progress: next, message: JSON.stringify(event) };
  }
  const { progress, total, message } = event;
  return {
    progress,
    ...(typeof total === "number" && { total }),
    ...(typeof message === "string" && { message }),
  };
}

/** Log lines of guest code, for a client that asked for them, from the level that it asked for. */
export function logReporter(call: Pick<MethodCall, "client" | "events" | "logs">): LogListener | undefined {
  const { logLevel } = call.client;
  if (logLevel === undefined) return undefined;
  const least = LOG_LEVELS.indexOf(logLevel);
  const relay = relayLog(call, ({ level, message }) =>
    notificationText("notifications/message", { level, data: message }),
  );
  return relay && ((line) => (LOG_LEVELS.indexOf(line.level) < least ? undefined : relay(line)));
}

/** Log lines of one call that wait for its client; further ones are dropped and counted. */
const WAITING_LOG_BYTES = 256 * 1024;

/**
 * Does not wait until a line is taken: a stalled client would hold up the guest, and with it the calls of others. While
 * a client is too far behind, lines are dropped; the next line that it gets follows one that says so.
 */
export function relayLog(
  { events, logs }: Pick<MethodCall, "events" | "logs">,
  write: (line: GuestLog) => string,
): LogListener | undefined {
  if (!events) return undefined;
  let waiting = 0;
  let untold = 0;
  const send = (line: GuestLog): void => {
    const text = write(line);
    const taken = events.send(text);
    if (!taken) return;
    waiting += text.length;
    void taken.then(() => (waiting -= text.length));
  };
  return (line) => {
    if (waiting > WAITING_LOG_BYTES) {
      untold += 1;
      logs.dropped += 1;
      return;
    }
    if (untold > 0)
      send({ level: "warning", message: `${untold} log lines were dropped because they were not read in time` });
    untold = 0;
    send(line);
  };
}

type LogListener = (line: GuestLog) => void;
