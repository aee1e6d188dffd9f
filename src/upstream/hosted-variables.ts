import type { VariableLookup } from "./launch.ts";

type Values = Readonly<Record<string, string | undefined>>;

/**
 * Resolves `${NAME}` in a hosted launcher URI: to a secret if the server declares one of that name, set or not, else to
 * an environment variable. Berth's own settings are excluded.
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
