/** Only what the schema says is filled in: nothing is sent that neither the schema nor the person gave. */
export const DEFAULTS = {
  arrayMinItems: { populate: "requiredOnly" },
  constAsDefaults: "skipOneOf",
  emptyObjectFields: "skipEmptyDefaults",
} as const;
