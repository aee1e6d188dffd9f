import { Socket } from "node:net";
import { BundlerEnded } from "./bundle.ts";
import { compileDefinition, type CompileTask } from "./compile.ts";
import { BUNDLER_ENDED, frame, CompilerFrameReader } from "./compiler-frames.ts";
import type { ContractLimits, DefinitionSource } from "./discovery.ts";

/**
 * The compiler's process: takes one definition at a time from fd 3, answers on fd 4, and ends when fd 3 does.
 * It is started with a memory limit and killed from outside when it takes too long; it holds nothing worth keeping.
 */
interface Job {
  readonly id: number;
  readonly task: CompileTask;
  readonly source: DefinitionSource;
  readonly limits: ContractLimits;
}

const jobs = new Socket({ fd: 3, readable: true, writable: false });
const answers = new Socket({ fd: 4, readable: false, writable: true });
const reader = new CompilerFrameReader(Number.MAX_SAFE_INTEGER);
let working: Promise<void> = Promise.resolve();

jobs.on("data", (chunk) => {
  for (const job of reader.push(chunk)) working = working.then(() => carryOut(job as Job));
});
jobs.on("end", () => process.exit(0));
for (const socket of [jobs, answers]) socket.on("error", () => process.exit(1));
answers.write(frame({ id: 0 }));

async function carryOut({ id, task, source, limits }: Job): Promise<void> {
  try {
    const result = await compileDefinition(task, source, limits);
    answers.write(frame({ id, result }));
  } catch (error) {
    // Without its bundler it can do nothing more, and what that wrote last says why.
    if (error instanceof BundlerEnded) process.exit(BUNDLER_ENDED);
    answers.write(frame({ id, failure: error instanceof Error ? error.message : String(error) }));
  }
}
