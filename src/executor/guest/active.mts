import { AsyncLocalStorage } from "node:async_hooks";
import type { JsonObject } from "../../lib/json.ts";
import { send } from "./pipe.mts";

/** Calls that have not returned yet, and which of them is running now. */
export interface ActiveCall {
  readonly id: number;
  controller?: AbortController;
  generator?: { return?: (value?: unknown) => unknown };
  /** Why it is to stop. */
  stopped?: Error;
  /** Its outcome is written; whatever its function still does is ignored. */
  over?: boolean;
  /** Progress events that the host has not confirmed. */
  ahead: number;
  /** The client's answers so far, by the keys of the questions. */
  answers?: JsonObject | undefined;
  /** The number of questions asked so far, by kind. */
  asked?: Record<string, number>;
  /** The questions without an answer, by key, as JSON. */
  questions?: Map<string, string>;
  /** Resolves when progress may go on; shared by all reports that are too far ahead. */
  room?: { readonly promise: Promise<void>; readonly open: () => void } | undefined;
}

export const active = new Map<number, ActiveCall>();

/** Writes the call's outcome; whatever its function still does is ignored. */
export function finish(call: ActiveCall, frame: string): void {
  call.over = true;
  active.delete(call.id);
  send(frame);
}

let running = 0;
/** Following calls through their awaits slows every promise down, so it begins when a program first needs it. */
let storage: AsyncLocalStorage<number> | undefined;

export function runAs<A, B, C, R>(id: number, action: (a: A, b: B, c: C) => R, a: A, b: B, c: C): R {
  const outer = running;
  running = id;
  try {
    return storage ? storage.run(id, action, a, b, c) : action(a, b, c);
  } finally {
    running = outer;
  }
}

/** The call on whose behalf the code now runs; 0 when that cannot be told. */
export function currentCall(): number {
  const id = storage?.getStore() ?? running;
  if (id === 0 && active.size === 1) return active.keys().next().value!;
  if (id !== 0) storage ??= new AsyncLocalStorage<number>();
  return id;
}

/** False for a call that is over. One that has not returned yet may be known by nothing but that it runs. */
export function isUnderWay(id: number): boolean {
  return id !== 0 && (active.has(id) || id === running);
}

/** Any call, for what concerns the program as a whole. */
export function anyCall(): number {
  return currentCall() || (active.keys().next().value ?? 0);
}
