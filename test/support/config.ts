import { readConfig, type Config } from "../../src/config.ts";
import { loweredLimits } from "./lowered-limits.ts";

/** As `readConfig`; `env` may also lower the limits that no setting changes. */
export function readTestConfig(env: Record<string, string>, overrides: Partial<Config> = {}): Config {
  const config = readConfig(env, overrides);
  return { ...config, limits: { ...config.limits, ...loweredLimits(env), ...overrides.limits } };
}
