/**
 * The configuration of fast-check for all tests. A test run tries the same values each time, so that none fails by
 * chance. With BERTH_FUZZ_RUNS it is a campaign: new values each time, and that number of runs instead of 60; its
 * findings become examples of their tests.
 */
import { configureGlobal } from "fast-check";

export * from "fast-check";

const campaign = process.env["BERTH_FUZZ_RUNS"];

/** The number of runs of a property whose usual number is `usual`. */
export const runs = (usual: number): number => Math.ceil((usual * Number(campaign ?? 60)) / 60);

configureGlobal({ numRuns: runs(100), ...(campaign === undefined && { seed: 20_260_728 }) });
