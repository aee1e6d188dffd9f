// `berth` with lower fixed limits, as the environment says: tests start it where Berth has to be a process of its own.
import { fixedLimits } from "../../src/limits/fixed-limits.ts";
import { loweredLimits } from "./lowered-limits.ts";

Object.assign(fixedLimits, loweredLimits(process.env));
await import("../../src/cli.ts");
