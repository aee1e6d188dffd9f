import pluralize from "pluralize";

/** Plurals and singulars. */
export function words(): string[] {
  return [pluralize("test", 5, true), pluralize.singular("mice"), pluralize("person")];
}
