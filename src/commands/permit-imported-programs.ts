import { BerthError } from "../lib/errors.ts";
import type { ImportedProgram } from "../host/serving/imported-programs.ts";
import { printableLine } from "../lib/printable.ts";

/** As many as a person reads. */
const SHOWN_MAX = 100;

/** Lists the programs that would be started. Throws `programs_refused` if there are any and they are not permitted. */
export function permitPrograms(programs: readonly ImportedProgram[], isPermitted = false): void {
  if (programs.length === 0) return;
  console.error("Its servers start programs of this machine, as the user that Berth runs as, outside of the sandbox:");
  for (const { server, upstream } of programs.slice(0, SHOWN_MAX)) {
    console.error(`  ${printableLine(server)}: ${printableLine(upstream)}`);
  }
  if (programs.length > SHOWN_MAX) console.error(`  … and ${programs.length - SHOWN_MAX} more`);
  if (isPermitted) return;
  throw new BerthError("programs_refused", "nothing was changed; say --programs if you trust each of these programs");
}
