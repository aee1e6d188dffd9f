import { withoutReserved } from "../../contract/reserved-meta.ts";
import type { CallOptions, Completion, GuestLog, Prompt, Resource, Tool } from "../../host/offers/catalog.ts";
import type { CancelSignal } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type Json, type JsonObject, type JsonText } from "../../lib/json.ts";
import { LOG_LEVELS } from "../../lib/log-level.ts";
import { withMeta } from "../../lib/trace.ts";
import { readCallerContext, CONTEXT_KEY, TOOL_KEY } from "../../outcome/context.ts";
import { ID_UNITS_MAX, notificationText, type Request } from "../json-rpc.ts";
import type { Client, ClientLogs, EventSink, MethodCall, Post, RequestTarget } from "../protocol.ts";
import { isLegacy } from "../revisions.ts";

/**
 * Calls of guest code, for both eras: what a request names, the options of a function call, and the progress and log
 * lines that its client receives in the meantime. Each era writes results and asks questions in its own way.
 */

/** A request whose client is known. `signal` is the request's own unless a session can cancel it, too. */
export function methodCall<C extends Client>(
  { tenant, server, catalog, principal }: RequestTarget,
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
  const uri = requestedUri(call);
  const resource = await call.catalog.resource(uri);
  if (!resource) throw new BerthError("resource_not_found", uri, { data: { uri } });
  return resource;
}

export function requestedUri({ params: { uri } }: Pick<MethodCall, "params">): string {
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
  const completer = catalog.completer(resolveReference(ref, catalog), argument["name"]);
  if (!completer) return { completion: NO_COMPLETION };
  const resolved = isObject(context) && isObject(context["arguments"]) ? context["arguments"] : {};
  return { completion: await completer.complete(argument["value"], resolved as JsonObject, { principal, signal }) };
}

const NO_COMPLETION: Completion = { values: [], total: 0, hasMore: false };

function resolveReference(ref: unknown, { contract }: MethodCall["catalog"]): string {
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
    context: readCallerContext(params["_meta"]),
    meta: forwardedMeta(params["_meta"]),
  };
}

/** Members of a request's `_meta` that are passed to an upstream; Berth writes the others itself. */
function forwardedMeta(meta: unknown): JsonObject | undefined {
  if (!isObject(meta)) return undefined;
  const forwarded = withoutReserved(meta as JsonObject, CONTEXT_KEYS);
  for (const _key in forwarded) return forwarded;
  return undefined;
}

const CONTEXT_KEYS: ReadonlySet<string> = new Set([TOOL_KEY, CONTEXT_KEY]);

/** Sends progress to clients that asked for it by a token; its value always rises (`basic/patterns/progress`). */
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
    const next = toProgress(event, last);
    if (next.progress <= last) return;
    last = next.progress;
    return events.send(notificationText("notifications/progress", { progressToken: token, ...next }));
  };
}

/** An event has its own number (`{progress, total, message}`), or counts as one more step with a message. */
function toProgress(event: Json, last: number): JsonObject & { progress: number } {
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

/** Sends log lines of guest code to a client that asked for them, from the level that it asked for. */
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
 * Never waits for the client: a stalled one would block the guest, and with it other calls. While the client is too
 * slow, lines are dropped; the next line that it receives follows one that reports this.
 */
export function relayLog(
  { events, logs }: Pick<MethodCall, "events" | "logs">,
  write: (line: GuestLog) => string,
): LogListener | undefined {
  if (!events) return undefined;
  let waiting = 0;
  let dropped = 0;
  const send = (line: GuestLog): void => {
    const text = write(line);
    const delivered = events.send(text);
    if (!delivered) return;
    waiting += text.length;
    void delivered.then(() => (waiting -= text.length));
  };
  return (line) => {
    if (waiting > WAITING_LOG_BYTES) {
      dropped += 1;
      logs.dropped += 1;
      return;
    }
    if (dropped > 0)
      send({ level: "warning", message: `${dropped} log lines were dropped because they were not read in time` });
    dropped = 0;
    send(line);
  };
}

type LogListener = (line: GuestLog) => void;
