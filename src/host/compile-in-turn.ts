import type { CancelSignal } from "../cancellation.ts";
import type { Compiled, DefinitionSource } from "../discover/discovery.ts";
import { BerthError } from "../errors.ts";
import { TurnQueue } from "../turn-queue.ts";

/** Rejects with `cancelled` once nobody waits for it any more and it has not begun. */
export type CompileFor = (source: DefinitionSource, tenant: string, signal?: CancelSignal) => Promise<Compiled>;

/**
 * Has one definition compiled at a time, which the compiler does anyway, and the tenants that wait take turns: what one
 * of them has saved a hundred times, or makes so that it takes as long as may be, is not in front of all that others save.
 */
export function compilingInTurn(compile: (source: DefinitionSource) => Promise<Compiled>): CompileFor {
  const turns = new TurnQueue(1, Infinity, () => 1);
  return async (source, tenant, signal) => {
    if (signal?.aborted) throw new BerthError("cancelled");
    let leave = (): void => {};
    const turn = turns.enter(tenant, (leaveQueue) => (leave = leaveQueue));
    signal?.addEventListener("abort", leave);
    const isTurn = await turn;
    signal?.removeEventListener("abort", leave);
    if (!isTurn) throw new BerthError("cancelled");
    try {
      return await compile(source);
    } finally {
      turns.leave(tenant);
    }
  };
}
