import { chownSync } from "node:fs";
import { temporaryFolder, type Ending } from "./temporary-folder.ts";

/** The user that programs of root become. */
const NOBODY_ID = 65_534;

/**
 * The command that runs a program as in an unprivileged container: parts of `/proc` are covered, `/proc/sys` is
 * read-only, and the user is an ordinary one. Linux then lets nobody mount another `/proc`. Needs no rights if it may
 * create user namespaces.
 */
export function inMaskedProc(argv: readonly string[]): { readonly file: string; readonly args: readonly string[] } {
  const isRoot = process.getuid!() === 0;
  const namespaces = ["--mount", "--pid", "--fork", "--kill-child", ...(isRoot ? [] : ["--user", "--map-root-user"])];
  const user = isRoot ? asNobody() : [];
  return { file: "unshare", args: [...namespaces, "sh", "-uc", MASK, "sh", ...user, ...argv] };
}

/** As container runtimes do it, with what each kernel has. */
const MASK = `
mount --make-rprivate /
mount -t proc proc /proc
for folder in acpi scsi firmware; do [ ! -d /proc/$folder ] || mount -t tmpfs -o ro tmpfs /proc/$folder; done
for file in kcore keys timer_list; do [ ! -e /proc/$file ] || mount --bind /dev/null /proc/$file; done
for folder in bus fs irq sys; do mount --bind /proc/$folder /proc/$folder; mount -o remount,bind,ro /proc/$folder; done
# This shell reaps orphaned processes.
"$@"; exit $?`;

/** Starts a program as an ordinary user; only root can. */
export function asNobody(): string[] {
  return ["setpriv", `--reuid=${NOBODY_ID}`, `--regid=${NOBODY_ID}`, "--clear-groups"];
}

/** An environment for it, with a home that is empty and its own. */
export function ordinaryEnvironment(t?: Ending): NodeJS.ProcessEnv {
  const folder = temporaryFolder(t);
  if (process.getuid!() === 0) chownSync(folder, NOBODY_ID, NOBODY_ID);
  return { PATH: process.env["PATH"], HOME: folder, TMPDIR: folder };
}
