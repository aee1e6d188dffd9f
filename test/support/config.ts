import { readConfig, type Config } from "../../src/config.ts";
import { loweredLimits } from "./lowered-limits.ts";

/**
 * As `readConfig`, without spare guests, which most tests would start for nothing; `env` may also lower the limits that no
 * setting changes.
 */
export function readTestConfig(env: Record<string, string>, overrides: Partial<Config> = {}): Config {
  const config = readConfig(env, overrides);
  return {
    ...config,
    limits: { ...config.limits, guestSpareProcesses: 0, ...loweredLimits(env), ...overrides.limits },
  };
}
