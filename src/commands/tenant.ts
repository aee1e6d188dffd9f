import { readdirSync } from "node:fs";
import { readTenantOauth } from "../access/oauth/tenant-settings.ts";
import { readTenantLimits, tenantLimits } from "../admission/tenant-limits.ts";
import { readConfig } from "../config.ts";
import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import { tenantBasePath } from "../lib/tenant-name.ts";
import type { Tenant } from "../store/store.ts";
import { printJson } from "./print.ts";
import { isTyped } from "./terminal.ts";
import { type DataOptions, withStore } from "./with-store.ts";

const BY_COMMAND = "command";

/** `berth tenant create NAME` */
export function createTenant(
  name: string,
  options: DataOptions & { readonly host?: string[]; readonly limit?: string[] },
): Promise<number> {
  return withStore({ ...options, mayMake: true }, async ({ tenants }) => {
    const { host: hosts = [], limit: texts = [] } = options;
    await tenants.create(name, { by: BY_COMMAND, hosts, limits: readTenantLimits({}, texts) });
    const places = [`${tenantBasePath(name)}/mcp`, ...hosts.map((host) => `the host ${host}`)];
    console.error(`The tenant ${name} is served at ${places.join(" and ")}.`);
    return 0;
  });
}

/** `berth tenant limit NAME [LIMIT=NUMBER…]`: sets limits, or shows all without any. `LIMIT=` restores the default. */
export function limitTenant(name: string, texts: readonly string[], options: DataOptions): Promise<number> {
  return withStore(options, async ({ tenants }) => {
    const tenant = await tenants.find(name);
    if (!tenant) throw new BerthError("tenant_not_found", `"${name}"`);
    const own = readTenantLimits(tenant.limits, texts);
    if (texts.length > 0) await tenants.change(name, { by: BY_COMMAND, limits: own });
    for (const [limit, value] of Object.entries(tenantLimits(readConfig(process.env).limits, own))) {
      console.log(`${limit}  ${value}${limit in own ? "" : "  (default)"}`);
    }
    return 0;
  });
}

/**
 * `berth tenant oauth NAME [SETTING=VALUE…]`: sets whose access tokens a tenant accepts, or shows it without settings.
 */
export function setTenantOauth(name: string, texts: readonly string[], options: DataOptions): Promise<number> {
  return withStore(options, async ({ tenants }) => {
    const tenant = await tenants.find(name);
    if (!tenant) throw new BerthError("tenant_not_found", `"${name}"`);
    const oauth = readTenantOauth(tenant.oauth, texts);
    if (texts.length > 0) {
      checkOwnAudience(name, oauth, await tenants.list());
      await tenants.change(name, { by: BY_COMMAND, oauth });
    }
    if (!oauth) console.error(`The tenant ${name} has no authorization server of its own.`);
    for (const [setting, value] of Object.entries(oauth ?? {})) {
      console.log(`${setting}  ${typeof value === "string" ? value : JSON.stringify(value)}`);
    }
    return 0;
  });
}

/** With the same issuer and audience, a token would be valid for two tenants. */
function checkOwnAudience(name: string, oauth: JsonObject | null, tenants: readonly Tenant[]): void {
  const { issuer, audience } = oauth ?? {};
  if (audience === undefined) return;
  const same = tenants.find(
    (other) => other.name !== name && other.oauth?.["issuer"] === issuer && other.oauth?.["audience"] === audience,
  );
  if (!same) return;
  const why = `"${same.name}" already takes this issuer's tokens for ${JSON.stringify(audience)}; each tenant needs an audience of its own`;
  throw new BerthError("tenant_invalid", why);
}

/** `berth tenant list` */
export function listTenants(options: DataOptions & { readonly json?: boolean }): Promise<number> {
  return withStore(options, async ({ tenants }) => {
    const listed = await tenants.list();
    if (options.json) printJson(listed, 2);
    else for (const line of linesOf(listed)) console.log(line);
    return 0;
  });
}

function linesOf(listed: readonly Tenant[]): string[] {
  const width = Math.max(...listed.map(({ name }) => name.length));
  return listed.map(({ name, createdAt, suspendedAt, hosts }) => {
    const state = suspendedAt === null ? "served" : `suspended since ${new Date(suspendedAt).toISOString()}`;
    const made = `made ${new Date(createdAt).toISOString()}`;
    return [name.padEnd(width), made, state, hosts.join(", ")].filter(Boolean).join("  ");
  });
}

/** `berth tenant suspend NAME` and `berth tenant resume NAME` */
export function setSuspended(name: string, suspended: boolean, options: DataOptions): Promise<number> {
  return withStore(options, async ({ tenants }) => {
    await tenants.change(name, { by: BY_COMMAND, suspended });
    console.error(`The tenant ${name} is ${suspended ? "suspended: none of it is served" : "served again"}.`);
    return 0;
  });
}

/** `berth tenant delete NAME`: asks for the name again, and without a terminal requires `--yes`. */
export function deleteTenant(name: string, options: DataOptions & { readonly yes?: boolean }): Promise<number> {
  return withStore(options, async ({ tenants }, { dataDir, database }) => {
    if (!(await tenants.find(name))) throw new BerthError("tenant_not_found", `"${name}"`);
    if (!options.yes && !(await confirmDeletion(name))) {
      console.error("Nothing was deleted.");
      return 1;
    }
    const { names, contents, isErased } = await tenants.delete(name, BY_COMMAND);
    console.error(`The tenant ${name} is deleted: ${names} names, and ${contents} contents that nobody else holds.`);
    if (!isErased)
      console.error(
        database === undefined
          ? "Some of it may still stand in unused parts of the store's file: berth collect overwrites those, once whoever reads the store has ended."
          : "Some of it stands in unused parts of the database's files and logs, until Postgres uses them again.",
      );
    const copies = (database === undefined ? readdirSync(dataDir) : []).filter((file) => COPIES.test(file));
    if (copies.length > 0)
      console.error(`What the store held before is also in ${copies.join(", ")} (in ${dataDir}): delete that, too.`);
    console.error("Backups that were made before hold it until you delete them; a restore of one brings it back.");
    return 0;
  });
}

/** The names of what restores and broken logs left in the data folder. */
const COPIES = /^(?:before-restore|broken-log)-/;

async function confirmDeletion(tenant: string): Promise<boolean> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    console.error("This cannot be asked without a terminal; --yes deletes all that the tenant has.");
    return false;
  }
  const goes = "goes: servers, variables, secrets, tokens, releases";
  return isTyped(tenant, `All that the tenant ${tenant} has ${goes}. Type its name: `);
}
