import { fileURLToPath } from "node:url";
import {
  guestEnvironment,
  guestFolder,
  nodeFlags,
  scriptEnvironment,
  type GuestLauncher,
  type LauncherLimits,
} from "./launcher.ts";

/**
 * Command lines without a sandbox: plain child processes of the service's own user, for code that the operator trusts.
 * A limited heap, an empty environment and Node's permission model guard against mistakes, not against malice.
 */
export function trustedLauncher(node: { file: string; major: number }, limits: LauncherLimits): GuestLauncher {
  const folder = fileURLToPath(guestFolder);
  return {
    isolation: "trusted",
    guest: {
      file: node.file,
      args: [...nodeFlags(node.major, limits.guestMemoryMb, `${folder}*`), `${folder}runner.mjs`],
      env: guestEnvironment,
      cwd: "/",
    },
    script: ({ interpreter, argv, env, folder }) => ({
      file: `/bin/${interpreter}`,
      args: [`${folder}/script`, ...argv],
      env: { ...scriptEnvironment, HOME: `${folder}/work`, TMPDIR: `${folder}/work`, ...env },
      cwd: `${folder}/work`,
    }),
  };
}
