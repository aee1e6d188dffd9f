import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { TooManyRequests } from "../admission/refusals.ts";

type Holding = Socket & { [IS_HELD]?: boolean };
const IS_HELD = Symbol("held");

/**
 * Resolves when a refusal is to be told; undefined where that is at once. Who sends more than it may and goes on doing
 * so is held back by it: nothing more comes over its connection meanwhile. A connection that brings a further request
 * all the same, or is one too many, is cut, and nothing is ever told there.
 */
export function hold(request: IncomingMessage, error: unknown): Promise<void> | undefined {
  if (!(error instanceof TooManyRequests)) return undefined;
  const { refusals, data } = error;
  const socket = request.socket as Holding;
  const retryMs = 1_000 * Number(data?.["retryAfterSeconds"]);
  const inMs = socket[IS_HELD] ? undefined : refusals.next(performance.now(), retryMs);
  if (inMs === 0) return undefined;
  if (inMs === undefined) {
    socket.destroy();
    return new Promise(() => {});
  }
  socket[IS_HELD] = true;
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      socket.off("close", end);
      socket[IS_HELD] = false;
      refusals.told();
      if (!socket.destroyed) resolve();
    };
    const timer = setTimeout(end, inMs).unref();
    socket.on("close", end);
  });
}
