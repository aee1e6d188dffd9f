import type { VariableLookup } from "./launch.ts";

/** What `${NAME}` of a hosted launcher URI stands for. Berth's own settings are nobody's business. */
export function hostedVariables(env: Readonly<Record<string, string | undefined>>): VariableLookup {
  return (name) => (name.startsWith("BERTH_") ? undefined : env[name]);
}
