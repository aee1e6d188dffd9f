import { BerthError } from "../../lib/errors.ts";
import { lock, type PostgresDatabase } from "./database.ts";

const settings = { seal: "BERTH_SEAL_KEY", secret: "BERTH_SECRET_KEY" } as const;
type Kind = keyof typeof settings;

/** For each kind of key what proves that a node has it, the keys themselves being known to nodes alone. */
export type KeyProofs = Readonly<Partial<Record<Kind, readonly string[]>>>;

/**
 * Lets a node in that has a key of each kind in common with the one before it, and has the next one be measured by all
 * of its keys: so keys are changed by steps, and one that has been given up lets nobody in. A command (`isNode` false) is
 * let in as well, and measures nobody after a node has. Rejects with `config_invalid`.
 */
export async function admitKeys(database: PostgresDatabase, proofs: KeyProofs, isNode = true): Promise<void> {
  await database.transaction(async (run) => {
    await lock(run, "keys", "");
    const known = await run<{ kind: string; proof: string }>("SELECT kind, proof FROM key_proof");
    for (const kind of Object.keys(settings) as Kind[]) {
      const own = new Set(proofs[kind] ?? []);
      if (own.size === 0) continue;
      const before = known.filter((each) => each.kind === kind).map(({ proof }) => proof);
      if (before.length > 0 && !before.some((proof) => own.has(proof))) throw otherKeys(kind);
      if (!isNode && before.length > 0) continue;
      if (before.length === own.size && before.every((proof) => own.has(proof))) continue;
      await run("DELETE FROM key_proof WHERE kind = $1", [kind]);
      await run("INSERT INTO key_proof (kind, proof) SELECT $1, unnest($2::text[])", [kind, [...own]]);
    }
  });
}

function otherKeys(kind: Kind): BerthError {
  const detail = `none of the keys in ${settings[kind]} is one of those that the nodes of this database have`;
  return new BerthError("config_invalid", `${detail}: give it theirs; docs/postgres.md says how keys are changed`);
}
