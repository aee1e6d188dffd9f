import { BerthError } from "../lib/errors.ts";
import type { JsonObject } from "../lib/json.ts";
import { shareOfWorker, tenantLimitNames, type Limits, type TenantLimits } from "../limits/limits.ts";

const NAMES = Object.keys(tenantLimitNames) as (keyof TenantLimits)[];

type TenantLimitDefaults = Pick<Limits, (typeof tenantLimitNames)[keyof TenantLimits]>;

/** The limits of a tenant in each of so many workers, whose own are `defaults`. */
export function tenantLimitsOfWorker(defaults: Limits, own: JsonObject, workers: number): TenantLimits {
  const shares = Object.entries(own).map(([name, value]) => {
    const limit = tenantLimitNames[name as keyof TenantLimits];
    return [name, shareOfWorker(defaults, limit, value as number, workers)];
  });
  return tenantLimits(defaults, Object.fromEntries(shares) as JsonObject);
}

/** Limits that the tenant's own record does not set have the service's defaults. */
export function tenantLimits(defaults: TenantLimitDefaults, own: JsonObject = {}): TenantLimits {
  const limits = Object.fromEntries(NAMES.map((name) => [name, defaults[tenantLimitNames[name]]]));
  return { ...(limits as Record<keyof TenantLimits, number>), ...own };
}

/** Limits of which 0 stands for none. */
const NONE_AT_ZERO = /PerSecond$|PerMinute$|^historyDays$/;

/**
 * The tenant's own limits after an import: those of the file that allow no more than the tenant's current ones, or the
 * service's defaults. Whoever wrote the file may not raise a limit.
 */
export function limitsAfterImport(defaults: TenantLimitDefaults, own: JsonObject, ofFile: JsonObject): JsonObject {
  const current: JsonObject = { ...tenantLimits(defaults, own) };
  const allows = (name: string, value: unknown): number =>
    value === 0 && NONE_AT_ZERO.test(name) ? Infinity : Number(value);
  const lower = Object.entries(ofFile).filter(([name, value]) => allows(name, value) <= allows(name, current[name]));
  return { ...own, ...Object.fromEntries(lower) };
}

/**
 * Applies a tenant's own limits that a person wrote, each `name=number`; a name without a number takes the default
 * again. Throws `tenant_invalid` with every problem at once.
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

/** Sentences about the faults of a tenant's own limits. */
export function tenantLimitProblems(limits: JsonObject): string[] {
  return Object.entries(limits).flatMap(([name, value]) => {
    if (!(NAMES as readonly string[]).includes(name))
      return [`there is no limit ${JSON.stringify(name.slice(0, 100))}`];
    const isRight = typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
    return isRight ? [] : [`the limit "${name}" must be a whole number`];
  });
}
