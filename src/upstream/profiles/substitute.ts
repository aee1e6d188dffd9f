import { isObject, type Json } from "../../lib/json.ts";

/** A text names a variable that the environment does not have. */
export interface Unset {
  readonly variable: string;
  /** JSON pointer (RFC 6901) to the text. */
  readonly pointer: string;
}

const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g;

/**
 * Replaces `${NAME}`, and `${NAME:-default}`, in every text of a value with the environment's values; `$${` stands for
 * a literal `${`. Unset ones stay as they are and are all reported.
 */
export function substitute<T extends Json>(value: T, env: NodeJS.ProcessEnv): { value: T; unset: Unset[] } {
  const unset: Unset[] = [];
  return { value: substituteAt(value, "", env, unset) as T, unset };
}

function substituteAt(value: Json, pointer: string, env: NodeJS.ProcessEnv, unset: Unset[]): Json {
  if (typeof value === "string") return substituteText(value, pointer, env, unset);
  if (Array.isArray(value)) return value.map((each, index) => substituteAt(each, `${pointer}/${index}`, env, unset));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => {
      const escaped = key.replaceAll("~", "~0").replaceAll("/", "~1");
      return [key, substituteAt(each, `${pointer}/${escaped}`, env, unset)];
    }),
  );
}

function substituteText(text: string, pointer: string, env: NodeJS.ProcessEnv, unset: Unset[]): string {
  return text
    .split("$${")
    .map((part) => {
      // No variable ends after the last `}`, and a search there could be repeated for each opening brace.
      const end = part.lastIndexOf("}") + 1;
      const filled = part
        .slice(0, end)
        .replaceAll(VARIABLE, (written: string, variable: string, otherwise: string | undefined) => {
          const value = env[variable] ?? otherwise;
          if (value === undefined) unset.push({ variable, pointer });
          return value ?? written;
        });
      return filled + part.slice(end);
    })
    .join("${");
}
