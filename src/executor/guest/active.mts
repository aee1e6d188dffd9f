import { AsyncLocalStorage } from "node:async_hooks";
import type { JsonObject } from "../../lib/json.ts";
import { send } from "./pipe.mts";

/** Calls that have not returned yet, and the one that is running now. */
export interface ActiveCall {
  readonly id: number;
  controller?: AbortController;
  generator?: { return?: (value?: unknown) => unknown };
  /** Why it has to stop. */
  stopped?: Error;
  /** Its outcome has been written; anything its function still does is ignored. */
  over?: boolean;
  /** Progress events that the host has not credited yet. */
  ahead: number;
  /** The client's answers so far, by the keys of the questions. */
  answers?: JsonObject | undefined;
  /** The number of questions asked so far, by kind. */
  asked?: Record<string, number>;
  /** The questions without an answer, by key, as JSON. */
  questions?: Map<string, string>;
  /** Resolves when progress may continue; shared by all reports that are too far ahead. */
  gate?: { readonly promise: Promise<void>; readonly open: () => void } | undefined;
}

export const active = new Map<number, ActiveCall>();

/** Writes the call's outcome; anything its function still does is ignored. */
export function finish(call: ActiveCall, frame: string): void {
  call.over = true;
  active.delete(call.id);
  send(frame);
}

let running = 0;
/** Following calls through their awaits slows every promise down, so it starts when a program first needs it. */
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

/** The call on whose behalf the code now runs; 0 if unknown. */
export function currentCall(): number {
  const id = storage?.getStore() ?? running;
  if (id === 0 && active.size === 1) return active.keys().next().value!;
  if (id !== 0) storage ??= new AsyncLocalStorage<number>();
  return id;
}

/** False for a finished call. A call that has not returned yet may be identifiable only because it is running. */
export function isActive(id: number): boolean {
  return id !== 0 && (active.has(id) || id === running);
}

/** Any active call, for matters of the whole program. */
export function anyCall(): number {
  return currentCall() || (active.keys().next().value ?? 0);
}
