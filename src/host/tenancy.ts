import { BerthError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Tenant, Tenants } from "../store/tenants.ts";

/**
 * Which tenants this process serves now. A tenant is opened when somebody first asks for something of it, so that
 * thousands of them cost nothing at start, and ended when it is suspended or deleted, by whichever process.
 * It knows nothing of what opening and ending a tenant means.
 */
export interface Tenancy {
  /**
   * Undefined when the tenant is served already; else a promise of that, which rejects with `tenant_not_found` or
   * `tenant_suspended`.
   */
  admit(tenant: string): Promise<void> | undefined;
  /** Of a tenant that somebody has asked for something of: resolves when it is opened. */
  opening(tenant: string): Promise<void> | undefined;
  /** No host name stands for a tenant. */
  readonly unmapped: boolean;
  /** The tenant that a host name, in lower case and without a port, stands for. */
  ofHost(hostname: string): string | undefined;
  /** Hears of changes no longer; resolves when those that it heard of are carried out. */
  close(): Promise<void>;
}

export interface TenancyOptions {
  readonly tenants: Tenants;
  readonly open: (tenant: string) => Promise<void>;
  /** Ends all that runs for the tenant, and forgets it. */
  readonly end: (tenant: string) => Promise<void>;
  readonly log: Log;
}

export async function openTenancy({ tenants, open, end, log }: TenancyOptions): Promise<Tenancy> {
  /** By name; those that are about to be opened as well. */
  const served = new Map<string, { readonly opening: Promise<void>; tenant: Tenant | undefined }>();
  let hosts = await tenants.hosts();
  let changing: Promise<void> = Promise.resolve();

  const begin = async (name: string): Promise<Tenant> => {
    // Whoever has just gone has to be gone before it can come again.
    await changing;
    const tenant = await tenants.find(name);
    if (!tenant) throw new BerthError("tenant_not_found", `"${name}"`);
    if (tenant.suspendedAt !== null) {
      throw new BerthError("tenant_suspended", `"${name}"; ask whoever runs this service to resume it`);
    }
    await open(name);
    return tenant;
  };

  const admit = (name: string): Promise<void> => {
    const known = served.get(name);
    if (known) return known.opening;
    const opening = begin(name).then((tenant) => void (entry.tenant = tenant));
    const entry = { opening, tenant: undefined as Tenant | undefined };
    served.set(name, entry);
    opening.catch(() => served.get(name) === entry && served.delete(name));
    return opening;
  };

  const follow = async (name: string): Promise<void> => {
    hosts = await tenants.hosts();
    const entry = served.get(name);
    if (!entry) return;
    await entry.opening.catch(() => {});
    const [before, now] = [entry.tenant, await tenants.find(name)];
    if (before && now?.createdAt === before.createdAt && now.suspendedAt === null) {
      entry.tenant = now;
      return;
    }
    served.delete(name);
    await end(name);
    log.info({ tenant: name }, now ? "a tenant was suspended" : "a tenant was deleted");
  };

  const stop = tenants.onChange((name) => {
    changing = changing
      .then(() => follow(name))
      .catch((error: unknown) => log.error({ err: error }, "a change of a tenant could not be carried out"));
  });

  return {
    admit: (name) => (served.get(name)?.tenant ? undefined : admit(name)),
    opening: (name) => served.get(name)?.opening,
    get unmapped() {
      return hosts.size === 0;
    },
    ofHost: (hostname) => hosts.get(hostname),
    close() {
      stop();
      return changing;
    },
  };
}
