/** What a definition may be, and what it takes to compile it. */
export const discoverLimits = {
  /** Of processor time, for one definition: how busy the machine is makes no difference to it. */
  compileMs: 10_000,
  /** After which a machine that has not let a definition be compiled is at fault. */
  compileElapsedMs: 120_000,
  /** What the checker of types keeps at once. Each process may have what V8 takes besides, and all together twice that. */
  compileMemoryMb: 384,
  /** A tool, resource or prompt as it was found, its schemas and texts together; and all of one server. */
  toolBytes: 128 * 1024,
  contractBytes: 1024 * 1024,
  /** Values (members, items) of all of that, and of one list of an upstream: an empty object takes twenty times its bytes. */
  contractValues: 25_000,
  sourceFileBytes: 1024 * 1024,
  /** All files of one definition together. */
  sourceBytes: 4 * 1024 * 1024,
  sourceFiles: 256,
  /** What is made of a definition for its guests, which read it at each start. */
  bundleBytes: 8 * 1024 * 1024,
};
