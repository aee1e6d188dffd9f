/** The limits of what a tenant may keep besides its definitions, and import. */
export const storeLimits = {
  /** A variable's value, or an entry of `mcps`. */
  variableBytes: 1024 * 1024,
  /** Variables of one tenant: listing them reads all their names. */
  variablesPerTenant: 12_000,
  /** The variable `mcps`: 10,000 entries of 400 bytes. */
  mcpsBytes: 4 * 1024 * 1024,
  mcpsEntries: 12_000,
  /** Values (members, items) of one entry, itself included. */
  entryValues: 25_000,
  /** Past entries of `mcps`, of all tenants together, that are kept in memory for histories. */
  pastEntriesBytes: 32 * 1024 * 1024,
  /** A secret's value. */
  secretBytes: 64 * 1024,
  secretsPerTenant: 1000,
  /** An imported tenant's file, and its longest line, which is a content. */
  importBytes: 8 * 1024 * 1024 * 1024,
  importLineBytes: 16 * 1024 * 1024,
};
