import type { Compiled, DefinitionSource } from "../discover/discovery.ts";
import { TurnQueue } from "../turn-queue.ts";

export type CompileFor = (source: DefinitionSource, tenant: string) => Promise<Compiled>;

/**
 * Has one definition compiled at a time, which the compiler does anyway, and the tenants that wait take turns: what one
 * of them has saved a hundred times, or makes so that it takes as long as may be, is not in front of all that others save.
 */
export function compilingInTurn(compile: (source: DefinitionSource) => Promise<Compiled>): CompileFor {
  const turns = new TurnQueue(1, Infinity, () => 1);
  return async (source, tenant) => {
    await turns.enter(tenant, () => {});
    try {
      return await compile(source);
    } finally {
      turns.leave(tenant);
    }
  };
}
