import type { Config } from "../config.ts";
import { openCompiler, type Compiler } from "../discover/compiler.ts";
import { compileKey, compilerCid } from "../discover/key.ts";
import { createSchemaDescriber } from "../executor/describe-schemas.ts";
import type { Executor } from "../executor/executor.ts";
import type { FeatureParts } from "../features/feature.ts";
import { createCompileQueue, QUICK_COMPILE_MS } from "../host/catalog/compile-queue.ts";
import { Checks } from "../host/checks/checks.ts";
import type { Log } from "../lib/log.ts";
import { confinementFor } from "../processes/own-program.ts";
import type { Spawn } from "../processes/spawn/spawn.ts";

/** Most definitions compile in less, and on a machine that is always busy this delays a request only slightly. */
const LOW_PRIORITY_AFTER_MS = 2_000;

/**
 * A compiler for what takes little time, and one for the rest, so that no short compilation waits for a long one. With
 * `berth dev` (`isInteractive`) nothing else needs the CPU, and long compilations keep their priority.
 */
export function openCompilers({ limits, guests }: Config, start: Spawn, log: Log, isInteractive: boolean) {
  let isLogged = false;
  const onTrusted = (reason: string): void => {
    if (!isLogged) log.warn({ reason }, "definitions are compiled outside of the sandbox");
    isLogged = true;
  };
  const givesWayMs = isInteractive ? 0 : LOW_PRIORITY_AFTER_MS;
  const parts = { start, givesWayMs, mode: confinementFor(guests), onTrusted };
  const open = (compileMs: number): Compiler => openCompiler({ ...limits, compileMs }, parts);
  const [quick, patient] = [open(Math.min(QUICK_COMPILE_MS, limits.compileMs)), open(limits.compileMs)];
  return {
    /** The dependencies of the host that compile definitions. */
    compiling: (executor: Executor, features: readonly FeatureParts[]) => ({
      compile: createCompileQueue(timed(quick, features), timed(patient, features), (tenant) =>
        createSchemaDescriber((program) => executor.load(program), tenant),
      ),
      compileKey,
      compiler: compilerCid(),
    }),
    async close(): Promise<void> {
      await patient.close();
      await quick.close();
    },
  };
}

/** The process that reads long values. */
export function openChecks({ limits, guests }: Config, start: Spawn, log: Log): Checks {
  const checks = new Checks(limits, {
    start,
    mode: confinementFor(guests),
    onTrusted: (reason) => log.warn({ reason }, "long values are read outside of the sandbox"),
  });
  checks.warm();
  return checks;
}

function timed(compiler: Compiler, features: readonly FeatureParts[]): Compiler["compile"] {
  return async (source, help) => {
    const beganAt = performance.now();
    const compiled = await compiler.compile(source, help);
    const outcome = compiled.bundle === undefined ? "refused" : "ok";
    for (const { onCompiled } of features) onCompiled?.(performance.now() - beganAt, outcome);
    return compiled;
  };
}
