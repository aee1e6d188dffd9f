/** Fills in only what the schema says: nothing is sent that neither the schema nor the person gave. */
export const DEFAULTS = {
  arrayMinItems: { populate: "requiredOnly" },
  constAsDefaults: "skipOneOf",
  emptyObjectFields: "skipEmptyDefaults",
} as const;
