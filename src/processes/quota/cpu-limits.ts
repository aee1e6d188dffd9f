import { PausedTrees } from "./paused-trees.ts";

/**
 * Keeps the guests of each tenant to the processor time that the tenant may have each second: guests that have used it
 * up stand still (`SIGSTOP`) until there is some again. Calls wait meanwhile, within their own time.
 */
export class CpuLimits {
  readonly #msPerSecondOf: (tenant: string) => number;
  readonly #tenants = new Map<string, TenantState>();
  readonly #justMs: number;

  /** `msPerSecondOf`: 0 means no limit; `lookMs`: the time between two measurements. */
  constructor(msPerSecondOf: (tenant: string) => number, lookMs: number) {
    this.#msPerSecondOf = msPerSecondOf;
    this.#justMs = 2 * lookMs;
  }

  /** Charges what the guests of a tenant, `leaders`, have used since the last measurement. */
  keep(tenant: string, usedMs: number, leaders: readonly number[], now: number): void {
    const msPerSecond = this.#msPerSecondOf(tenant);
    if (msPerSecond === 0) return this.forget(tenant);
    const state = this.#stateOf(tenant, msPerSecond, now);
    const comes = ((now - state.lookedAt) / 1_000) * msPerSecond;
    state.leftMs = Math.max(-DEBT_S * msPerSecond, Math.min(msPerSecond, state.leftMs + comes - usedMs));
    state.lookedAt = now;
    if (state.leftMs > 0) {
      state.wasPaused &&= state.leftMs < msPerSecond;
      state.paused.resume();
    } else {
      state.wasPaused = true;
      state.paused.pauseAgain();
      state.paused.pause(leaders, now);
    }
  }

  /** Undefined where the tenant's guests have not been paused lately. */
  whyPaused(tenant: string): string | undefined {
    if (!this.#tenants.get(tenant)?.wasPaused) return undefined;
    const may = `${this.#msPerSecondOf(tenant)} ms of processor time in a second`;
    return `the guests of the tenant "${tenant}" may use ${may}, which is its limit processorMsPerSecond, and had used it up`;
  }

  /** A guest of the tenant has ended. */
  ended(tenant: string, leader: number): void {
    this.#tenants.get(tenant)?.paused.forget(leader);
  }

  /** Called when the tenant uses little, or has no limit. */
  forget(tenant: string): void {
    this.#tenants.get(tenant)?.paused.resume();
    this.#tenants.delete(tenant);
  }

  #stateOf(tenant: string, msPerSecond: number, now: number): TenantState {
    const known = this.#tenants.get(tenant);
    if (known) return known;
    const state = { leftMs: msPerSecond, lookedAt: now, wasPaused: false, paused: new PausedTrees(this.#justMs) };
    this.#tenants.set(tenant, state);
    return state;
  }
}

interface TenantState {
  leftMs: number;
  lookedAt: number;
  /** True from when its guests were paused until the tenant again has all that it may have at once. */
  wasPaused: boolean;
  readonly paused: PausedTrees;
}

/** The most overuse that a tenant pays back, in seconds of its limit. */
const DEBT_S = 60;
