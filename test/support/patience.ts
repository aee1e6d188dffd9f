import { changeFixed } from "../../src/limits/fixed.ts";
import { defaultLimits, limitVariable, type Limits, type LimitSetting } from "../../src/limits/limits.ts";

/**
 * Time limits within which something must merely happen, long enough for a busy machine. Tests that are about such a
 * limit set their own.
 */
const patience = {
  callMs: 300_000,
  compileMs: 600_000,
  fetchMs: 300_000,
  upstreamCallMs: 300_000,
} satisfies Partial<Limits>;

changeFixed({
  checkMs: 120_000,
  compileElapsedMs: 600_000,
  headersMs: 120_000,
  issuerMs: 60_000,
  loadElapsedMs: 120_000,
  requestMs: 120_000,
  transformMs: 300_000,
  upstreamProbeMs: 60_000,
  upstreamSaveMs: 300_000,
});

export const patientLimits: Limits = { ...defaultLimits, ...patience };

/** Likewise for processes. */
export const patientEnv: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(patience).map(([limit, value]) => [limitVariable(limit as LimitSetting), String(value)]),
);
