/** Each item as the values of these fields, separated by spaces; `-` for those that it lacks. */
export function rows<T>(items: readonly T[], ...fields: (keyof T)[]): string[] {
  return items.map((item) => fields.map((field) => item[field] ?? "-").join(" "));
}

/** The value of a field of each item; with several fields, a list of their values. */
export function pluck<T>(items: readonly T[], ...fields: readonly (keyof T)[]): unknown[] {
  return items.map((item) => (fields.length === 1 ? item[fields[0]!] : fields.map((field) => item[field])));
}
