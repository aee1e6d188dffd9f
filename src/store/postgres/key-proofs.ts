import { BerthError } from "../../lib/errors.ts";
import { lock, type PostgresDatabase } from "./database.ts";

const settings = { seal: "BERTH_SEAL_KEY", secret: "BERTH_SECRET_KEY" } as const;
type Kind = keyof typeof settings;

/** For each kind of key, proofs that a node has it. The keys themselves are known only to nodes. */
export type KeyProofs = Readonly<Partial<Record<Kind, readonly string[]>>>;

/**
 * Admits a node if it has a key of each kind in common with the previous one, and stores the proofs of all its keys for
 * the next one. So keys can be replaced step by step, and a discarded key admits no node. A command (`isNode` false) is
 * admitted as well, but stores no proofs if a node has. Rejects with `config_invalid`.
 */
export async function admitKeys(database: PostgresDatabase, proofs: KeyProofs, isNode = true): Promise<void> {
  await database.transaction(async (run) => {
    await lock(run, "keys", "");
    const storedProofs = await run<{ kind: string; proof: string }>("SELECT kind, proof FROM key_proof");
    for (const kind of Object.keys(settings) as Kind[]) {
      const ownProofs = new Set(proofs[kind] ?? []);
      if (ownProofs.size === 0) continue;
      const previous = storedProofs.filter((each) => each.kind === kind).map(({ proof }) => proof);
      if (previous.length > 0 && !previous.some((proof) => ownProofs.has(proof))) throw keyMismatch(kind);
      if (!isNode && previous.length > 0) continue;
      if (previous.length === ownProofs.size && previous.every((proof) => ownProofs.has(proof))) continue;
      await run("DELETE FROM key_proof WHERE kind = $1", [kind]);
      await run("INSERT INTO key_proof (kind, proof) SELECT $1, unnest($2::text[])", [kind, [...ownProofs]]);
    }
  });
}

function keyMismatch(kind: Kind): BerthError {
  const detail = `none of the keys in ${settings[kind]} is known to the nodes of this database`;
  return new BerthError("config_invalid", `${detail}: use their keys; see docs/postgres.md for how to change keys`);
}
