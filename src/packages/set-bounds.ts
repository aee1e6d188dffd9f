import { fixed } from "../limits/fixed.ts";

export const setBounds = fixed({
  /** Packages of one set, with their dependencies. */
  packagesPerSet: 1_000,
  /** The tarball of one package. */
  packageBytes: 32 * 1024 * 1024,
});
