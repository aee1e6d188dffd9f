import type { CompilerHelp, ReadTarball } from "../../discover/compiler.ts";
import type { Compiled, DefinitionSource, DescribeSchemas } from "../../discover/discovery.ts";
import type { CancelSignal } from "../../lib/cancellation.ts";
import { BerthError } from "../../lib/errors.ts";
import { FairSemaphore } from "../../lib/fair-semaphore.ts";

/** Rejects with `cancelled` when the caller gives up before compilation begins. */
export type CompileFor = (
  source: DefinitionSource,
  tenant: string,
  signal?: CancelSignal,
  tarballs?: ReadTarball,
) => Promise<Compiled>;

type Compile = (source: DefinitionSource, help?: CompilerHelp) => Promise<Compiled>;

/** Processor time of one definition on the quick lane, in ms: several times the usual. */
export const QUICK_COMPILE_MS = 2_000;
/** How long a tenant starts on the patient lane after one of its definitions took longer. */
const PATIENT_FOR_MS = 60_000;

/**
 * Compiles one definition per lane at a time and rotates among the waiting tenants, so that one that saves a hundred
 * times does not block the others. `quick` gives up after `QUICK_COMPILE_MS`; `patient`, on a lane of its own, then
 * compiles again what took too long or too much memory.
 */
export function compilingInTurn(
  quick: Compile,
  patient: Compile,
  describingFor?: (tenant: string) => DescribeSchemas,
): CompileFor {
  const turns = { quick: newTurns(), patient: newTurns() };
  /** By tenant, on the clock of `performance.now()`. */
  const patientUntil = new Map<string, number>();

  const isPatient = (tenant: string): boolean => {
    if (performance.now() < (patientUntil.get(tenant) ?? 0)) return true;
    patientUntil.delete(tenant);
    return false;
  };

  return async (source, tenant, signal, tarballs) => {
    const help = { tarballs, describe: describingFor?.(tenant) };
    // Types of packages take longer than the quick lane has.
    if (!source.packages && !isPatient(tenant)) {
      const compiled = await inTurn(turns.quick, tenant, () => quick(source, help), signal);
      if (!compiled.problems.some(({ code }) => TOO_MUCH.has(code))) return compiled;
      patientUntil.set(tenant, performance.now() + PATIENT_FOR_MS);
    }
    return inTurn(turns.patient, tenant, () => patient(source, help), signal);
  };
}

/** Problems that a compiler with more time or fresh memory may not have. */
const TOO_MUCH: ReadonlySet<string> = new Set(["compiler-timeout", "compiler-memory"]);

function newTurns(): FairSemaphore {
  return new FairSemaphore(1, Infinity, () => 1);
}

async function inTurn<T>(
  turns: FairSemaphore,
  tenant: string,
  work: () => Promise<T>,
  signal: CancelSignal | undefined,
): Promise<T> {
  if (signal?.aborted) throw new BerthError("cancelled");
  let leave = (): void => {};
  const turn = turns.enter(tenant, (leaveQueue) => (leave = leaveQueue));
  signal?.addEventListener("abort", leave);
  const isTurn = await turn;
  signal?.removeEventListener("abort", leave);
  if (!isTurn) throw new BerthError("cancelled");
  try {
    return await work();
  } finally {
    turns.leave(tenant);
  }
}
