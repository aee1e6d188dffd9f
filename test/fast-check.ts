/**
 * fast-check as all tests use it. A run of the tests tries the same values each time, so that none fails by chance. With
 * BERTH_FUZZ_RUNS it is a campaign: other values each time, and so many of them as that number is of 60; what it finds
 * becomes an example of its test.
 */
import { configureGlobal } from "fast-check";

export * from "fast-check";

const campaign = process.env["BERTH_FUZZ_RUNS"];

/** How often a property is tried that is usually tried so often. */
export const runs = (usual: number): number => Math.ceil((usual * Number(campaign ?? 60)) / 60);

configureGlobal({ numRuns: runs(100), ...(campaign === undefined && { seed: 20_260_728 }) });
