import type { MessagePort } from "node:worker_threads";
import { BerthError, type ErrorCode } from "../../lib/errors.ts";

/** The messages between the serving thread (`threaded-store.ts`) and the thread of the store (`store-worker.ts`). */

/** An object whose methods the other thread calls: a part of the store by name, or the result of a call by number. */
export type Target = string | number;

export type ToThread =
  | {
      readonly id: number;
      readonly target: Target;
      readonly method: string;
      readonly args: readonly unknown[];
      /** The result stays on the thread, and a `HeldObject` is returned in its place. */
      readonly holds?: boolean;
      /** Delivers the content and names of a long change in parts. */
      readonly parts?: MessagePort;
    }
  | { readonly listen: number; readonly target: Target; readonly method: string; readonly args: readonly unknown[] }
  | { readonly unlisten: number };

/** The methods of the store, under "", and of each of its parts. */
export type MethodNames = Readonly<Record<string, readonly string[]>>;

/** An object of the thread, until its method `close` is called. */
export interface HeldObject {
  readonly held: number;
  readonly fields: object;
  readonly methods: readonly string[];
}

export type FromThread =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: SentError }
  | { readonly event: number; readonly args: readonly unknown[] }
  | {
      readonly level: ThreadLogLevel;
      readonly fields: object;
      readonly err: SentError | undefined;
      readonly message: string;
    }
  | CallbackCall;

export type ThreadLogLevel = "error" | "warn" | "info";

/**
 * A call of the function passed with call `of`. The thread blocks until `answered` changes and `port` has the answer.
 */
export interface CallbackCall {
  readonly of: number;
  readonly args: readonly unknown[];
  readonly answered: Int32Array;
  readonly port: MessagePort;
}

export type CallbackResult = { readonly value: unknown } | { readonly error: SentError };

/** A structured clone of an error would lose its class, code, and data. */
export interface SentError {
  readonly isBerth: boolean;
  readonly code: string | undefined;
  readonly message: string;
  readonly stack: string | undefined;
  readonly data: BerthError["data"];
  readonly cause: SentError | undefined;
}

export function sentError(error: unknown): SentError {
  const { code, message, stack, cause } = error as NodeJS.ErrnoException;
  return {
    isBerth: error instanceof BerthError,
    code,
    message,
    stack,
    data: error instanceof BerthError ? error.data : undefined,
    cause: cause instanceof Error ? sentError(cause) : undefined,
  };
}

export function receivedError(sent: SentError): Error {
  const { isBerth, code, message, stack, data } = sent;
  const cause = sent.cause && receivedError(sent.cause);
  if (!isBerth) return Object.assign(new Error(message, { cause }), { code, stack });
  const error = new BerthError(code as ErrorCode, undefined, { ...(data && { data }), cause });
  return Object.assign(error, { message, stack });
}
