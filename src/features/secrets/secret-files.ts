import { execFile } from "node:child_process";
import { open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { BerthError } from "../../lib/errors.ts";
import { DEFAULT_TENANT } from "../../lib/tenant-name.ts";
import { fixed } from "../../limits/fixed.ts";
import type { SecretFacts } from "../../secrets/grants.ts";
import { nameFault, SECRET_BYTES, secretBounds, valueFault } from "../../secrets/secret-rules.ts";
import type { Secrets } from "./secrets.ts";

const bounds = fixed({
  /** How often files are compared with what they were. */
  secretFilesPollMs: 5_000,
  /** How long a value from a command is used. */
  secretCommandValueMs: 60_000,
  secretCommandMs: 10_000,
});
const EXECUTABLE = 0o111;

interface SecretFile {
  readonly path: string;
  readonly changedAt: number;
  readonly mode: number;
}

/**
 * Secrets in files of one folder, as Kubernetes and systemd provide them: `NAME` for the tenant `default`, `<tenant>/NAME` for
 * others. An executable file that begins with `#!` is a command that prints the value. Files are read for each use, and
 * `changed` is called when one of them changes.
 */
export class SecretFiles {
  readonly #folder: string;
  readonly #printed = new BoundedMap<
    string,
    { readonly value: string; readonly changedAt: number; readonly at: number }
  >(secretBounds.secretsPerTenant);
  #polling: NodeJS.Timeout | undefined;
  #listed: ReadonlyMap<string, number> = new Map();

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** Rejects with `config_invalid` if the folder cannot be read. */
  static async open(folder: string, changed: (tenant: string, name: string) => void): Promise<SecretFiles> {
    const files = new SecretFiles(folder);
    await files.#poll(() => {}).catch((error: NodeJS.ErrnoException) => {
      throw new BerthError("config_invalid", `BERTH_SECRETS_DIR: ${folder} cannot be read (${error.code})`);
    });
    const poll = (): void => void files.#poll(changed).catch(() => {});
    files.#polling = setInterval(poll, bounds.secretFilesPollMs).unref();
    return files;
  }

  async close(): Promise<void> {
    clearInterval(this.#polling);
  }

  /** None for a tenant without a folder. */
  async list(tenant: string): Promise<readonly SecretFacts[]> {
    const names = await readdir(this.#folderOf(tenant)).catch(() => []);
    const facts = await Promise.all(names.map((name) => this.#facts(tenant, name)));
    return facts.flatMap((each) => each ?? []);
  }

  /** Undefined if there is no file of that name. Rejects with `secrets_unavailable`. */
  async read(tenant: string, name: string): Promise<string | undefined> {
    const file = await this.#find(tenant, name);
    if (!file) return undefined;
    let text: string;
    try {
      text = await readText(file.path);
    } catch (error) {
      throw unavailable(name, `its file cannot be read (${(error as NodeJS.ErrnoException).code})`);
    }
    if ((file.mode & EXECUTABLE) !== 0 && text.startsWith("#!")) return this.#run(tenant, name, file);
    return checked(name, text);
  }

  async #run(tenant: string, name: string, { path, changedAt }: SecretFile): Promise<string> {
    const now = performance.now();
    const last = this.#printed.get(path);
    if (last && now - last.at < bounds.secretCommandValueMs && last.changedAt >= changedAt) return last.value;
    const env = { PATH: process.env["PATH"], HOME: process.env["HOME"], BERTH_TENANT: tenant, BERTH_SECRET: name };
    const options = { env, timeout: bounds.secretCommandMs, maxBuffer: 2 * SECRET_BYTES, cwd: "/" };
    const { stdout } = await promisify(execFile)(path, [], options).catch((error: { code?: string | number }) => {
      throw unavailable(name, `its command failed (${error.code ?? `no answer within ${bounds.secretCommandMs} ms`})`);
    });
    const value = checked(name, stdout);
    this.#printed.set(path, { value, changedAt: last?.value === value ? last.changedAt : Date.now(), at: now });
    return value;
  }

  async #facts(tenant: string, name: string): Promise<SecretFacts | undefined> {
    const file = await this.#find(tenant, name);
    if (!file) return undefined;
    const changedAt = Math.max(file.changedAt, this.#printed.get(file.path)?.changedAt ?? 0);
    return { name, changedAt, by: "BERTH_SECRETS_DIR" };
  }

  async #find(tenant: string, name: string): Promise<SecretFile | undefined> {
    if (nameFault(name) !== undefined) return undefined;
    const path = join(this.#folderOf(tenant), name);
    const found = await stat(path).catch(() => undefined);
    return found?.isFile() ? { path, changedAt: Math.round(found.mtimeMs), mode: found.mode } : undefined;
  }

  #folderOf(tenant: string): string {
    return tenant === DEFAULT_TENANT ? this.#folder : join(this.#folder, tenant);
  }

  async #poll(changed: (tenant: string, name: string) => void): Promise<void> {
    const entries = await readdir(this.#folder, { withFileTypes: true });
    const tenants = entries.filter((each) => each.isDirectory()).map(({ name }) => name);
    const listed = new Map<string, number>();
    for (const tenant of [DEFAULT_TENANT, ...tenants]) {
      for (const { name, changedAt } of await this.list(tenant)) listed.set(`${tenant}/${name}`, changedAt);
    }
    const before = this.#listed;
    this.#listed = listed;
    for (const key of new Set([...before.keys(), ...listed.keys()])) {
      if (before.get(key) !== listed.get(key)) changed(...(key.split("/") as [string, string]));
    }
  }
}

/** The same secrets, with those in files, which come before stored ones. */
export function withFiles(secrets: Secrets, files: SecretFiles): Secrets {
  return {
    ...secrets,
    async list(tenant) {
      const [stored, inFiles] = await Promise.all([secrets.list(tenant), files.list(tenant)]);
      const names = new Set(inFiles.map(({ name }) => name));
      return [...stored.filter(({ name }) => !names.has(name)), ...inFiles].sort((one, other) =>
        one.name < other.name ? -1 : 1,
      );
    },
    read: async (tenant, name) => (await files.read(tenant, name)) ?? secrets.read(tenant, name),
  };
}

/** At most one byte more than a value may have. */
async function readText(path: string): Promise<string> {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(SECRET_BYTES + 2), 0, SECRET_BYTES + 2, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Without the line end that editors and programs add. */
function checked(name: string, text: string): string {
  const value = text.replace(/\r?\n$/, "");
  const fault = valueFault(value);
  if (fault !== undefined) throw unavailable(name, `in BERTH_SECRETS_DIR: ${fault}`);
  return value;
}

function unavailable(name: string, reason: string): BerthError {
  return new BerthError("secrets_unavailable", `"${name}": ${reason}`);
}
