import { StringDecoder } from "node:string_decoder";
import { stripVTControlCharacters } from "node:util";
import { printJson } from "../../commands/print.ts";
import { checkTenant, type DataOptions, type TenantDataOptions, withStore } from "../../commands/with-store.ts";
import type { Config } from "../../config.ts";
import { openSecretKeys, proofsOf } from "../../secrets/keys.ts";
import { createSecretEdits, type ListedSecret, type SecretEdits } from "./edits.ts";
import { openSecrets, type Secrets } from "./secrets.ts";

/** `berth secret set NAME`: the value comes from standard input, where no process list and no history shows it. */
export function setSecret(name: string, options: TenantDataOptions): Promise<number> {
  return withSecrets({ ...options, mayMake: true }, async ({ edits }) => {
    const value = await readHidden(`Value of ${name}: `);
    if (value === undefined) {
      console.error("Nothing was set.");
      return 1;
    }
    await edits.set(options.tenant, name, value, { by: "command" });
    console.error(`The secret ${name} of the tenant ${options.tenant} is set.`);
    const { servers = [] } = (await edits.list(options.tenant)).find((each) => each.name === name) ?? {};
    if (servers.length === 0)
      console.error(`No server gets it yet: add "secrets": ["${name}"] to the server's entry in mcps.`);
    return 0;
  });
}

/** `berth secret list`: names, never values. */
export function listSecrets(options: TenantDataOptions & { readonly json?: boolean }): Promise<number> {
  return withSecrets(options, async ({ edits }) => {
    const listed = await edits.list(options.tenant);
    if (options.json) {
      const plain = listed.map(({ name, set, servers }) => ({ name, isSet: set !== undefined, ...set, servers }));
      printJson(plain, 2);
    } else {
      for (const line of linesOf(listed)) console.log(line);
    }
    return 0;
  });
}

/** `berth secret delete NAME` */
export function deleteSecret(name: string, options: TenantDataOptions): Promise<number> {
  return withSecrets(options, async ({ edits }) => {
    await edits.remove(options.tenant, name, "command");
    console.error(`The secret ${name} of the tenant ${options.tenant} is deleted.`);
    return 0;
  });
}

/** `berth secret rotate`: for all tenants, since they share one key. */
export function rotateSecrets(options: DataOptions): Promise<number> {
  return withSecrets(options, async ({ secrets }) => {
    const { keyId, secrets: count } = await secrets.rotate("command");
    console.error(`${count} secret${count === 1 ? " is" : "s are"} now sealed with the key ${keyId}.`);
    return 0;
  });
}

function withSecrets(
  { tenant, ...options }: Partial<TenantDataOptions> & { readonly mayMake?: boolean },
  work: (parts: { secrets: Secrets; edits: SecretEdits }) => Promise<number>,
): Promise<number> {
  const ofKeys = (config: Config) =>
    config.database === undefined ? undefined : proofsOf({ secrets: openSecretKeys(config) });
  return withStore({ ...options, proofsOf: ofKeys }, async (store, config) => {
    if (tenant !== undefined) await checkTenant(store, tenant);
    const secrets = openSecrets(store, openSecretKeys(config));
    return work({ secrets, edits: createSecretEdits({ store, secrets, writable: true }) });
  });
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

/**
 * A text that nobody may see: typed at the terminal without echo, else all of standard input without one final newline.
 * Undefined when the person gives up (Ctrl-C, Ctrl-D).
 */
async function readHidden(prompt: string): Promise<string | undefined> {
  if (process.stdin.isTTY) return typed(prompt);
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks)
    .toString("utf8")
    .replace(/\r?\n$/, "");
}

const [CTRL_C, CTRL_D, BACKSPACE, DELETE] = ["\u0003", "\u0004", "\b", "\u007f"];

function typed(prompt: string): Promise<string | undefined> {
  const { stdin } = process;
  stdin.setRawMode(true);
  stdin.resume();
  return new Promise((resolve) => {
    const decoder = new StringDecoder("utf8");
    let text = "";
    const end = (given: string | undefined): void => {
      stdin.off("data", take).pause();
      stdin.setRawMode(false);
      process.stderr.write("\n");
      resolve(given);
    };
    const take = (chunk: Buffer): void => {
      // Arrow keys send sequences that are no text.
      for (const character of stripVTControlCharacters(decoder.write(chunk))) {
        if (character === CTRL_C || character === CTRL_D) return end(undefined);
        if (character === "\r" || character === "\n") return end(text);
        if (character === BACKSPACE || character === DELETE) text = Array.from(text).slice(0, -1).join("");
        else if (!/\p{Cc}/u.test(character)) text += character;
      }
    };
    stdin.on("data", take);
    // Fast typing must not be shown either.
    process.stderr.write(prompt);
  });
}
