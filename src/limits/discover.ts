/** The limits of definitions and their compilation. */
export const discoverLimits = {
  /** The processor time for one definition, independent of how busy the machine is. */
  compileMs: 10_000,
  /** The time after which the machine is to blame if a definition is not compiled. */
  compileElapsedMs: 120_000,
  /** The memory of the type checker. Each process may also have V8's overhead, and all together twice that. */
  compileMemoryMb: 384,
  /** One discovered tool, resource or prompt, its schemas and texts together; and everything of one server. */
  toolBytes: 128 * 1024,
  contractBytes: 1024 * 1024,
  /**
   * Values (members, items) of all of that, and of one list of an upstream: an empty object takes twenty times its
   * bytes.
   */
  contractValues: 25_000,
  sourceFileBytes: 1024 * 1024,
  /** All files of one definition together. */
  sourceBytes: 4 * 1024 * 1024,
  sourceFiles: 256,
  /** The bundle of a definition, which guests read at each start. */
  bundleBytes: 8 * 1024 * 1024,
};
