type Values = Record<string, number>;

const groups: Values[] = [];
const changed = new Map<string, number>();

/**
 * Bounds that no operator needs to change, declared beside the code that enforces them:
 * `const bounds = fixed({ headersMs: 10_000 })`. Read them at each use, as `bounds.headersMs`: tests lower them.
 */
export function fixed<const Group extends Readonly<Values>>(values: Group): { readonly [Name in keyof Group]: number } {
  const group: Values = { ...values };
  for (const name of Object.keys(group)) group[name] = changed.get(name) ?? group[name]!;
  groups.push(group);
  return group as { readonly [Name in keyof Group]: number };
}

/** Changes bounds by name, for tests, in modules that are loaded later as well. Returns a function that reverts it. */
export function changeFixed(values: Readonly<Values>): () => void {
  const before: Values = {};
  for (const [name, value] of Object.entries(values)) {
    changed.set(name, value);
    for (const group of groups) {
      if (!Object.hasOwn(group, name)) continue;
      before[name] = group[name]!;
      group[name] = value;
    }
  }
  return () => {
    for (const name of Object.keys(values)) changed.delete(name);
    for (const group of groups)
      for (const name of Object.keys(before)) if (Object.hasOwn(group, name)) group[name] = before[name]!;
  };
}
