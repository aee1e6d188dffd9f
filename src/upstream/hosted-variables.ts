import type { VariableLookup } from "./launch.ts";

type Values = Readonly<Record<string, string | undefined>>;

/**
 * What `${NAME}` of a hosted launcher URI stands for: a secret where the server declares one of that name, set or not,
 * else a variable of the environment. Berth's own settings are nobody's business.
 */
export function hostedVariables(
  env: Values,
  secrets: { readonly names: readonly string[]; readonly values: Values } = { names: [], values: {} },
): VariableLookup {
  const { names, values } = secrets;
  return (name) => {
    if (names.includes(name)) return values[name];
    return name.startsWith("BERTH_") ? undefined : env[name];
  };
}
