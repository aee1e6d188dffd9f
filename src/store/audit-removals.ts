import { SERVICE, type AuditHead, type Removals } from "../audit/entry.ts";

/** What the records of retention say, the newest of each kind; `rows` has them with the newest first. */
export function readRemovals(rows: readonly { tenant: string; body: string | null }[]): Removals {
  let start: AuditHead | undefined;
  const through = new Map<string, number>();
  for (const { tenant, body } of rows) {
    const facts = JSON.parse(body ?? "{}") as { through?: number; hash?: string; of?: string };
    if (facts.through === undefined) continue;
    if (tenant === SERVICE && facts.hash !== undefined) {
      start ??= { number: facts.through, hash: Buffer.from(facts.hash, "hex") };
    } else {
      const key = keyOf(tenant, facts.of === "calls");
      through.set(key, Math.max(facts.through, through.get(key) ?? 0));
    }
  }
  return { start, bodiesThrough: (tenant, isCall) => through.get(keyOf(tenant, isCall)) ?? 0 };
}

function keyOf(tenant: string, isCall: boolean): string {
  return JSON.stringify([tenant, isCall]);
}
