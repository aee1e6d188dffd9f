import type { CompilerHelp, ReadTarball } from "../../discover/compiler.ts";
import type { Compiled, DefinitionSource, DescribeSchemas } from "../../discover/discovery.ts";
import type { CancelSignal } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { FairSemaphore } from "../../lib/fair-semaphore.ts";

/** Rejects with `cancelled` if `signal` is aborted before compilation starts. */
export type CompileFor = (
  source: DefinitionSource,
  tenant: string,
  signal?: CancelSignal,
  tarballs?: ReadTarball,
) => Promise<Compiled>;

type Compile = (source: DefinitionSource, help?: CompilerHelp) => Promise<Compiled>;

/** CPU time limit in the quick queue, in ms: several times the usual. */
export const QUICK_COMPILE_MS = 2_000;
/** How long a tenant skips the quick queue after exceeding its limit. */
const PATIENT_MS = 60_000;

/**
 * Compiles one definition per queue at a time, round-robin among tenants, so that a tenant with many saves does not block
 * the others. `quick` stops after `QUICK_COMPILE_MS`; `patient`, in a second queue, then retries what exceeded the time or
 * memory limit.
 */
export function createCompileQueue(
  quick: Compile,
  patient: Compile,
  createDescriber?: (tenant: string) => DescribeSchemas,
): CompileFor {
  const queues = { quick: createQueue(), patient: createQueue() };
  /** By tenant, on the clock of `performance.now()`. */
  const patientUntil = new Map<string, number>();

  const isPatient = (tenant: string): boolean => {
    if (performance.now() < (patientUntil.get(tenant) ?? 0)) return true;
    patientUntil.delete(tenant);
    return false;
  };

  return async (source, tenant, signal, tarballs) => {
    const help = { tarballs, describe: createDescriber?.(tenant) };
    // The types of packages take longer than the quick limit.
    if (!source.packages && !isPatient(tenant)) {
      const compiled = await runQueued(queues.quick, tenant, () => quick(source, help), signal);
      if (!compiled.problems.some(({ code }) => RETRIABLE_PROBLEMS.has(code))) return compiled;
      patientUntil.set(tenant, performance.now() + PATIENT_MS);
    }
    return runQueued(queues.patient, tenant, () => patient(source, help), signal);
  };
}

/** Problems that more time or memory may solve. */
const RETRIABLE_PROBLEMS: ReadonlySet<string> = new Set(["compiler-timeout", "compiler-memory"]);

function createQueue(): FairSemaphore {
  return new FairSemaphore(1, Infinity, () => 1);
}

async function runQueued<T>(
  queue: FairSemaphore,
  tenant: string,
  work: () => Promise<T>,
  signal: CancelSignal | undefined,
): Promise<T> {
  if (signal?.aborted) throw new BerthError("cancelled");
  let leave = (): void => {};
  const entered = queue.enter(tenant, (leaveQueue) => (leave = leaveQueue));
  signal?.addEventListener("abort", leave);
  const isEntered = await entered;
  signal?.removeEventListener("abort", leave);
  if (!isEntered) throw new BerthError("cancelled");
  try {
    return await work();
  } finally {
    queue.leave(tenant);
  }
}
