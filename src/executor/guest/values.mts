import { describe } from "./errors.mts";
import { findLoss, describeUnwritable } from "./serialization-loss.mts";
import { eventValuesMax, locationUnitsMax, toHost, type GuestLimits } from "./wire.mts";

/**
 * Encodes the results of functions as frames. Text stays text, bytes become base64 wherever they occur, and the rest
 * follows JSON's own rules; a value that JSON cannot represent is the function's error.
 */
const textDecoder = new TextDecoder();
let limits: GuestLimits = { outputBytes: Infinity, frameBytes: Infinity };
/** Bytes serialize as base64 only while a result is being encoded, so the program's own JSON is unaffected. */
let encoding = false;
let encodesResult = false;

export function setLimits(newLimits: GuestLimits): void {
  limits = newLimits;
}

/** Makes bytes inside other values serialize themselves, so that results need not be walked. */
export function patchToJson(): void {
  const bufferToJson = Buffer.prototype.toJSON;
  const define = (prototype: object, toJSON: (this: never) => unknown): void => {
    Object.defineProperty(prototype, "toJSON", { value: toJSON, configurable: true, writable: true });
  };
  define(Uint8Array.prototype, function (this: Uint8Array) {
    return encoding ? toBase64(this) : this;
  });
  define(ArrayBuffer.prototype, function (this: ArrayBuffer) {
    return encoding ? toBase64(new Uint8Array(this)) : this;
  });
  define(Buffer.prototype, function (this: Buffer) {
    return encoding ? toBase64(this) : bufferToJson.call(this);
  });
  rejectInResults(Error.prototype);
  rejectInResults(Object.getPrototypeOf(Uint8Array.prototype) as object);
}

/**
 * Rejects values that JSON would represent only in part: an error by its code, a typed array as an object. This takes
 * effect only while a result is being encoded, and a program may set its own `toJSON`.
 */
function rejectInResults(prototype: object): void {
  Object.defineProperty(prototype, "toJSON", {
    configurable: true,
    get: () => (encodesResult ? throwUnwritable : undefined),
    set(this: object, value: unknown) {
      Object.defineProperty(this, "toJSON", { value, configurable: true, enumerable: true, writable: true });
    },
  });
}

class Unwritable extends TypeError {
  /** The end of a sentence about the result. */
  readonly why: string;

  constructor(why: string) {
    super(`The result ${why}`);
    this.why = why;
  }
}

function throwUnwritable(): never {
  throw new Unwritable("contains an Error or a typed array, which JSON cannot represent; return plain data");
}

export function encodeValue(id: number, value: unknown, mimeType?: string): string {
  try {
    const frame = encodeResultFrame(id, value, mimeType);
    return fitsFrame(frame) ? frame : encodeTooLarge(id);
  } catch (error) {
    if (!(error instanceof Unwritable)) return encodeFailure(id, error);
    return JSON.stringify([toHost.failed, id, "unwritable", `its result ${error.why}`, null, 0]);
  }
}

/** Encodes the questions of a call, which are JSON already. */
export function encodeQuestions(id: number, questions: string): string {
  const frame = `[${toHost.asks},${id},${questions}]`;
  return frame.length <= limits.outputBytes && fitsFrame(frame) ? frame : encodeTooLarge(id);
}

export function encodeFailure(id: number, error: unknown): string {
  const { message, stack, transient, protocol } = describe(error);
  return JSON.stringify([toHost.failed, id, "thrown", message, stack, transient ? 1 : 0, protocol ? 1 : 0]);
}

/** Encodes a value inside a frame; a value that JSON omits becomes null. */
export function encodeJson(value: unknown): string {
  encoding = true;
  try {
    return JSON.stringify(value) ?? "null";
  } catch (error) {
    throw unwritable(error as Error);
  } finally {
    encoding = false;
  }
}

/** The JSON of a value to store. Throws if it would be read back as something else. */
export function stateJson(key: unknown, value: unknown): string {
  const json = value === undefined ? undefined : JSON.stringify(value);
  const problem =
    json === undefined ? `is ${value === undefined ? "undefined" : `a ${typeof value}`}` : describeLoss(value, json);
  if (problem === undefined) return json!;
  throw new TypeError(`the value for the key ${JSON.stringify(key)} ${problem.replaceAll("return ", "store ")}`);
}

/** The end of a sentence about the value. JSON would give bytes a key per byte: they are stored only whole. */
function describeLoss(value: unknown, json: string): string | undefined {
  const { unwritable, nulled } = findLoss(value, json);
  if (unwritable !== undefined) return unwritable;
  if (nulled !== undefined) return `would become null, since JSON has no such number or hole: ${nulled}`;
  return containsBytes(value)
    ? "contains bytes, which JSON cannot represent; store them under a key of their own"
    : undefined;
}

function containsBytes(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return true;
  return Object.values(value).some(containsBytes);
}

/**
 * Encodes progress and log lines. An event with very many values is sent as JSON inside a string, which the host parses
 * quickly.
 */
export function encodeEvent(event: unknown): string {
  const json = encodeJson(event);
  return typeof event !== "string" && hasManyValues(json) ? JSON.stringify(json) : json;
}

function hasManyValues(json: string): boolean {
  if (json.length < eventValuesMax) return false;
  let values = 0;
  for (let at = 0; at < json.length && values <= eventValuesMax; at++) {
    const character = json[at];
    if (character === '"') {
      for (at++; json[at] !== '"'; at++) if (json[at] === "\\") at++;
    } else if (character === "," || character === "[" || character === "{") values++;
  }
  return values > eventValuesMax;
}

function fitsFrame(frame: string): boolean {
  return frame.length * 3 <= limits.frameBytes || Buffer.byteLength(frame) <= limits.frameBytes;
}

export function encodeRedirect(id: number, location: string): string {
  if (location.length > locationUnitsMax) {
    throw new TypeError(`The redirect's address is longer than ${locationUnitsMax} characters`);
  }
  return `[${toHost.redirect},${id},${JSON.stringify(location)}]`;
}

function encodeResultFrame(id: number, value: unknown, mimeType: string | undefined): string {
  if (typeof value === "string") {
    const tooLarge = value.length * 3 > limits.outputBytes && Buffer.byteLength(value) > limits.outputBytes;
    const type = mimeType ? `,${JSON.stringify(mimeType)}` : "";
    return tooLarge ? encodeTooLarge(id) : `[${toHost.text},${id},${JSON.stringify(value)}${type}]`;
  }
  if (value === undefined) return `[${toHost.none},${id}]`;
  const bytes = asBytes(value);
  if (bytes) return encodeBytesFrame(id, bytes, mimeType);
  const json = encodeResult(value);
  if (json.length > limits.outputBytes) return encodeTooLarge(id);
  const { unwritable, nulled } = findLoss(value, json);
  if (unwritable !== undefined) throw new Unwritable(unwritable);
  return `[${toHost.json},${id},${json}${nulled === undefined ? "" : `,${JSON.stringify(nulled)}`}]`;
}

function encodeResult(value: unknown): string {
  encodesResult = true;
  try {
    return encodeJson(value);
  } catch (error) {
    encodesResult = false;
    // Only now is it worth locating the value.
    const problem = error instanceof TypeError ? describeUnwritable(value) : undefined;
    throw problem === undefined ? error : new Unwritable(problem);
  } finally {
    encodesResult = false;
  }
}

function encodeBytesFrame(id: number, bytes: Uint8Array, mimeType: string | undefined): string {
  if (bytes.length > limits.outputBytes) return encodeTooLarge(id);
  if (mimeType && /^text\/|[/+]json\b/.test(mimeType))
    return encodeResultFrame(id, textDecoder.decode(bytes), mimeType);
  const type = mimeType ? `,${JSON.stringify(mimeType)}` : "";
  return `[${toHost.bytes},${id},"${toBase64(bytes)}"${type}]`;
}

function encodeTooLarge(id: number): string {
  const { outputBytes, frameBytes } = limits;
  const setting = outputBytes <= frameBytes ? " (BERTH_OUTPUT_BYTES)" : "";
  const message = `its result is larger than ${Math.min(outputBytes, frameBytes)} bytes${setting}`;
  return JSON.stringify([toHost.failed, id, "output", message, null, 0]);
}

function asBytes(value: unknown): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value;
  return value instanceof ArrayBuffer ? new Uint8Array(value) : undefined;
}

export function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}

/** The two kinds of values that `JSON.stringify` rejects, worded for the author of the function. */
function unwritable(error: Error): Error {
  if (/BigInt/.test(error.message)) {
    return new Unwritable("contains a BigInt, which JSON cannot represent; return it as a string or a number");
  }
  if (/circular/i.test(error.message)) {
    return new Unwritable("refers to itself, which JSON cannot represent; return a value without cycles");
  }
  return error;
}
