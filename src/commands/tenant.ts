import { createInterface } from "node:readline/promises";
import { readTenantLimits, tenantLimits } from "../admission/tenant-limits.ts";
import { readConfig, type Config } from "../config.ts";
import { BerthError } from "../lib/errors.ts";
import type { Store, Tenant, Tenants } from "../store/store.ts";
import { basePathOf } from "../lib/tenant-name.ts";
import { environmentOf } from "./environment.ts";
import { openStoreFor } from "./with-store.ts";

export interface TenantOptions {
  readonly data?: string;
}

const BY = "command";

/** `berth tenant create NAME` */
export function createTenant(
  name: string,
  options: TenantOptions & { readonly host?: string[]; readonly limit?: string[] },
): Promise<number> {
  return withTenants({ ...options, mayMake: true }, async (tenants) => {
    const { host: hosts = [], limit: texts = [] } = options;
    await tenants.create(name, { by: BY, hosts, limits: readTenantLimits({}, texts) });
    const places = [`${basePathOf(name)}/mcp`, ...hosts.map((host) => `the host ${host}`)];
    console.error(`The tenant ${name} is there, at ${places.join(" and ")}.`);
    return 0;
  });
}

/** `berth tenant limit NAME [LIMIT=NUMBER…]`: sets limits, or shows all without any. `LIMIT=` restores the default. */
export function limitTenant(name: string, texts: readonly string[], options: TenantOptions): Promise<number> {
  return withTenants(options, async (tenants) => {
    const tenant = await tenants.find(name);
    if (!tenant) throw new BerthError("tenant_not_found", `"${name}"`);
    const own = readTenantLimits(tenant.limits, texts);
    if (texts.length > 0) await tenants.change(name, { by: BY, limits: own });
    for (const [limit, value] of Object.entries(tenantLimits(readConfig(process.env).limits, own))) {
      console.log(`${limit}  ${value}${limit in own ? "" : "  (default)"}`);
    }
    return 0;
  });
}

/** `berth tenant list` */
export function listTenants(options: TenantOptions & { readonly json?: boolean }): Promise<number> {
  return withTenants(options, async (tenants) => {
    const listed = await tenants.list();
    if (options.json) console.log(JSON.stringify(listed, null, 2));
    else for (const line of linesOf(listed)) console.log(line);
    return 0;
  });
}

/** `berth tenant suspend NAME` and `berth tenant resume NAME` */
export function setSuspended(name: string, suspended: boolean, options: TenantOptions): Promise<number> {
  return withTenants(options, async (tenants) => {
    await tenants.change(name, { by: BY, suspended });
    console.error(`The tenant ${name} is ${suspended ? "suspended: nothing of it is served" : "served again"}.`);
    return 0;
  });
}

/** `berth tenant delete NAME`: asks for the name again, and without a terminal requires `--yes`. */
export function deleteTenant(name: string, options: TenantOptions & { readonly yes?: boolean }): Promise<number> {
  return withTenants(options, async (tenants) => {
    if (!(await tenants.find(name))) throw new BerthError("tenant_not_found", `"${name}"`);
    if (!options.yes && !(await isTypedAgain(name))) {
      console.error("Nothing was deleted.");
      return 1;
    }
    const { names, contents } = await tenants.delete(name, BY);
    console.error(`The tenant ${name} is deleted: ${names} names, and ${contents} contents that nobody else holds.`);
    return 0;
  });
}

async function isTypedAgain(name: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    console.error("This cannot be asked without a terminal; --yes deletes all that the tenant has.");
    return false;
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const question = `All that the tenant ${name} has goes: servers, variables, secrets, tokens, releases. Type its name: `;
    return (await terminal.question(question)).trim() === name;
  } finally {
    terminal.close();
  }
}

/** Opens the registry of a data folder, with the configuration, for one piece of work. */
export async function withTenants(
  { data, mayMake = false }: TenantOptions & { readonly mayMake?: boolean },
  work: (tenants: Tenants, config: Config, store: Store) => Promise<number>,
): Promise<number> {
  const config = readConfig(environmentOf(data === undefined ? {} : { data }));
  const store = await openStoreFor(config.dataDir, { mayMake });
  try {
    return await work(store.tenants, config, store);
  } finally {
    await store.close();
  }
}

function linesOf(listed: readonly Tenant[]): string[] {
  const width = Math.max(...listed.map(({ name }) => name.length));
  return listed.map(({ name, createdAt, suspendedAt, hosts }) => {
    const state = suspendedAt === null ? "served" : `suspended since ${new Date(suspendedAt).toISOString()}`;
    const made = `made ${new Date(createdAt).toISOString()}`;
    return [name.padEnd(width), made, state, hosts.join(", ")].filter(Boolean).join("  ");
  });
}
