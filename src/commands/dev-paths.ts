import { statSync } from "node:fs";
import { BerthError } from "../lib/errors.ts";
import type { DevOptions } from "./dev.ts";

/** `berth dev [DIR|FILE…]`: a folder of one's own, by default the working folder, or files by themselves. */
export async function devPaths(paths: readonly string[], options: DevOptions): Promise<number> {
  const folders = paths.filter((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory());
  if (paths.length > 0 && folders.length === 0) return (await import("./dev.ts")).dev(paths, options);
  if (paths.length > 1) {
    throw new BerthError(
      "config_invalid",
      `berth dev serves one folder, or files: ${paths.join(", ")} is too much at once`,
    );
  }
  if (options.new) throw new BerthError("config_invalid", "--new is for files; create a folder with `berth init`");
  return (await import("./dev-folder.ts")).devFolder(paths[0], options);
}
