// `berth` with lower fixed limits, as the environment says: tests start it where Berth has to be a process of its own.
import { changeFixed } from "../../src/limits/fixed.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { shareCompiler } from "./compiler.ts";
import { loweredLimits } from "./lowered-limits.ts";

const lowered = { guestSpareProcesses: 0, ...loweredLimits(process.env) };
changeFixed(lowered);
shareCompiler();
Object.assign(defaultLimits, lowered);
await import("../../src/cli.ts");
