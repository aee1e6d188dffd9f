import { stripVTControlCharacters } from "node:util";
import { readConfig } from "../config.ts";
import { BerthError } from "../lib/errors.ts";
import { createSecretEdits, type ListedSecret, type SecretEdits } from "../edits/secret-edits.ts";
import { openKeyRing } from "../secrets/key-ring.ts";
import { openSecrets, type Secrets } from "../secrets/secrets.ts";
import { environmentOf } from "./environment.ts";
import { readHidden } from "./read-hidden.ts";
import { openStoreFor } from "./with-store.ts";

export interface SecretOptions {
  readonly tenant: string;
  readonly data?: string;
}

/** `berth secret set NAME`: the value comes from standard input, where no process list and no history shows it. */
export function setSecret(name: string, options: SecretOptions): Promise<number> {
  return withSecrets({ ...options, mayMake: true }, async ({ edits }) => {
    const value = await readHidden(`Value of ${name}: `);
    if (value === undefined) {
      console.error("Nothing was set.");
      return 1;
    }
    await edits.set(options.tenant, name, value, { by: "command" });
    console.error(`The secret ${name} of the tenant ${options.tenant} is set.`);
    const { servers = [] } = (await edits.list(options.tenant)).find((each) => each.name === name) ?? {};
    if (servers.length === 0) console.error(`No server is given it yet: an entry of mcps says "secrets": ["${name}"].`);
    return 0;
  });
}

/** `berth secret list`: names, never values. */
export function listSecrets(options: SecretOptions & { readonly json?: boolean }): Promise<number> {
  return withSecrets(options, async ({ edits }) => {
    const listed = await edits.list(options.tenant);
    if (options.json) {
      const plain = listed.map(({ name, set, servers }) => ({ name, isSet: set !== undefined, ...set, servers }));
      console.log(JSON.stringify(plain, null, 2));
    } else {
      for (const line of linesOf(listed)) console.log(line);
    }
    return 0;
  });
}

/** `berth secret delete NAME` */
export function deleteSecret(name: string, options: SecretOptions): Promise<number> {
  return withSecrets(options, async ({ edits }) => {
    await edits.remove(options.tenant, name, "command");
    console.error(`The secret ${name} of the tenant ${options.tenant} is deleted.`);
    return 0;
  });
}

/** `berth secret rotate`: for all tenants, since they share one key. */
export function rotateSecrets(options: Pick<SecretOptions, "data">): Promise<number> {
  return withSecrets(options, async ({ secrets }) => {
    const { keyId, secrets: count } = await secrets.rotate("command");
    console.error(`${count} secret${count === 1 ? " is" : "s are"} sealed with the key ${keyId} now.`);
    return 0;
  });
}

async function withSecrets(
  { mayMake = false, ...options }: Partial<SecretOptions> & { readonly mayMake?: boolean },
  work: (parts: { secrets: Secrets; edits: SecretEdits }) => Promise<number>,
): Promise<number> {
  const { dataDir, secretKeys, limits } = readConfig(environmentOf(options));
  const store = await openStoreFor(dataDir, { mayMake });
  try {
    const { tenant } = options;
    if (tenant !== undefined && !(await store.tenants.find(tenant))) {
      throw new BerthError("tenant_not_found", `"${tenant}"; "berth tenant create ${tenant}" makes it`);
    }
    const secrets = openSecrets(store, openKeyRing(dataDir, secretKeys), limits);
    return await work({ secrets, edits: createSecretEdits({ store, limits, secrets, writable: true }) });
  } finally {
    await store.close();
  }
}

function linesOf(listed: readonly ListedSecret[]): string[] {
  const rows = listed.map(({ name, set, servers, moreServers }) => [
    name,
    set ? `${new Date(set.changedAt).toISOString()} by ${set.by}` : "not set",
    servers.length > 0
      ? `for ${servers.join(", ")}${moreServers > 0 ? ` and ${moreServers} more` : ""}`
      : "for no server",
  ]);
  const widths = [0, 1].map((column) => Math.max(0, ...rows.map((row) => row[column]!.length)));
  return rows.map((row) =>
    stripVTControlCharacters(row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ")),
  );
}
