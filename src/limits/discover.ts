/** What a definition may be, and what it takes to compile it. */
export const discoverLimits = {
  compileMs: 10_000,
  compileMemoryMb: 384,
  sourceFileBytes: 1024 * 1024,
  /** All files of one definition together. */
  sourceBytes: 4 * 1024 * 1024,
  sourceFiles: 256,
};
