import type { CallShape, Reach } from "../../discover/discovery.ts";
import type { Json, JsonObject } from "../../lib/json.ts";
import { active, finish, runAs, type ActiveCall } from "./active.mts";
import { createContext } from "./context.mts";
import { send } from "./pipe.mts";
import { openGate, reportProgress } from "./progress.mts";
import { visitAt, formatPath } from "./reach.mts";
import { parseArguments, valueAt } from "./schemas.mts";
import { encodeFailure, encodeRedirect, encodeValue } from "./values.mts";
import { toHost } from "./wire.mts";

/** Converts calls by name into calls of functions, and their results into frames. */
type AnyFunction = (...args: unknown[]) => unknown;

interface BoundShape extends CallShape {
  readonly bundle: Record<string, unknown>;
  readonly run: AnyFunction | undefined;
  /** A parameter has the name of a property that every object inherits. */
  readonly hasInheritedName: boolean;
}

const shapes: BoundShape[] = [];

export function defineShape(index: number, shape: CallShape, bundle: Record<string, unknown>): void {
  const hasInheritedName = shape.params.some((name) => name in Object.prototype);
  shapes[index] = { ...shape, bundle, run: findFunction(shape, bundle), hasInheritedName: hasInheritedName };
}

function findFunction(
  { export: name, member = [] }: CallShape,
  bundle: Record<string, unknown>,
): AnyFunction | undefined {
  const run = valueAt(bundle, { export: name, path: member });
  if (typeof run !== "function") return undefined;
  if (member.length === 0) return run as AnyFunction;
  return run.bind(valueAt(bundle, { export: name, path: member.slice(0, -1) })) as AnyFunction;
}

export function startCall(id: number, shapeIndex: number, args: JsonObject, data: JsonObject | undefined): void {
  const shape = shapes[shapeIndex]!;
  if (!shape.run) {
    const message = `its program exports no function "${shape.export}"`;
    return send(JSON.stringify([toHost.failed, id, "load", message, null, 0]));
  }
  let call: ActiveCall | undefined;
  if (shape.context || shape.options) active.set(id, (call = { id, ahead: 0 }));
  let result: unknown;
  try {
    if (shape.dates || shape.urls) revive(args, shape);
    const context = call && (shape.options ? handlerOptions(call) : createContext(call, data));
    result = runAs(id, shape.parsed ? parseAndInvoke : invoke, shape, args, context);
    if (shape.list && !(result instanceof Promise)) result = toArray(result);
    if (typeof result === "object" && result !== null && isAsynchronous(result)) {
      if (!call) active.set(id, (call = { id, ahead: 0 }));
      return void follow(call, result, shape.list);
    }
  } catch (error) {
    const frame = encodeFailure(id, error);
    return call ? finish(call, frame) : send(frame);
  }
  if (call) finish(call, encodeValue(id, result));
  else send(encodeValue(id, result));
}

export function cancelCall(id: number, reason: "timeout" | "cancelled"): void {
  send(`[${toHost.cancelling},${id}]`);
  const call = active.get(id);
  if (!call || call.stopped) return;
  call.stopped = new DOMException(
    reason === "timeout" ? "The call's deadline has passed" : "The caller cancelled the call",
    reason === "timeout" ? "TimeoutError" : "AbortError",
  );
  call.controller?.abort(call.stopped);
  openGate(call);
  void Promise.resolve(call.generator?.return?.(undefined)).catch(ignore);
}

/** Attributes an uncaught error to its call; false if that call is not active. */
export function failCall(id: number, error: unknown): boolean {
  const call = active.get(id);
  if (call) finish(call, encodeFailure(id, error));
  return call !== undefined;
}

/** The second argument of a handler, as other frameworks pass it. */
function handlerOptions(call: ActiveCall): object {
  const { signal } = createContext(call, undefined) as { signal: AbortSignal };
  const id = String(call.id);
  return { toolCallId: id, requestId: id, messages: [], signal, abortSignal: signal };
}

function parseAndInvoke(shape: BoundShape, args: JsonObject, context: object | undefined): unknown {
  const parsed = parseArguments(shape.parsed!, args, shape.bundle);
  return parsed instanceof Promise
    ? parsed.then((parsedArgs) => invoke(shape, parsedArgs, context))
    : invoke(shape, parsed, context);
}

function invoke(shape: BoundShape, args: JsonObject, context: object | undefined): unknown {
  const run = shape.run!;
  const { params } = shape;
  if (shape.style === "object" && shape.hasInheritedName) {
    const missing = params.filter((name) => !Object.hasOwn(args, name));
    for (const name of missing) Object.defineProperty(args, name, { value: undefined });
  }
  if (shape.style === "object") {
    const input = shape.under === undefined ? args : { [shape.under]: args };
    return context ? run(input, context) : run(input);
  }

  const values: unknown[] = [];
  for (let index = 0; index < params.length; index++) {
    const name = params[index]!;
    const value: unknown = shape.hasInheritedName && !Object.hasOwn(args, name) ? undefined : args[name];
    if (shape.rest && index === params.length - 1) {
      if (Array.isArray(value)) values.push(...(value as unknown[]));
    } else {
      values.push(value);
    }
  }
  if (context) values.push(context);
  return run(...values);
}

/** An iterable or array-like value as an array. */
function toArray(value: unknown): unknown {
  if (value === undefined || value === null || typeof (value as PromiseLike<unknown>).then === "function") return value;
  return Array.from(value as Iterable<unknown>);
}

/** Promises, generators, and bodies that have to be read. */
function isAsynchronous(result: object): boolean {
  if (result instanceof Promise) return true;
  const { then, next } = result as { then?: unknown; next?: unknown };
  return typeof then === "function" || typeof next === "function" || isBody(result);
}

async function follow(call: ActiveCall, result: unknown, isList?: boolean): Promise<void> {
  let frame: string;
  try {
    let value = await result;
    if (isList) value = toArray(value);
    if (typeof value === "object" && value !== null && typeof (value as Iterator<unknown>).next === "function") {
      value = await stream(call, value as AsyncIterator<unknown, unknown>);
    }
    frame = isBody(value) ? await encodeBody(call.id, value) : encodeValue(call.id, value);
  } catch (error) {
    frame = encodeFailure(call.id, error);
  }
  if (!call.over) finish(call, frame);
}

/** Each yield is progress; what the generator returns is the result. */
async function stream(call: ActiveCall, generator: AsyncIterator<unknown, unknown>): Promise<unknown> {
  call.generator = generator as { return?: (value?: unknown) => unknown };
  for (;;) {
    const step = await generator.next();
    if (call.stopped) {
      await generator.return?.();
      throw call.stopped;
    }
    if (step.done) return step.value;
    await reportProgress(call, step.value);
  }
}

function ignore(): void {}

/** Recognizes the web's result classes without touching them, which would load all of `fetch`. */
export function isBody(value: unknown): value is Blob | Response {
  return typeof value === "object" && value !== null && typeof (value as Partial<Blob>).arrayBuffer === "function";
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** The most of a failed response's body that its error shows, in UTF-16 code units. */
const ERROR_BODY_UNITS_MAX = 2_000;

/** Encodes a body with its type. Rejects with the function's error, also for a `Response` with an error status. */
async function encodeBody(id: number, body: Blob | Response): Promise<string> {
  if (!("status" in body)) return encodeValue(id, await body.arrayBuffer(), body.type || undefined);
  const { status, statusText, headers } = body;
  const location = REDIRECTS.has(status) ? headers.get("location") : null;
  if (location !== null) return encodeRedirect(id, location);
  // Status 0 is `Response.error()`.
  if (status === 0 || status >= 400) {
    const text = (await body.text()).slice(0, ERROR_BODY_UNITS_MAX).trim();
    throw new Error([`HTTP ${status} ${statusText}`.trim(), text].filter(Boolean).join(": "));
  }
  const bytes = await body.arrayBuffer();
  const type = headers.get("content-type") ?? undefined;
  return encodeValue(id, bytes.byteLength === 0 && type === undefined ? undefined : bytes, type);
}

/** Replaces, in place, strings that represent `Date`s and `URL`s. Absent and null values are unchanged. */
function revive(args: Json, { dates = [], urls = [] }: Pick<CallShape, "dates" | "urls">): void {
  for (const path of dates) replaceTexts(args, path, parseDate);
  for (const path of urls) replaceTexts(args, path, parseUrl);
}

function replaceTexts(args: Json, path: Reach, convert: (text: string, path: Reach) => Date | URL): void {
  visitAt(args, path, (holder, key) => {
    const text = holder[key];
    if (typeof text === "string") holder[key] = convert(text, path) as unknown as Json;
  });
}

function parseDate(text: string, path: Reach): Date {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) throw new TypeError(`"${text.slice(0, 100)}" at ${formatPath(path)} is not a date`);
  return date;
}

function parseUrl(text: string, path: Reach): URL {
  if (!URL.canParse(text)) throw new TypeError(`"${text.slice(0, 100)}" at ${formatPath(path)} is not a URL`);
  return new URL(text);
}
