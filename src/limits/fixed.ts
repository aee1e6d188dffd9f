type Values = Record<string, number>;

const groups: { readonly values: Values; readonly initial: Readonly<Values> }[] = [];
const changes: Readonly<Values>[] = [];

/**
 * Bounds that no operator needs to change, declared next to the code that enforces them:
 * `const bounds = fixed({ headersMs: 10_000 })`. Read them at each use, as `bounds.headersMs`: tests lower them.
 */
export function fixed<const Group extends Readonly<Values>>(
  initial: Group,
): { readonly [Name in keyof Group]: number } {
  const group = { values: { ...initial } as { [Name in keyof Group]: number }, initial };
  groups.push(group);
  apply(group);
  return group.values;
}

/** Changes bounds by name for tests, including in modules that are loaded later. Returns a function that reverts it. */
export function changeFixed(values: Readonly<Values>): () => void {
  const change = { ...values };
  changes.push(change);
  groups.forEach(apply);
  return () => {
    changes.splice(changes.indexOf(change), 1);
    groups.forEach(apply);
  };
}

function apply({ values, initial }: (typeof groups)[number]): void {
  for (const name of Object.keys(initial)) {
    values[name] = changes.findLast((change) => Object.hasOwn(change, name))?.[name] ?? initial[name]!;
  }
}
