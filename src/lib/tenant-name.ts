import { BerthError } from "./errors.ts";

/** The embedded tenant: it always exists, and is served if no other is named. */
export const DEFAULT_TENANT = "default";

/** One label of a host name: letters, digits and single hyphens, starting with a letter. */
const TENANT_NAME = /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/;
const TENANT_NAME_UNITS_MAX = 63;

export function isTenantName(name: string): boolean {
  return name.length <= TENANT_NAME_UNITS_MAX && TENANT_NAME.test(name);
}

/** The prefix of a tenant's paths, unless a host name selects it: `""` or `/t/<tenant>`. */
export function tenantBasePath(tenant: string): string {
  return tenant === DEFAULT_TENANT ? "" : `/t/${tenant}`;
}

/** Throws `tenant_invalid`. */
export function checkTenantName(name: string): void {
  if (isTenantName(name)) return;
  const rule = `use lower-case letters, digits and single hyphens, a letter first, at most ${TENANT_NAME_UNITS_MAX} characters`;
  throw new BerthError("tenant_invalid", `"${name.slice(0, 100)}" cannot be a tenant's name: ${rule}`);
}
