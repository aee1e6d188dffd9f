// `berth` with lower fixed limits, as the environment says: tests start it where Berth has to be a process of its own.
import { fixedLimits } from "../../src/limits/fixed-limits.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { loweredLimits } from "./lowered-limits.ts";

const lowered = loweredLimits(process.env);
Object.assign(fixedLimits, lowered);
Object.assign(defaultLimits, lowered);
await import("../../src/cli.ts");
