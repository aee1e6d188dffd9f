/** Each item as the values of these fields, separated by spaces; `-` for those that it lacks. */
export function rows<T>(items: readonly T[], ...fields: (keyof T)[]): string[] {
  return items.map((item) => fields.map((field) => item[field] ?? "-").join(" "));
}
