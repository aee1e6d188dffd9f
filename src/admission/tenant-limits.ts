import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import { tenantLimitNames, workerShare, type Limits, type TenantLimits } from "../limits/limits.ts";

const NAMES = Object.keys(tenantLimitNames) as (keyof TenantLimits)[];

type TenantLimitDefaults = Pick<Limits, (typeof tenantLimitNames)[keyof TenantLimits]>;

/** The limits of a tenant in each of `workers` workers, where `defaults` are those of one worker. */
export function workerTenantLimits(defaults: Limits, own: JsonObject, workers: number): TenantLimits {
  const shares = Object.entries(own).map(([name, value]) => {
    const limit = tenantLimitNames[name as keyof TenantLimits];
    return [name, workerShare(defaults, limit, value as number, workers)];
  });
  return tenantLimits(defaults, Object.fromEntries(shares) as JsonObject);
}

/** Applies the service's defaults to limits that the tenant's own record does not set. */
export function tenantLimits(defaults: TenantLimitDefaults, own: JsonObject = {}): TenantLimits {
  const limits = Object.fromEntries(NAMES.map((name) => [name, defaults[tenantLimitNames[name]]]));
  return { ...(limits as Record<keyof TenantLimits, number>), ...own };
}

const UNLIMITED_AT_ZERO = /PerSecond$|PerMinute$|^historyDays$/;

/**
 * The tenant's own limits after an import. A limit from the file applies only if it is no higher than the current one,
 * so that the author of a file cannot raise a limit.
 */
export function limitsAfterImport(defaults: TenantLimitDefaults, own: JsonObject, fileLimits: JsonObject): JsonObject {
  const currentLimits: JsonObject = { ...tenantLimits(defaults, own) };
  const allows = (name: string, value: unknown): number =>
    value === 0 && UNLIMITED_AT_ZERO.test(name) ? Infinity : Number(value);
  const accepted = Object.entries(fileLimits).filter(
    ([name, value]) => allows(name, value) <= allows(name, currentLimits[name]),
  );
  return { ...own, ...Object.fromEntries(accepted) };
}

/**
 * Applies changes of a tenant's own limits, each written as `name=number`; a name without a number restores the
 * default. Throws `tenant_invalid` with all problems.
 */
export function readTenantLimits(before: JsonObject, texts: readonly string[]): JsonObject {
  const limits: JsonObject = { ...before };
  const problems: string[] = [];
  for (const text of texts) {
    const [, name = "", value = ""] = /^([^=]*)=?(.*)$/s.exec(text) ?? [];
    if (!(NAMES as readonly string[]).includes(name)) {
      problems.push(`there is no limit "${name}"; there are ${NAMES.join(", ")}`);
    } else if (value === "") {
      delete limits[name];
    } else if (!/^\d{1,15}$/.test(value)) {
      problems.push(`"${name}" must be a whole number, not "${value}"`);
    } else {
      limits[name] = Number(value);
    }
  }
  if (problems.length > 0) throw new BerthError("tenant_invalid", problems.join("; "));
  return limits;
}

/** Describes what is invalid in a tenant's own limits. */
export function tenantLimitProblems(limits: JsonObject): string[] {
  return Object.entries(limits).flatMap(([name, value]) => {
    if (!(NAMES as readonly string[]).includes(name))
      return [`there is no limit ${JSON.stringify(name.slice(0, 100))}`];
    const isValid = typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
    return isValid ? [] : [`the limit "${name}" must be a whole number`];
  });
}
