import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { AuditLinks } from "../../src/audit/audit-entry.ts";
import { searchLog } from "../../src/audit/search.ts";
import { rawBlock } from "../../src/lib/cid.ts";
import { cli } from "./commands.ts";
import type { Nodes } from "./nodes.ts";
import { onStoreOf } from "./tenants.ts";

const REQUEST_MS_MAX = 30_000;

/**
 * Writers of variables, each of one of its own, which go on whatever happens to whoever serves them. Each save has a text of
 * its own, so each that was acknowledged can be found again.
 */
export class Saves {
  readonly #url: string;
  readonly #wanted: number;
  readonly #acknowledged: string[] = [];
  /** Those that nobody acknowledged may have been made or not. */
  unanswered = 0;

  constructor(url: string, wanted: number) {
    this.#url = url;
    this.#wanted = wanted;
  }

  get acknowledged(): number {
    return this.#acknowledged.length;
  }

  /** Resolves when so many are acknowledged. */
  async write(writers: number): Promise<void> {
    await Promise.all(Array.from({ length: writers }, (_, writer) => this.#writeOn(writer)));
  }

  async #writeOn(writer: number): Promise<void> {
    let isThere = false;
    for (let number = 1; this.acknowledged < this.#wanted; number++) {
      const text = `value ${number} of ${writer}`;
      const condition: Record<string, string> = isThere ? { "If-Match": "*" } : { "If-None-Match": "*" };
      try {
        const response = await fetch(`${this.#url}/api/variables/${nameOf(writer)}`, {
          method: "PUT",
          headers: { "Content-Type": "text/plain", ...condition },
          body: text,
          signal: AbortSignal.timeout(REQUEST_MS_MAX),
        });
        const said = await response.text();
        if (response.ok) this.#acknowledged.push(text);
        else if (response.status === 412) assert.ok(!isThere, said);
        else if (response.status < 500) throw new assert.AssertionError({ message: `${response.status}: ${said}` });
        else this.unanswered += 1;
        isThere ||= response.ok || response.status === 412;
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        this.unanswered += 1;
        await sleep(10);
      }
    }
  }

  /** Each acknowledged save is in the history, and each change in the history has one audit record. */
  async check(nodes: Pick<Nodes, "folder" | "database">): Promise<void> {
    const writers = new Set(this.#acknowledged.map((text) => Number(text.split(" ").at(-1))));
    await onStoreOf(nodes, async (store) => {
      const recorded = await recordedEdits(store.audit);
      const made = new Set<string>();
      for (const writer of writers) {
        for (const { cid } of await store.history("default", "variable", nameOf(writer), Number.MAX_SAFE_INTEGER)) {
          assert.ok(cid !== null && !made.has(cid), `a save of ${nameOf(writer)} was made twice`);
          made.add(cid);
          assert.equal(recorded.get(cid), 1, `the audit records of a save of ${nameOf(writer)}`);
        }
      }
      for (const text of this.#acknowledged) assert.ok(made.has(rawBlock(text).cid), `"${text}" is lost`);
    });
    const { folder, database } = nodes;
    const args = database === undefined ? ["--data", join(folder, "data")] : [];
    const env = { ...process.env, ...(database !== undefined && { BERTH_DATABASE: database }) };
    await promisify(execFile)(process.execPath, [cli, "audit", "verify", ...args], { env });
  }
}

const nameOf = (writer: number): string => `saved-${writer}`;

/** How many records name a content as the one that a name had from then on, by its CID. */
async function recordedEdits(links: AuditLinks): Promise<Map<string, number>> {
  const recorded = new Map<string, number>();
  let cursor: string | undefined;
  do {
    const query = { tenant: "default", kind: "edit", limit: 1_000, linksMax: Infinity, cursor } as const;
    const { records, next } = (await searchLog(links, query))!;
    for (const { to } of records.flatMap(({ names }) => names as unknown as { to: string | null }[]))
      if (to !== null) recorded.set(to, (recorded.get(to) ?? 0) + 1);
    cursor = next;
  } while (cursor !== undefined);
  return recorded;
}
